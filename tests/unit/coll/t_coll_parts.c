/* Tables of parts: every algorithm that accepts them is right with any counts, also zeros, and with
 * gaps. */
#include <stdlib.h>
#include <string.h>

#include "coll/check.h"
#include "coll/parts.h"
#include "coll/shape.h"
#include "coll/plan.h"
#include "tap.h"

#define MAX_RANKS 9

static const enum gpusim_coll colls[] = {GPUSIM_ALLGATHER, GPUSIM_GATHER, GPUSIM_REDUCESCATTER,
					 GPUSIM_SCATTER};
#define NCOLLS (sizeof colls / sizeof *colls)

static uint64_t seed = 1;

static uint64_t
draw(uint64_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % n;
}

static bool
is_default(const struct plan_algo *row)
{
	return plan_algo_number(row) == 0;
}

/* Run one table through every algorithm of its collective; return the number of failures. */
static unsigned
try_all(struct plan_args *a, bool packed)
{
	unsigned wrong = 0;

	for (const struct plan_algo *row = plan_algos; row->name; row++) {
		bool takes = is_default(row) || (packed && a->coll != GPUSIM_ALLTOALL);
		int places = a->coll == GPUSIM_ALLTOALL ? 1 : 2;

		if (row->coll != a->coll)
			continue;
		for (int place = 0; place < places; place++)
			for (a->chunk = 0; a->chunk < 3; a->chunk++) {
				struct err err = {0};
				enum rc rc =
				    plan_check(a, row->name, (enum plan_place)place, NULL, &err);

				if (rc == (takes ? RC_OK : RC_INVAL))
					continue;
				if (!wrong++)
					printf("# %s %s, %u ranks, place %d, chunk %d: %s\n",
					       coll_name(a->coll), row->name, a->nranks, place,
					       (int)a->chunk, err.text);
			}
	}
	return wrong;
}

static unsigned
try_parts(enum gpusim_coll coll, const struct plan_part *part, uint32_t p, uint32_t root)
{
	struct plan_args a = {.coll = coll, .nranks = p, .part = part, .root = root};

	a.nelem = parts_end(part, p);
	return try_all(&a, parts_packed(part, p));
}

/* Every table of counts 0..2 of up to four ranks. */
static void
exhaust(void)
{
	unsigned wrong = 0, n = 0;

	for (uint32_t p = 1; p <= 4; p++)
		for (unsigned code = 0, all = 1u << 2 * p; code < all; code++) {
			struct plan_part part[4];
			uint64_t end = 0;
			bool skip = false;

			for (uint32_t r = 0; r < p; r++) {
				part[r] = (struct plan_part){end, code >> 2 * r & 3};
				skip |= part[r].count == 3;
				end += part[r].count;
			}
			if (skip)
				continue;
			for (size_t k = 0; k < NCOLLS; k++)
				for (uint32_t root = 0; root < p; root++, n++)
					wrong += try_parts(colls[k], part, p, root);
		}
	ok(wrong == 0, "%u tables of counts 0 to 2, up to 4 ranks, all algorithms", n);
}

/* Random tables; with gaps and in any order if the collective allows that. */
static void
wander(bool gaps)
{
	unsigned wrong = 0;

	for (unsigned i = 0; i < 300; i++) {
		uint32_t p = 1 + (uint32_t)draw(MAX_RANKS), order[MAX_RANKS];
		enum gpusim_coll coll = colls[draw(NCOLLS)];
		struct plan_part part[MAX_RANKS];
		uint64_t end = 0;

		for (uint32_t r = 0; r < p; r++)
			order[r] = r;
		for (uint32_t r = 0; gaps && r < p; r++) {
			uint32_t q = (uint32_t)draw(p), was = order[r];

			order[r] = order[q];
			order[q] = was;
		}
		for (uint32_t r = 0; r < p; r++) {
			end += gaps ? draw(3) : 0;
			part[order[r]] = (struct plan_part){end, draw(4) ? draw(9) : 0};
			end += part[order[r]].count;
		}
		if (coll == GPUSIM_REDUCESCATTER && gaps)
			continue;
		wrong += try_parts(coll, part, p, (uint32_t)draw(p));
	}
	ok(wrong == 0, "random tables, %s", gaps ? "with gaps, in any order" : "packed");
}

/* A matrix of counts [from][to] as the tables of all ranks. */
static unsigned
try_matrix(const uint64_t *count, uint32_t p, bool gaps)
{
	struct plan_part part[MAX_RANKS * MAX_RANKS], recv[MAX_RANKS * MAX_RANKS];
	struct plan_args a = {
	    .coll = GPUSIM_ALLTOALL, .nranks = p, .part = part, .recv_part = recv};

	for (uint32_t r = 0; r < p; r++) {
		uint64_t sent = 0, received = 0;

		for (uint32_t q = 0; q < p; q++) {
			sent += gaps ? draw(3) : 0;
			received += gaps ? draw(3) : 0;
			part[r * p + q] = (struct plan_part){sent, count[r * p + q]};
			recv[r * p + q] = (struct plan_part){received, count[q * p + r]};
			sent += count[r * p + q];
			received += count[q * p + r];
		}
	}
	a.nelem = parts_end(part, p);
	return try_all(&a, !gaps);
}

static void
alltoall(void)
{
	uint64_t count[MAX_RANKS * MAX_RANKS];
	unsigned wrong = 0;

	for (unsigned code = 0; code < 19683; code++) { /* 3^9 */
		for (unsigned i = 0, rest = code; i < 9; i++, rest /= 3)
			count[i] = rest % 3;
		wrong += try_matrix(count, 3, false);
	}
	ok(wrong == 0, "alltoall: all matrices of counts 0 to 2 of 3 ranks");
	wrong = 0;
	for (unsigned i = 0; i < 200; i++) {
		uint32_t p = 1 + (uint32_t)draw(MAX_RANKS);

		for (uint32_t k = 0; k < p * p; k++)
			count[k] = draw(3) ? draw(7) : 0;
		wrong += try_matrix(count, p, i % 2);
	}
	ok(wrong == 0, "alltoall: random matrices, packed and with gaps");
}

/* ---- from counts */

static bool
takes(enum gpusim_coll coll, const struct parts_given *given, const struct parts_given *recv,
      const char *why)
{
	struct plan_args a = {.coll = coll, .nranks = 3};
	struct plan_part *mem = NULL;
	struct err err = {0};
	enum rc rc = parts_take(&a, given, recv, &mem, &err);
	bool good = why ? rc == RC_INVAL && strstr(err.text, why) && !mem
			: rc == RC_OK && a.nelem == parts_end(a.part, 3);

	if (!good)
		printf("# %s\n", err.text);
	free(mem);
	return good;
}

static void
from_counts(void)
{
	const uint64_t c[] = {2, 0, 5}, far[] = {9, 9, 0}, twice[] = {0, 0, 1},
		       large[] = {1, 1, UINT64_MAX};
	const struct parts_given none = {0}, three = {c, NULL, 3, 0}, two = {c, NULL, 2, 0};
	const struct parts_given apart = {c, far, 3, 3}, over = {c, twice, 3, 3};
	const struct parts_given huge = {large, NULL, 3, 0}, only = {NULL, far, 0, 3};

	ok(takes(GPUSIM_ALLGATHER, &three, &none, NULL) &&
	       takes(GPUSIM_SCATTER, &apart, &none, NULL) &&
	       takes(GPUSIM_SCATTER, &over, &none, NULL) &&
	       takes(GPUSIM_ALLTOALL, &three, &apart, NULL),
	   "counts and displacements as MPI allows them");
	ok(takes(GPUSIM_ALLGATHER, &two, &none, "2 counts for 3 ranks") &&
	       takes(GPUSIM_ALLGATHER, &over, &none, "overlap at element 1") &&
	       takes(GPUSIM_ALLTOALL, &three, &over, "overlap at element 1") &&
	       takes(GPUSIM_GATHER, &huge, &none, "exceeds any memory") &&
	       takes(GPUSIM_REDUCESCATTER, &apart, &none, "not accept displacements") &&
	       takes(GPUSIM_ALLTOALL, &three, &none, "two lists of counts") &&
	       takes(GPUSIM_SCATTER, &three, &three, "one list of counts") &&
	       takes(GPUSIM_GATHER, &only, &none, "without counts") &&
	       takes(GPUSIM_ALLREDUCE, &three, &none, "no parts"),
	   "others are rejected with a reason");
}

/* Counts 5, 0, 3 in one buffer: each rank's part lies where the whole vector has it, except an empty
 * part, which may lie anywhere; other places are rejected. */
static void
in_place(void)
{
	const uint64_t c[] = {5, 0, 3}, base = 4096;
	struct plan_part part[] = {{0, 5}, {5, 0}, {5, 3}};
	bool good = true;

	for (size_t k = 0; k < NCOLLS; k++)
		for (uint32_t r = 0; r < 3; r++) {
			struct plan_args a = {.coll = colls[k],
					      .nranks = 3,
					      .rank = r,
					      .root = r,
					      .nelem = 8,
					      .part = part};
			struct shape s = shape_of_args(&a);
			bool out = s.out < s.in;
			struct err err;

			for (uint64_t off = 0; off < 8; off++) {
				uint64_t own = base + 4 * off;
				enum rc rc =
				    shape_place(&s, out ? base : own, out ? own : base, 4, &err);

				good = good && (rc == RC_OK) == (c[r] == 0 || off == part[r].off);
			}
		}
	ok(good, "parts in place, also empty ones");
}

int
main(void)
{
	exhaust();
	wander(false);
	wander(true);
	alltoall();
	from_counts();
	in_place();
	return tap_done();
}
