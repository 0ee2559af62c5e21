/*
 * option_kinds.c - the types that values of options have, from text and to text.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/option.h"
#include "base/parse.h"

#define FIELD(o, target, type) ((type *)option_field(o, target))
#define VALUE(o, target, type) (*(const type *)option_value(o, target))

/* take_NAME: what a function of parse.h makes of the text. */
#define TAKE(name, parse, type)                                                                \
	static enum rc take_##name(const struct option_row *o, const char *text, void *target, \
				   struct err *err)                                            \
	{                                                                                      \
		return parse(text, FIELD(o, target, type), err);                               \
	}

TAKE(size, parse_size, uint64_t)
TAKE(bytes, parse_bytes, uint64_t)
TAKE(rate, parse_rate, uint64_t)
TAKE(ns, parse_duration, uint64_t)
TAKE(ms, parse_ms, uint32_t)
TAKE(fd, parse_fd, int)

static enum rc
take_u32(const struct option_row *o, const char *text, void *target, struct err *err)
{
	return parse_u32(text, (uint32_t)o->lo, (uint32_t)o->hi, FIELD(o, target, uint32_t), err);
}

static void
add_u32(const struct option_row *o, const void *target, struct buf *out)
{
	uint32_t v = VALUE(o, target, uint32_t);

	if (v >= o->lo)
		buf_addf(out, "%" PRIu32, v);
}

static enum rc
take_u64(const struct option_row *o, const char *text, void *target, struct err *err)
{
	uint64_t hi = o->hi > 0 ? (uint64_t)o->hi : UINT64_MAX;

	return parse_u64(text, (uint64_t)o->lo, hi, FIELD(o, target, uint64_t), err);
}

static void
add_u64(const struct option_row *o, const void *target, struct buf *out)
{
	uint64_t v = VALUE(o, target, uint64_t);

	if (v >= (uint64_t)o->lo)
		buf_addf(out, "%" PRIu64, v);
}

/* A size or rate of 0 was not given. */
static void
add_u64_set(const struct option_row *o, const void *target, struct buf *out)
{
	if (VALUE(o, target, uint64_t) != 0)
		add_u64(o, target, out);
}

static void
add_ns(const struct option_row *o, const void *target, struct buf *out)
{
	buf_addf(out, "%" PRIu64 "ns", VALUE(o, target, uint64_t));
}

static void
add_ms(const struct option_row *o, const void *target, struct buf *out)
{
	uint32_t ms = VALUE(o, target, uint32_t);

	if (ms)
		buf_addf(out, "%" PRIu32 "ms", ms);
}

static enum rc
take_double(const struct option_row *o, const char *text, void *target, struct err *err)
{
	return parse_double(text, o->lo, o->hi, FIELD(o, target, double), err);
}

void
option_add_double(struct buf *out, double v)
{
	char text[40];

	for (int digits = 6; digits <= 17; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	buf_addf(out, "%s", text);
}

static void
add_double(const struct option_row *o, const void *target, struct buf *out)
{
	option_add_double(out, VALUE(o, target, double));
}

static enum rc
take_any_string(const struct option_row *o, const char *text, void *target, struct err *err)
{
	(void)err;
	*FIELD(o, target, const char *) = text;
	return RC_OK;
}

static enum rc
take_string(const struct option_row *o, const char *text, void *target, struct err *err)
{
	if (!*text)
		return err_set(err, RC_INVAL, "'' is not a %s", o->arg);
	return take_any_string(o, text, target, err);
}

static void
add_string(const struct option_row *o, const void *target, struct buf *out)
{
	const char *s = VALUE(o, target, char *);

	if (s)
		buf_add(out, s, strlen(s));
}

static enum rc
take_chars(const struct option_row *o, const char *text, void *target, struct err *err)
{
	size_t room = (size_t)o->hi;

	if (strlen(text) >= room)
		return err_set(err, RC_INVAL, "longer than %zu bytes", room - 1);
	memcpy(option_field(o, target), text, strlen(text) + 1);
	return RC_OK;
}

static void
add_chars(const struct option_row *o, const void *target, struct buf *out)
{
	const char *s = option_value(o, target);

	buf_add(out, s, strlen(s));
}

static enum rc
take_bool(const struct option_row *o, const char *text, void *target, struct err *err)
{
	bool yes = strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0;

	if (!yes && strcasecmp(text, "false") != 0 && strcmp(text, "0") != 0)
		return err_set(err, RC_INVAL, "'%.64s' is neither true nor false", text);
	*FIELD(o, target, bool) = yes;
	return RC_OK;
}

static void
add_bool(const struct option_row *o, const void *target, struct buf *out)
{
	buf_addf(out, "%s", VALUE(o, target, bool) ? "true" : "false");
}

static enum rc
take_count(const struct option_row *o, const char *text, void *target, struct err *err)
{
	(void)text;
	(void)err;
	++*FIELD(o, target, unsigned);
	return RC_OK;
}

const char *
option_word(const struct option_row *o, unsigned i, int *value)
{
	*value = o->words ? o->words[i].value : (int)i;
	if (o->words)
		return o->words[i].word;
	return o->names && (o->hi < 1 || i < o->hi) ? o->names(i) : NULL;
}

unsigned
option_names(const struct option_row *o, const char *name[OPTION_MAX_WORDS])
{
	const char *word;
	int value, last = 0;
	unsigned n = 0;

	for (unsigned i = 0; n < OPTION_MAX_WORDS && (word = option_word(o, i, &value)); i++) {
		if (i == 0 || value != last)
			name[n++] = word;
		last = value;
	}
	return n;
}

/* "'x': must be one of a, b, c". */
static enum rc
refuse_word(const struct option_row *o, const char *text, struct err *err)
{
	const char *name[OPTION_MAX_WORDS];
	unsigned n = option_names(o, name);
	char names[256];
	size_t len = 0;

	for (unsigned i = 0; i < n && len < sizeof names; i++)
		len += (size_t)snprintf(names + len, sizeof names - len, "%s%s", i ? ", " : "",
					name[i]);
	return err_set(err, RC_INVAL, "'%.64s': must be one of %s", text, names);
}

static enum rc
take_word(const struct option_row *o, const char *text, void *target, struct err *err)
{
	const char *word;
	int value;

	for (unsigned i = 0; (word = option_word(o, i, &value)); i++)
		if (strcasecmp(word, text) == 0) {
			*FIELD(o, target, int) = value;
			return RC_OK;
		}
	return refuse_word(o, text, err);
}

static void
add_word(const struct option_row *o, const void *target, struct buf *out)
{
	const char *word;
	int value;

	for (unsigned i = 0; (word = option_word(o, i, &value)); i++)
		if (value == VALUE(o, target, int)) {
			buf_addf(out, "%s", word);
			return;
		}
}

const struct option_kind option_bool = {"flag", take_bool, add_bool},
			 option_count = {"flag", take_count, NULL},
			 option_u32 = {"number", take_u32, add_u32},
			 option_u64 = {"number", take_u64, add_u64},
			 option_double = {"real", take_double, add_double},
			 option_size = {"size", take_size, add_u64},
			 option_bytes = {"size", take_bytes, add_u64_set},
			 option_rate = {"rate", take_rate, add_u64_set},
			 option_ns = {"time", take_ns, add_ns},
			 option_ms = {"time", take_ms, add_ms},
			 option_fd = {"descriptor", take_fd, NULL},
			 option_string = {"string", take_string, add_string},
			 option_any_string = {"string", take_any_string, add_string},
			 option_chars = {"string", take_chars, add_chars},
			 option_word_kind = {"word", take_word, add_word};

/* ---- a row's value, and the texts of values */

struct option_text {
	struct option_text *next;
	char text[];
};

const char *
option_copy(struct option_text **texts, const char *text)
{
	size_t len = strlen(text) + 1;
	struct option_text *t = malloc(sizeof *t + len);

	if (!t)
		return NULL;
	memcpy(t->text, text, len);
	t->next = *texts;
	*texts = t;
	return t->text;
}

void
option_texts_free(struct option_text *texts)
{
	for (struct option_text *next; texts; texts = next) {
		next = texts->next;
		free(texts);
	}
}

enum rc
option_err_at(const struct option_from *from, const char *name, struct err *err)
{
	if (from->file)
		return err_prefix(err, "%s:%d: %s", from->file, from->line, name);
	if (from->rank == OPTION_FROM_ENV)
		return err_prefix(err, "%s", name);
	return err_prefix(err, "%s%s", name[1] ? "--" : "-", name);
}

enum rc
option_set_row(struct option_set *s, unsigned row, const char *name, const char *text,
	       const struct option_from *from, struct err *err)
{
	const struct option_row *o = &s->rows[row];

	if (o->kind->parse(o, text, s->target, err) != RC_OK)
		return option_err_at(from, name, err);
	s->from[row] = *from;
	return RC_OK;
}
