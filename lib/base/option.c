#include "base/option.h"

#include <ctype.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/nearest.h"
#include "base/parse.h"

#define FIRST_VAL 256				/* of the rows, for getopt_long */
#define LIST_VAL  (FIRST_VAL + OPTION_MAX_ROWS) /* of --help-options */
#define MAX_LONGS (2 * OPTION_MAX_ROWS + 2)	/* names, former names, --help-options, the end */
#define SHORTS	  (2 + 3 * OPTION_MAX_ROWS + 1)

void
option_fini(struct option_set *s)
{
	option_texts_free(s->texts);
	buf_fini(&s->unknown);
	s->texts = NULL;
}

static bool
is_called(const struct option_row *o, const char *name)
{
	if (o->key)
		return strcmp(o->key, name) == 0;
	return o->name ? strcmp(o->name, name) == 0 : o->letter == name[0] && o->letter && !name[1];
}

unsigned
option_row(const struct option_set *s, const char *name)
{
	unsigned i = 0;

	while (i < s->n && !is_called(&s->rows[i], name))
		i++;
	return i;
}

const struct option_from *
option_from(const struct option_set *s, const char *name)
{
	return &s->from[option_row(s, name)];
}

enum rc
option_begin(struct option_set *s, struct err *err)
{
	static const struct option_from dflt = {.rank = OPTION_FROM_DEFAULT};
	enum rc rc = RC_OK;

	for (unsigned i = 0; rc == RC_OK && i < s->n; i++)
		if (s->rows[i].dflt)
			rc = option_set_row(s, i, s->rows[i].name, s->rows[i].dflt, &dflt, err);
	return rc;
}

enum rc
option_environment(struct option_set *s, struct err *err)
{
	static const struct option_from env = {.rank = OPTION_FROM_ENV};
	enum rc rc = RC_OK;

	for (unsigned i = 0; rc == RC_OK && i < s->n; i++) {
		const char *name = s->rows[i].env, *text = name ? getenv(name) : NULL;

		if (text && *text && s->from[i].rank == OPTION_FROM_DEFAULT)
			rc = option_set_row(s, i, name, text, &env, err);
	}
	return rc;
}

/* ---- flags */

/* Whether an argument follows, in getopt's words. */
static int
follows(const struct option_row *o)
{
	if (o->arg && *o->arg != '[')
		return required_argument;
	return o->arg || (o->kind && o->kind != &option_count) ? optional_argument : no_argument;
}

/* getopt's two descriptions of the rows. */
static void
describe(const struct option_set *s, char shorts[SHORTS], struct option longs[MAX_LONGS])
{
	if (s->stops)
		*shorts++ = '+';
	*shorts++ = ':'; /* tell a missing value from an unknown option */
	for (unsigned i = 0; i < s->n; i++) {
		const struct option_row *o = &s->rows[i];
		int val = FIRST_VAL + (int)i;

		if (!o->help)
			continue;
		if (o->letter)
			*shorts++ = o->letter;
		if (o->letter && o->arg)
			*shorts++ = ':';
		if (o->name)
			*longs++ = (struct option){o->name, follows(o), NULL, val};
		if (o->was)
			*longs++ = (struct option){o->was, follows(o), NULL, val};
	}
	*shorts = '\0';
	*longs++ = (struct option){"help-options", no_argument, NULL, LIST_VAL};
	*longs = (struct option){0};
}

/* Whether getopt_long refused `word` for the value it gives to an option that takes none. */
static bool
given_value(const char *word, const struct option *longs)
{
	if (strncmp(word, "--", 2) != 0 || !strchr(word, '='))
		return false;
	for (; longs->name; longs++)
		if (longs->val == optopt && longs->has_arg == no_argument)
			return true;
	return false;
}

/* A long option that is not there, or the beginning of several. */
static enum rc
unknown_long(const struct option_set *s, const char *word, struct err *err)
{
	char name[64];
	struct nearest n;

	snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
	n = nearest_begin(name);
	for (unsigned i = 0; i < s->n; i++)
		if (s->rows[i].help)
			nearest_offer(&n, s->rows[i].name);
	if (n.name)
		return err_set(err, RC_INVAL,
			       "unknown option '%.64s', did you mean --%s? -h lists all", word,
			       n.name);
	return err_set(err, RC_INVAL, "unknown option '%.64s'; -h lists them", word);
}

/* The sentence for a word that getopt_long refused: '?' or ':'. */
static enum rc
refuse(const struct option_set *s, int opt, const char *word, const struct option *longs,
       struct err *err)
{
	if (opt == ':')
		return err_set(err, RC_INVAL, "%.64s needs a value", word);
	if (optopt && given_value(word, longs))
		return err_set(err, RC_INVAL, "%.64s: the option takes no value", word);
	if (optopt > 0 && optopt < 256 && isprint(optopt))
		return err_set(err, RC_INVAL, "unknown option '-%c'; -h lists them", optopt);
	if (optopt && optopt < 256)
		return err_set(err, RC_INVAL, "unknown option '-\\x%02x'; -h lists them",
			       (unsigned)optopt & 0xffu);
	return unknown_long(s, word, err);
}

/* The row that getopt_long found. */
static unsigned
found(const struct option_set *s, int opt)
{
	unsigned i = 0;

	if (opt >= FIRST_VAL)
		return (unsigned)(opt - FIRST_VAL);
	while (s->rows[i].letter != opt || !s->rows[i].help)
		i++;
	return i;
}

/* The value of an option: its argument, for some rows the next word, for a flag "true". */
static const char *
value(const struct option_row *o, char **argv)
{
	if (!optarg && o->number_follows && argv[optind] && isdigit((unsigned char)*argv[optind]))
		optarg = argv[optind++];
	return optarg ? optarg : o->arg ? "" : "true";
}

enum pass { LOOK, FILES, FLAGS };

/* Do what a pass does with an option: note what it asks for, read its file, or set its value. */
static enum rc
take(struct option_set *s, enum pass pass, unsigned row, const char *text, int *nfiles,
     enum option_ask *ask, struct err *err)
{
	static const struct option_from flags = {.rank = OPTION_FROM_FLAGS};
	const struct option_row *o = &s->rows[row];

	if (o->ask == OPTION_FILE)
		return pass == FILES ? option_file(s, text, OPTION_FROM_FILES + (*nfiles)++, err)
				     : RC_OK;
	if (o->ask)
		*ask = o->ask;
	else if (pass == FLAGS)
		return option_set_row(s, row, o->name ? o->name : (const char[]){o->letter, '\0'},
				      text, &flags, err);
	return RC_OK;
}

/* Read argv once. */
static enum rc
read_flags(struct option_set *s, int argc, char **argv, enum pass pass, enum option_ask *ask,
	   struct err *err)
{
	struct option longs[MAX_LONGS];
	char shorts[SHORTS];
	int opt, index, nfiles = 0;
	enum rc rc = RC_OK;

	describe(s, shorts, longs);
	optind = 0; /* getopt_long begins anew */
	opterr = 0;
	while (rc == RC_OK && *ask != OPTION_HELP && *ask != OPTION_VERSION &&
	       (index = -1, opt = getopt_long(argc, argv, shorts, longs, &index)) != -1) {
		unsigned row;

		if (opt == '?' || opt == ':')
			return refuse(s, opt, argv[optind - 1], longs, err);
		if (opt == LIST_VAL) {
			*ask = OPTION_LIST;
			return RC_OK;
		}
		row = found(s, opt);
		if (pass == LOOK && index >= 0 && longs[index].name == s->rows[row].was)
			log_say(LOG_INFO, LOG_INIT, "--%s is --%s now", s->rows[row].was,
				s->rows[row].name);
		rc = take(s, pass, row, value(&s->rows[row], argv), &nfiles, ask, err);
	}
	s->operands = argv + optind;
	s->noperands = argc - optind;
	return rc;
}

enum rc
option_parse(struct option_set *s, int argc, char **argv, enum option_ask *ask, struct err *err)
{
	enum rc rc;

	*ask = OPTION_RUN;
	rc = read_flags(s, argc, argv, LOOK, ask, err);
	if (rc != RC_OK || *ask == OPTION_HELP || *ask == OPTION_VERSION || *ask == OPTION_LIST)
		return rc;
	rc = option_begin(s, err);
	for (enum pass pass = FILES; rc == RC_OK && pass <= FLAGS; pass++)
		rc = read_flags(s, argc, argv, pass, ask, err);
	return rc == RC_OK ? option_environment(s, err) : rc;
}

enum rc
option_check_applies(const struct option_set *s, struct err *err)
{
	for (unsigned i = 0; i < s->n; i++) {
		const struct option_row *o = &s->rows[i];

		if (!s->from[i].rank || !o->applies || o->applies(s->target) ||
		    option_from(s, o->on)->rank > s->from[i].rank)
			continue;
		err_set(err, RC_INVAL, "%s", o->needs);
		return option_err_at(&s->from[i], o->name, err);
	}
	return RC_OK;
}
