#include "train/config.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/nearest.h"
#include "base/option.h"
#include "train/config_impl.h"

#define HELP_COLUMN 24
#define FIRST_VAL   256 /* of the rows, for getopt */

struct config_text {
	struct config_text *next;
	char text[];
};

const char *
config_keep(struct train_config *c, const char *text)
{
	size_t len = strlen(text) + 1;
	struct config_text *t = malloc(sizeof *t + len);

	if (!t)
		return NULL;
	memcpy(t->text, text, len);
	t->next = c->texts;
	c->texts = t;
	return t->text;
}

void
config_fini(struct train_config *c)
{
	struct config_text *t = c->texts, *next;

	for (; t; t = next) {
		next = t->next;
		free(t);
	}
	*c = (struct train_config){0};
}

unsigned
config_row(const char *name)
{
	unsigned i = 0;

	while (i < config_noptions && strcmp(config_options[i].name, name) != 0)
		i++;
	return i;
}

/* Without case, '-', '_' and blanks; cut where it is too long for any option. */
static void
fold(const char *key, char out[40])
{
	size_t n = 0;

	for (; *key && n < 39; key++)
		if (!strchr("-_ \t", *key))
			out[n++] = (char)tolower((unsigned char)*key);
	out[n] = '\0';
}

static bool
means(const char *name, const char *folded)
{
	char own[40];

	fold(name, own);
	return strcmp(own, folded) == 0;
}

unsigned
config_row_of_key(const char *key)
{
	char want[40];

	fold(key, want);
	for (unsigned i = 0; i < config_noptions; i++) {
		if (means(config_options[i].name, want))
			return i;
		for (const char *const *a = config_options[i].also; a && *a; a++)
			if (means(*a, want))
				return i;
	}
	return config_noptions;
}

/* Keep the name whose folded form is nearer than all before. */
static void
offer(struct nearest *n, const char *name, const char **best)
{
	unsigned before = n->steps;
	char own[40];

	fold(name, own);
	nearest_offer(n, own);
	if (n->steps < before)
		*best = name;
}

const char *
config_nearest(const char *key)
{
	const char *best = NULL;
	struct nearest n;
	char want[40];

	fold(key, want);
	n = nearest_begin(want);
	for (unsigned i = 0; i < config_noptions; i++) {
		const struct config_option *o = &config_options[i];

		if (!o->parse)
			continue;
		offer(&n, o->name, &best);
		for (const char *const *a = o->also; a && *a; a++)
			offer(&n, *a, &best);
	}
	return best;
}

enum rc
config_blame(const struct config_from *from, const char *name, struct err *err)
{
	if (from->file)
		return err_prefix(err, "%s:%d: %s", from->file, from->line, name);
	return err_prefix(err, "--%s", name);
}

enum rc
config_set(struct config_draft *d, unsigned row, const char *name, const char *text,
	   const struct config_from *from, struct err *err)
{
	const struct config_option *o = &config_options[row];

	if (o->parse(o, text, d, err) != RC_OK)
		return config_blame(from, name, err);
	d->from[row] = *from;
	return RC_OK;
}

/* What holds unless a file or a flag says otherwise. */
static enum rc
begin(struct config_draft *d, struct err *err)
{
	const char *env = getenv("GPUSIM_ON_FAILURE");

	*d = (struct config_draft){.c = {.net = {.act = NET_RELU},
					 .epochs = 5,
					 .batch = 64,
					 .lr = NAN,
					 .momentum = 0.9,
					 .weight_decay = NAN,
					 .schedule = {.step_epochs = 1, .gamma = 0.1},
					 .seed = 1,
					 .local_steps = 8,
					 .algo = "auto"}};
	if (env && *env && gpusim_on_failure_parse(env, &d->c.on_failure) != GPUSIM_OK)
		return err_set(err, RC_INVAL, "GPUSIM_ON_FAILURE: %s", gpusim_error());
	return RC_OK;
}

/* The options as getopt_long wants them. */
static void
list_options(struct option out[CONFIG_MAX_OPTIONS + 3])
{
	size_t n = 0;

	for (unsigned i = 0; i < config_noptions; i++) {
		const struct config_option *o = &config_options[i];

		if (o->help)
			out[n++] = (struct option){o->name,
						   o->arg     ? required_argument
						   : o->parse ? optional_argument
							      : no_argument,
						   NULL, FIRST_VAL + (int)i};
	}
	out[n++] = (struct option){"help", no_argument, NULL, 'h'};
	out[n++] = (struct option){"version", no_argument, NULL, 'V'};
	out[n] = (struct option){0};
}

static enum rc
read_file(struct config_draft *d, const char *path, int rank, struct err *err)
{
	struct buf text = {0};
	enum rc rc = file_text(path, "a configuration file", &text, err);

	if (rc == RC_BADDATA)
		err->rc = rc = RC_INVAL;
	if (rc == RC_OK)
		rc = config_file_text(d, text.data, path, rank, err);
	buf_fini(&text);
	return rc;
}

/* Once over the options: the files alone, or the flags alone, which come last. */
static enum rc
read_options(struct config_draft *d, int argc, char **argv, bool files, enum config_wish *wish,
	     struct err *err)
{
	static const struct config_from flags = {.rank = CONFIG_FROM_FLAGS};
	struct option longs[CONFIG_MAX_OPTIONS + 3];
	int opt, nfiles = 0;
	enum rc rc = RC_OK;

	list_options(longs);
	optind = 0; /* getopt_long begins anew */
	while (rc == RC_OK && (opt = option_next(argc, argv, "hV", longs, err)) != -1) {
		const struct config_option *o;

		if (opt == '?')
			return err->rc;
		if (opt == 'h' || opt == 'V') {
			*wish = opt == 'h' ? CONFIG_HELP : CONFIG_VERSION;
			return RC_OK;
		}
		o = &config_options[opt - FIRST_VAL];
		if (!o->parse && !o->arg)
			*wish = CONFIG_PRINT;
		else if (!o->parse && files)
			rc = read_file(d, optarg, CONFIG_FROM_FILES + nfiles++, err);
		else if (o->parse && !files)
			rc = config_set(d, (unsigned)(opt - FIRST_VAL), o->name,
					optarg ? optarg : "true", &flags, err);
	}
	d->c.files = argv + optind;
	d->c.nfiles = (size_t)(argc - optind);
	return rc;
}

/* All has been read: names that were none, then whether the rest fits together. */
static enum rc
finish(struct config_draft *d, struct err *err)
{
	struct buf *u = &d->unknown;

	if (u->len && d->c.strict)
		return err_set(err, RC_INVAL, "%.*s", (int)strcspn(u->data, "\n"), u->data);
	if (u->len) {
		d->c.unknown = buf_add(u, "", 1) ? config_keep(&d->c, u->data) : NULL;
		if (!d->c.unknown)
			return err_set(err, RC_NOMEM, "out of memory");
	}
	return config_check(d, err);
}

enum rc
config_parse(int argc, char **argv, struct train_config *out, enum config_wish *wish,
	     struct err *err)
{
	struct config_draft d;
	enum config_wish w = CONFIG_TRAIN;
	enum rc rc = begin(&d, err);

	if (rc == RC_OK)
		rc = read_options(&d, argc, argv, true, &w, err);
	if (rc == RC_OK && w != CONFIG_HELP && w != CONFIG_VERSION) {
		rc = read_options(&d, argc, argv, false, &w, err);
		if (rc == RC_OK)
			rc = finish(&d, err);
	}
	buf_fini(&d.unknown);
	if (rc != RC_OK || w == CONFIG_HELP || w == CONFIG_VERSION)
		config_fini(&d.c);
	if (rc == RC_OK) {
		*out = d.c;
		*wish = w;
	}
	return rc;
}

enum rc
config_parse_text(const char *text, const char *name, struct train_config *out, struct err *err)
{
	struct config_draft d;
	enum rc rc = begin(&d, err);

	if (rc == RC_OK)
		rc = config_file_text(&d, text, name, CONFIG_FROM_FILES, err);
	if (rc == RC_OK)
		rc = finish(&d, err);
	buf_fini(&d.unknown);
	if (rc == RC_OK)
		*out = d.c;
	else
		config_fini(&d.c);
	return rc;
}

/* Whether a line can hold a value as it is: no blanks around it, nothing like a comment or a quote. */
static bool
is_plain(const char *value)
{
	size_t len = strlen(value);

	for (size_t i = 0; i < len; i++)
		if ((value[i] == '#' || value[i] == ';') && (i == 0 || value[i - 1] == ' '))
			return false;
	return len && !strchr(" \"'", value[0]) && value[len - 1] != ' ';
}

/* Append NAME = VALUE. RC_INVAL: no line can hold it. */
static enum rc
print_pair(const char *name, const char *value, struct buf *out, struct err *err)
{
	const char *quote = is_plain(value) ? "" : strchr(value, '\'') ? "\"" : "'";
	size_t first = out->len;
	bool good = buf_addf(out, "%s = %s", name, quote);

	for (const char *p = value; good && *p; p++) {
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return err_set(err, RC_INVAL, "%s: no line of a file can hold '%.64s'",
				       name, value);
		if (*quote == '"' && (*p == '"' || *p == '\\'))
			good = buf_add(out, "\\", 1);
		good = good && buf_add(out, p, 1);
	}
	if (!good || !buf_addf(out, "%s\n", quote))
		return err_set(err, RC_NOMEM, "out of memory");
	if (out->len - first > CONFIG_MAX_LINE)
		return err_set(err, RC_INVAL, "%s: no line of a file can hold '%.64s'", name,
			       value);
	return RC_OK;
}

/* The value of a row, terminated; empty when there is none or it says nothing. */
static enum rc
value_of(const struct config_option *o, const struct train_config *c, struct buf *value,
	 struct err *err)
{
	bool good = true;

	value->len = 0;
	if (o->parse && (!o->applies || o->applies(c)))
		good = o->print(o, c, value);
	if (!good || !buf_add(value, "", 1))
		return err_set(err, RC_NOMEM, "out of memory");
	return RC_OK;
}

enum rc
config_print(const struct train_config *c, struct buf *out, struct err *err)
{
	struct buf value = {0};
	enum rc rc = RC_OK;

	for (unsigned i = 0; rc == RC_OK && i < config_noptions; i++) {
		const struct config_option *o = &config_options[i];

		rc = value_of(o, c, &value, err);
		if (rc == RC_OK && value.data[0])
			rc = print_pair(o->name, value.data, out, err);
	}
	buf_fini(&value);
	return rc;
}

static bool
among(const char *name, const char *const *list)
{
	for (; list && *list; list++)
		if (strcmp(*list, name) == 0)
			return true;
	return false;
}

enum rc
config_args(const struct train_config *c, const char *const *except, char ***out, struct err *err)
{
	char **args = alloc_zeroed(config_noptions + 1, sizeof *args);
	struct buf value = {0};
	enum rc rc = args ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
	size_t n = 0;

	for (unsigned i = 0; rc == RC_OK && i < config_noptions; i++) {
		const struct config_option *o = &config_options[i];

		if (!o->help || among(o->name, except))
			continue;
		rc = value_of(o, c, &value, err);
		if (rc != RC_OK || !value.data[0])
			continue;
		if (asprintf(&args[n], "--%s=%s", o->name, value.data) < 0) {
			args[n] = NULL;
			rc = err_set(err, RC_NOMEM, "out of memory");
		}
		n++;
	}
	buf_fini(&value);
	if (rc == RC_OK)
		*out = args;
	else
		config_args_free(args);
	return rc;
}

void
config_args_free(char **args)
{
	for (char **a = args; a && *a; a++)
		free(*a);
	free(args);
}

/* A row of -h: its lines stand in the second column. */
static bool
add_help(struct buf *out, const char *flag, const char *arg, const char *help)
{
	int width = (int)(strlen(flag) + (arg ? 1 + strlen(arg) : 0));
	bool good = buf_addf(out, "  %s%s%s%*s", flag, arg ? " " : "", arg ? arg : "",
			     width < HELP_COLUMN - 3 ? HELP_COLUMN - 2 - width : 1, "");

	for (; good && *help; help++)
		good =
		    *help == '\n' ? buf_addf(out, "\n%*s", HELP_COLUMN, "") : buf_add(out, help, 1);
	return good && buf_add(out, "\n", 1);
}

bool
config_usage(struct buf *out)
{
	bool good = buf_addf(out, "usage: mnist-train [options]\n");

	for (unsigned i = 0; good && i < config_noptions; i++) {
		const struct config_option *o = &config_options[i];
		char flag[48];

		snprintf(flag, sizeof flag, "--%s", o->name);
		if (o->help)
			good = add_help(out, flag, o->arg, o->help);
	}
	return good && add_help(out, "-V", NULL, "print the version") &&
	       add_help(out, "-h", NULL, "print this");
}
