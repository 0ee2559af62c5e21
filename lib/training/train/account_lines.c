/* The lines of an account, and what several files count by. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/must.h"
#include "train/account_impl.h"
#include "train/trainer_impl.h"

const char *
account_group_name(enum account_group g)
{
	static const char *const names[] = {"dp", "rep", "tp", "pp", "other", "grid"};

	return names[g];
}

const char *
account_coll_name(enum account_coll c)
{
	static const char *const names[] = {"all-reduce", "all-gather", "reduce-scatter", "send",
					    "another collective"};

	return names[c];
}

void
account_add(struct account *a, const char *what, uint32_t row, double expected, double measured,
	    const char *formula, ...)
{
	struct account_line *l;
	va_list ap;

	if (a->n == a->cap) {
		a->cap = a->cap ? 2 * a->cap : 64;
		a->line = must_resize(a->line, a->cap, sizeof *a->line);
	}
	l = &a->line[a->n++];
	*l = (struct account_line){.row = row, .expected = expected, .measured = measured};
	snprintf(l->what, sizeof l->what, "%s", what);
	va_start(ap, formula);
	vsnprintf(l->formula, sizeof l->formula, formula, ap);
	va_end(ap);
	/* Counts are exact; a mean over ranks is a quotient. */
	l->agrees = isnan(expected) || fabs(expected - measured) <= 1e-9 * fabs(expected);
	a->ndisagree += !l->agrees;
}

uint32_t
account_unit_of(const struct account_facts *f, uint32_t stage)
{
	uint32_t u = 0;

	for (uint32_t i = 0; i < stage; i++)
		u += f->in->spread->units[i];
	return u;
}

uint64_t
account_rows(const struct account_facts *f, uint32_t d, uint32_t micro, uint32_t piece)
{
	uint64_t begin, end, from = piece * f->b;
	uint32_t whole = f->leaf ? (uint32_t)f->leaf : 1;

	order_share(f->in->global, whole, d, (uint32_t)f->N, &begin, &end);
	order_share(end - begin, whole, micro, (uint32_t)f->M, &begin, &end);
	return end - begin <= from ? 0 : end - begin - from < f->b ? end - begin - from : f->b;
}
