#include "top_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OP_MOST 44 /* most columns of an operation, on a wide screen */

static void append(char out[TOP_LINE], const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void
append(char out[TOP_LINE], const char *fmt, ...)
{
	size_t n = strlen(out);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(out + n, TOP_LINE - n, fmt, ap);
	va_end(ap);
}

struct top_layout
top_layout_screen(int cols)
{
	struct top_layout l = {0};
	int room = cols, op = 0;

	for (unsigned c = 0; c < TOP_NCOLUMNS; c++) {
		int need = abs(top_width((enum top_column)c)) + (l.n > 0);

		if (c >= TOP_OPS && need > room)
			continue;
		if (c == TOP_OP)
			op = (int)l.n;
		l.column[l.n] = (enum top_column)c;
		l.width[l.n++] = top_width((enum top_column)c);
		room -= need;
	}
	if (room > OP_MOST + l.width[op])
		room = OP_MOST + l.width[op];
	if (room > 0)
		l.width[op] -= room;
	return l;
}

struct top_layout
top_layout_batch(void)
{
	struct top_layout l = {.dense = true};

	for (unsigned c = 0; c < TOP_NCOLUMNS; c++) {
		if (c == TOP_OP)
			continue;
		l.column[l.n] = (enum top_column)c;
		l.width[l.n++] = top_width((enum top_column)c);
	}
	l.column[l.n] = TOP_OP;
	l.width[l.n++] = top_width(TOP_OP);
	return l;
}

bool
top_layout_find(const struct top_layout *l, enum top_column c, int *at, int *width)
{
	*at = 0;
	for (unsigned i = 0; i < l->n; i++) {
		*width = abs(l->width[i]);
		if (l->column[i] == c)
			return true;
		*at += *width + 1;
	}
	return false;
}

static void
squeeze(char *text)
{
	char *to = text;

	for (const char *p = text; *p; p++)
		if (*p != ' ')
			*to++ = *p;
	*to = '\0';
}

/* Append a cell; on a screen it is cut to its width. */
static void
append_cell(const struct top_layout *l, unsigned i, const char *text, char out[TOP_LINE])
{
	int most = l->dense ? TOP_LINE : abs(l->width[i]);

	append(out, "%s%*.*s", i ? " " : "", l->dense && i + 1 == l->n ? 0 : l->width[i], most,
	       text);
}

void
top_line_headings(const struct top_layout *l, char out[TOP_LINE])
{
	*out = '\0';
	for (unsigned i = 0; i < l->n; i++)
		append_cell(l, i, top_heading(l->column[i]), out);
}

void
top_line_device(const struct top_layout *l, const struct top_device *d, char out[TOP_LINE])
{
	bool reason = d->state == TOP_LOST && *d->note;
	char cell[TOP_CELL];

	*out = '\0';
	for (unsigned i = 0; i < l->n; i++) {
		if (l->column[i] == TOP_OP && reason) {
			append(out, " %s", d->note);
			return;
		}
		top_cell(d, l->column[i], cell);
		if (l->dense && l->column[i] != TOP_OP)
			squeeze(cell);
		append_cell(l, i, cell, out);
	}
}

void
top_line_comm_headings(char out[TOP_LINE])
{
	snprintf(out, TOP_LINE, "%4s %5s %5s %-11s %-7s %10s %7s %7s %5s %s", "COMM", "RANKS",
		 "EPOCH", "STATE", "FAILURE", "OPERATIONS", "OPS/s", "PENDING", "AWAIT", "REASON");
}

void
top_line_comm(const struct top_comm *c, char out[TOP_LINE])
{
	char culprit[24] = "-";

	if (c->culprit != TOP_NOBODY)
		snprintf(culprit, sizeof culprit, "%zu", c->culprit);
	snprintf(out, TOP_LINE,
		 "%4" PRIu64 " %5" PRIu32 " %5" PRIu32 " %-11s %-7s %10" PRIu64 " %7.1f %7" PRIu64
		 " %5s %s",
		 c->id, c->nranks, c->epoch, c->state, c->policy, c->operations, c->ops, c->pending,
		 culprit, *c->reason ? c->reason : "-");
}

void
top_line_summary(const struct top *t, char out[TOP_LINE])
{
	const char *sep = ": ";

	snprintf(out, TOP_LINE, "%zu device%s", t->ndevices, t->ndevices == 1 ? "" : "s");
	for (unsigned s = 0; s < TOP_NSTATES; s++) {
		if (t->count[s] == 0)
			continue;
		append(out, "%s%zu %s", sep, t->count[s], top_state_word((enum top_state)s));
		sep = ", ";
	}
	append(out, "; %zu communicator%s", t->ncomms, t->ncomms == 1 ? "" : "s");
}
