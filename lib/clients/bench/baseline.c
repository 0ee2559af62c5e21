#include "bench/bench.h"
#include "base/must.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 8
#define KEY_MAX	  32

/* A reader of JSON for numbers and their names. */
struct reader {
	const char *p; /* ends with a NUL */
	struct baseline *out;
};

static void
blanks(struct reader *r)
{
	r->p += strspn(r->p, " \t\r\n");
}

/* A character, after blanks. */
static bool
accept(struct reader *r, char c)
{
	blanks(r);
	if (*r->p != c)
		return false;
	r->p++;
	return true;
}

/* A string; its beginning goes to out, with escapes unchanged. */
static bool
read_string(struct reader *r, char out[KEY_MAX])
{
	size_t n = 0;

	if (!accept(r, '"'))
		return false;
	for (; *r->p && *r->p != '"'; r->p++) {
		if (*r->p == '\\' && !*++r->p)
			return false;
		if (n < KEY_MAX - 1)
			out[n++] = *r->p;
	}
	out[n] = '\0';
	return accept(r, '"');
}

/* A row begins with its size. */
static bool
take_number(struct reader *r, const char *parent, const char *key, double v)
{
	struct baseline *b = r->out;

	if (strcmp(parent, "rows") == 0 && strcmp(key, "size") == 0) {
		if (!(v >= 0 && v < 0x1p63))
			return false;
		must_room(&b->row, b->n, &b->cap, sizeof *b->row);
		b->row[b->n++] = (struct baseline_row){.nbytes = (uint64_t)v};
		return true;
	}
	if (b->n == 0 || strcmp(key, "time_us") != 0)
		return true;
	if (strcmp(parent, "out_of_place") == 0)
		b->row[b->n - 1].us[BENCH_OUT_OF_PLACE] = v;
	else if (strcmp(parent, "in_place") == 0)
		b->row[b->n - 1].us[BENCH_IN_PLACE] = v;
	return true;
}

static bool
read_word(struct reader *r, const char *parent, const char *key)
{
	static const char *const words[] = {"null", "true", "false"};
	char *end;
	double v;

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strncmp(r->p, words[i], strlen(words[i])) == 0) {
			r->p += strlen(words[i]);
			return true;
		}
	v = strtod(r->p, &end);
	if (end == r->p)
		return false;
	r->p = end;
	return take_number(r, parent, key, v);
}

/* A value. key: the name of the value, or of its list; parent: the key of the object that has it. */
static bool
read_value(struct reader *r, const char *parent, const char *key, int depth)
{
	char name[KEY_MAX];

	if (depth == MAX_DEPTH)
		return false;
	if (accept(r, '{')) {
		if (accept(r, '}'))
			return true;
		do {
			if (!read_string(r, name) || !accept(r, ':') ||
			    !read_value(r, key, name, depth + 1))
				return false;
		} while (accept(r, ','));
		return accept(r, '}');
	}
	if (accept(r, '[')) {
		if (accept(r, ']'))
			return true;
		do {
			if (!read_value(r, parent, key, depth + 1))
				return false;
		} while (accept(r, ','));
		return accept(r, ']');
	}
	blanks(r);
	return *r->p == '"' ? read_string(r, name) : read_word(r, parent, key);
}

enum rc
baseline_parse(const char *text, struct baseline *out, struct err *err)
{
	struct baseline b = {0};
	struct reader r = {.p = text, .out = &b};

	if (read_value(&r, "", "", 0) && (blanks(&r), !*r.p) && b.n > 0) {
		*out = b;
		return RC_OK;
	}
	baseline_fini(&b);
	return err_set(err, RC_BADDATA, "not the output of gpuctl bench --json");
}

void
baseline_fini(struct baseline *b)
{
	free(b->row);
	*b = (struct baseline){0};
}

double
baseline_ratio(const struct baseline *b, uint64_t nbytes, enum bench_place where, double us)
{
	for (size_t i = 0; i < b->n; i++)
		if (b->row[i].nbytes == nbytes && b->row[i].us[where] > 0)
			return us / b->row[i].us[where];
	return 0;
}
