/*
 * coll_sweep.h - run an algorithm through the exact checker over many shapes, and its mutants too.
 */
#ifndef COLL_SWEEP_H
#define COLL_SWEEP_H

#include <inttypes.h>
#include <string.h>

#include "coll/check.h"
#include "coll/tune.h"
#include "tap.h"

#define SWEEP_MAX_RANKS 64

/* The algorithm's cost by its comment; called with nranks > 1, and nelem > 0 but for barrier. */
typedef struct plan_counts sweep_cost(const struct plan_args *a);

/* The size of part r modulo p, and the messages that x elements take: the definitions, restated. */
static inline uint64_t
part_size(const struct plan_args *a, uint32_t r)
{
	r %= a->nranks;
	return (r + 1) * a->nelem / a->nranks - r * a->nelem / a->nranks;
}

static inline uint64_t
nmessages(const struct plan_args *a, uint64_t x)
{
	if (!x)
		return 0;
	return a->chunk ? (x + a->chunk - 1) / a->chunk : 1;
}

/* Count the sends and receives of a rank into *c. */
static inline void
add_rank(struct plan_counts *c, uint64_t messages, uint64_t elements, uint64_t received)
{
	c->total_messages += messages;
	c->total_elements += elements;
	if (c->max_messages < messages)
		c->max_messages = messages;
	if (c->max_elements < elements)
		c->max_elements = elements;
	if (c->max_recv_elements < received)
		c->max_recv_elements = received;
}

static inline bool
same_counts(const struct plan_counts *x, const struct plan_counts *y)
{
	return x->max_messages == y->max_messages && x->max_elements == y->max_elements &&
	       x->max_recv_elements == y->max_recv_elements &&
	       x->total_messages == y->total_messages && x->total_elements == y->total_elements &&
	       x->rounds == y->rounds && x->syncs == y->syncs && x->max_read == y->max_read &&
	       x->max_written == y->max_written;
}

static inline void
print_counts(const char *what, const struct plan_counts *c)
{
	printf("#   %s: rank %" PRIu64 " messages %" PRIu64 " elements %" PRIu64
	       " received, all %" PRIu64 " messages %" PRIu64 " elements, %" PRIu32
	       " rounds, %" PRIu32 " syncs %" PRIu64 " read %" PRIu64 " written\n",
	       what, c->max_messages, c->max_elements, c->max_recv_elements, c->total_messages,
	       c->total_elements, c->rounds, c->syncs, c->max_read, c->max_written);
}

static inline void
print_case(const struct plan_args *a, enum plan_place place)
{
	printf("#   p %" PRIu32 " n %" PRIu64 " chunk %" PRIu64 " root %" PRIu32 " rank %" PRIu32
	       " %s\n",
	       a->nranks, a->nelem, a->chunk, a->root, a->rank,
	       place == PLAN_IN_PLACE ? "in place" : "out of place");
}

/* Check one shape: correct, and at the stated cost. Reports the error. */
static inline bool
sweep_one(const struct plan_args *a, const char *algo, enum plan_place place, sweep_cost *cost)
{
	struct plan_counts got, want = {0};
	struct err err = {0};

	if (a->nranks > 1 && (a->nelem || a->coll == GPUSIM_BARRIER))
		want = cost(a);
	if (plan_check(a, algo, place, &got, &err)) {
		print_case(a, place);
		printf("#   %s\n", err.text);
		return false;
	}
	if (got.total_wide && cost_widening(a->coll, algo, a->nranks, 2) == 1) {
		print_case(a, place);
		printf("#   sends partial sums, although its row of cost_algos says it does not\n");
		return false;
	}
	if (!same_counts(&got, &want)) {
		print_case(a, place);
		print_counts("got", &got);
		print_counts("want", &want);
		return false;
	}
	return true;
}

/* The counts for p ranks: all awkward ones while p is small, fewer for larger p (where the largest
 * is sent in chunks and the others whole). */
static inline size_t
sweep_nelems(enum gpusim_coll coll, uint32_t p, uint64_t nelem[static 9])
{
	const uint64_t few[] = {1, p - 1, p + 1, 2 * p + 1};
	const uint64_t all[] = {0, 1, 2, p - 1, p, p + 1, 2 * p, 3 * p + 1, 97};
	size_t n = p > 12 ? sizeof few / sizeof few[0] : sizeof all / sizeof all[0];

	memcpy(nelem, p > 12 ? few : all, n * sizeof *nelem);
	for (size_t i = 0; i < n && coll == GPUSIM_ALLTOALL; i++)
		nelem[i] = (nelem[i] % 7) * p;
	if (coll != GPUSIM_BARRIER)
		return n;
	nelem[0] = 0;
	return 1;
}

/* p = 1..SWEEP_MAX_RANKS and two sizes past a word of ranks; every root (and peer) for small p. */
static inline bool
sweep(enum gpusim_coll coll, const char *algo, enum plan_place place, bool wide, sweep_cost *cost)
{
	bool good = true, rooted = coll_has_root(coll) || coll_is_sendrecv(coll);

	for (uint32_t i = 1; i <= SWEEP_MAX_RANKS + 2 && good; i++) {
		uint32_t p = i <= SWEEP_MAX_RANKS ? i : i == SWEEP_MAX_RANKS + 1 ? 65 : 130;
		uint32_t nroots = !rooted ? 1 : p <= 6 ? p : 2;
		uint64_t nelem[9];
		size_t n = sweep_nelems(coll, p, nelem);

		for (uint32_t j = 0; j < nroots * n * 3 && good; j++) {
			static const uint64_t chunks[] = {0, 1, 3};
			uint32_t root = p <= 6 ? j % nroots : j % nroots * (p / 2 + 1);
			struct plan_args a = {.coll = coll,
					      .nranks = p,
					      .root = root,
					      .nelem = nelem[j / nroots % n],
					      .chunk = chunks[j / nroots / n],
					      .share = chunks[j / nroots / n],
					      .wide = wide};

			if (SANITIZED && p > 20 && p % 16 > 2)
				continue;
			if (p > SWEEP_MAX_RANKS && (a.chunk != 3 || a.nelem != p + 1))
				continue;
			if (p > 12 && p <= SWEEP_MAX_RANKS &&
			    (a.chunk == 1 || (a.chunk == 3) != (a.nelem > p + 1)))
				continue;
			for (uint32_t r = 0; r < (coll_is_sendrecv(coll) ? p : 1) && good;
			     r += p / 7 + 1) {
				a.rank = r;
				if (!coll_is_sendrecv(coll) || r != root)
					good = sweep_one(&a, algo, place, cost);
			}
		}
	}
	return good;
}

/* ---- mutants: one step of one rank changed */

enum mutation {
	DROP,
	REPEAT,
	SRC_OFF,
	DST_OFF,
	LONGER,
	SHORTER,
	PEER,
	NO_REDUCE,
	TO_INPUT,
	LATE_ROUND,
	NMUTATIONS
};

/* Change step i of the plan; false: the mutation does not apply, or has no effect. */
static inline bool
mutate(struct plan *plan, size_t i, enum mutation how, uint32_t nranks)
{
	struct plan_step *s = &plan->step[i], copy = *s;
	bool message = s->kind <= STEP_RECV_REDUCE;
	bool writes = s->kind != STEP_SEND && s->kind != STEP_SYNC && s->kind != STEP_SHARE;

	switch (how) {
	case DROP:
		memmove(s, s + 1, (plan->nstep - i - 1) * sizeof *s);
		plan->nstep--;
		return true;
	case REPEAT:
		if (s->kind == STEP_COPY || s->kind == STEP_REDUCE_ALL || plan_append(plan, copy))
			return false;
		s = &plan->step[i];
		memmove(s + 1, s, (plan->nstep - i - 1) * sizeof *s);
		return true;
	case SRC_OFF:
		s->src_off++;
		return s->kind == STEP_SEND || s->kind == STEP_RECV_REDUCE ||
		       s->kind == STEP_COPY || s->kind == STEP_SHARE || s->kind == STEP_REDUCE_ALL;
	case DST_OFF:
		s->dst_off++;
		return writes;
	case LONGER: /* the next step may repair a copy that is too long */
		s->count++;
		return s->kind != STEP_COPY && s->kind != STEP_SYNC;
	case SHORTER:
		return s->count-- > 0;
	case PEER:
		s->peer = (s->peer + 1) % nranks;
		return message;
	case NO_REDUCE:
		s->kind = STEP_RECV;
		return copy.kind == STEP_RECV_REDUCE;
	case TO_INPUT:
		s->dst = PLAN_IN;
		return writes;
	case LATE_ROUND:
		s->round += 1000;
		return i + 1 < plan->nstep;
	case NMUTATIONS:
		break;
	}
	return false;
}

/* Every mutant of every step is rejected; reports any that is not. Out of place, where no step is idle. */
static inline bool
mutants_refused(const struct plan_args *a, const char *algo)
{
	static const char *const names[] = {"drop",	"repeat",    "src_off", "dst_off",
					    "longer",	"shorter",   "peer",	"no reduce",
					    "to input", "late round"};
	struct err first = {0};
	bool good = !plan_check(a, algo, PLAN_OUT_OF_PLACE, NULL, &first);
	size_t tried = 0;

	if (!good)
		printf("#   no mutant yet: %s\n", first.text);
	for (uint32_t r = 0; r < a->nranks && good; r++) {
		size_t nstep = 1;

		for (size_t i = 0; i < nstep * NMUTATIONS && good; i++) {
			struct plan *plans;
			struct err err = {0};

			if (plan_build_all(a, algo, &plans, &err)) {
				printf("#   %s\n", err.text);
				return false;
			}
			nstep = plans[r].nstep;
			if (nstep && mutate(&plans[r], i / NMUTATIONS, i % NMUTATIONS, a->nranks)) {
				enum rc rc =
				    plan_check_plans(a, PLAN_OUT_OF_PLACE, plans, NULL, &err);

				tried++;
				good = rc == RC_FAILED && err.text[0];
			}
			if (!good)
				printf("#   accepted: %s of step %zu of rank %" PRIu32 "\n",
				       names[i % NMUTATIONS], i / NMUTATIONS, r);
			plan_free_all(plans, a->nranks);
		}
	}
	return good && tried > 0;
}

/* The three checks that every algorithm gets; alltoall has no in-place form. */
static inline void
check_algo(enum gpusim_coll coll, const char *algo, sweep_cost *cost)
{
	struct plan_args a = {
	    .coll = coll, .rank = 1, .nranks = 4, .root = 2, .nelem = 12, .chunk = 2, .share = 2};
	const char *name = coll_name(coll);

	if (coll == GPUSIM_BARRIER)
		a.nelem = 0;
	ok(sweep(coll, algo, PLAN_OUT_OF_PLACE, false, cost), "%s %s: right and at its stated cost",
	   name, algo);
	if (coll != GPUSIM_ALLTOALL)
		ok(sweep(coll, algo, PLAN_IN_PLACE, false, cost), "%s %s: the same in place", name,
		   algo);
	ok(mutants_refused(&a, algo), "%s %s: one step changed is refused", name, algo);
	if (!coll_reduces(coll))
		return;
	a.wide = true;
	ok(sweep(coll, algo, PLAN_OUT_OF_PLACE, true, cost) &&
	       sweep(coll, algo, PLAN_IN_PLACE, true, cost),
	   "%s %s: with wide partial sums too, none of which is rounded", name, algo);
	ok(mutants_refused(&a, algo), "%s %s: one step of those changed is refused", name, algo);
}

#endif
