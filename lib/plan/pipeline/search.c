/*
 * search.c - the best schedule for given costs and memory.
 *
 * Design notes. Microbatches are alike, so each kind of pass takes them in order, and a row is a word of F, I and W.
 * Its first is F, which cannot begin later than the values come: so a rank's idle time is that of its end, and what
 * is looked for is the least largest lateness of a job shop. A candidate is such a word for each rank; it is timed as
 * a whole. Candidates come from the known schedules, from rows that take what is ready (greedy), and from the best
 * one so far by exchanges of neighbours in a row. If the best is not at the lower bound, small pipelines are looked
 * at completely: of the passes that can come next, only those that begin before the first of them would end have to
 * be tried on its rank (Giffler and Thompson, 1960), and a start is given up when no end of it can be better than the
 * best.
 */
#include "pipeline/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mix.h"
#include "pipeline/pipeline_impl.h"

#define NODES	(1u << 21) /* of the complete search */
#define SMALL	256	   /* passes of a pipeline that is looked at completely */
#define TRIES	20000	   /* exchanges, and ... */
#define PASSES	(1u << 25) /* ... passes that they time */
#define EPSILON 1e-9

enum { F, I, W, NPASSES };

struct candidate {
	uint8_t *row; /* [nranks][3 nmicro]: passes */
	double bubble, end;
};

struct search {
	uint32_t p, m, memory;
	double cost[NPASSES], comm;
	struct candidate best, next;
	double *made[2]; /* by rank and microbatch: the end of F, of I; negative: not yet */
	double *now;	 /* by rank */
	uint32_t *at;	 /* by rank: place in its row */
	uint32_t (*n)[NPASSES];
	uint32_t nodes; /* that are left to the complete search */
	bool ties;	/* it looks for an earlier end at the same bubble */
	uint8_t *word;	/* its rows */
};

static uint8_t *
row_of(const struct search *s, uint8_t *rows, uint32_t r)
{
	return rows + (size_t)r * 3 * s->m;
}

static size_t
nbytes(const struct search *s)
{
	return (size_t)s->p * 3 * s->m;
}

/* When a rank's first pass begins, in every schedule. */
static double
head(const struct search *s, uint32_t r)
{
	return r * (s->cost[F] + s->comm);
}

/* The idle time of a rank that ends at a time. */
static double
idle(const struct search *s, uint32_t r, double end)
{
	return end - head(s, r) - s->m * (s->cost[F] + s->cost[I] + s->cost[W]);
}

/* When a rank's next pass of a kind can begin; negative: it cannot yet. */
static double
ready_at(const struct search *s, uint32_t r, unsigned kind)
{
	uint32_t k = s->n[r][kind];
	double at = 0;

	if (k == s->m || (kind != F && k == s->n[r][kind - 1]) ||
	    (kind == F && k - s->n[r][W] >= s->memory))
		return -1;
	if (kind == F ? r > 0 : kind == I && r + 1 < s->p) {
		at = s->made[kind][(size_t)(kind == F ? r - 1 : r + 1) * s->m + k];
		if (at < 0)
			return -1;
		at += s->comm;
	}
	return at > s->now[r] ? at : s->now[r];
}

static void
clear(struct search *s)
{
	for (size_t i = 0; i < (size_t)s->p * s->m; i++)
		s->made[F][i] = s->made[I][i] = -1;
	for (uint32_t r = 0; r < s->p; r++) {
		s->now[r] = 0;
		s->at[r] = 0;
		memset(s->n[r], 0, sizeof s->n[r]);
	}
}

/* Run a rank's next pass of a kind. */
static void
run(struct search *s, uint32_t r, unsigned kind, double at)
{
	s->now[r] = at + s->cost[kind];
	if (kind != W)
		s->made[kind][(size_t)r * s->m + s->n[r][kind]] = s->now[r];
	s->n[r][kind]++;
	s->at[r]++;
}

/* Bubble and end of what has run. */
static void
judge(const struct search *s, struct candidate *c)
{
	c->end = c->bubble = 0;
	for (uint32_t r = 0; r < s->p; r++) {
		c->end = fmax(c->end, s->now[r]);
		c->bubble = fmax(c->bubble, idle(s, r, s->now[r]));
	}
}

/* Time a candidate; false: its rows wait for ever, or need more memory. */
static bool
evaluate(struct search *s, struct candidate *c)
{
	bool any = true, whole = true;

	clear(s);
	while (any) {
		any = false;
		for (uint32_t r = 0; r < s->p; r++)
			while (s->at[r] < 3 * s->m) {
				unsigned kind = row_of(s, c->row, r)[s->at[r]];
				double at = ready_at(s, r, kind);

				if (at < 0)
					break;
				run(s, r, kind, at);
				any = true;
			}
	}
	for (uint32_t r = 0; r < s->p; r++)
		whole &= s->at[r] == 3 * s->m;
	judge(s, c);
	return whole;
}

static bool
better(const struct candidate *a, const struct candidate *b)
{
	if (a->bubble < b->bubble - EPSILON)
		return true;
	return a->bubble <= b->bubble + EPSILON && a->end < b->end - EPSILON;
}

/* The candidate s->next is the best, if it is right and better (or, as_good: not worse). */
static void
offer(struct search *s, bool as_good)
{
	struct candidate old = s->best;

	if (!evaluate(s, &s->next) ||
	    (as_good ? better(&s->best, &s->next) : !better(&s->next, &s->best)))
		return;
	s->best = s->next;
	s->next = old;
}

/* ---- known schedules, and rows that take what is ready */

static void
offer_scheme(struct search *s, enum pipeline_scheme scheme)
{
	struct pipeline *p;
	struct err err;

	if (pipeline_make(scheme, s->p, s->m, 1, &p, &err) != RC_OK)
		return;
	for (uint32_t r = 0; r < s->p; r++) {
		uint8_t *row = row_of(s, s->next.row, r);

		for (size_t i = 0; i < p->row[r].n; i++) {
			enum pipeline_kind k = p->row[r].v[i].kind;

			*row++ = k == PIPELINE_F ? F : k == PIPELINE_W ? W : I;
			if (k == PIPELINE_B)
				*row++ = W;
		}
	}
	pipeline_free(p);
	offer(s, false);
}

/* A rank's next pass: of those that can begin first the first of `order`; W only if the others come later than `slack`
 * times its cost. NPASSES: none; *at: when it begins. */
static unsigned
take(const struct search *s, uint32_t r, const unsigned order[NPASSES], double slack, double *at)
{
	unsigned kind = NPASSES;

	for (unsigned i = 0; i < NPASSES; i++) {
		double ready = ready_at(s, r, order[i]);

		if (ready < 0)
			continue;
		if (order[i] == W)
			ready += slack * s->cost[W];
		if (kind == NPASSES || ready < *at - EPSILON) {
			kind = order[i];
			*at = ready;
		}
	}
	if (kind == W)
		*at = s->now[r];
	return kind;
}

static void
offer_greedy(struct search *s, const unsigned order[NPASSES], double slack)
{
	clear(s);
	for (size_t left = nbytes(s); left > 0; left--) {
		uint32_t rank = s->p;
		unsigned kind = NPASSES;
		double at = 0;

		for (uint32_t r = 0; r < s->p; r++) {
			double begins = 0;
			unsigned k = take(s, r, order, slack, &begins);

			if (k != NPASSES && (rank == s->p || begins < at - EPSILON)) {
				rank = r;
				kind = k;
				at = begins;
			}
		}
		if (rank == s->p)
			return; /* cannot be: W is always possible before memory ends */
		row_of(s, s->next.row, rank)[s->at[rank]] = (uint8_t)kind;
		run(s, rank, kind, at);
	}
	offer(s, false);
}

/* ---- exchanges */

static void
improve(struct search *s, double least)
{
	uint64_t random = 1;
	size_t tries = PASSES / nbytes(s) < TRIES ? PASSES / nbytes(s) : TRIES;

	for (size_t t = 0; t < tries && s->m > 1 && s->best.bubble > least + EPSILON; t++) {
		memcpy(s->next.row, s->best.row, nbytes(s));
		for (unsigned k = 1 + (unsigned)(splitmix64(&random) % 3); k > 0; k--) {
			uint64_t z = splitmix64(&random);
			uint8_t *two =
				    row_of(s, s->next.row, z % s->p) + (z >> 32) % (3 * s->m - 1),
				first = two[0];

			two[0] = two[1];
			two[1] = first;
		}
		offer(s, true);
	}
}

/* ---- all of a small pipeline */

/* No schedule that goes on from here is better in bubble, or in end, than this. On each rank the passes that are left
 * take their time; and after its last I that microbatch goes back to rank 0, which has W of it left. */
static struct candidate
bound(const struct search *s)
{
	struct candidate least = {0};

	for (uint32_t r = 0; r < s->p; r++) {
		const uint32_t *n = s->n[r];
		double now = fmax(s->now[r], head(s, r)), all, last;

		last = now + (s->m - n[F]) * s->cost[F] + (s->m - n[I]) * s->cost[I];
		all = last + (s->m - n[W]) * s->cost[W];
		last += n[I] == s->m ? 0 : r * (s->cost[I] + s->comm) + s->cost[W];
		least.bubble =
		    fmax(least.bubble, fmax(idle(s, r, all), n[I] == s->m ? 0 : idle(s, 0, last)));
		least.end = fmax(least.end, fmax(all, last));
	}
	return least;
}

/* The rank whose next pass would end first; *first: that end. */
static uint32_t
first_to_end(const struct search *s, double *first)
{
	uint32_t rank = s->p;

	for (uint32_t r = 0; r < s->p; r++)
		for (unsigned k = 0; k < NPASSES; k++) {
			double at = ready_at(s, r, k);

			if (at >= 0 && (rank == s->p || at + s->cost[k] < *first)) {
				rank = r;
				*first = at + s->cost[k];
			}
		}
	return rank;
}

/* Try all ways to go on from here that can be better than the best. False: there were too many. */
static bool
complete(struct search *s, size_t left)
{
	struct candidate least = bound(s);
	double first = 0, now;
	uint32_t r;

	if (least.bubble >= s->best.bubble - EPSILON &&
	    (!s->ties || least.bubble > s->best.bubble + EPSILON ||
	     least.end >= s->best.end - EPSILON))
		return true;
	if (left == 0) {
		judge(s, &s->best);
		memcpy(s->best.row, s->word, nbytes(s));
		return true;
	}
	if (s->nodes == 0)
		return false;
	s->nodes--;
	r = first_to_end(s, &first);
	if (r == s->p)
		return true; /* no pass can come next */
	now = s->now[r];
	for (unsigned k = 0; k < NPASSES; k++) {
		double at = ready_at(s, r, k);
		bool whole;

		if (at < 0 || (at >= first && at + s->cost[k] > first))
			continue;
		row_of(s, s->word, r)[s->at[r]] = (uint8_t)k;
		run(s, r, k, at);
		whole = complete(s, left - 1);
		s->at[r]--;
		s->n[r][k]--;
		if (k != W)
			s->made[k][(size_t)r * s->m + s->n[r][k]] = -1;
		s->now[r] = now;
		if (!whole)
			return false;
	}
	return true;
}

/* ---- together */

static enum rc
to_pipeline(const struct search *s, struct pipeline **out, struct err *err)
{
	static const enum pipeline_kind kinds[] = {PIPELINE_F, PIPELINE_I, PIPELINE_W};
	struct pipeline *p;
	bool room = true;

	/* One with the same stages; its rows are written anew. */
	if (pipeline_make(PIPELINE_GPIPE, s->p, s->m, 1, &p, err) != RC_OK)
		return err->rc;
	p->splits = true;
	for (uint32_t r = 0; r < s->p; r++) {
		uint32_t n[NPASSES] = {0};

		p->row[r].n = 0;
		for (uint32_t i = 0; i < 3 * s->m; i++) {
			unsigned k = row_of(s, s->best.row, r)[i];
			struct pipeline_action a = {
			    .kind = kinds[k], .stage = r, .micro = n[k]++, .column = i + 1};

			room &= pipeline_append(p, r, a);
		}
	}
	if (!room) {
		pipeline_free(p);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	*out = p;
	return RC_OK;
}

static void
find(struct search *s, struct pipeline_found *out)
{
	static const unsigned orders[][NPASSES] = {{I, F, W}, {F, I, W}, {I, W, F}};
	double least;

	clear(s);
	/* Before its first I, which comes when F was at all ranks and I at the others, rank 0 has no more F than
	 * memory. */
	least = s->p * s->cost[F] + (s->p - 1) * (s->cost[I] + 2 * s->comm) -
		fmin(s->memory, s->m) * s->cost[F];
	least = fmax(least, bound(s).bubble);
	s->best.bubble = s->best.end = HUGE_VAL;
	for (unsigned i = 0; i < PIPELINE_NSCHEMES; i++)
		if (i != PIPELINE_INTERLEAVED && i != PIPELINE_ZB_V)
			offer_scheme(s, (enum pipeline_scheme)i);
	for (size_t o = 0; o < sizeof orders / sizeof orders[0]; o++)
		for (unsigned slack = 0; slack <= 4; slack++)
			offer_greedy(s, orders[o], slack / 4.0);
	improve(s, least);
	out->exact = s->best.bubble <= least + EPSILON;
	s->nodes = NODES;
	for (s->ties = out->exact; nbytes(s) <= SMALL; s->ties = true) {
		clear(s);
		if (!complete(s, nbytes(s)) || s->ties)
			break;
		out->exact = true;
	}
}

enum rc
pipeline_search(const struct pipeline_goal *goal, struct pipeline_found *out, struct err *err)
{
	const struct pipeline_costs *c = &goal->costs;
	struct search s = {.p = goal->nranks,
			   .m = goal->nmicro,
			   .memory = goal->memory,
			   .cost = {c->f, c->b, c->w},
			   .comm = c->comm};
	size_t each = (size_t)s.p * s.m;
	enum rc rc = RC_OK;

	*out = (struct pipeline_found){0};
	if (s.p > PIPELINE_SEARCH_RANKS || each == 0 || each > PIPELINE_SEARCH_MAX)
		return err_set(err, RC_INVAL,
			       "%u ranks and %u microbatches: there are 1 to %u ranks, and the "
			       "product is 1 to %u",
			       s.p, s.m, PIPELINE_SEARCH_RANKS, PIPELINE_SEARCH_MAX);
	if (s.memory == 0)
		return err_set(err, RC_INVAL,
			       "memory for 0 microbatches: a rank needs one at least");
	s.best.row = alloc_zeroed(nbytes(&s), 3);
	s.made[F] = alloc_zeroed(2 * each + s.p, sizeof(double));
	s.at = alloc_zeroed(s.p, sizeof *s.at);
	s.n = alloc_zeroed(s.p, sizeof *s.n);
	uint8_t *rows = s.best.row; /* best and next change places */
	if (!s.best.row || !s.made[F] || !s.at || !s.n)
		rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK) {
		s.next.row = rows + nbytes(&s);
		s.word = rows + 2 * nbytes(&s);
		s.made[I] = s.made[F] + each;
		s.now = s.made[I] + each;
		find(&s, out);
		out->bubble = s.best.bubble;
		out->end = s.best.end;
		rc = to_pipeline(&s, &out->pipeline, err);
	}
	free(rows);
	free(s.made[F]);
	free(s.at);
	free(s.n);
	return rc;
}
