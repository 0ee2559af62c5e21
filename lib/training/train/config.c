#include "train/config.h"

#include <math.h>
#include <string.h>

#include "base/must.h"
#include "train/config_impl.h"

static struct option_set
set_over(const void *target)
{
	return (struct option_set){.usage = "mnist-train [options] [FILE...]",
				   .rows = config_rows,
				   .n = config_nrows,
				   .target = (void *)target,
				   .file_read = config_file_read};
}

void
config_fini(struct train_config *c)
{
	option_texts_free(c->texts);
	*c = (struct train_config){0};
}

/* After all options are read: report unknown names, and check that the options fit together. The
 * configuration then owns the strings. */
static enum rc
finish(struct config_draft *d, struct err *err)
{
	struct option_set *s = &d->set;
	enum rc rc;

	s->strict = d->c.strict;
	rc = option_file_check(s, err);
	if (rc == RC_OK && s->unknown.len) {
		must_add(&s->unknown, "", 1);
		d->c.unknown = option_copy(&s->texts, s->unknown.data);
	}
	if (rc == RC_OK)
		rc = config_check(d, err);
	if (rc == RC_OK) {
		d->c.texts = s->texts;
		s->texts = NULL;
	}
	return rc;
}

static void
begin(struct config_draft *d)
{
	*d = (struct config_draft){.c = {.lr = NAN, .weight_decay = NAN}};
	d->set = set_over(d);
}

enum rc
config_parse(int argc, char **argv, struct train_config *out, enum option_ask *ask, struct err *err)
{
	struct config_draft d;
	enum rc rc;

	begin(&d);
	rc = option_parse(&d.set, argc, argv, ask, err);
	if (rc == RC_OK && *ask != OPTION_RUN && *ask != OPTION_PRINT)
		d.c = (struct train_config){0};
	else if (rc == RC_OK) {
		d.c.files = d.set.operands;
		d.c.nfiles = (size_t)d.set.noperands;
		rc = finish(&d, err);
	}
	if (rc == RC_OK)
		*out = d.c;
	option_fini(&d.set);
	return rc;
}

enum rc
config_parse_text(const char *text, const char *name, struct train_config *out, struct err *err)
{
	struct config_draft d;
	enum rc rc;

	begin(&d);
	rc = option_begin(&d.set, err);
	if (rc == RC_OK)
		rc = option_file_text(&d.set, text, name, OPTION_FROM_FILES, err);
	if (rc == RC_OK)
		rc = option_environment(&d.set, err);
	if (rc == RC_OK)
		rc = finish(&d, err);
	if (rc == RC_OK)
		*out = d.c;
	option_fini(&d.set);
	return rc;
}

enum rc
config_print(const struct train_config *c, struct buf *out, struct err *err)
{
	const struct option_set s = set_over(c);

	return option_print(&s, out, err);
}

enum rc
config_args(const struct train_config *c, const char *const *except, char ***out, struct err *err)
{
	const struct option_set s = set_over(c);

	return option_args(&s, except, out, err);
}

enum rc
config_answer(const struct train_config *c, enum option_ask ask, struct err *err)
{
	const struct option_set s = set_over(c);

	return option_answer(&s, ask, err);
}
