/* Algorithms as schedules: every lowered one is run on the exact checker, for many counts, messages and places. */
#include <stdio.h>
#include <stdlib.h>

#include "algo/lower.h"
#include "algo_make.h"
#include "coll/check.h"

/* Every count up to three elements a chunk, in messages of any size; says the first that is wrong. */
static bool
sound(const struct algo *a, const struct schedule *s)
{
	struct plan_args args = {
	    .coll = a->coll, .nranks = a->nranks, .root = a->root, .schedule = s};
	uint64_t step = a->coll == GPUSIM_ALLTOALL ? a->nranks : a->nchunks / 5 + 1;
	struct err err = {0};
	enum rc rc = RC_OK;

	for (uint64_t n = a->coll == GPUSIM_ALLTOALL ? a->nranks : 1;
	     n <= 3 * a->nchunks + 1 && !rc; n += step)
		for (uint64_t chunk = 0; chunk < 4 && !rc; chunk++)
			for (int how = 0; how < 4 && !rc; how++) {
				struct plan *plans;
				enum plan_place place = how & 1 ? PLAN_IN_PLACE : PLAN_OUT_OF_PLACE;

				if ((place && a->coll == GPUSIM_ALLTOALL) ||
				    (how & 2 && !coll_reduces(a->coll)))
					continue;
				args.nelem = n;
				args.chunk = chunk;
				args.wide = how & 2;
				rc = plan_build_all(&args, NULL, &plans, &err);
				if (rc)
					break;
				rc = plan_check_plans(&args, place, plans, NULL, &err);
				plan_free_all(plans, a->nranks);
			}
	if (rc)
		printf("# %s, %llu elements by %llu: %s\n", a->name, (unsigned long long)args.nelem,
		       (unsigned long long)args.chunk, err.text);
	return !rc;
}

/* Packed and unpacked it is the same; the algorithm goes. */
static bool
lowers(struct algo *a)
{
	struct schedule *s = NULL, *again = NULL;
	struct buf b = {0}, c = {0};
	struct proof proof;
	struct err err = {0};
	bool good = algo_prove(a, &proof, &err) == RC_OK && algo_lower(a, NULL, &s, &err) == RC_OK;

	if (!good)
		printf("# %s\n", err.text);
	good = good && sound(a, s);
	for (uint32_t r = 0; good && r < a->nranks; r++) {
		b.len = c.len = 0;
		good = schedule_pack(&s[r], &b) &&
		       schedule_unpack(b.data, b.len, &again, &err) == RC_OK &&
		       schedule_pack(again, &c) && b.len == c.len && !memcmp(b.data, c.data, b.len);
		schedule_free_all(again, 1);
		again = NULL;
	}
	schedule_free_all(s, a->nranks);
	algo_free(a);
	buf_fini(&b);
	buf_fini(&c);
	return good;
}

static void
test_known(void)
{
	bool good = true;

	for (uint32_t n = 2; n <= 9; n++)
		good = good && lowers(make_allreduce_ring(n)) && lowers(make_ring_of_blocks(n)) &&
		       lowers(make_allreduce_allpairs(n));
	ok(good, "rings and all pairs, 2 to 9 ranks");
	ok(lowers(make_allreduce_hierarchical(2, 4)) && lowers(make_allreduce_hierarchical(3, 2)),
	   "hierarchical all-reduces");
	ok(lowers(make_tree(GPUSIM_ALLREDUCE, 7, 3)) && lowers(make_tree(GPUSIM_BROADCAST, 6, 2)) &&
	       lowers(make_tree(GPUSIM_REDUCE, 5, 4)),
	   "trees");
	ok(lowers(make_alltoall_two_step(2, 3)), "all-to-all in two steps");
	ok(lowers(make_reducescatter_direct(4, 2, true)) &&
	       lowers(make_reducescatter_direct(3, 1, false)),
	   "direct reduce-scatters");
	ok(lowers(make_allgather_doubling(8, true)) && lowers(make_allgather_doubling(4, false)),
	   "allgathers by doubling");
}

int
main(void)
{
	test_known();
	return tap_done();
}
