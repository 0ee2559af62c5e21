/*
 * Canonical sums. In memory: every bit equals that of a naive sum by the tree, for every float, redop,
 * instruction set, cut and place. In plans: the checker proves the tree of every result, and rejects
 * other orders.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coll/check.h"
#include "coll/tune.h"
#include "mem/dtype.h"
#include "mem/number.h"
#include "mem/redop.h"
#include "mem/reduce_isa.h"
#include "mem/reduce_many.h"

#include "chance.h"
#include "coll_sweep.h"
#include "tap.h"

#define MAX_SOURCES 17
#define MAX_NELEM   704 /* rows are whole lines */

/* ---- in memory */

static _Alignas(64) unsigned char source[MAX_SOURCES][8 * MAX_NELEM + 64],
    got[3][8 * MAX_NELEM + 64];

/* Numbers that do not add up alike in two orders; zeros of both signs; infinities and NaNs of many patterns. */
static void
fill(enum gpusim_dtype t, unsigned char *v, size_t nelem, uint64_t *seed)
{
	for (size_t i = 0; i < nelem; i++) {
		uint64_t bits = xorshift_star(seed);
		union number n = {
		    .real = ldexp((double)(int64_t)xorshift_star(seed), -50 - (int)(bits % 24))};

		if (bits % 16 == 0)
			n.real = bits & 32 ? -0.0 : 0.0;
		else if (bits % 64 == 1)
			n.real = bits & 128 ? -INFINITY : INFINITY;
		number_put(t, v + i * dtype_size(t), n);
		if (bits % 64 == 2) /* any bits at all */
			memcpy(v + i * dtype_size(t), &bits, dtype_size(t));
	}
}

static union number
tree(enum gpusim_dtype t, enum gpusim_redop redop, unsigned first, unsigned n, size_t i)
{
	unsigned left = 1;

	if (n == 1)
		return number_get(t, source[first] + i * dtype_size(t));
	while (2 * left < n)
		left *= 2;
	return number_fold(t, redop, tree(t, redop, first, left, i),
			   tree(t, redop, first + left, n - left, i));
}

/* One element, by the header's definition. */
static void
expected(enum gpusim_dtype t, enum gpusim_redop redop, unsigned n, size_t i, unsigned char out[8])
{
	union number x = number_finish(t, redop, tree(t, redop, 0, n, i), n);

	if (isnan(x.real))
		x.real = (double)NAN;
	number_put(t, out, x);
}

/* A number of sources on one instruction set: alone, in three places past the caches, cut, and in place. */
static bool
right(const struct reduce_isa *isa, enum gpusim_dtype t, enum gpusim_redop redop, unsigned n,
      size_t nelem)
{
	static unsigned char place[8 * MAX_NELEM + 64];
	size_t size = dtype_size(t), cut = nelem / 3;
	const void *src[MAX_SOURCES], *tail[MAX_SOURCES];
	void *dst[3] = {got[0] + 16, got[1] + 16, got[2] + 16}, *end = got[1] + 16 + cut * size;

	for (unsigned k = 0; k < n; k++) {
		src[k] = source[k];
		tail[k] = source[k] + cut * size;
	}
	for (int how = 0; how < 4; how++) {
		const unsigned char *out = dst[0];

		memset(got, 0x5a, sizeof got);
		if (how == 0) {
			reduce_many_on(isa, t, redop, dst, 1, src, n, nelem, REDUCE_CANONICAL);
		} else if (how == 1) {
			reduce_many_on(isa, t, redop, dst, 3, src, n, nelem,
				       REDUCE_CANONICAL | REDUCE_STREAM);
			out = dst[2];
		} else if (how == 2) {
			reduce_many_on(isa, t, redop, &dst[1], 1, src, n, cut, REDUCE_CANONICAL);
			reduce_many_on(isa, t, redop, &end, 1, tail, n, nelem - cut,
				       REDUCE_CANONICAL);
			out = dst[1];
		} else {
			memcpy(place, source[n - 1], nelem * size);
			src[n - 1] = out = place;
			reduce_many_on(isa, t, redop, (void *[]){place}, 1, src, n, nelem,
				       REDUCE_CANONICAL);
		}
		for (size_t i = 0; i < nelem; i++) {
			unsigned char want[8];

			expected(t, redop, n, i, want);
			if (memcmp(want, out + i * size, size) == 0)
				continue;
			printf("#   %s, %u sources, way %d: element %zu\n", isa->name, n, how, i);
			return false;
		}
	}
	return true;
}

static void
test_memory(enum gpusim_dtype t, enum gpusim_redop redop)
{
	uint64_t seed = 13;
	const struct reduce_isa *isa;
	bool good = true;

	for (unsigned k = 0; k < MAX_SOURCES; k++)
		fill(t, source[k], MAX_NELEM, &seed);
	for (unsigned i = 0; (isa = reduce_isa_at(i)); i++)
		for (unsigned n = 2; n <= MAX_SOURCES && good; n++)
			good = right(isa, t, redop, n, n % 2 ? MAX_NELEM : 1 + 37 * n % MAX_NELEM);
	ok(good, "%s %s by the canonical tree, in any place and cut", dtype_name(t),
	   redop_name(redop));
}

/* Integers need no order. */
static void
test_whole(void)
{
	int32_t a[3][5] = {{1, 2, 3, 4, 5}, {INT32_MAX, 0, -7, 9, 1}, {1, 1, 1, 1, 1}}, x[5], y[5];
	const void *src[] = {a[0], a[1], a[2]};

	reduce_many(GPUSIM_I32, GPUSIM_SUM, (void *[]){x}, 1, src, 3, 5, REDUCE_CANONICAL);
	reduce_many(GPUSIM_I32, GPUSIM_SUM, (void *[]){y}, 1, src, 3, 5, 0);
	ok(memcmp(x, y, sizeof x) == 0, "integers are unchanged");
}

/* ---- in plans */

static bool
proves(const struct plan_algo *row, enum plan_place place)
{
	static const uint64_t chunks[] = {0, 1, 3};
	bool good = true;

	for (uint32_t p = 2; p <= 17 && good; p++)
		for (uint32_t j = 0; j < 15 && good; j++) {
			const uint64_t nelem[] = {1, p - 1, p + 1, 2 * p + 1, 23};
			struct plan_args a = {.coll = row->coll,
					      .nranks = p,
					      .root = coll_has_root(row->coll) ? p / 2 : 0,
					      .nelem = nelem[j % 5],
					      .chunk = chunks[j / 5],
					      .share = chunks[j / 5],
					      .wide = p % 2,
					      .canonical = true};
			struct err err = {0};

			good = plan_check(&a, row->name, place, NULL, &err) == RC_OK;
			if (!good) {
				print_case(&a, place);
				printf("#   %s\n", err.text);
			}
		}
	return good;
}

static bool
is_refused(const struct plan_algo *row)
{
	struct plan_args a = {.coll = row->coll, .nranks = 3, .nelem = 6, .canonical = true};
	struct plan plan = {0};
	struct err err = {0};
	bool good = plan_build(&a, row->name, &plan, &err) == RC_INVAL &&
		    strstr(err.text, row->name) && strstr(err.text, "deterministic");

	plan_fini(&plan);
	return good;
}

static void
test_plans(void)
{
	unsigned can = 0;

	for (const struct plan_algo *row = plan_algos; row->name; row++) {
		if (!coll_reduces(row->coll))
			continue;
		can += plan_algo_canonical(row);
		if (plan_algo_canonical(row))
			ok(proves(row, PLAN_OUT_OF_PLACE) && proves(row, PLAN_IN_PLACE),
			   "%s %s: the checker proves the tree", coll_name(row->coll), row->name);
		else
			ok(is_refused(row), "%s %s: refused", coll_name(row->coll), row->name);
	}
	ok(can >= 7, "%u algorithms are canonical", can);
}

/* The checker distinguishes a sum in rank order from the tree, from four ranks on. */
static void
test_other_order(void)
{
	for (uint32_t p = 3; p <= 5; p++) {
		struct plan_args a = {
		    .coll = GPUSIM_ALLREDUCE, .nranks = p, .nelem = 5, .chunk = 2};
		struct err err = {0};
		struct plan *plans;

		if (plan_build_all(&a, "naive", &plans, &err))
			tap_bail(err.text);
		a.canonical = true;
		ok((plan_check_plans(&a, PLAN_OUT_OF_PLACE, plans, NULL, &err) == RC_OK) ==
		       (p == 3),
		   "%u ranks from the left: %s", p, p == 3 ? "the same tree" : err.text);
		plan_free_all(plans, p);
	}
}

/* One step of a canonical plan changed. */
static void
test_mutants(void)
{
	static const struct {
		enum gpusim_coll coll;
		const char *algo;
	} rows[] = {{GPUSIM_ALLREDUCE, "pairwise"},
		    {GPUSIM_REDUCESCATTER, "pairwise"},
		    {GPUSIM_REDUCE, "naive"}};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct plan_args a = {.coll = rows[i].coll,
				      .nranks = 4,
				      .root = 2,
				      .nelem = 12,
				      .chunk = 2,
				      .canonical = true};

		ok(mutants_refused(&a, rows[i].algo), "%s %s: one step changed is refused",
		   coll_name(a.coll), rows[i].algo);
	}
}

int
main(void)
{
	for (int t = 0; t < GPUSIM_NDTYPES; t++)
		for (int r = 0; r < GPUSIM_NREDOPS && dtype_is_float((enum gpusim_dtype)t); r++)
			if (redop_takes((enum gpusim_redop)r, (enum gpusim_dtype)t))
				test_memory((enum gpusim_dtype)t, (enum gpusim_redop)r);
	test_whole();
	test_plans();
	test_other_order();
	test_mutants();
	return tap_done();
}
