/* t_synth.c - what the search drafts is proven, and what it finds is as fast as what was there. */
#include "synth/synth.h"

#include <math.h>
#include <string.h>

#include "cluster/flow.h"
#include "synth/exact.h"
#include "synth/family.h"
#include "synth/greedy.h"
#include "tap.h"

#define MOST	(SANITIZED ? 5u : 9u) /* ranks of families */
#define LARGEST (SANITIZED ? 1024u : 131072u)

static const struct cost_model shaped = {.alpha_us = 20, .beta_us = 0.001, .gamma_us = 0.00004};

/* As gpudev --latency 5ms --bandwidth 1Gb. */
static const struct cost_model far = {
    .alpha_us = 5008, .beta_us = 0.009, .gamma_us = 0.00004, .host_us = 16};

/* Two hosts of `n` ranks behind NICs a quarter as fast as what is inside. */
static struct links
two_hosts(uint32_t n)
{
	struct links l = links_flat(2 * n, &shaped);

	l.domain = n;
	l.nics = 1;
	l.nic_byte_us = 4 * shaped.beta_us;
	l.nic_latency_us = 50;
	return l;
}

static struct links
ring_of(uint32_t n)
{
	struct links l = links_flat(n, &shaped);

	l.ring = true;
	return l;
}

static unsigned nproven;

/* As a file, read again, and proven. The draft is taken. */
static void
proven(struct draft *d, const char *what)
{
	struct buf text = {0};
	struct algo *a = NULL;
	struct proof p;
	struct err e = {0};
	bool good;

	draft_print(d, &text);
	good = !d->full && !algo_parse(text.data, text.len, "draft", NULL, &a, &e) &&
	       !algo_prove(a, &p, &e);
	nproven += good;
	if (!good)
		ok(false, "%s of %u ranks, %zu moves: %s", what, d->nranks, d->nmove, e.text);
	algo_free(a);
	buf_fini(&text);
	draft_fini(d);
}

static struct draft
draft_of(enum gpusim_coll coll, uint32_t n)
{
	return (struct draft){
	    .name = "d", .coll = coll, .nranks = n, .in_place = coll != GPUSIM_ALLTOALL};
}

/* The passes, turned round, both, and both in slices. The passes are taken. */
static void
all_uses(struct draft *passes, bool rooted, const char *what)
{
	uint32_t n = passes->nranks;
	struct draft sum = draft_of(rooted ? GPUSIM_REDUCE : GPUSIM_REDUCESCATTER, n);
	struct draft all = draft_of(GPUSIM_ALLREDUCE, n), sliced = draft_of(GPUSIM_ALLREDUCE, n);
	struct draft parts = draft_of(passes->coll, n);

	sum.nchunks = all.nchunks = passes->nchunks;
	draft_turn(passes, &sum);
	draft_append(&sum, 0, &all);
	draft_append(passes, draft_rounds(&all), &all);
	draft_slice(&all, 3, 1, &sliced);
	draft_slice(passes, 2, 2, &parts);
	proven(&sum, what);
	proven(&all, what);
	proven(&sliced, what);
	proven(&parts, what);
	proven(passes, what);
}

static void
families(void)
{
	unsigned tried = 0;

	for (uint32_t n = 2; n <= MOST; n++)
		for (uint32_t group = 2; group <= n; group++)
			for (unsigned k = 0; k < EXCHANGE_NKINDS * EXCHANGE_NKINDS; k++)
				for (uint32_t parts = 1; parts <= 3; parts++) {
					struct draft d = draft_of(GPUSIM_ALLGATHER, n);

					if (n % group)
						continue;
					family_gather(&d, group, k / EXCHANGE_NKINDS,
						      k % EXCHANGE_NKINDS, parts);
					all_uses(&d, false, "a gather");
					tried++;
				}
	for (uint32_t n = 2; n <= 9; n++)
		for (uint32_t fan = 0; fan <= 3; fan++) {
			struct draft d = draft_of(GPUSIM_BROADCAST, n);
			uint32_t order[9];

			for (uint32_t i = 0; i < n; i++)
				order[i] = i;
			d.nchunks = 5;
			if (fan)
				family_tree(&d, order, fan, 0, 5);
			else
				family_binomial(&d, order, 0, 5);
			draft_sort(&d);
			all_uses(&d, true, "a tree");
			tried++;
		}
	for (uint32_t n = 2; n <= 9; n++) {
		struct draft d = draft_of(GPUSIM_ALLREDUCE, n);

		family_oneshot(&d);
		proven(&d, "oneshot");
		for (uint32_t group = 2; group <= n; group++) {
			d = draft_of(GPUSIM_ALLTOALL, n);
			if (n % group)
				continue;
			family_alltoall(&d, group);
			proven(&d, "an all-to-all");
		}
		if (n & (n - 1))
			continue;
		d = draft_of(GPUSIM_ALLREDUCE, n);
		family_doubling(&d);
		proven(&d, "doubling");
	}
	ok(nproven > 4 * tried, "%u drafts of %u families are proven", nproven, tried);
}

static void
found_link_by_link(void)
{
	for (uint32_t n = 2; n <= 8; n += 2)
		for (uint64_t seed = 1; seed <= 3; seed++) {
			struct links l = two_hosts(n / 2);
			struct draft d = draft_of(GPUSIM_ALLGATHER, n);
			uint32_t owner[16];

			d.nchunks = 2 * n;
			for (uint32_t c = 0; c < 2 * n; c++)
				owner[c] = c / 2;
			greedy_passes(&d, &l, owner, 4096, seed);
			ok(d.nmove == (size_t)2 * n * (n - 1),
			   "each chunk comes to each rank once");
			all_uses(&d, false, "found link by link");
			d = draft_of(GPUSIM_BROADCAST, n);
			d.nchunks = 3;
			memset(owner, 0, sizeof owner);
			greedy_passes(&d, &l, owner, 4096, seed);
			all_uses(&d, true, "found link by link");
		}
}

/* Files of the others pay for a copy, or a round, that a built-in algorithm does without. */
static const enum gpusim_coll colls[] = {GPUSIM_ALLREDUCE, GPUSIM_ALLGATHER, GPUSIM_REDUCESCATTER,
					 GPUSIM_ALLTOALL,  GPUSIM_BROADCAST, GPUSIM_REDUCE};

static void
as_fast_as_before(struct links links, uint32_t group, const struct cost_model *device,
		  const char *where)
{
	double files = device ? 1.02 : 4;

	for (size_t c = 0; c < sizeof colls / sizeof *colls; c++)
		for (uint64_t nbytes = 1024; nbytes <= LARGEST; nbytes *= 128) {
			struct synth_ask ask = {.coll = colls[c],
						.nranks = links.nranks,
						.group = group,
						.nbytes = nbytes,
						.device = device,
						.seed = 1,
						.tries = 1};
			struct synth_result r = {0}, again = {0};
			struct err e = {0};
			enum rc rc = synth_search(&ask, &links, &r, &e);

			if (!ok(rc == RC_OK &&
				    r.best.us <=
					r.builtin.us *
					    (colls[c] == GPUSIM_ALLREDUCE ? 1.000001 : files),
				"%s, %s of %llu bytes: %s takes %.1f us, %s %.1f us %s", where,
				coll_name(colls[c]), (unsigned long long)nbytes, r.best.name,
				r.best.us, r.builtin.name, r.builtin.us, e.text))
				continue;
			if (nbytes == 1024 && group < links.nranks)
				ok(synth_search(&ask, &links, &again, &e) == RC_OK &&
				       again.text.len == r.text.len &&
				       memcmp(again.text.data, r.text.data, r.text.len) == 0,
				   "the same question has the same answer");
			synth_fini(&again);
			synth_fini(&r);
		}
}

static bool
some_more(void *arg)
{
	return (*(int *)arg)-- > 0;
}

static void
refusals(void)
{
	struct links links = links_flat(4, &shaped);
	struct synth_ask ask = {.coll = GPUSIM_BARRIER, .nranks = 4, .group = 4, .nbytes = 64};
	struct synth_result r = {0};
	struct err e = {0};
	int left = 5;

	ok(synth_search(&ask, &links, &r, &e) == RC_INVAL &&
	       strcmp(e.text, "barrier: must be allreduce, allgather, reducescatter, alltoall, "
			      "broadcast or reduce") == 0,
	   "%s", e.text);
	ask.coll = GPUSIM_BROADCAST;
	ask.root = 4;
	ok(synth_search(&ask, &links, &r, &e) == RC_INVAL &&
	       strcmp(e.text, "root 4, but 4 ranks") == 0,
	   "%s", e.text);
	ask.root = 0;
	ask.nbytes = 3;
	ok(synth_search(&ask, &links, &r, &e) == RC_INVAL &&
	       strcmp(e.text, "a vector of 3 bytes has nothing to move") == 0,
	   "%s", e.text);
	ask.nranks = 1;
	ok(synth_search(&ask, &links, &r, &e) == RC_INVAL &&
	       strcmp(e.text, "1 ranks: must be 2 to 1024") == 0,
	   "%s", e.text);
	ask = (struct synth_ask){.coll = GPUSIM_ALLREDUCE,
				 .nranks = 4,
				 .group = 4,
				 .nbytes = 4096,
				 .go_on = some_more,
				 .arg = &left};
	ok(synth_search(&ask, &links, &r, &e) == RC_OK, "a search that ends early has an answer");
	ok(r.tried < 20, "it has tried %zu", r.tried);
	synth_fini(&r);
}

/* Rounds of an all-gather with at most so many chunks a link and round; 0: none was found. */
static uint32_t
rounds_of(const struct links *l, uint32_t n, uint32_t parts, uint32_t most)
{
	struct draft d = draft_of(GPUSIM_ALLGATHER, n);
	uint32_t owner[EXACT_MAX_CELLS], rounds = 0;

	d.nchunks = n * parts;
	for (uint32_t c = 0; c < d.nchunks; c++)
		owner[c] = c / parts;
	if (exact_passes(&d, l, owner, most))
		rounds = draft_rounds(&d);
	proven(&d, "exact passes");
	return rounds;
}

static void
t_exact(void)
{
	struct links flat = links_flat(4, &shaped), ring = ring_of(4), hosts = two_hosts(2),
		     two = links_flat(2, &shaped);
	unsigned before = nproven;

	ok(rounds_of(&flat, 4, 1, 1) == 3, "one port: a chunk comes in each round");
	ok(rounds_of(&flat, 4, 1, 2) == 2 && rounds_of(&flat, 4, 1, 3) == 1,
	   "more chunks a round: fewer rounds");
	ok(rounds_of(&ring, 4, 1, 1) == 2, "a ring: three chunks by two links want two rounds");
	ok(rounds_of(&hosts, 4, 1, 1) == 3, "a NIC lets one of two chunks through in each round");
	ok(rounds_of(&two, 2, 4, 1) == 4, "four chunks by one link want four rounds");
	ok(nproven == before + 6, "all of them are proven");
}

int
main(void)
{
	families();
	found_link_by_link();
	as_fast_as_before(links_flat(8, &shaped), 8, NULL, "eight equal ranks");
	as_fast_as_before(two_hosts(4), 4, NULL, "two hosts of four");
	as_fast_as_before(ring_of(8), 8, NULL, "a ring of eight");
	as_fast_as_before(links_flat(8, &far), 8, &far, "eight devices far apart");
	as_fast_as_before(links_flat(5, &far), 5, &far, "five devices far apart");
	refusals();
	t_exact();
	return tap_done();
}
