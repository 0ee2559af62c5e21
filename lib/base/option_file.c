/*
 * option_file.c - files of options: lines NAME = VALUE as in INI files, and as in .env files, which have
 * "export " before names and quotes around values.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/nearest.h"
#include "base/option.h"

#define MAX_SECTION 64
#define MAX_KEY	    40 /* letters of a key that are looked at: more than any option has */

struct reading {
	struct option_set *s;
	struct option_from from; /* the line that is read */
	char section[MAX_SECTION];
};

/* ---- keys: without regard to case, '-', '_' and blanks */

static void
fold(const char *key, char out[MAX_KEY])
{
	size_t n = 0;

	for (; *key && n < MAX_KEY - 1; key++)
		if (!strchr("-_ \t", *key))
			out[n++] = (char)tolower((unsigned char)*key);
	out[n] = '\0';
}

/* Name k of a row in files: its own, its former one, others; NULL after the last. Rows for flags have
 * only their own, so that it can be refused. */
static const char *
file_name(const struct option_row *o, unsigned k)
{
	static const char *const none[] = {NULL};
	const char *const *also = o->also ? o->also : none;

	if (k == 0)
		return o->name;
	if (o->was && k == 1)
		return o->was;
	for (k -= o->was ? 2 : 1; *also && k; k--)
		also++;
	return *also;
}

/* The row that a key means; s->n: none. */
static unsigned
row_of_key(const struct option_set *s, const char *key)
{
	char want[MAX_KEY], own[MAX_KEY];
	const char *name;

	fold(key, want);
	for (unsigned i = 0; i < s->n; i++)
		for (unsigned k = 0; (name = file_name(&s->rows[i], k)); k++) {
			fold(name, own);
			if (strcmp(own, want) == 0)
				return i;
		}
	return s->n;
}

/* The name that a mistyped key may stand for; NULL: none is similar. */
static const char *
nearest_key(const struct option_set *s, const char *key)
{
	const char *name, *best = NULL;
	char want[MAX_KEY], own[MAX_KEY];
	struct nearest n;

	fold(key, want);
	n = nearest_begin(want);
	for (unsigned i = 0; i < s->n; i++)
		for (unsigned k = 0; !s->rows[i].flag_only && (name = file_name(&s->rows[i], k));
		     k++) {
			unsigned before = n.steps;

			fold(name, own);
			nearest_offer(&n, own);
			if (n.steps < before)
				best = name;
		}
	return best;
}

/* ---- lines */

static bool
blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool
is_text(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (((unsigned char)s[i] < ' ' && s[i] != '\t') || s[i] == 0x7f)
			return false;
	return true;
}

/* A comment begins here: at the start of a line or after a blank. */
static bool
is_rest(const char *s)
{
	const char *p = s;

	while (blank(*p))
		p++;
	return !*p || ((p > s || blank(p[-1])) && (*p == '#' || *p == ';'));
}

/* End the text where a comment begins, and before blanks. */
static void
cut_comment(char *s)
{
	size_t len = 0;

	while (s[len] && !((s[len] == '#' || s[len] == ';') && (len == 0 || blank(s[len - 1]))))
		len++;
	while (len && blank(s[len - 1]))
		len--;
	s[len] = '\0';
}

static enum rc
refuse(const struct reading *r, const char *reason, struct err *err)
{
	return err_set(err, RC_INVAL, "%s:%d: %s", r->from.file, r->from.line, reason);
}

/* The meaning of a character after a backslash. */
static char
unescape(char c)
{
	return c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c;
}

/*
 * A value in quotes, in place. Between single quotes each character is itself; between double quotes \n, \r
 * and \t are control characters, and \ before any other character stands for that.
 */
static enum rc
take_quoted(const struct reading *r, char *value, struct err *err)
{
	char quote = *value, *from = value + 1, *to = value;

	for (; *from != quote; from++) {
		bool escaped = quote == '"' && *from == '\\';

		from += escaped;
		if (!*from)
			return refuse(r, "a quote is never closed", err);
		*to++ = escaped ? unescape(*from) : *from;
	}
	if (!is_rest(from + 1))
		return refuse(r, "text after a closing quote", err);
	*to = '\0';
	return RC_OK;
}

/* The key as it may be shown. */
static const char *
shown(const char *key, char out[48])
{
	size_t n = 0;

	for (; key[n] && n < 40; n++)
		out[n] = key[n] > ' ' && key[n] < 0x7f ? key[n] : '?';
	out[n] = '\0';
	return out;
}

/* A name that is no option's: a sentence, which is a warning or an error. */
static enum rc
note_unknown(const struct reading *r, const char *key, const char *name, struct err *err)
{
	const char *meant = nearest_key(r->s, key), *program = r->s->usage;
	struct buf *notes = &r->s->unknown;
	bool good =
	    buf_addf(notes, "%s:%d: no option '%s'; ", r->from.file, r->from.line, name) &&
	    (meant ? buf_addf(notes, "did you mean '%s'?\n", meant)
		   : buf_addf(notes, "%.*s -h lists them\n", (int)strcspn(program, " "), program));

	return good ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
}

/* An option's value; the name is the key as it may be shown. */
static enum rc
take_option(const struct reading *r, const char *key, const char *name, const char *value,
	    struct err *err)
{
	const struct option_from *f = &r->from;
	struct option_set *s = r->s;
	unsigned row = row_of_key(s, key);
	const char *kept;

	if (row == s->n)
		return note_unknown(r, key, name, err);
	if (s->rows[row].flag_only)
		return err_set(err, RC_INVAL, "%s:%d: %s: not allowed in a file", f->file, f->line,
			       name);
	if (s->from[row].rank == f->rank)
		return err_set(err, RC_INVAL, "%s:%d: %s: already given in line %d", f->file,
			       f->line, name, s->from[row].line);
	kept = option_copy(&s->texts, value);
	if (!kept)
		return err_set(err, RC_NOMEM, "out of memory");
	return option_set_row(s, row, name, kept, f, err);
}

static enum rc
take_pair(const struct reading *r, const char *key, const char *value, struct err *err)
{
	struct option_set *s = r->s;
	bool mine = true;
	char name[48];
	enum rc rc = RC_OK;

	shown(key, name);
	if (s->in_section)
		rc = s->in_section(s->target, r->section, key, value, &mine, err);
	if (rc != RC_OK)
		return option_err_at(&r->from, name, err);
	return mine ? take_option(r, key, name, value, err) : RC_OK;
}

/* A line without blanks before it, which is cut up. */
static enum rc
take_line(struct reading *r, char *line, struct err *err)
{
	static const char neither[] = "neither name = value nor [section]";
	char *value, *end;
	enum rc rc = RC_OK;

	if (*line == '[') {
		end = strchr(line, ']');
		if (!end || !is_rest(end + 1))
			return refuse(r, neither, err);
		*end = '\0';
		snprintf(r->section, sizeof r->section, "%.63s", line + 1);
		return RC_OK;
	}
	if (strncmp(line, "export", 6) == 0 && blank(line[6]))
		line += 7 + strspn(line + 7, " \t");
	end = strpbrk(line, "=:");
	if (!end || end == line)
		return refuse(r, neither, err);
	value = end + 1 + strspn(end + 1, " \t");
	while (end > line && blank(end[-1]))
		end--;
	*end = '\0';
	if (*value == '"' || *value == '\'')
		rc = take_quoted(r, value, err);
	else
		cut_comment(value);
	return rc == RC_OK ? take_pair(r, line, value, err) : rc;
}

/* The line at s, of len bytes, in a copy without blanks around it. Skips a comment. */
static enum rc
next_line(struct reading *r, const char *s, size_t len, struct err *err)
{
	char line[OPTION_MAX_LINE + 1], reason[48];

	if (!is_text(s, len))
		return refuse(r, "not text", err);
	while (len && blank(*s))
		s++, len--;
	while (len && blank(s[len - 1]))
		len--;
	if (!len || *s == '#' || *s == ';')
		return RC_OK;
	if (len > OPTION_MAX_LINE) {
		snprintf(reason, sizeof reason, "longer than %d bytes", OPTION_MAX_LINE);
		return refuse(r, reason, err);
	}
	memcpy(line, s, len);
	line[len] = '\0';
	return take_line(r, line, err);
}

enum rc
option_file_text(struct option_set *s, const char *text, const char *name, int rank,
		 struct err *err)
{
	struct reading r = {.s = s, .from = {.rank = rank, .file = name}};
	size_t len;
	enum rc rc = RC_OK;

	if (strncmp(text, "\xef\xbb\xbf", 3) == 0) /* a byte order mark */
		text += 3;
	for (; rc == RC_OK && *text; text += len + (text[len] == '\n')) {
		len = strcspn(text, "\n");
		r.from.line++;
		rc = next_line(&r, text, len - (len && text[len - 1] == '\r'), err);
	}
	return rc == RC_OK && s->file_read ? s->file_read(s, name, rank, err) : rc;
}

enum rc
option_file(struct option_set *s, const char *path, int rank, struct err *err)
{
	struct buf text = {0};
	enum rc rc = file_text(path, "a configuration file", &text, err);

	if (rc == RC_BADDATA)
		err->rc = rc = RC_INVAL;
	if (rc == RC_OK)
		rc = option_file_text(s, text.data, path, rank, err);
	buf_fini(&text);
	return rc;
}

enum rc
option_file_check(struct option_set *s, struct err *err)
{
	const struct buf *u = &s->unknown;

	if (u->len && s->strict)
		return err_set(err, RC_INVAL, "%.*s", (int)strcspn(u->data, "\n"), u->data);
	return RC_OK;
}
