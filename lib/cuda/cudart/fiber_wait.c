/*
 * Stacks, and waiting: switches go from stack to stack while a thread is ready or one has not begun. And what kernels
 * call besides operations of warps.
 */
#include "cudart/fiber_impl.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "cudart/helper_impl.h"
#include "gpusim_cuda.h"

_Thread_local struct fiber_index __gpusim_thread_idx, __gpusim_block_idx, __gpusim_block_dim,
    __gpusim_grid_dim;
_Thread_local struct fiber_gang *fiber_here;
__thread int __gpusim_inside;
__thread struct __gpusim_state __gpusim_state;
static fiber_fail_fn *fail_fn;

/* Stacks begin at different offsets of their pages, or their tops would all compete for the same
 * lines of the cache. */
#define SHIFTS	   61
#define SHIFT	   320
#define FIBER_SELF (sizeof(struct fiber) + 63) / 64 * 64

/* ---- stacks */

static void
make_idle(struct fiber_gang *g, struct fiber *f)
{
	unsigned char *stack = f->map + fiber_page();

	fiber_context_make(&f->context, stack, (size_t)((unsigned char *)f - stack), g->loop);
	f->next = g->idle;
	g->idle = f;
}

/*
 * Make the lowest page inaccessible. From Linux 6.13 on that does not split the mapping, of which a process may have
 * 65,530.
 */
static bool
make_guard(void *map)
{
	const int guard_install = 102;

	return madvise(map, fiber_page(), guard_install) == 0 ||
	       mprotect(map, fiber_page(), PROT_NONE) == 0;
}

/* The fiber itself is at the top of its stack: a switch touches fewer lines of the cache. */
static struct fiber *
new_fiber(struct fiber_gang *g)
{
	size_t nbytes = FIBER_STACK + fiber_page(), shift = g->nstacks % SHIFTS * SHIFT;
	unsigned char *map = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct fiber *f;

	if (map == MAP_FAILED)
		return NULL;
	if (!make_guard(map)) {
		munmap(map, nbytes);
		return NULL;
	}
	f = (struct fiber *)(void *)(map + nbytes - shift - FIBER_SELF);
	f->map = map;
	f->all = g->all;
	g->all = f;
	g->nstacks++;
	make_idle(g, f);
	return f;
}

void
fiber_forget(struct fiber_gang *g)
{
	__gpusim_inside = 1;
	g->idle = NULL;
	g->ready = g->barrier = g->yielded = (struct fiber_list){0};
	for (struct fiber *f = g->all; f; f = f->all)
		make_idle(g, f);
	fiber_here = NULL;
}

bool
fiber_is_guard(const struct fiber_gang *g, const void *p)
{
	for (const struct fiber *f = g->all; f; f = f->all)
		if ((uintptr_t)p - (uintptr_t)f->map < fiber_page())
			return true;
	return false;
}

/* ---- threads */

struct fiber *
fiber_take_idle(struct fiber_gang *g)
{
	struct fiber *f = g->idle ? g->idle : new_fiber(g);

	if (f)
		g->idle = f->next;
	else
		g->no_memory = true;
	return f;
}

static void
release_barrier(struct fiber_gang *g)
{
	g->passed = g->at_barrier;
	g->passed_trues = g->trues;
	g->at_barrier = g->trues = 0;
	g->leader = g->barrier.first;
	if (g->ready.last)
		g->ready.last->next = g->barrier.first;
	else
		g->ready.first = g->barrier.first;
	g->ready.last = g->barrier.last;
	g->barrier = (struct fiber_list){0};
}

void
fiber_arrived(struct fiber_gang *g)
{
	if (g->at_barrier && g->at_barrier == g->live)
		release_barrier(g);
}

void
fiber_where(uint32_t block[3], uint32_t thread[3])
{
	struct fiber_index b = __gpusim_block_idx, t = __gpusim_thread_idx;

	memcpy(block, &b, sizeof b);
	memcpy(thread, &t, sizeof t);
}

/* Let other threads of the block run, if there are any. False: there are none. */
static bool
yield(void)
{
	struct fiber_gang *g = fiber_here;

	if (!g || g->phase == PHASE_BLOCK ||
	    (!g->ready.first && !g->yielded.first && g->next == g->nthreads))
		return false;
	fiber_add(&g->yielded, g->current);
	fiber_wait(g);
	return true;
}

/* ---- functions that kernels call: barriers, shared memory, the ways to end a kernel */

void
fiber_on_fail(fiber_fail_fn *fn)
{
	fail_fn = fn;
}

unsigned
__gpusim_barrier(int predicate, unsigned *trues)
{
	struct fiber_gang *g = fiber_here;
	unsigned all = 1;

	if (g) {
		fiber_must_be_thread(g);
		g->trues += predicate != 0;
		g->at_barrier++;
		fiber_add(&g->barrier, g->current);
		fiber_arrived(g);
		fiber_wait(g);
		all = g->passed;
	}
	if (trues)
		*trues = g ? g->passed_trues : predicate != 0;
	return all;
}

#define SLOT 16 /* bytes */

void *
__gpusim_slots(unsigned n)
{
	struct fiber_gang *g = fiber_here;

	if (!g)
		return NULL;
	if (g->nslots < n) {
		free(g->slots);
		g->slots = aligned_alloc(64, (size_t)n * FIBER_THREADS_MAX * SLOT);
		g->nslots = g->slots ? n : 0;
	}
	return g->slots;
}

void *
__gpusim_dynamic_shared(void)
{
	return fiber_here ? fiber_here->shared : NULL;
}

/* Let other threads run; without others, sleep. */
void
__gpusim_nanosleep(unsigned ns)
{
	struct timespec ts = {.tv_nsec = ns < 1000000 ? (long)ns : 1000000};

	if (!yield())
		nanosleep(&ts, NULL);
}

static _Noreturn void
fail(enum fiber_failure why, const char *text)
{
	if (fiber_here && fail_fn)
		fail_fn(why, text);
	fprintf(stderr, "%s\n", text);
	abort();
}

void
fiber_fail(const char *sentence)
{
	fail(FIBER_TRAP, sentence);
}

void
fiber_must_be_thread(const struct fiber_gang *g)
{
	if (g->phase == PHASE_BLOCK)
		fiber_fail(
		    "it calls, by a pointer, a function that waits: compile the kernel with -G");
}

void
__gpusim_trap(void)
{
	fail(FIBER_TRAP, "__trap()");
}

void
__gpusim_assert_fail(const char *text, const char *file, unsigned line, const char *function)
{
	char sentence[300];

	if (!fiber_here)
		__assert_fail(text, file, line, function);
	snprintf(sentence, sizeof sentence, "%s:%u: %s: assertion `%s' failed", file, line,
		 function, text);
	fail(FIBER_ASSERT, sentence);
}
