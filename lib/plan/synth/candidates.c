/* candidates.c - the drafts that a search times, and those that it keeps. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "synth/exact.h"
#include "synth/family.h"
#include "synth/greedy.h"
#include "synth/synth_impl.h"

#define SMALLEST	4096u	   /* bytes of a chunk in a tree's pipeline */
#define KIN		3u	   /* most kept drafts of one family */
#define MAX_DRAFT_MOVES (1u << 16) /* of a candidate that is timed */

/* Twice as many moves must be worth a hundredth: they cost more than the simulator counts. */
static double
score_of(const struct draft *d, double us)
{
	return us * (1 + 0.01 * log2((double)d->nmove));
}

static struct draft
new_draft(const struct search *s, const char *name)
{
	struct draft d = {.coll = s->ask->coll,
			  .nranks = s->ask->nranks,
			  .root = s->ask->root,
			  .in_place = s->ask->coll != GPUSIM_ALLTOALL};

	snprintf(d.name, sizeof d.name, "%s", name);
	return d;
}

static bool
is_kin(const struct draft *a, const struct draft *b)
{
	size_t n = strcspn(a->name, ".");

	return n == strcspn(b->name, ".") && memcmp(a->name, b->name, n) == 0;
}

/* The draft to replace: the worst of its family if there are enough, else the worst; SYNTH_KEPT: none. */
static size_t
victim(const struct search *s, const struct draft *d)
{
	size_t kin = 0, last = 0;

	for (size_t i = 0; i < s->nkept; i++)
		if (is_kin(&s->kept[i], d)) {
			kin++;
			last = i;
		}
	if (kin >= KIN)
		return last;
	return s->nkept == SYNTH_KEPT ? SYNTH_KEPT - 1 : SYNTH_KEPT;
}

static void
drop_kept(struct search *s, size_t i)
{
	draft_fini(&s->kept[i]);
	for (s->nkept--; i < s->nkept; i++) {
		s->kept[i] = s->kept[i + 1];
		s->us[i] = s->us[i + 1];
		s->score[i] = s->score[i + 1];
	}
}

/* Keep the draft if it is among the best. Takes ownership. */
static void
keep(struct search *s, struct draft *d, double us)
{
	double score = score_of(d, us);
	size_t at = victim(s, d);

	if (at < SYNTH_KEPT && !search_is_faster(score, s->score[at])) {
		draft_fini(d);
		return;
	}
	if (at < SYNTH_KEPT)
		drop_kept(s, at);
	at = s->nkept;
	for (; at && search_is_faster(score, s->score[at - 1]); at--) {
		s->kept[at] = s->kept[at - 1];
		s->us[at] = s->us[at - 1];
		s->score[at] = s->score[at - 1];
	}
	s->kept[at] = *d;
	s->us[at] = us;
	s->score[at] = score;
	s->nkept++;
	*d = (struct draft){0};
}

/* Time a draft, and take ownership. Too large ones are dropped. */
static void
try(struct search *s, struct draft *d)
{
	struct plan *plans;
	double us;

	if (s->rc || d->full || !d->nmove || d->nmove > MAX_DRAFT_MOVES ||
	    d->nchunks > ALGO_MAX_CHUNKS) {
		draft_fini(d);
		return;
	}
	if (draft_plans(d, search_nelem(s), &plans, s->err)) {
		draft_fini(d);
		return;
	}
	us = search_time(s, plans);
	plan_free_all(plans, d->nranks);
	s->out->tried++;
	if (isfinite(us))
		keep(s, d, us);
	else
		draft_fini(d);
}

/* Turn passes into the collective: as they are, reversed, or both. Takes ownership of the passes. */
static void
try_passes(struct search *s, struct draft *passes)
{
	struct draft d = new_draft(s, passes->name);
	enum gpusim_coll coll = s->ask->coll;

	d.nchunks = passes->nchunks;
	d.full = passes->full;
	if (passes->nmove && coll != GPUSIM_ALLGATHER && coll != GPUSIM_BROADCAST)
		draft_turn(passes, &d);
	if (coll != GPUSIM_REDUCESCATTER && coll != GPUSIM_REDUCE)
		draft_append(passes, draft_rounds(&d), &d);
	draft_fini(passes);
	try(s, &d);
}

static void
try_gather(struct search *s, uint32_t group, enum exchange outer, enum exchange inner,
	   uint32_t parts)
{
	struct draft d = new_draft(s, "");

	if (group == s->ask->nranks)
		snprintf(d.name, sizeof d.name, "%s.%u", exchange_name(inner), parts);
	else
		snprintf(d.name, sizeof d.name, "%s-%s.%ux%u.%u", exchange_name(outer),
			 exchange_name(inner), s->ask->nranks / group, group, parts);
	family_gather(&d, group, outer, inner, parts);
	try_passes(s, &d);
}

static void
try_gathers(struct search *s)
{
	uint32_t n = s->ask->nranks;

	for (uint32_t group = 2; group <= n; group++) {
		bool wanted = group == n || group == s->ask->group || n <= 16;

		if (n % group || !wanted)
			continue;
		for (unsigned outer = 0; outer < EXCHANGE_NKINDS; outer++)
			for (unsigned inner = 0; inner < EXCHANGE_NKINDS; inner++)
				for (uint32_t parts = 1; parts <= 8 && search_goes_on(s);
				     parts *= 2)
					if (outer == 0 || group < n)
						try_gather(s, group, outer, inner, parts);
	}
}

/* The root first, then the ranks after it, or before it. */
static void
rotate(const struct search *s, bool back, uint32_t *order)
{
	uint32_t n = s->ask->nranks, root = coll_has_root(s->ask->coll) ? s->ask->root : 0;

	for (uint32_t i = 0; i < n; i++)
		order[i] = (root + (back ? n - i : i)) % n;
}

/* Two trees, each with half of the chunks, in opposite orders: fan 0 is the binomial tree. */
static void
try_tree(struct search *s, uint32_t fan, uint32_t chunks, bool two)
{
	uint32_t *order = must_alloc(s->ask->nranks, sizeof *order);
	struct draft d = new_draft(s, "");

	snprintf(d.name, sizeof d.name, "%s%s%.0u.%u", two ? "two-" : "",
		 fan == 0   ? "binomial"
		 : fan == 1 ? "chain"
			    : "tree",
		 fan > 1 ? fan : 0, chunks);
	d.nchunks = chunks;
	for (unsigned k = 0; k <= two; k++) {
		uint32_t n = chunks >> two;

		rotate(s, k, order);
		if (fan)
			family_tree(&d, order, fan, k * n, n);
		else
			family_binomial(&d, order, k * n, n);
	}
	draft_sort(&d);
	free(order);
	try_passes(s, &d);
}

static void
try_trees(struct search *s)
{
	uint64_t most = s->ask->nbytes / SMALLEST;

	if (most > 1024)
		most = 1024;
	if (most < 1)
		most = 1;
	for (uint32_t fan = 0; fan <= 3; fan++)
		for (uint32_t chunks = 1; chunks <= most && search_goes_on(s); chunks *= 2)
			for (unsigned two = 0; two <= (chunks > 1); two++)
				if (fan || chunks <= 2)
					try_tree(s, fan, chunks, two);
}

static void
try_greedy(struct search *s, uint32_t parts, uint32_t number)
{
	bool rooted = coll_has_root(s->ask->coll);
	struct draft d = new_draft(s, "");
	uint32_t *owner;

	d.nchunks = rooted ? parts : s->ask->nranks * parts;
	snprintf(d.name, sizeof d.name, "search.%u.%u", parts, number);
	owner = must_alloc(d.nchunks, sizeof *owner);
	for (uint32_t c = 0; c < d.nchunks; c++)
		owner[c] = rooted ? s->ask->root : c / parts;
	greedy_passes(&d, s->links, owner, (double)s->ask->nbytes / d.nchunks,
		      s->ask->seed + number * 7919ull + parts);
	free(owner);
	try_passes(s, &d);
}

static void
try_alltoall(struct search *s)
{
	uint32_t n = s->ask->nranks;

	for (uint32_t group = 2; group <= n && search_goes_on(s); group++) {
		struct draft d;

		if (n % group)
			continue;
		d = new_draft(s, "direct");
		if (group < n)
			snprintf(d.name, sizeof d.name, "two-step.%ux%u", n / group, group);
		family_alltoall(&d, group);
		try(s, &d);
	}
}

static void
try_whole(struct search *s)
{
	struct draft d = new_draft(s, "oneshot");

	family_oneshot(&d);
	try(s, &d);
	if (s->ask->nranks & (s->ask->nranks - 1))
		return;
	d = new_draft(s, "exchange");
	family_doubling(&d);
	try(s, &d);
}

/* The fastest ones in slices, so that their rounds overlap. */
static void
try_slices(struct search *s)
{
	struct draft whole[SYNTH_KEPT];
	double us[SYNTH_KEPT];
	size_t n = s->nkept;

	memcpy(whole, s->kept, sizeof whole);
	memcpy(us, s->us, sizeof us);
	s->nkept = 0;
	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 2; k <= 16; k *= 2)
			for (uint32_t interval = 1; interval <= 2 && search_goes_on(s);
			     interval++) {
				struct draft d = new_draft(s, "");

				snprintf(d.name, sizeof d.name, "%.48s.s%u.%u", whole[i].name, k,
					 interval);
				draft_slice(&whole[i], k, interval, &d);
				try(s, &d);
			}
	for (size_t i = 0; i < n; i++)
		keep(s, &whole[i], us[i]);
}

static void
try_exact(struct search *s, uint32_t parts, uint32_t most)
{
	bool rooted = coll_has_root(s->ask->coll);
	uint32_t n = s->ask->nranks, owner[EXACT_MAX_CELLS];
	struct draft d = new_draft(s, "");

	d.nchunks = rooted ? parts : n * parts;
	snprintf(d.name, sizeof d.name, "exact.%u.%u", parts, most);
	for (uint32_t c = 0; c < d.nchunks; c++)
		owner[c] = rooted ? s->ask->root : c / parts;
	(void)exact_passes(&d, s->links, owner, most);
	try_passes(s, &d);
}

/* The fewest rounds, with one chunk a link and round, or more. */
static void
try_exacts(struct search *s)
{
	uint32_t n = s->ask->nranks;
	uint32_t chunks = coll_has_root(s->ask->coll) ? 1 : n;

	for (uint32_t parts = 1; n * chunks * parts <= EXACT_MAX_CELLS; parts *= 2)
		for (uint32_t most = 1; most < n * parts && search_goes_on(s); most++)
			try_exact(s, parts, most);
}

void
search_candidates(struct search *s)
{
	const struct synth_ask *ask = s->ask;

	if (ask->coll == GPUSIM_ALLTOALL) {
		try_alltoall(s);
		return;
	}
	if (ask->coll == GPUSIM_ALLREDUCE)
		try_whole(s);
	try_exacts(s);
	if (!coll_has_root(ask->coll))
		try_gathers(s);
	if (ask->coll == GPUSIM_ALLREDUCE || coll_has_root(ask->coll))
		try_trees(s);
	for (uint32_t i = 0; i < ask->tries && ask->nranks <= SYNTH_GREEDY_MAX && search_goes_on(s);
	     i++)
		for (uint32_t parts = 1; parts <= (coll_has_root(ask->coll) ? 16 : 2); parts *= 2)
			try_greedy(s, parts, i);
	try_slices(s);
}
