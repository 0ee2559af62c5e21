/* The columns of top: the text of a cell, and orders of rows. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/top.h"

enum order { UP, DOWN }; /* smallest first, largest first */

static const struct {
	const char *heading;
	int width;
	enum order order;
} columns[TOP_NCOLUMNS] = {
    [TOP_DEVICE] = {"DEV", 3, UP},    [TOP_RANK] = {"RANK", 5, UP},
    [TOP_STATE] = {"STATE", -7, UP},  [TOP_OP] = {"OPERATION", -19, UP},
    [TOP_STEP] = {"STEP", -10, DOWN}, [TOP_IN] = {"IN/s", 5, DOWN},
    [TOP_OUT] = {"OUT/s", 5, DOWN},   [TOP_MEM] = {"MEM", 5, DOWN},
    [TOP_BUSY] = {"BUSY", 4, DOWN},   [TOP_WAIT] = {"WAITS", -8, DOWN},
    [TOP_OPS] = {"OPS/s", 7, DOWN},   [TOP_PID] = {"PID", 7, UP},
    [TOP_ID] = {"ID", -16, UP},
};

const char *
top_heading(enum top_column c)
{
	return columns[c].heading;
}

int
top_width(enum top_column c)
{
	return columns[c].width;
}

static const struct {
	const char *name, *word;
} states[TOP_NSTATES] = {
#define X(state, name, word) {name, word},
    TOP_STATES(X)
#undef X
};

const char *
top_state_name(enum top_state s)
{
	return (unsigned)s < TOP_NSTATES ? states[s].name : "?";
}

const char *
top_state_word(enum top_state s)
{
	return (unsigned)s < TOP_NSTATES ? states[s].word : "?";
}

void
top_size(double v, char out[16])
{
	static const char units[] = "BKMGTPE";
	unsigned tenths, u = 0;

	if (!(v >= 1)) {
		snprintf(out, 16, "-");
		return;
	}
	for (; v >= 999.5 && units[u + 1]; u++)
		v /= 1024;
	tenths = (unsigned)(v * 10 + 0.5);
	snprintf(out, 16, u && tenths < 100 && tenths % 10 ? "%.1f%c" : "%.0f%c", v, units[u]);
}

/* "####-- 4/6": a bar of the steps done, and their numbers; "4/6:45%": the progress of its chunk. */
static void
step_text(const struct top_device *d, char out[TOP_CELL])
{
	enum { BAR = 4 };
	unsigned done;

	if (d->steps == 0) {
		snprintf(out, TOP_CELL, "-");
		return;
	}
	if (d->share >= 0) {
		snprintf(out, TOP_CELL, "%" PRIu32 "/%" PRIu32 ":%.0f%%", d->step, d->steps,
			 floor(d->share * 100));
		return;
	}
	done = d->step > d->steps ? BAR : (unsigned)((uint64_t)d->step * BAR / d->steps);
	snprintf(out, TOP_CELL, "%.*s%.*s %" PRIu32 "/%" PRIu32, (int)done, "####",
		 (int)(BAR - done), "----", d->step, d->steps);
}

static void
wait_text(const struct top_device *d, char out[TOP_CELL])
{
	if (d->blamed)
		snprintf(out, TOP_CELL, "<-%" PRIu32, d->waited_by);
	else if (d->waits_rank < 0)
		snprintf(out, TOP_CELL, "-");
	else
		snprintf(out, TOP_CELL, "r%d:%.*fs", d->waits_rank, d->waits_s < 9.95, d->waits_s);
}

void
top_cell(const struct top_device *d, enum top_column c, char out[TOP_CELL])
{
	snprintf(out, TOP_CELL, "-");
	switch (c) {
	case TOP_DEVICE:
		snprintf(out, TOP_CELL, "%zu", d->index);
		break;
	case TOP_RANK:
		if (d->rank >= 0)
			snprintf(out, TOP_CELL, "%" PRIu64 ":%d", d->comm, d->rank);
		break;
	case TOP_STATE:
		snprintf(out, TOP_CELL, "%s", top_state_word(d->state));
		break;
	case TOP_OP:
		if (*d->op || *d->note)
			snprintf(out, TOP_CELL, "%.95s", *d->op ? d->op : d->note);
		break;
	case TOP_STEP:
		step_text(d, out);
		break;
	case TOP_IN:
		top_size(d->in, out);
		break;
	case TOP_OUT:
		top_size(d->out, out);
		break;
	case TOP_MEM:
		top_size((double)d->used, out);
		break;
	case TOP_BUSY:
		snprintf(out, TOP_CELL, "%.0f%%", d->busy * 100);
		break;
	case TOP_WAIT:
		wait_text(d, out);
		break;
	case TOP_OPS:
		snprintf(out, TOP_CELL, "%.1f", d->ops);
		break;
	case TOP_PID:
		snprintf(out, TOP_CELL, "%" PRIu32, d->pid);
		break;
	case TOP_ID:
		snprintf(out, TOP_CELL, "%016" PRIx64, d->id);
		break;
	case TOP_NCOLUMNS:
		break;
	}
}

/* ---- order */

static int
compare(double a, double b)
{
	return (a > b) - (a < b);
}

static int
compare_by(const struct top_device *a, const struct top_device *b, enum top_column by)
{
	switch (by) {
	case TOP_RANK:
		return a->comm != b->comm ? compare((double)a->comm, (double)b->comm)
					  : compare(a->rank, b->rank);
	case TOP_STATE:
		return strcmp(top_state_word(a->state), top_state_word(b->state));
	case TOP_OP:
		return strcmp(a->op, b->op);
	case TOP_STEP:
		return compare(a->steps ? (double)a->step / a->steps : 0,
			       b->steps ? (double)b->step / b->steps : 0);
	case TOP_IN:
		return compare(a->in, b->in);
	case TOP_OUT:
		return compare(a->out, b->out);
	case TOP_MEM:
		return compare((double)a->used, (double)b->used);
	case TOP_BUSY:
		return compare(a->busy, b->busy);
	case TOP_WAIT:
		return a->waited_by != b->waited_by ? compare(a->waited_by, b->waited_by)
						    : compare(a->waits_s, b->waits_s);
	case TOP_OPS:
		return compare(a->ops, b->ops);
	case TOP_PID:
		return compare(a->pid, b->pid);
	case TOP_ID:
		return (a->id > b->id) - (a->id < b->id);
	default:
		return 0;
	}
}

struct key {
	enum top_column by;
	int sign;
};

static int
compare_rows(const void *x, const void *y, void *arg)
{
	const struct top_device *a = x, *b = y;
	const struct key *key = arg;
	int c = key->sign * compare_by(a, b, key->by);

	if (c == 0)
		c = (a->index > b->index) - (a->index < b->index);
	return key->by == TOP_DEVICE ? c * key->sign : c;
}

void
top_sort(struct top *t, enum top_column by, bool reverse)
{
	struct key key = {by, (columns[by].order == DOWN) != reverse ? -1 : 1};

	qsort_r(t->device, t->ndevices, sizeof *t->device, compare_rows, &key);
}

/* ---- filter */

static bool
stands_in(const char *text, const char *in)
{
	size_t n = strlen(text);

	for (; n && *in; in++)
		if (strncasecmp(in, text, n) == 0)
			return true;
	return n == 0;
}

bool
top_matches(const struct top_device *d, const char *text)
{
	char cell[TOP_CELL];

	for (unsigned c = 0; c < TOP_NCOLUMNS; c++) {
		top_cell(d, (enum top_column)c, cell);
		if (stands_in(text, cell))
			return true;
	}
	return stands_in(text, d->note);
}
