/* Words of preprocessed C++ source. */
#include "nvcc/token.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"

struct reader {
	const char *at, *end;
	struct tokens *t;
	unsigned line, file;
	bool fresh; /* only blanks in this line so far */
	struct err *err;
};

/* ---- files of line markers */

static void
use_file(struct reader *r, const char *name, size_t len, bool system)
{
	struct tokens *t = r->t;

	for (size_t i = t->nfiles; i-- > 0;)
		if (strlen(t->file[i].name) == len && memcmp(t->file[i].name, name, len) == 0) {
			r->file = (unsigned)i;
			return;
		}
	t->file = must_resize(t->file, t->nfiles + 1, sizeof *t->file);
	t->file[t->nfiles] = (struct token_file){must_strndup(name, len), system};
	r->file = (unsigned)t->nfiles++;
}

/* # 12 "file.cu" 1 3: the next line is line 12 of that file. */
static void
line_marker(struct reader *r, const char *s, const char *end)
{
	const char *name, *close;
	unsigned line;

	while (s < end && (*s == '#' || *s == ' '))
		s++;
	if (s < end && end - s > 4 && memcmp(s, "line", 4) == 0)
		for (s += 4; s < end && *s == ' ';)
			s++;
	if (s == end || !isdigit((unsigned char)*s))
		return;
	line = (unsigned)strtoul(s, NULL, 10);
	r->line = line ? line - 1 : 0; /* the end of this line adds one */
	name = memchr(s, '"', (size_t)(end - s));
	close = name ? memchr(name + 1, '"', (size_t)(end - name - 1)) : NULL;
	if (!close)
		return;
	use_file(r, name + 1, (size_t)(close - name - 1),
		 memmem(close, (size_t)(end - close), " 3", 2) != NULL);
}

/* ---- tokens */

static void
add(struct reader *r, enum token_kind kind, const char *end)
{
	struct tokens *t = r->t;

	must_room(&t->v, t->n, &t->room, sizeof *t->v);
	t->v[t->n++] = (struct token){kind, r->at, (size_t)(end - r->at), r->line, r->file};
	for (const char *s = r->at; s < end; s++)
		if (*s == '\n') {
			r->line++;
			r->fresh = true;
		}
	if (kind != TOKEN_BLANK)
		r->fresh = false;
	r->at = end;
}

static bool
word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

static enum rc
unended(struct reader *r, const char *kind)
{
	return err_set(r->err, RC_BADDATA, "%s:%u: error: unterminated %s",
		       r->t->file[r->file].name, r->line, kind);
}

/* A user-defined suffix belongs to the string. */
static const char *
suffix(const char *s, const char *end)
{
	while (s < end && word_char(*s))
		s++;
	return s;
}

/* q: the quote. */
static enum rc
string(struct reader *r, const char *q)
{
	const char *s = q + 1;

	while (s < r->end && *s != *q && *s != '\n')
		s += *s == '\\' && s + 1 < r->end ? 2 : 1;
	if (s >= r->end || *s != *q)
		return unended(r, *q == '"' ? "string" : "character");
	add(r, TOKEN_STRING, suffix(s + 1, r->end));
	return RC_OK;
}

/* R"mark(...)mark"; q: the quote. */
static enum rc
raw_string(struct reader *r, const char *q)
{
	const char *open = memchr(q, '(', (size_t)(r->end - q));
	char close[20];
	size_t n = open ? (size_t)(open - q - 1) : 0;
	const char *found;

	if (!open || n > 16)
		return unended(r, "raw string");
	close[0] = ')';
	memcpy(close + 1, q + 1, n);
	close[n + 1] = '"';
	found = memmem(open, (size_t)(r->end - open), close, n + 2);
	if (!found)
		return unended(r, "raw string");
	add(r, TOKEN_STRING, suffix(found + n + 2, r->end));
	return RC_OK;
}

/* A word, or a string with that prefix. */
static enum rc
word(struct reader *r)
{
	static const char *const prefixes[] = {"L", "u", "U", "u8", "R", "LR", "uR", "UR", "u8R"};
	const char *s = suffix(r->at, r->end);
	size_t n = (size_t)(s - r->at);

	if (s < r->end && (*s == '"' || *s == '\''))
		for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
			if (strlen(prefixes[i]) == n && memcmp(prefixes[i], r->at, n) == 0)
				return prefixes[i][n - 1] == 'R' && *s == '"' ? raw_string(r, s)
									      : string(r, s);
	add(r, TOKEN_WORD, s);
	return RC_OK;
}

static void
number(struct reader *r)
{
	const char *s = r->at;

	for (; s < r->end; s++) {
		if ((*s == '+' || *s == '-') && memchr("eEpP", s[-1], 4))
			continue;
		if (*s == '\'' && s + 1 < r->end && word_char(s[1]))
			continue;
		if (!word_char(*s) && *s != '.')
			break;
	}
	add(r, TOKEN_NUMBER, s);
}

static void
punct(struct reader *r)
{
	static const char *const long_ones[] = {"...", "->*", "->", "::", "<=", ">="};

	for (size_t i = 0; i < sizeof long_ones / sizeof *long_ones; i++) {
		size_t n = strlen(long_ones[i]);

		if ((size_t)(r->end - r->at) >= n && memcmp(r->at, long_ones[i], n) == 0) {
			add(r, TOKEN_PUNCT, r->at + n);
			return;
		}
	}
	add(r, TOKEN_PUNCT, r->at + 1);
}

static enum rc
comment(struct reader *r)
{
	const char *end;

	if (r->at[1] == '/') {
		end = memchr(r->at, '\n', (size_t)(r->end - r->at));
		add(r, TOKEN_BLANK, end ? end : r->end);
		return RC_OK;
	}
	end = memmem(r->at + 2, (size_t)(r->end - r->at - 2), "*/", 2);
	if (!end)
		return unended(r, "comment");
	add(r, TOKEN_BLANK, end + 2);
	return RC_OK;
}

static enum rc
one(struct reader *r)
{
	const char *s = r->at;

	if (isspace((unsigned char)*s)) {
		while (s < r->end && isspace((unsigned char)*s))
			s++;
		add(r, TOKEN_BLANK, s);
		return RC_OK;
	}
	if (*s == '#' && r->fresh) {
		s = memchr(s, '\n', (size_t)(r->end - s));
		s = s ? s : r->end;
		line_marker(r, r->at, s);
		add(r, TOKEN_LINE, s);
		return RC_OK;
	}
	if (*s == '/' && s + 1 < r->end && (s[1] == '/' || s[1] == '*'))
		return comment(r);
	if (isdigit((unsigned char)*s) ||
	    (*s == '.' && s + 1 < r->end && isdigit((unsigned char)s[1]))) {
		number(r);
		return RC_OK;
	}
	if (word_char(*s))
		return word(r);
	if (*s == '"' || *s == '\'')
		return string(r, s);
	punct(r);
	return RC_OK;
}

enum rc
tokens_read(const char *text, size_t nbytes, const char *name, struct tokens *t, struct err *err)
{
	struct reader r = {text, text + nbytes, t, 1, 0, true, err};
	enum rc rc = RC_OK;

	*t = (struct tokens){0};
	use_file(&r, name, strlen(name), false);
	while (rc == RC_OK && r.at < r.end)
		rc = one(&r);
	if (rc == RC_OK)
		add(&r, TOKEN_END, r.end);
	return rc;
}

void
tokens_fini(struct tokens *t)
{
	for (size_t i = 0; i < t->nfiles; i++)
		free(t->file[i].name);
	free(t->file);
	free(t->v);
	*t = (struct tokens){0};
}

/* ---- walking */

bool
token_is(const struct token *t, const char *text)
{
	return strlen(text) == t->len && memcmp(t->text, text, t->len) == 0;
}

bool
token_counts(const struct token *t)
{
	return t->kind != TOKEN_BLANK && t->kind != TOKEN_LINE;
}

size_t
token_next(const struct tokens *t, size_t i)
{
	while (i + 1 < t->n && !token_counts(&t->v[++i]))
		;
	return i;
}

size_t
token_prev(const struct tokens *t, size_t i)
{
	while (i-- > 0)
		if (token_counts(&t->v[i]))
			return i;
	return SIZE_MAX;
}

/* +1: it opens a bracket, -1: it closes one. */
static int
bracket(const struct token *t)
{
	if (t->kind != TOKEN_PUNCT || t->len != 1)
		return 0;
	return strchr("([{", *t->text) ? 1 : strchr(")]}", *t->text) ? -1 : 0;
}

size_t
token_close(const struct tokens *t, size_t i)
{
	int depth = 0;

	for (; i + 1 < t->n; i++) {
		depth += bracket(&t->v[i]);
		if (depth == 0)
			return i;
	}
	return t->n - 1;
}

size_t
token_open(const struct tokens *t, size_t i)
{
	int depth = 0;

	for (;; i--) {
		depth += bracket(&t->v[i]);
		if (depth == 0)
			return i;
		if (i == 0)
			return SIZE_MAX;
	}
}

size_t
token_close_angle(const struct tokens *t, size_t i)
{
	int depth = 0;

	for (; i + 1 < t->n; i++) {
		if (bracket(&t->v[i]) > 0 && !token_is(&t->v[i], "{"))
			i = token_close(t, i);
		else if (bracket(&t->v[i]) || token_is(&t->v[i], ";"))
			break;
		else if (token_is(&t->v[i], "<"))
			depth++;
		else if (token_is(&t->v[i], ">") && --depth == 0)
			return i;
	}
	return t->n - 1;
}

size_t
token_open_angle(const struct tokens *t, size_t i)
{
	int depth = 0;

	for (;; i--) {
		if (bracket(&t->v[i]) < 0 && !token_is(&t->v[i], "}")) {
			i = token_open(t, i);
			if (i == SIZE_MAX)
				return SIZE_MAX;
		} else if (bracket(&t->v[i]) || token_is(&t->v[i], ";"))
			return SIZE_MAX;
		else if (token_is(&t->v[i], ">"))
			depth++;
		else if (token_is(&t->v[i], "<") && --depth == 0)
			return i;
		if (i == 0)
			return SIZE_MAX;
	}
}
