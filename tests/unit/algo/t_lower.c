/* Algorithms as schedules: every lowered one is run on the exact checker, for many counts, messages and places. */
#include <stdio.h>
#include <stdlib.h>

#include "algo/algo.h"
#include "algo_make.h"
#include "chance.h"
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

/* ---- at random */

static uint64_t seed = 1;

static uint32_t
draw(uint32_t n)
{
	return (uint32_t)(xorshift_star(&seed) >> 33) % n;
}

/* A rank of those in the set, at random. */
static uint32_t
draw_from(uint32_t set)
{
	uint32_t k = draw((uint32_t)__builtin_popcount(set));

	while (k--)
		set &= set - 1;
	return (uint32_t)__builtin_ctz(set);
}

#define PLACES 3 /* of scratch, which are used again and again */

/* One step more of an all-reduce of a chunk: partial sums into each other until one rank is left, then from
 * those that have the sum. False: it is done. */
static bool
move_on(struct make *m, uint32_t c, uint32_t *partial, uint32_t *has)
{
	uint32_t n = m->a->nranks, from, to, k = draw(PLACES);

	if (__builtin_popcount(*partial) > 1) {
		from = draw_from(*partial);
		*partial &= ~(1u << from);
		to = draw_from(*partial);
		if (draw(2)) {
			make_reduce(m, OUT(from, c), OUT(to, c), 1);
			return true;
		}
		make_copy(m, OUT(from, c), SCRATCH(to, k), 1);
		make_reduce(m, SCRATCH(to, k), OUT(to, c), 1);
		return true;
	}
	*has |= *partial;
	if (*has == (1u << n) - 1)
		return false;
	from = draw_from(*has);
	to = draw_from(~*has & ((1u << n) - 1));
	if (draw(3)) {
		make_copy(m, OUT(from, c), OUT(to, c), 1);
	} else {
		make_copy(m, OUT(from, c), SCRATCH(to, k), 1);
		make_copy(m, SCRATCH(to, k), OUT(to, c), 1);
	}
	*has |= 1u << to;
	return true;
}

static struct algo *
random_allreduce(void)
{
	uint32_t n = 2 + draw(5), c = 1 + draw(5), partial[8], has[8] = {0}, left = c, done = 0;
	struct make m = make_new(GPUSIM_ALLREDUCE, n, c, true);

	make_scratch(&m, PLACES);
	for (uint32_t i = 0; i < c; i++)
		partial[i] = (1u << n) - 1;
	while (left) {
		uint32_t i = draw(c);

		if (done >> i & 1 || move_on(&m, i, &partial[i], &has[i]))
			continue;
		done |= 1u << i;
		left--;
	}
	return make_done(&m);
}

/* Blocks go straight, or over the scratch of somebody else. */
static struct algo *
random_alltoall(void)
{
	uint32_t n = 2 + draw(4), per = 1 + draw(2);
	struct make m = make_new(GPUSIM_ALLTOALL, n, n * per, false);

	make_scratch(&m, PLACES);
	for (uint32_t r = 0; r < n; r++)
		for (uint32_t i = 0; i < n * per; i++) {
			uint32_t q = i / per, by = draw(n), k = draw(PLACES);
			struct place to = OUT(q, r * per + i % per);

			if (draw(2)) {
				make_copy(&m, IN(r, i), to, 1);
			} else {
				make_copy(&m, IN(r, i), SCRATCH(by, k), 1);
				make_copy(&m, SCRATCH(by, k), to, 1);
			}
		}
	return make_done(&m);
}

static void
test_random(void)
{
	bool good = true;

	for (int i = 0; i < 150 && good; i++)
		good = lowers(random_allreduce()) && lowers(random_alltoall());
	ok(good, "random all-reduces and all-to-alls");
}

/* Two ranks swap inputs in place: nothing proves that the peer has read the old one. */
static void
test_places(void)
{
	struct make m = make_new(GPUSIM_ALLREDUCE, 2, 1, true);
	struct schedule *s = NULL;
	struct algo *a;

	make_scratch(&m, 1);
	for (uint32_t r = 0; r < 2; r++)
		make_copy(&m, OUT(r, 0), SCRATCH(1 - r, 0), 1);
	for (uint32_t r = 0; r < 2; r++)
		make_reduce(&m, SCRATCH(r, 0), OUT(r, 0), 1);
	a = make_done(&m);
	ok(algo_lower(a, NULL, &s, NULL) == RC_OK && sound(a, s) && s[0].scratch >= 1,
	   "an input that is overwritten too early is saved first");
	schedule_free_all(s, 2);
	algo_free(a);

	a = make_allreduce_ring(8);
	ok(algo_lower(a, NULL, &s, NULL) == RC_OK && s[0].scratch == 0 && s[0].nstep == 28 &&
	       s[7].step[27].round == 13,
	   "a ring needs no scratch, no copy, and one round a message");
	schedule_free_all(s, 8);
	algo_free(a);

	a = make_allreduce_allpairs(8);
	ok(algo_lower(a, NULL, &s, NULL) == RC_OK && s[0].scratch == 0 && s[0].nstep == 28,
	   "all pairs add what comes as it comes");
	schedule_free_all(s, 8);
	algo_free(a);
}

/* Rounds of a built-in algorithm's file as it is lowered; 0: it cannot be. */
static uint32_t
rounds_of(enum gpusim_coll coll, uint32_t n, const char *algo)
{
	struct plan_args args = {.coll = coll, .nranks = n, .nelem = (uint64_t)n * n};
	struct schedule *s = NULL;
	struct algo *a = NULL;
	struct buf text = {0};
	struct proof proof;
	struct err err = {0};
	uint32_t rounds = 0;

	if (text_print_plans(&args, algo, &text, &err) == RC_OK &&
	    algo_parse(text.data, text.len, algo, NULL, &a, &err) == RC_OK &&
	    algo_prove(a, &proof, &err) == RC_OK && algo_lower(a, NULL, &s, &err) == RC_OK)
		for (uint32_t r = 0; r < n; r++)
			if (rounds <= s[r].step[s[r].nstep - 1].round)
				rounds = s[r].step[s[r].nstep - 1].round + 1;
	if (!rounds)
		printf("# %s\n", err.text);
	schedule_free_all(s, s ? n : 0);
	algo_free(a);
	buf_fini(&text);
	return rounds;
}

/* Equally urgent messages go in the file's order, so an exchange that turns round the ranks keeps every port busy. */
static void
test_order(void)
{
	for (uint32_t n = 3; n <= 9; n++) {
		uint32_t alltoall = rounds_of(GPUSIM_ALLTOALL, n, "pairwise"),
			 allreduce = rounds_of(GPUSIM_ALLREDUCE, n, "pairwise");

		ok(alltoall == n - 1 && allreduce == 2 * (n - 1),
		   "%u ranks exchange all in %u rounds, and sum in %u", n, alltoall, allreduce);
	}
}

static void
test_refused(void)
{
	struct algo *a = make_allreduce_ring(3);
	struct schedule *s = NULL;
	struct err err = {0};

	a->custom = true;
	ok(algo_lower(a, NULL, &s, &err) == RC_INVAL && !s && strstr(err.text, "custom"),
	   "a custom algorithm is not run");
	algo_free(a);
}

/* Proof and lowering take their work from the budget, and end where it ends. */
static void
test_budget(void)
{
	static const char ring[] = "algorithm ring\ncollective allreduce\nranks 8\nchunks 8\n"
				   "for s in 0..6\nfor c in 0..7\nreduce ((c+s)%8).data[c] -> "
				   "((c+s+1)%8).data[c]\nend\nend\n"
				   "for s in 0..6\nfor c in 0..7\ncopy ((c+s+7)%8).data[c] -> "
				   "((c+s)%8).data[c]\nend\nend\n";
	struct algo_budget b = {.max_steps = 224, .max_work = 1 << 30};
	struct schedule *s = NULL;
	struct algo *a = NULL;
	struct err err = {0};
	struct proof proof;
	uint64_t parsed, proven, lowered;
	atomic_bool stop = true;
	bool good = algo_parse(ring, strlen(ring), "f", &b, &a, &err) == RC_OK;

	parsed = b.work;
	good = good && algo_prove(a, &proof, &err) == RC_OK;
	proven = b.work;
	good = good && algo_lower(a, NULL, &s, &err) == RC_OK;
	lowered = b.work;
	if (!ok(good && parsed && proven > parsed && lowered > proven,
		"work of parser, proof and lowering: %u, %u, %u units (%s)", (unsigned)parsed,
		(unsigned)proven, (unsigned)lowered, err.text))
		return;
	schedule_free_all(s, 8);
	b = (struct algo_budget){.max_steps = 224, .max_work = proven - 1, .work = parsed};
	ok(algo_prove(a, &proof, &err) == RC_INVAL && strstr(err.text, "too much work: more than"),
	   "a proof that takes more ends (%s)", err.text);
	b = (struct algo_budget){.max_steps = 224, .max_work = lowered - 1, .work = proven};
	s = NULL;
	ok(algo_lower(a, NULL, &s, &err) == RC_INVAL && !s &&
	       strstr(err.text, "too much work: more than"),
	   "and a lowering");
	b = (struct algo_budget){.max_steps = 224, .max_work = lowered, .stop = &stop};
	ok(algo_prove(a, &proof, &err) == RC_ABORTED && algo_lower(a, NULL, &s, &err) == RC_ABORTED,
	   "both can be stopped");
	algo_free(a);
}

int
main(void)
{
	test_known();
	test_places();
	test_order();
	test_random();
	test_refused();
	test_budget();
	return tap_done();
}
