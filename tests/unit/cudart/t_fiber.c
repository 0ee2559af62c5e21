/* The threads of a block on one system thread: order, barriers, warps, exits, deadlocks, shared memory. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cudart/fiber.h"
#include "cudart/fiber_impl.h"
#include "gpusim_cuda.h"
#include "tap.h"

static struct fiber_gang *gang;
static unsigned seen[1 << 16], nseen;
static unsigned bad;

static unsigned
self(void)
{
	struct fiber_index i = __gpusim_thread_idx, b = __gpusim_block_dim;

	return (i.z * b.y + i.y) * b.x + i.x;
}

static enum fiber_end
run(void (*f)(void *const *), unsigned blocks, unsigned x, unsigned y, unsigned z, uint64_t shared)
{
	struct fiber_grid g = {
	    .grid = {blocks, 1, 1}, .block = {x, y, z}, .shared = shared, .run = f};

	nseen = bad = 0;
	return fiber_run(gang, &g, NULL);
}

static unsigned
stacks(void)
{
	unsigned n = 0;

	for (struct fiber *f = gang->all; f; f = f->all)
		n++;
	return n;
}

static void
plain(void *const *args)
{
	(void)args;
	seen[nseen++] = __gpusim_block_idx.x * 10000 + self();
}

static void
test_order(void)
{
	bool right = true;

	ok(run(plain, 3, 4, 5, 6, 0) == FIBER_ENDED && nseen == 360, "every thread runs once");
	for (unsigned i = 0; i < nseen; i++)
		right = right && seen[i] == i / 120 * 10000 + i % 120;
	ok(right, "in order: x, y, z, blocks");
	ok(stacks() == 1, "without barriers one stack is enough");
}

static unsigned slot[1024];

static void
barriers(void *const *args)
{
	unsigned i = self(), n = __gpusim_block_dim.x, trues, all;

	(void)args;
	for (unsigned round = 0; round < 5; round++) {
		slot[i] = round * 1000 + i;
		__gpusim_barrier(0, NULL);
		bad += slot[(i + 1) % n] != round * 1000 + (i + 1) % n;
		all = __gpusim_barrier(i % 3 == 0, &trues);
		bad += all != n || trues != (n + 2) / 3;
	}
	nseen++;
}

/* Threads of the upper half end before the barrier. */
static void
leaving(void *const *args)
{
	unsigned n = __gpusim_block_dim.x, trues;

	(void)args;
	if (self() >= n / 2)
		return;
	bad += __gpusim_barrier(1, &trues) != n / 2 || trues != n / 2;
	nseen++;
}

static void
test_barriers(void)
{
	ok(run(barriers, 2, 257, 1, 1, 0) == FIBER_ENDED && nseen == 514 && bad == 0,
	   "nobody passes a barrier before all are there; predicates are counted");
	ok(run(leaving, 1, 64, 1, 1, 0) == FIBER_ENDED && nseen == 32 && bad == 0,
	   "a barrier does not wait for threads that have ended");
	ok(run(barriers, 1, 1, 1, 1, 0) == FIBER_ENDED || bad == 0, "a block of one thread");
	ok(run(barriers, 1, 1024, 1, 1, 0) == FIBER_ENDED && nseen == 1024 && bad == 0,
	   "the largest block");
}

static void
warps(void *const *args)
{
	unsigned i = self(), lane = i % 32, n = __gpusim_block_dim.x;
	unsigned here = n - i / 32 * 32 < 32 ? n % 32 : 32;
	uint64_t sum = 0;

	(void)args;
	for (unsigned l = 0; l < here; l++)
		sum += l * l;
	for (unsigned k = 0; k < 3; k++)
		bad += __gpusim_warp(GPUSIM_WARP_SHFL, ~0u, 100 * k + lane, (lane + 1) % here) !=
		       100 * k + (lane + 1) % here;
	bad += __gpusim_warp(GPUSIM_WARP_ADD, ~0u, lane * lane, 0) != sum;
	bad += __gpusim_warp(GPUSIM_WARP_BALLOT, ~0u, lane & 1, 0) !=
	       (0xaaaaaaaau & (here == 32 ? ~0u : (1u << here) - 1));
	bad += (int64_t)__gpusim_warp(GPUSIM_WARP_MIN, ~0u, (uint64_t) - (int64_t)lane, 0) !=
	       -(int64_t)(here - 1);
	bad += __gpusim_warp(GPUSIM_WARP_UMAX, ~0u, lane, 0) != here - 1;
	bad += (__gpusim_warp(GPUSIM_WARP_MATCH, ~0u, lane % 2, 0) >> lane & 1) != 1;
	bad += __gpusim_warp(GPUSIM_WARP_MATCH_ALL, ~0u, lane, 0) != (here == 1 ? 1u : 0u);
	/* Both halves separately. */
	bad += __gpusim_warp(GPUSIM_WARP_OR, lane < 16 ? 0xffffu : 0xffff0000u, UINT64_C(1) << lane,
			     0) >>
		   (lane < 16 ? 16 : 32) !=
	       0;
	nseen++;
}

/* Lanes that reach a line together. */
static void
active(void *const *args)
{
	unsigned lane = self();
	uint64_t mine;

	(void)args;
	if (lane % 4 == 0) {
		mine = __gpusim_warp(GPUSIM_WARP_ACTIVE, ~0u, 0, 1);
		bad += mine != 0x11111111;
		bad += __gpusim_warp(GPUSIM_WARP_ADD, (uint32_t)mine, 1, 0) != 8;
	}
	__gpusim_barrier(0, NULL);
	nseen++;
}

static void
test_warps(void)
{
	ok(run(warps, 2, 96, 1, 1, 0) == FIBER_ENDED && nseen == 192 && bad == 0,
	   "lanes exchange, count and reduce");
	ok(run(warps, 1, 45, 1, 1, 0) == FIBER_ENDED && nseen == 45 && bad == 0,
	   "so do those of a warp that is not full");
	ok(run(active, 1, 32, 1, 1, 0) == FIBER_ENDED && nseen == 32 && bad == 0,
	   "the active lanes are those that come to the same line");
}

static void
one_waits(void *const *args)
{
	(void)args;
	if (self() == 3)
		__gpusim_warp(GPUSIM_WARP_SYNC, ~0u, 0, 0);
	else
		__gpusim_barrier(0, NULL);
}

static volatile unsigned flag;

static void
spins(void *const *args)
{
	(void)args;
	if (self() == 0)
		while (!flag)
			__gpusim_nanosleep(100);
	else
		flag = 1;
	nseen++;
}

static void
test_waiting(void)
{
	ok(run(one_waits, 1, 8, 1, 1, 0) == FIBER_STUCK,
	   "threads that wait for each other are told");
	ok(run(barriers, 1, 64, 1, 1, 0) == FIBER_ENDED && bad == 0, "and the next kernel runs");
	flag = 0;
	ok(run(spins, 1, 4, 1, 1, 0) == FIBER_ENDED && nseen == 4,
	   "a thread that naps lets the others run");
}

/* ---- blocks and gangs */

static atomic_uint both[64];

static void
count_block(void *const *args)
{
	(void)args;
	atomic_fetch_add(&both[__gpusim_block_idx.x], 1);
	__gpusim_barrier(0, NULL);
}

static void *
other_gang(void *arg)
{
	struct fiber_gang *g = fiber_gang_new();
	const struct fiber_grid grid = {
	    .grid = {64, 1, 1}, .block = {40, 1, 1}, .run = count_block};

	fiber_run(g, &grid, arg);
	fiber_gang_free(g);
	return NULL;
}

static void
test_team(void)
{
	struct fiber_team team = {0};
	pthread_t t[2];
	bool right = true;

	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, other_gang, &team);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < 64; i++)
		right = right && atomic_load(&both[i]) == 40;
	ok(right && atomic_load(&team.ended) == 64, "gangs share a grid: each block runs once");
	team = (struct fiber_team){.stop = 1};
	other_gang(&team);
	ok(atomic_load(&team.ended) == 0 && atomic_load(&both[0]) == 40,
	   "a grid that is stopped begins no block");
}

/* A kernel with a part for all threads of a block: the first block is left to single threads. */
static void
in_parts(void *const *args)
{
	(void)args;
	if (__gpusim_inside == 2) {
		bad += __gpusim_thread_idx.x != UINT32_MAX;
		__gpusim_state.done = __gpusim_block_idx.x > 0;
		__gpusim_state.rounds = 7;
		bad +=
		    !__gpusim_slots(2) || !__gpusim_slots(3) || (uintptr_t)__gpusim_slots(1) % 64;
		nseen += 100;
		return;
	}
	bad += __gpusim_block_idx.x > 0 || __gpusim_state.rounds != 7;
	__gpusim_barrier(0, NULL);
	nseen++;
}

static void
test_parts(void)
{
	struct fiber_grid g = {
	    .grid = {3, 1, 1}, .block = {5, 1, 1}, .run = in_parts, .flags = GPUSIM_KERNEL_BLOCK};

	nseen = bad = 0;
	__gpusim_inside = 1;
	ok(fiber_run(gang, &g, NULL) == FIBER_ENDED && nseen == 305 && bad == 0,
	   "a kernel's part for all threads runs first, and may leave nothing");
}

static void
shared(void *const *args)
{
	unsigned char *s = __gpusim_dynamic_shared();
	uint64_t n = *(const uint64_t *)args;

	s[self()] = (unsigned char)self();
	s[n - 1] = 7;
	__gpusim_barrier(0, NULL);
	bad += s[(self() + 1) % __gpusim_block_dim.x] != (self() + 1) % __gpusim_block_dim.x;
	bad += (uintptr_t)s % 16 != 0;
}

static void
test_shared(void)
{
	uint64_t n = 100000;
	struct fiber_grid g = {.grid = {2, 1, 1},
			       .block = {64, 1, 1},
			       .shared = n,
			       .run = shared,
			       .args = (void *const *)&n};

	bad = 0;
	ok(fiber_run(gang, &g, NULL) == FIBER_ENDED && bad == 0, "a block's dynamic shared memory");
	ok(fiber_is_guard(gang, gang->all->map) &&
	       !fiber_is_guard(gang, gang->all->map + FIBER_STACK),
	   "a stack ends at a guard");
}

int
main(void)
{
	gang = fiber_gang_new();
	test_order();
	test_barriers();
	test_warps();
	test_waiting();
	test_shared();
	test_team();
	test_parts();
	fiber_gang_free(gang);
	return tap_done();
}
