/*
 * option_text.c - texts from a table of options: -h, --help-options, a configuration file, flags.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/option.h"
#include "gpusim.h"

#define HELP_COLUMN 24
#define LIST_NAME   "help-options"
#define HELP_WIDTH  80

/* ---- -h */

const char *
option_spelled(const struct option_row *o, char out[48])
{
	if (o->name)
		snprintf(out, 48, "--%s", o->name);
	else
		snprintf(out, 48, "-%c", o->letter);
	return out;
}

/* ": a, b or c", of a row that takes words. */
static void
add_words(const struct option_row *o, struct buf *out)
{
	const char *name[OPTION_MAX_WORDS];
	unsigned n = option_names(o, name);

	for (unsigned i = 0; i < n; i++)
		buf_addf(out, "%s%s", i == 0 ? ": " : i + 1 == n ? " or " : ", ", name[i]);
}

/* "(default $VARIABLE, else 5: five)". */
static void
add_default(const struct option_row *o, struct buf *out)
{
	bool both = o->env && (o->dflt || o->dflt_note);

	if (!o->env && !o->dflt && !o->dflt_note)
		return;
	buf_addf(out, " (default%s%s%s%s%s%s%s)", o->env || o->dflt ? " " : ": ", o->env ? "$" : "",
		 o->env ? o->env : "", both ? ", else " : "", o->dflt ? o->dflt : "",
		 o->dflt && o->dflt_note ? ": " : "", o->dflt_note ? o->dflt_note : "");
}

/* Words in lines of the second column; the first line is at column `at` already. */
static void
add_filled(struct buf *out, const char *text, size_t at)
{
	size_t column = at < HELP_COLUMN ? HELP_COLUMN : at + 1;

	buf_addf(out, "%*s", (int)(column - at), "");
	for (size_t len; *text; text += len + (text[len] == ' ')) {
		len = strcspn(text, " ");
		if (column + len > HELP_WIDTH && column > HELP_COLUMN) {
			buf_addf(out, "\n%*s", HELP_COLUMN, "");
			column = HELP_COLUMN;
		} else if (column > HELP_COLUMN && !out->failed && out->data[out->len - 1] != ' ') {
			buf_add(out, " ", 1);
			column++;
		}
		buf_add(out, text, len);
		column += len;
	}
	buf_add(out, "\n", 1);
}

static void
add_row(const struct option_row *o, struct buf *out)
{
	struct buf text = {0};
	size_t begin = out->len;

	buf_addf(out, "  ");
	if (o->letter)
		buf_addf(out, "-%c%s", o->letter, o->name ? ", " : "");
	if (o->name)
		buf_addf(out, "--%s", o->name);
	if (o->arg)
		buf_addf(out, "%s%s", strncmp(o->arg, "[=", 2) == 0 ? "" : " ", o->arg);
	buf_addf(&text, "%s", o->help);
	add_words(o, &text);
	add_default(o, &text);
	buf_add(&text, "", 1);
	if (text.failed || out->failed)
		out->failed = true;
	else
		add_filled(out, text.data, out->len - begin);
	buf_fini(&text);
}

void
option_help(const struct option_row *rows, unsigned n, struct buf *out)
{
	for (unsigned i = 0; i < n; i++) {
		if (rows[i].help)
			add_row(&rows[i], out);
	}
}

void
option_usage(const struct option_set *s, struct buf *out)
{
	buf_addf(out, "usage: %s\n", s->usage);
	option_help(s->rows, s->n, out);
}

/* ---- --help-options */

/* The values that a row takes, as far as they are known: "1..64", "a|b", "-". */
static void
add_values(const struct option_row *o, struct buf *out)
{
	const char *name[OPTION_MAX_WORDS];
	unsigned n = option_names(o, name);

	for (unsigned i = 0; i < n; i++)
		buf_addf(out, "%s%s", i ? "|" : "", name[i]);
	if (n)
		return;
	if (o->kind && o->hi > o->lo && o->kind != &option_chars)
		buf_addf(out, "%.15g..%.15g", o->lo, o->hi);
	else
		buf_add(out, "-", 1);
}

void
option_list(const struct option_set *s, struct buf *out)
{
	bool files = false;

	for (unsigned i = 0; i < s->n; i++)
		files = files || s->rows[i].ask == OPTION_FILE;
	for (unsigned i = 0; i < s->n; i++) {
		const struct option_row *o = &s->rows[i];
		const char letter[2] = {o->letter ? o->letter : '-'};

		buf_addf(out, "%s\t%s\t%s\t%s\t", o->name ? o->name : "-", letter,
			 o->arg ? o->arg : "-", o->kind ? o->kind->type : "-");
		add_values(o, out);
		buf_addf(out, "\t%s\t%s\t%s\t%s\t%s\n", o->dflt && *o->dflt ? o->dflt : "-",
			 o->env ? o->env : "-",
			 !files || o->flag_only || !o->name ? "-"
			 : o->help			    ? "file"
							    : "file only",
			 o->was ? o->was : "-", o->help && *o->help ? o->help : "-");
	}
}

/* ---- --print-config, flags */

/* A line can hold a value unquoted: no blanks around it, no comment or quote in it. */
static bool
is_plain(const char *value)
{
	size_t len = strlen(value);

	for (size_t i = 0; i < len; i++)
		if ((value[i] == '#' || value[i] == ';') && (i == 0 || value[i - 1] == ' '))
			return false;
	return len && !strchr(" \"'", value[0]) && value[len - 1] != ' ';
}

/* Append NAME = VALUE. RC_INVAL: a line cannot hold it. */
static enum rc
print_pair(const char *name, const char *value, struct buf *out, struct err *err)
{
	const char *quote = is_plain(value) ? "" : strchr(value, '\'') ? "\"" : "'";
	size_t first = out->len;

	buf_addf(out, "%s = %s", name, quote);
	for (const char *p = value; *p; p++) {
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return err_set(err, RC_INVAL, "%s: a line of a file cannot hold '%.64s'",
				       name, value);
		if (*quote == '"' && (*p == '"' || *p == '\\'))
			buf_add(out, "\\", 1);
		buf_add(out, p, 1);
	}
	buf_addf(out, "%s\n", quote);
	if (out->len - first > OPTION_MAX_LINE)
		return err_set(err, RC_INVAL, "%s: a line of a file cannot hold '%.64s'", name,
			       value);
	return RC_OK;
}

/* The value of a row, terminated; empty when there is none or it is not worth printing. */
static void
value_of(const struct option_set *s, const struct option_row *o, struct buf *value)
{
	value->len = 0;
	if (o->kind && o->kind->print && !o->flag_only && !o->unprinted &&
	    (!o->applies || o->applies(s->target)))
		o->kind->print(o, s->target, value);
	buf_add(value, "", 1);
}

enum rc
option_print(const struct option_set *s, struct buf *out, struct err *err)
{
	struct buf value = {0};
	enum rc rc = RC_OK;

	for (unsigned i = 0; rc == RC_OK && i < s->n; i++) {
		value_of(s, &s->rows[i], &value);
		if (!value.failed && value.data[0])
			rc = print_pair(s->rows[i].name, value.data, out, err);
	}
	if (value.failed || out->failed)
		rc = err_set(err, RC_NOMEM, "out of memory");
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
option_args(const struct option_set *s, const char *const *except, char ***out, struct err *err)
{
	char **args = alloc_zeroed(s->n + 1, sizeof *args);
	struct buf value = {0};
	enum rc rc = args ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
	size_t n = 0;

	for (unsigned i = 0; rc == RC_OK && i < s->n; i++) {
		const struct option_row *o = &s->rows[i];

		if (!o->help || !o->name || among(o->name, except))
			continue;
		value_of(s, o, &value);
		if (!value.failed && !value.data[0])
			continue;
		if (value.failed || asprintf(&args[n], "--%s=%s", o->name, value.data) < 0) {
			args[n] = NULL;
			rc = err_set(err, RC_NOMEM, "out of memory");
		}
		n++;
	}
	buf_fini(&value);
	if (rc == RC_OK)
		*out = args;
	else
		option_args_free(args);
	return rc;
}

void
option_args_free(char **args)
{
	for (char **a = args; a && *a; a++)
		free(*a);
	free(args);
}

/* ---- answers */

enum rc
option_say(const char *text, struct err *err)
{
	if (fputs(text, stdout) < 0 || fflush(stdout) != 0 || close(STDOUT_FILENO) != 0)
		return err_set(err, RC_FAILED, "standard output: %m");
	exit(EXIT_SUCCESS);
}

enum rc
option_answer(const struct option_set *s, enum option_ask ask, struct err *err)
{
	struct buf text = {0};
	enum rc rc = RC_OK;

	if (ask == OPTION_HELP)
		option_usage(s, &text);
	else if (ask == OPTION_VERSION)
		buf_addf(&text, "%.*s %s\n", (int)strcspn(s->usage, " "), s->usage, GPUSIM_VERSION);
	else if (ask == OPTION_LIST)
		option_list(s, &text);
	else
		rc = option_print(s, &text, err);
	buf_add(&text, "", 1);
	if (text.failed)
		rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK && option_say(text.data, err) != RC_OK) {
		unsigned i = 0;

		while (i < s->n && s->rows[i].ask != ask)
			i++;
		rc = err_prefix(err, "--%s", i < s->n ? s->rows[i].name : LIST_NAME);
	}
	buf_fini(&text);
	return rc;
}
