/*
 * Design notes. The file is cut into lines once, and `for` and `if` learn where their `end` is. Then the
 * lines run from the top, as a program; each scans its own bytes again (scan.c), which bounds the work. The
 * first line after the head makes the algorithm; from then on transfers or steps are appended to it.
 */
#include "algo/algo.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/text_impl.h"
#include "base/buf.h"

#define MAX_NESTING 32u
#define MAX_LINES   (1u << 21)
#define MAX_BYTES   (16u << 20)

/* ---- lines */

static bool
add_line(struct reader *x, const char *at, uint32_t number)
{
	if (x->nlines == MAX_LINES)
		return scan_fail(&x->scan, RC_BADDATA, "more than %u lines", MAX_LINES);
	if (!alloc_room(&x->line, x->nlines, &x->cap, sizeof *x->line))
		return text_no_memory(x);
	x->line[x->nlines++] = (struct line){.at = at, .number = number};
	return true;
}

static bool
cut_lines(struct reader *x, const char *at)
{
	const char *end = x->scan.end;

	for (uint32_t number = 1; at < end; number++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));

		if (!scan_line(&x->scan, at, number))
			return false;
		if (x->scan.token != TOKEN_END && !add_line(x, at, number))
			return false;
		at = newline ? newline + 1 : end;
	}
	return true;
}

/* Match each `end` and `else` with its `for` or `if`. */
static bool
nest(struct reader *x)
{
	uint32_t open[MAX_NESTING], depth = 0;
	bool is_if[MAX_NESTING];
	struct scan *s = &x->scan;

	for (uint32_t i = 0; i < x->nlines; i++) {
		if (!scan_line(s, x->line[i].at, x->line[i].number))
			return false;
		if (scan_is(s, "for") || scan_is(s, "if")) {
			if (depth == MAX_NESTING)
				return scan_fail(s, RC_BADDATA,
						 "for and if are nested more than %u deep",
						 MAX_NESTING);
			is_if[depth] = scan_is(s, "if");
			open[depth++] = i;
		} else if (scan_is(s, "else")) {
			if (!depth || !is_if[depth - 1] || x->line[open[depth - 1]].other)
				return scan_fail(s, RC_BADDATA, "this else has no if");
			x->line[open[depth - 1]].other = i;
		} else if (scan_is(s, "end")) {
			if (!depth)
				return scan_fail(s, RC_BADDATA, "this end has neither for nor if");
			x->line[open[--depth]].end = i;
			if (!x->line[open[depth]].other)
				x->line[open[depth]].other = i;
		}
	}
	if (!depth)
		return true;
	s->line = x->line[open[depth - 1]].number;
	return scan_fail(s, RC_BADDATA, "no line 'end' closes this one");
}

/* ---- lines, as a program */

static bool
do_let(struct reader *x)
{
	struct variable *v;
	unsigned n = x->scan.nvariables;
	int64_t value;

	if (!scan_define(&x->scan, &v))
		return false;
	x->scan.nvariables = n; /* its own value cannot use it */
	if (!scan_expect_symbol(&x->scan, '=') || !scan_expr(&x->scan, &value) ||
	    !scan_expect_end(&x->scan))
		return false;
	v->value = value;
	x->scan.nvariables = n + 1;
	return true;
}

/* NAME in FIRST..LAST; the name has no value yet. */
static bool
loop_head(struct scan *s, struct variable **v, int64_t *first, int64_t *last)
{
	unsigned n = s->nvariables;

	if (!scan_define(s, v))
		return false;
	s->nvariables = n;
	return scan_expect(s, "in") && scan_expr(s, first) &&
	       scan_expect_symbol(s, SYMBOL('.', '.')) && scan_expr(s, last) && scan_expect_end(s);
}

/*
 * The least number of lines that the loop at line i runs. Lines under an `if`, and loops whose bounds
 * depend on outer loops, do not count.
 */
static uint64_t
least_lines(struct reader *x, size_t i)
{
	struct scan keep = x->scan, *s = &x->scan;
	int64_t first = 1, last = 0;
	uint64_t n = 0, lines = 0;
	struct variable *v;

	scan_line(s, x->line[i].at, x->line[i].number);
	if (scan_next(s) && loop_head(s, &v, &first, &last) && first <= last)
		n = (uint64_t)(last - first) + 1;
	for (size_t k = i + 1; n && k < x->line[i].end; k++) {
		uint64_t more = 1;

		*s = keep;
		scan_line(s, x->line[k].at, x->line[k].number);
		if (scan_is(s, "for"))
			more += least_lines(x, k);
		if (scan_is(s, "for") || scan_is(s, "if"))
			k = x->line[k].end;
		if (__builtin_add_overflow(lines, more, &lines))
			lines = UINT64_MAX;
	}
	*s = keep;
	return __builtin_mul_overflow(lines, n, &lines) ? UINT64_MAX : lines;
}

static bool run(struct reader *x, size_t from, size_t to);

/* for NAME in FIRST..LAST */
static bool
do_for(struct reader *x, size_t i)
{
	unsigned n = x->scan.nvariables;
	struct variable *v;
	int64_t first, last;
	uint64_t least;

	if (!loop_head(&x->scan, &v, &first, &last))
		return false;
	least = x->loops ? 0 : least_lines(x, i);
	if (least > ALGO_MAX_LINES)
		return scan_fail(&x->scan, RC_BADDATA,
				 "this loop runs at least %" PRIu64
				 " lines: at most %u are allowed",
				 least, ALGO_MAX_LINES);
	x->loops++;
	for (int64_t k = first; k <= last; k++) {
		x->scan.nvariables = n + 1;
		v->value = k;
		if (!run(x, i + 1, x->line[i].end))
			return false;
	}
	x->loops--;
	x->scan.nvariables = n;
	return true;
}

/* if VALUE: not 0 */
static bool
do_if(struct reader *x, size_t i)
{
	const struct line *l = &x->line[i];
	unsigned n = x->scan.nvariables;
	int64_t value;
	bool good;

	if (!scan_expr(&x->scan, &value) || !scan_expect_end(&x->scan))
		return false;
	good = value ? run(x, i + 1, l->other) : l->other == l->end || run(x, l->other + 1, l->end);
	x->scan.nvariables = n;
	return good;
}

/* Lines from..to-1. */
static bool
run(struct reader *x, size_t from, size_t to)
{
	struct scan *s = &x->scan;
	bool done;

	if (!scan_work(s, 1))
		return false;
	for (size_t i = from; i < to; i++) {
		const struct line *l = &x->line[i];

		if (!scan_line(s, l->at, l->number) || !text_head(x, &done))
			return false;
		if (done)
			continue;
		if (!x->algo && !scan_is(s, "let") && !text_begin(x))
			return false;
		if (scan_is(s, "let")) {
			done = scan_next(s) && do_let(x);
		} else if (scan_is(s, "for")) {
			done = scan_next(s) && do_for(x, i);
			i = l->end;
		} else if (scan_is(s, "if")) {
			done = scan_next(s) && do_if(x, i);
			i = l->end;
		} else {
			done = text_action(x);
		}
		if (!done)
			return false;
	}
	return true;
}

/* ---- the whole */

/* Set values that were left open. */
static void
settle(struct reader *x)
{
	struct algo *a = x->algo;

	if (!x->head.nchannels)
		a->nchannels = x->nchannels ? x->nchannels : 1;
	if (!a->in_place && !a->out_of_place)
		a->out_of_place = true;
	if (!*a->name)
		snprintf(a->name, sizeof a->name, "unnamed");
	for (uint32_t r = 0; r < a->nranks && a->in_place && !a->custom; r++)
		if (!x->sized[r]) {
			bool gathers = a->coll == GPUSIM_ALLGATHER;

			a->rank[r].chunks[ALGO_IN] = gathers ? 0 : a->nchunks;
			a->rank[r].chunks[ALGO_OUT] = gathers ? a->nchunks : 0;
		}
}

static enum rc
parse(struct reader *x, const char *bytes, size_t n, struct err *err)
{
	const char *at = bytes;
	enum rc rc;

	if (n >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
		at += 3;
	x->scan.text = at;
	x->scan.end = bytes + n;
	x->scan.line = 1;
	if (n > MAX_BYTES)
		scan_fail(&x->scan, RC_BADDATA, "more than %u bytes", MAX_BYTES);
	else if (cut_lines(x, at) && nest(x) && run(x, 0, x->nlines) && !x->algo)
		text_begin(x);
	if (x->scan.err.rc != RC_OK) {
		if (err)
			*err = x->scan.err;
		return x->scan.err.rc;
	}
	settle(x);
	rc = algo_check_shape(x->algo, err);
	return rc == RC_OK ? RC_OK : err_prefix(err, "%s", x->scan.name);
}

enum rc
text_parse(const char *bytes, size_t n, const char *name, struct algo_budget *budget,
	   struct algo **out, struct err *err)
{
	struct reader *x = alloc_zeroed(1, sizeof *x);
	enum rc rc;

	if (!x)
		return err_set(err, RC_NOMEM, "%s: out of memory", name);
	x->scan.name = name;
	x->scan.budget = x->head.budget = budget;
	x->scratch = ALGO_MAX_CHUNKS;
	rc = parse(x, bytes, n, err);
	transfers_free(x->transfers);
	free(x->line);
	free(x->sized);
	if (rc == RC_OK)
		*out = x->algo;
	else
		algo_free(x->algo);
	free(x);
	return rc;
}
