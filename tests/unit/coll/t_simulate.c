/* The simulator against the textbook, and the closed forms against the simulator. */
#include <math.h>
#include <string.h>

#include "coll/tune.h"
#include "tap.h"

static const struct cost_model model = {.alpha_us = 20, .beta_us = 0.0004, .gamma_us = 0.0001};

static unsigned elem = 4; /* bytes; when fewer, partial sums are wide */

/* An algorithm's simulated time; NAN, with a diagnostic, on failure. */
static double
simulated(enum gpusim_coll coll, const char *algo, uint32_t p, uint64_t nbytes, uint64_t chunk,
	  const struct cost_model *m)
{
	struct plan_args a = {.coll = coll,
			      .nranks = p,
			      .nelem = nbytes / elem,
			      .chunk = chunk / (elem * cost_widening(coll, algo, p, 4 / elem)),
			      .wide = elem < 4};
	struct plan *plans;
	struct err err = {0};
	double us = NAN;

	a.root = coll_is_sendrecv(coll);
	if (plan_build_all(&a, algo, &plans, &err) != RC_OK) {
		printf("# %s\n", err.text);
		return us;
	}
	if (plan_simulate(plans, p, elem, m, &us, &err) != RC_OK)
		printf("# %s\n", err.text);
	plan_free_all(plans, p);
	return us;
}

static bool
about(double got, double want, double within)
{
	if (fabs(got - want) <= within * want)
		return true;
	printf("#   got %.3f us, want %.3f\n", got, want);
	return false;
}

/* Written out from the papers, with p = 8, n = 1 MiB, nothing cut. */
static void
test_textbook(void)
{
	double n = 1 << 20, p = 8, alpha = model.alpha_us, beta = model.beta_us,
	       gamma = model.gamma_us;

	ok(about(simulated(GPUSIM_ALLREDUCE, "ring", 8, 1 << 20, 0, &model),
		 2 * (p - 1) * alpha + 2 * (p - 1) / p * n * beta + (p - 1) / p * n * gamma, 1e-9),
	   "ring: 2(p-1) alpha + 2n(p-1)/p beta + n(p-1)/p gamma");
	ok(about(simulated(GPUSIM_ALLREDUCE, "halving-doubling", 8, 1 << 20, 0, &model),
		 2 * 3 * alpha + 2 * (p - 1) / p * n * beta + (p - 1) / p * n * gamma, 1e-9),
	   "halving-doubling: 2 log p alpha + 2n(p-1)/p beta + n(p-1)/p gamma");
	ok(about(simulated(GPUSIM_ALLREDUCE, "recursive-doubling", 8, 1 << 20, 0, &model),
		 3 * (alpha + n * (beta + gamma)) + n * gamma, 1e-9),
	   "recursive doubling: log p (alpha + n (beta + gamma)), and a copy");
	ok(about(simulated(GPUSIM_ALLREDUCE, "naive", 8, 1 << 20, 0, &model),
		 2 * (alpha + (p - 1) * n * beta) + n * gamma, 1e-9),
	   "naive: the root's link, in and out, and the last vector added");
	ok(about(simulated(GPUSIM_BARRIER, "dissemination", 8, 0, 0, &model), 3 * alpha, 1e-9),
	   "barrier: log p alpha");
	ok(about(simulated(GPUSIM_BROADCAST, "ring", 8, 1 << 20, 1 << 16, &model),
		 (p - 1) * alpha + (p - 2 + 16) * 65536 * beta, 1e-9),
	   "a chain: p-1 latencies, p-2 messages to fill it, 16 to empty it");
	ok(about(simulated(GPUSIM_ALLREDUCE, "ring", 2, 4 << 20, 1 << 16,
			   &(struct cost_model){1000, 0.02, 0, 0}),
		 2 * 1000 + (4 << 20) * 0.02, 1e-9),
	   "two ranks with more messages than a window: both links are busy all the time");
	ok(isfinite(simulated(GPUSIM_ALLREDUCE, "halving-doubling", 16384, 65536, 0, &model)),
	   "16384 ranks");
}

/* A message waits for its sender's outbound link, and for its receiver's inbound link. */
static void
test_links(void)
{
	struct plan plan[3] = {{0}};
	struct err err = {0};
	double us = 0;

	for (uint32_t r = 0; r < 2; r++) {
		plan_append(&plan[r],
			    (struct plan_step){.kind = STEP_SEND, .peer = 2, .count = 10});
		plan_append(&plan[2],
			    (struct plan_step){.kind = STEP_RECV, .peer = r, .count = 10});
	}
	ok(!plan_simulate(plan, 3, 100, &(struct cost_model){.alpha_us = 5, .beta_us = 0.01}, &us,
			  &err) &&
	       about(us, 5 + 2 * 10, 1e-9),
	   "two senders to one rank: one after the other");
	plan[0].step[0].peer = 1;
	ok(plan_simulate(plan, 3, 100, &model, &us, &err) == RC_FAILED && about(us, 25, 1e-9) &&
	       strstr(err.text, "do not match"),
	   "sends and receives that do not match are rejected, the output is unchanged");
	for (int r = 0; r < 3; r++)
		plan_fini(&plan[r]);
	for (uint32_t r = 0; r < 2; r++) {
		plan_append(&plan[r],
			    (struct plan_step){.kind = STEP_RECV, .peer = !r, .count = 1});
		plan_append(&plan[r],
			    (struct plan_step){.kind = STEP_SEND, .peer = !r, .count = 1});
	}
	ok(plan_simulate(plan, 2, 4, &model, &us, &err) == RC_FAILED &&
	       !strcmp(err.text, "rank 0 waits forever in step 0"),
	   "a cycle of waiting ranks ends, and is reported");
	plan_fini(&plan[0]);
	plan_fini(&plan[1]);
}

/*
 * The lowest and highest ratio of a closed form to the simulated time: for p a power of two, for other
 * p, and for any p with wide partial sums. Measured over all cases below, rounded outwards. Forms that
 * are not listed are within 5 %.
 */
static const struct bound {
	enum gpusim_coll coll;
	const char *name;
	double lo, hi, other_lo, other_hi, wide_lo, wide_hi;
} bounds[] = {
    {GPUSIM_ALLREDUCE, "ring", 0.97, 1.20, 0.97, 1.2, 0.94, 1.25},
    {GPUSIM_ALLREDUCE, "ring-chunked", 0.98, 1.08, 0.98, 1.08, 0.98, 1.12},
    {GPUSIM_ALLREDUCE, "halving-doubling", 0.97, 1.07, 0.8, 1.05, 0.8, 1.15},
    {GPUSIM_ALLREDUCE, "pairwise", 0.8, 1.02, 0.8, 1.02, 0.8, 1.02},
    {GPUSIM_ALLREDUCE, "recursive-doubling", 0.98, 1.02, 0.98, 1.35, 0.98, 1.35},
    {GPUSIM_ALLREDUCE, "tree", 0.77, 1.1, 0.75, 1.2, 0.7, 1.9},
    {GPUSIM_BROADCAST, "scatter-allgather", 0.5, 1.7, 0.5, 1.8, 1, 1},
    {GPUSIM_REDUCE, "tree", 0.98, 1.25, 0.98, 1.25, 0.66, 1.3},
    {GPUSIM_ALLGATHER, "ring", 0.94, 1.25, 0.94, 1.2, 1, 1},
    {GPUSIM_ALLGATHER, "recursive-doubling", 0.94, 1.05, 0.98, 1.36, 1, 1},
    {GPUSIM_ALLGATHER, "bruck", 0.94, 1.08, 0.94, 1.35, 1, 1},
    {GPUSIM_REDUCESCATTER, "ring", 0.98, 1.15, 0.98, 1.15, 0.95, 1.2},
    {GPUSIM_REDUCESCATTER, "pairwise", 0.8, 1.02, 0.8, 1.02, 0.8, 1.02},
    {GPUSIM_REDUCESCATTER, "halving", 0.98, 1.05, 0.7, 1.35, 0.75, 1.35},
    {GPUSIM_ALLTOALL, "pairwise", 0.8, 1.02, 0.8, 1.02, 1, 1},
    {GPUSIM_GATHER, "linear", 0.75, 1.02, 0.85, 1.02, 1, 1},
    {GPUSIM_GATHER, "tree", 0.98, 1.3, 0.98, 1.5, 1, 1},
    {GPUSIM_SCATTER, "tree", 0.98, 1.15, 0.98, 1.5, 1, 1},
};

static bool
within(const struct cost_algo *row, uint32_t p, double ratio)
{
	struct bound b = {.lo = 0.95,
			  .hi = 1.05,
			  .other_lo = 0.95,
			  .other_hi = 1.05,
			  .wide_lo = 0.95,
			  .wide_hi = 1.05};

	for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
		if (bounds[i].coll == row->coll && strcmp(bounds[i].name, row->name) == 0)
			b = bounds[i];
	if (elem < 4)
		return ratio >= b.wide_lo && ratio <= b.wide_hi;
	if (p & (p - 1))
		return ratio >= b.other_lo && ratio <= b.other_hi;
	return ratio >= b.lo && ratio <= b.hi;
}

/* Gamma below and above beta, and long latency; sizes; chunks that cut, and that do not. The long
 * vector only with few ranks, because its number of messages takes time. */
static bool
fits(const struct cost_algo *row)
{
	static const struct cost_model models[] = {
	    {20, 0.0004, 0.0001, 2}, {2, 0.0002, 0.0003, 1}, {5000, 0.008, 0.0001, 8}};
	static const uint64_t sizes[] = {1024, 65536, 1 << 20, 8 << 20};
	static const uint64_t chunks[] = {65536, 1 << 30};
	static const uint32_t ranks[] = {4, 5, 7, 8, 12, 16, 17, 31, 32, 33};

	for (uint32_t i = 0; i < 3 * 4 * 2 * sizeof ranks / sizeof *ranks; i++) {
		const struct cost_model *m = &models[i % 3];
		uint32_t p = ranks[i / 24];
		uint64_t size = sizes[i / 3 % 4], chunk = chunks[i / 12 % 2],
			 nbytes = row->coll == GPUSIM_BARRIER ? 0 : size - size % (4 * p);
		struct cost_args c = {.nranks = p,
				      .nbytes = (double)nbytes,
				      .chunk_bytes = (double)chunk,
				      .widening = cost_widening(row->coll, row->name, p, 4 / elem)};
		double ratio;

		if (i % 3 == 2 && chunk == 65536 && size > 65536)
			continue; /* half a window soon runs empty: see cost.c */
		if (chunk == 65536 && size > 1 << 20 && p > 8)
			continue;
		ratio = row->us(&c, m) / simulated(row->coll, row->name, p, nbytes, chunk, m);
		if (!within(row, p, ratio)) {
			printf("#   %.3f of it: elements of %u, p %u, %.0f bytes, chunk %.0f, "
			       "model %u\n",
			       ratio, elem, p, c.nbytes, c.chunk_bytes, i % 3);
			return false;
		}
	}
	return true;
}

static void
test_closed_forms(void)
{
	for (const struct plan_algo *algo = plan_algos; algo->name; algo++)
		if (!cost_find(algo->coll, algo->name))
			ok(false, "%s %s has a closed form", coll_name(algo->coll), algo->name);
	ok(true, "every algorithm has a closed form");
	for (const struct cost_algo *row = cost_algos; row->name; row++) {
		const struct plan_algo *algo;

		if (elem < 4 && !coll_reduces(row->coll))
			continue;
		if (row->shared || row->slow ||
		    plan_algo_find(row->coll, row->name, &algo, NULL) != RC_OK)
			continue;
		ok(fits(row), "%s %s: the closed form is within its limits of the simulation%s",
		   coll_name(row->coll), row->name, elem < 4 ? ", with wide sums" : "");
	}
}

int
main(void)
{
	test_textbook();
	test_links();
	test_closed_forms();
	for (elem = 1; elem <= 2; elem++)
		test_closed_forms();
	return tap_done();
}
