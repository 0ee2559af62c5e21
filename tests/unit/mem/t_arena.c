/* The allocator against a brute-force map of units, with random calls of a fixed seed. */
#include <inttypes.h>
#include <string.h>

#include "mem/arena.h"

#include "chance.h"
#include "tap.h"

#define NUNITS 97
#define UNIT   256
#define LO     0x10000u

static uint64_t seed;

static uint64_t
rnd(uint64_t n)
{
	return (xorshift_star(&seed) >> 20) % n;
}

/* owner[i]: 0, or 1 + the unit where the allocation that holds unit i starts. */
struct model {
	unsigned owner[NUNITS];
};

/* First fit: the lowest run of n free units, or -1. */
static int
model_fit(const struct model *m, unsigned n)
{
	unsigned i, run = 0;

	for (i = 0; i < NUNITS; i++) {
		run = m->owner[i] ? 0 : run + 1;
		if (run == n)
			return (int)(i + 1 - n);
	}
	return -1;
}

static void
model_stats(const struct model *m, uint64_t *used, uint64_t *nallocs, uint64_t *largest)
{
	unsigned i, run = 0;

	*used = *nallocs = *largest = 0;
	for (i = 0; i < NUNITS; i++) {
		run = m->owner[i] ? 0 : run + 1;
		*used += m->owner[i] ? UNIT : 0;
		*nallocs += m->owner[i] == i + 1;
		if ((uint64_t)run * UNIT > *largest)
			*largest = (uint64_t)run * UNIT;
	}
}

static bool
stats_agree(const struct arena *a, const struct model *m)
{
	uint64_t used, nallocs, largest;

	model_stats(m, &used, &nallocs, &largest);
	return a->used == used && a->nallocs == nallocs && arena_largest(a) == largest;
}

static bool
step_take(struct arena *a, struct model *m)
{
	uint64_t nbytes = rnd(4) ? rnd(5 * UNIT) : rnd(40 * UNIT), addr = 7;
	unsigned n = nbytes ? (unsigned)((nbytes + UNIT - 1) / UNIT) : 1, i;
	int at = model_fit(m, n);
	enum rc rc = arena_take(a, nbytes, &addr, NULL);

	if (at < 0)
		return rc == RC_NOMEM && addr == 7;
	for (i = 0; i < n; i++)
		m->owner[(unsigned)at + i] = (unsigned)at + 1;
	return rc == RC_OK && addr == LO + (uint64_t)at * UNIT;
}

/* Any address at all: most are not the start of an allocation. */
static bool
step_give(struct arena *a, struct model *m)
{
	unsigned u = (unsigned)rnd(NUNITS), i;
	uint64_t addr = LO + u * UNIT + (rnd(8) ? 0 : rnd(UNIT));
	bool is_start = addr % UNIT == 0 && m->owner[u] == u + 1;

	for (i = u; is_start && i < NUNITS; i++)
		if (m->owner[i] == u + 1)
			m->owner[i] = 0;
	return arena_give(a, addr, NULL) == (is_start ? RC_OK : RC_INVAL);
}

static void
test_model(uint64_t first_seed)
{
	struct model m = {{0}};
	struct arena a = {0};
	int i, takes = 0, wrong = -1;
	bool good;

	seed = first_seed;
	if (!ok(arena_init(&a, LO, LO + NUNITS * UNIT, UNIT, NULL) == RC_OK, "init"))
		return;
	for (i = 0; i < 100000 && wrong < 0; i++) {
		/* Swing between nearly empty and nearly full. */
		if (rnd(100) < (i / 500 % 2 ? 15 : 50)) {
			good = step_take(&a, &m);
			takes++;
		} else {
			good = step_give(&a, &m);
		}
		if (!good || !stats_agree(&a, &m))
			wrong = i;
	}
	ok(wrong < 0, "%d random calls agree with the model (%d of them take)", i, takes);
	if (wrong >= 0)
		printf("# seed %" PRIu64 ", call %d\n", first_seed, wrong);
	arena_fini(&a);
}

/* As many blocks as fit, freed from both ends and the middle: one hole is left. */
static void
test_many(void)
{
	const uint64_t n = 100000;
	struct arena a = {0};
	uint64_t i, addr, bad = 0;

	arena_init(&a, LO, LO + n * UNIT, UNIT, NULL);
	for (i = 0; i < n; i++)
		bad += arena_take(&a, 1, &addr, NULL) != RC_OK || addr != LO + i * UNIT;
	ok(bad == 0 && arena_largest(&a) == 0, "%" PRIu64 " blocks fill the arena in address order",
	   n);
	ok(arena_take(&a, 0, &addr, NULL) == RC_NOMEM, "then not even an empty one fits");
	for (i = 0; i < n; i += 2)
		bad += arena_give(&a, LO + i * UNIT, NULL) != RC_OK;
	ok(bad == 0 && arena_largest(&a) == UNIT, "every other one freed: holes of one unit");
	for (i = 1; i < n; i += 2)
		bad += arena_give(&a, LO + i * UNIT, NULL) != RC_OK;
	ok(bad == 0 && arena_largest(&a) == n * UNIT && a.used == 0 && a.nallocs == 0,
	   "all freed: one hole");
	arena_fini(&a);
	arena_fini(&a);
}

static void
test_errors(void)
{
	static const uint64_t huge[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - UNIT + 1,
					(uint64_t)1 << 63, 10 * UNIT + 1};
	struct arena a = {0};
	struct err err = {0};
	uint64_t addr = 7, got, i, bad = 0;

	arena_init(&a, LO, LO + 10 * UNIT, UNIT, NULL);
	for (i = 0; i < sizeof huge / sizeof huge[0]; i++)
		bad += arena_take(&a, huge[i], &addr, &err) != RC_NOMEM;
	ok(bad == 0 && addr == 7, "sizes up to 2^64-1 are refused without wrapping");
	arena_take(&a, 2 * UNIT, &got, NULL);
	arena_take(&a, UNIT, &addr, NULL);
	arena_give(&a, got, NULL);
	ok(arena_take(&a, 8 * UNIT, &addr, &err) == RC_NOMEM &&
	       strcmp(err.text,
		      "no room for 2048 bytes: 2304 of 2560 are free, the largest hole has "
		      "1792") == 0,
	   "%s", err.text);
	ok(arena_give(&a, got, &err) == RC_INVAL && strstr(err.text, "0x10000"), "freed twice: %s",
	   err.text);
	ok(arena_give(&a, 0, NULL) == RC_INVAL && arena_give(&a, UINT64_MAX, NULL) == RC_INVAL,
	   "addresses outside are refused");
	arena_fini(&a);
}

/* At given places, against a map of units. */
static void
test_put(void)
{
	enum { N = 64 };
	struct arena a = {0};
	struct err err = {0};
	bool used[N] = {false};
	unsigned bad = 0;
	uint64_t s = 99;

	arena_init(&a, LO, LO + N * UNIT, UNIT, NULL);
	for (unsigned k = 0; k < 20000; k++) {
		uint64_t i, n, taken = 0;

		s = s * 6364136223846793005ull + 1442695040888963407ull;
		i = s >> 58;
		n = 1 + (s >> 40) % 5;
		for (uint64_t j = i; j < i + n && j < N; j++)
			taken += used[j];
		bad += arena_covers(&a, LO + i * UNIT, n * UNIT) != (taken == n);
		if (arena_size(&a, LO + i * UNIT)) {
			n = arena_size(&a, LO + i * UNIT) / UNIT;
			bad += arena_give(&a, LO + i * UNIT, NULL) != RC_OK;
			memset(&used[i], 0, n);
			continue;
		}
		bad += (arena_put(&a, LO + i * UNIT, n * UNIT, &err) == RC_OK) !=
		       (taken == 0 && i + n <= N);
		if (taken == 0 && i + n <= N)
			memset(&used[i], 1, n);
	}
	for (uint64_t i = 0; i < N; i++)
		bad += arena_covers(&a, LO + i * UNIT + 7, 1) != used[i];
	ok(bad == 0, "allocations at given places, where all of it is free");
	ok(arena_put(&a, LO + 1, UNIT, NULL) == RC_INVAL &&
	       arena_put(&a, LO, 1, NULL) == RC_INVAL && arena_put(&a, LO, 0, NULL) == RC_INVAL &&
	       arena_put(&a, LO - UNIT, UNIT, NULL) == RC_INVAL &&
	       arena_put(&a, LO, UINT64_MAX - UNIT + 1, &err) == RC_INVAL &&
	       !arena_covers(&a, UINT64_MAX, 2) && arena_covers(&a, 0, 0),
	   "no parts of units, none outside: %s", err.text);
	arena_fini(&a);
}

int
main(void)
{
	test_model(1);
	test_model(0x123456789);
	test_many();
	test_errors();
	test_put();
	return tap_done();
}
