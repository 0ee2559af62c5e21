/* t_search.c - small pipelines: no schedule at all is better than the one that is found; and it is no worse than
 * ZB-H1. */
#include "pipeline/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

#define WORDS 512 /* at least the orders of F, I and W of 4 microbatches on a rank */

static struct pipeline_facts facts;

/* All rows of m microbatches: words in which no W has more before it than I, nor I than F. Returns their number. */
static unsigned
words(unsigned m, unsigned memory, char list[WORDS][16], const char *start, unsigned f, unsigned i,
      unsigned w)
{
	static const char kinds[] = "FIW";
	unsigned n = 0, at = f + i + w;
	char word[16];

	if (at == 3 * m) {
		snprintf(list[0], 16, "%s", start);
		return 1;
	}
	for (unsigned k = 0; k < 3; k++) {
		if (k == 0 ? f == m || f - w == memory : k == 1 ? i == f : w == i)
			continue;
		snprintf(word, sizeof word, "%.*s%c", (int)at, start, kinds[k]);
		n += words(m, memory, list + n, word, f + (k == 0), i + (k == 1), w + (k == 2));
	}
	return n;
}

/* The bubble and the end of rows; HUGE_VAL: they wait for each other. */
static void
run(const char *const row[], unsigned p, unsigned m, const struct pipeline_costs *c, double *bubble,
    double *end)
{
	double f[4][4], b[4][4], now[4] = {0}, busy = m * (c->f + c->b + c->w);
	unsigned nf[4] = {0}, nb[4] = {0}, at[4] = {0}, ended = 0;

	for (bool any = true; any && !(any = false);)
		for (unsigned r = 0; r < p; r++)
			while (at[r] < 3 * m) {
				char kind = row[r][at[r]];
				double from = now[r];

				if (kind == 'F' && r > 0) {
					if (nf[r - 1] <= nf[r])
						break;
					from = fmax(from, f[r - 1][nf[r]] + c->comm);
				}
				if (kind == 'I' && r + 1 < p) {
					if (nb[r + 1] <= nb[r])
						break;
					from = fmax(from, b[r + 1][nb[r]] + c->comm);
				}
				now[r] = from + (kind == 'F' ? c->f : kind == 'I' ? c->b : c->w);
				if (kind == 'F')
					f[r][nf[r]++] = now[r];
				if (kind == 'I')
					b[r][nb[r]++] = now[r];
				any = true;
				ended += ++at[r] == 3 * m;
			}
	*bubble = *end = ended == p ? 0 : HUGE_VAL;
	for (unsigned r = 0; r < p; r++) {
		*bubble = fmax(*bubble, now[r] - (f[r][0] - c->f) - busy);
		*end = fmax(*end, now[r]);
	}
}

/* Of all rows: the smallest bubble, and of these the first end. */
static void
all_rows(unsigned p, unsigned m, unsigned memory, const struct pipeline_costs *c, double *bubble,
	 double *end)
{
	static char list[WORDS][16];
	unsigned n = words(m, memory, list, "", 0, 0, 0), total = 1;

	for (unsigned r = 0; r < p; r++)
		total *= n;
	*bubble = *end = HUGE_VAL;
	for (unsigned i = 0; i < total; i++) {
		const char *row[4];
		double is, ends;

		for (unsigned r = 0, rest = i; r < p; r++, rest /= n)
			row[r] = list[rest % n];
		run(row, p, m, c, &is, &ends);
		if (is < *bubble - 1e-9 || (is <= *bubble + 1e-9 && ends < *end)) {
			*bubble = is;
			*end = ends;
		}
	}
}

static bool
near(double a, double b)
{
	return fabs(a - b) < 1e-6;
}

/* What is found is right, within the memory, and takes the time that is said. */
static bool
found(const struct pipeline_goal *g, struct pipeline_found *out)
{
	struct pipeline_times t;
	struct err e = {0};
	bool good = !pipeline_search(g, out, &e) && !pipeline_check(out->pipeline, &facts, &e) &&
		    !pipeline_time(out->pipeline, &g->costs, &t, &e);

	if (!good) {
		printf("# %s\n", e.text);
		return false;
	}
	for (uint32_t r = 0; r < g->nranks; r++)
		good &= facts.peak[r] <= g->memory;
	good &= near(t.bubble, out->bubble) && near(t.end, out->end);
	pipeline_times_fini(&t);
	pipeline_free(out->pipeline);
	return good;
}

static const struct pipeline_costs costs[] = {{1, 1, 1, 0},	{1, 1, 1, 0.1}, {1, 1.3, 0.7, 0.2},
					      {2, 1, 1.5, 0.3}, {1, 2, 0, 0},	{0, 1, 1, 1}};
#define NCOSTS (sizeof costs / sizeof *costs)

static void
exactly(void)
{
	static const unsigned sizes[][2] = {{1, 3}, {2, 2}, {2, 3}, {2, 4}, {3, 2}, {3, 3}, {4, 2}};
	unsigned bad = 0, n = 0;

	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (unsigned memory = 1; memory <= sizes[s][1]; memory++)
			for (size_t c = 0; c < NCOSTS && !(SANITIZED && c > 1); c++, n++) {
				struct pipeline_goal g = {sizes[s][0], sizes[s][1], costs[c],
							  memory};
				struct pipeline_found f;
				double bubble, end;

				all_rows(g.nranks, g.nmicro, memory, &costs[c], &bubble, &end);
				if (found(&g, &f) && f.exact && near(f.bubble, bubble) &&
				    near(f.end, end))
					continue;
				bad++;
				printf("# p %u, m %u, memory %u, costs %zu: bubble %g, end %g, not "
				       "%g, %g%s\n",
				       g.nranks, g.nmicro, memory, c, f.bubble, f.end, bubble, end,
				       f.exact ? "" : ", not exact");
			}
	ok(bad == 0, "%u small pipelines: no schedule at all is better", n);
}

static void
no_worse(void)
{
	unsigned bad = 0, n = 0, exact = 0;

	for (uint32_t p = 2; p <= (SANITIZED ? 3u : 4u); p++)
		for (uint32_t m = p; m <= 2 * p; m += p)
			for (size_t c = 0; c < NCOSTS; c++, n++) {
				struct pipeline_goal g = {p, m, costs[c], p};
				struct pipeline_found f, more;
				struct pipeline_times t;
				struct pipeline *h1;
				struct err e;

				pipeline_make(PIPELINE_ZB_H1, p, m, 1, &h1, &e);
				pipeline_time(h1, &costs[c], &t, &e);
				pipeline_free(h1);
				bad += !found(&g, &f) || f.bubble > t.bubble + 1e-9;
				g.memory = 2 * p - 1;
				bad += !found(&g, &more) || more.bubble > f.bubble + 1e-9;
				exact += f.exact + more.exact;
				pipeline_times_fini(&t);
			}
	ok(bad == 0,
	   "%u pipelines: no worse than ZB-H1 at its memory; with more, no worse than that; %u are "
	   "exact",
	   n, exact);
}

static void
refused(void)
{
	struct pipeline_goal g = {4, 8, costs[0], 0};
	struct pipeline_found f;
	struct err e;

	ok(pipeline_search(&g, &f, &e) == RC_INVAL, "%s", e.text);
	g = (struct pipeline_goal){65, 8, costs[0], 4};
	ok(pipeline_search(&g, &f, &e) == RC_INVAL, "%s", e.text);
	g = (struct pipeline_goal){64, 257, costs[0], 4};
	ok(pipeline_search(&g, &f, &e) == RC_INVAL && !f.pipeline, "too many: %s", e.text);
}

int
main(void)
{
	exactly();
	no_worse();
	refused();
	return tap_done();
}
