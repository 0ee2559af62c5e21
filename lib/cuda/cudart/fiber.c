/*
 * A block's threads.
 *
 * Design notes. Everything runs on one system thread; nothing is shared. fiber_run's own stack is
 * the scheduler: it resumes threads that are ready, begins the next thread on an idle stack, and
 * notices when no thread can continue. A stack begins threads one after the other in loop(); a
 * thread that waits leaves its stack in a list, and the scheduler takes another. A fault leaves a
 * block by a jump, so nothing here may need unwinding.
 */
#include "cudart/fiber_impl.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cudart/helper_impl.h"
#include "gpusim_cuda.h"

_Thread_local struct fiber_index __gpusim_thread_idx, __gpusim_block_idx, __gpusim_block_dim,
    __gpusim_grid_dim;
static _Thread_local struct fiber_gang *fiber_gang_here;
__thread int __gpusim_inside;
__thread struct __gpusim_state __gpusim_state;
static fiber_fail_fn *fail_fn;

#define SHARED_ALIGN 128
/* Stacks begin at different offsets of their pages, or their tops would all compete for the same
 * lines of the cache. */
#define SHIFTS	   61
#define SHIFT	   320
#define FIBER_SELF (sizeof(struct fiber) + 63) / 64 * 64

static size_t
page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- stacks */

static struct fiber *
take(struct fiber_list *l)
{
	struct fiber *f = l->first;

	if (f) {
		l->first = f->next;
		if (!l->first)
			l->last = NULL;
	}
	return f;
}

static void loop(void);

static void
make_idle(struct fiber_gang *g, struct fiber *f)
{
	unsigned char *stack = f->map + page();

	fiber_context_make(&f->context, stack, (size_t)((unsigned char *)f - stack), loop);
	f->next = g->idle;
	g->idle = f;
}

/* The fiber itself is at the top of its stack: a switch touches fewer lines of the cache. */
static struct fiber *
new_fiber(struct fiber_gang *g)
{
	size_t nbytes = FIBER_STACK + page(), shift = g->nstacks % SHIFTS * SHIFT;
	unsigned char *map = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct fiber *f;

	if (map == MAP_FAILED)
		return NULL;
	if (mprotect(map, page(), PROT_NONE) != 0) {
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
	fiber_gang_here = NULL;
}

bool
fiber_is_guard(const struct fiber_gang *g, const void *p)
{
	for (const struct fiber *f = g->all; f; f = f->all)
		if ((uintptr_t)p - (uintptr_t)f->map < page())
			return true;
	return false;
}

/* ---- threads */

struct fiber_gang *
fiber_here(void)
{
	return fiber_gang_here;
}

/* A stack that begins threads. NULL: out of memory. */
static struct fiber *
take_idle(struct fiber_gang *g)
{
	struct fiber *f = g->idle ? g->idle : new_fiber(g);

	if (f)
		g->idle = f->next;
	else
		g->no_memory = true;
	return f;
}

/* The next stack to continue on: of a thread that is ready, or one that begins threads. NULL: fiber_run decides. */
static inline struct fiber *
next_stack(struct fiber_gang *g)
{
	if (g->ready.first)
		return take(&g->ready);
	return g->next < g->nthreads ? take_idle(g) : NULL;
}

static inline void
go_on(struct fiber_gang *g, struct fiber_context *from)
{
	struct fiber *f = next_stack(g);

	if (!f) {
		fiber_context_switch(from, &g->base);
		return;
	}
	g->current = f;
	*g->index = f->at;
	if (from != &f->context)
		fiber_context_switch(from, &f->context);
}

void
fiber_wait(struct fiber_gang *g)
{
	go_on(g, &g->current->context);
}

/* Advance an index, x first. */
static void
advance(struct fiber_gang *g)
{
	const uint32_t *block = g->grid->block;

	g->next++;
	if (++g->at.x < block[0])
		return;
	g->at.x = 0;
	if (++g->at.y < block[1])
		return;
	g->at.y = 0;
	g->at.z++;
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

/* A thread has reached the barrier, or ended: the barrier opens when all live threads have reached it. */
static void
fiber_arrived(struct fiber_gang *g)
{
	if (g->at_barrier && g->at_barrier == g->live)
		release_barrier(g);
}

static void
ended(struct fiber_gang *g, uint32_t thread)
{
	struct fiber_warp *w = &g->warp[thread / FIBER_WARP];

	g->live--;
	w->alive &= ~(1u << thread % FIBER_WARP);
	if (w->waiting)
		fiber_warp_ended(g, thread);
	fiber_arrived(g);
}

/* The part of a kernel that runs for all threads together; perhaps it is all of it. */
static void
run_block_part(struct fiber_gang *g)
{
	__gpusim_inside = 2;
	*g->index = (struct fiber_index){UINT32_MAX, UINT32_MAX, UINT32_MAX};
	g->grid->run(g->grid->args);
	__gpusim_inside = 1;
	g->phase = PHASE_THREADS;
	if (__gpusim_state.done) {
		g->live = 0;
		g->next = g->nthreads;
	}
}

/* The loop of a stack: begin threads while no waiting thread is ready. */
static void
loop(void)
{
	fiber_context_begin();
	for (;;) {
		struct fiber_gang *g = fiber_gang_here;
		struct fiber *f = g->current;

		if (g->phase == PHASE_BLOCK) {
			run_block_part(g);
		} else if (g->next < g->nthreads && !g->ready.first) {
			f->thread = g->next;
			f->at = *g->index = g->at;
			advance(g);
			g->grid->run(g->grid->args);
			ended(g, f->thread);
		} else {
			f->next = g->idle;
			g->idle = f;
			if (g->ready.first)
				go_on(g, &f->context);
			else
				fiber_context_switch(&f->context, &g->base);
		}
	}
}

static void
begin_block(struct fiber_gang *g)
{
	const uint32_t *b = g->grid->block;
	uint32_t n = b[0] * b[1] * b[2];

	g->nthreads = g->live = n;
	g->next = g->at_barrier = g->trues = 0;
	g->at = (struct fiber_index){0, 0, 0};
	for (uint32_t w = 0; w * FIBER_WARP < n; w++) {
		uint32_t left = n - w * FIBER_WARP;

		g->warp[w].alive = left >= FIBER_WARP ? UINT32_MAX : (1u << left) - 1;
		g->warp[w].waiting = 0;
	}
}

static enum fiber_end
run_block(struct fiber_gang *g)
{
	begin_block(g);
	while (g->live) {
		struct fiber *f = next_stack(g);

		if (g->no_memory)
			return FIBER_NO_MEMORY;
		if (!f)
			f = take(&g->yielded);
		if (!f) {
			if (!fiber_warp_settle(g))
				return FIBER_STUCK;
			continue;
		}
		g->current = f;
		*g->index = f->at;
		fiber_context_switch(&g->base, &f->context);
	}
	return FIBER_ENDED;
}

/* ---- grids */

static void
drop_shared(struct fiber_gang *g)
{
	if (g->shared_map)
		munmap(g->shared_map, g->shared_map_nbytes);
	g->shared_map = g->shared = NULL;
	g->shared_nbytes = 0;
}

/* Its end is at a guard page. */
static bool
make_shared(struct fiber_gang *g, uint64_t nbytes)
{
	size_t want = (size_t)(nbytes + SHARED_ALIGN - 1) / SHARED_ALIGN * SHARED_ALIGN;
	size_t room = (want + page() - 1) / page() * page();
	void *map;

	if (g->shared_map && want == g->shared_nbytes)
		return true;
	drop_shared(g);
	map = mmap(NULL, room + page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return false;
	g->shared_map = map;
	g->shared_map_nbytes = room + page();
	g->shared_nbytes = want;
	g->shared = g->shared_map + room - want;
	return mprotect(g->shared_map + room, page(), PROT_NONE) == 0;
}

static struct fiber_index
index_of(const uint32_t v[3])
{
	return (struct fiber_index){v[0], v[1], v[2]};
}

/* ---- a grid's blocks, taken by one or several gangs */

static void
place(const struct fiber_grid *grid, uint64_t n)
{
	uint64_t row = n / grid->grid[0];

	__gpusim_block_idx =
	    (struct fiber_index){(uint32_t)(n % grid->grid[0]), (uint32_t)(row % grid->grid[1]),
				 (uint32_t)(row / grid->grid[1])};
}

static enum fiber_end
run_blocks(struct fiber_gang *g, struct fiber_team *t)
{
	uint64_t n = (uint64_t)g->grid->grid[0] * g->grid->grid[1] * g->grid->grid[2];

	while ((g->block = atomic_fetch_add(&t->next, 1)) < n) {
		enum fiber_end end;

		if (atomic_load_explicit(&t->stop, memory_order_relaxed))
			return FIBER_STOPPED;
		place(g->grid, g->block);
		__gpusim_state = (struct __gpusim_state){0};
		g->phase = g->grid->flags & GPUSIM_KERNEL_BLOCK ? PHASE_BLOCK : PHASE_THREADS;
		end = run_block(g);
		if (end != FIBER_ENDED)
			return end;
		fiber_block_ended(t);
	}
	return FIBER_ENDED;
}

static enum fiber_end
enter(struct fiber_gang *g, const struct fiber_grid *grid,
      enum fiber_end (*run)(struct fiber_gang *, struct fiber_team *), struct fiber_team *team)
{
	enum fiber_end end;

	if (!make_shared(g, grid->shared))
		return FIBER_NO_MEMORY;
	g->grid = grid;
	g->team = team;
	g->index = &__gpusim_thread_idx;
	g->no_memory = false;
	__gpusim_block_dim = index_of(grid->block);
	__gpusim_grid_dim = index_of(grid->grid);
	fiber_gang_here = g;
	end = run(g, team);
	if (end == FIBER_STUCK || end == FIBER_NO_MEMORY)
		fiber_forget(g);
	fiber_gang_here = NULL;
	return end;
}

enum fiber_end
fiber_run(struct fiber_gang *g, const struct fiber_grid *grid, struct fiber_team *team)
{
	struct fiber_team own = {0};

	return enter(g, grid, run_blocks, team ? team : &own);
}

static enum fiber_end
run_again(struct fiber_gang *g, struct fiber_team *t)
{
	(void)t;
	place(g->grid, g->block);
	__gpusim_state = (struct __gpusim_state){0};
	g->phase = PHASE_THREADS;
	return run_block(g);
}

enum fiber_end
fiber_again(struct fiber_gang *g)
{
	return enter(g, g->grid, run_again, g->team);
}

bool
fiber_in_block_part(const struct fiber_gang *g)
{
	return g->phase == PHASE_BLOCK;
}

struct fiber_gang *
fiber_gang_new(void)
{
	return calloc(1, sizeof(struct fiber_gang));
}

void
fiber_gang_free(struct fiber_gang *g)
{
	struct fiber *f = g ? g->all : NULL;

	while (f) {
		struct fiber *next = f->all;

		munmap(f->map, FIBER_STACK + page());
		f = next;
	}
	if (g) {
		drop_shared(g);
		free(g->slots);
	}
	free(g);
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
	struct fiber_gang *g = fiber_gang_here;

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
	struct fiber_gang *g = fiber_gang_here;
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
	struct fiber_gang *g = fiber_gang_here;

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
	return fiber_gang_here ? fiber_gang_here->shared : NULL;
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
	if (fiber_gang_here && fail_fn)
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
		fiber_fail("it waits in a function that nvcc did not see: compile its file with "
			   "-rdc=true");
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

	if (!fiber_gang_here)
		__assert_fail(text, file, line, function);
	snprintf(sentence, sizeof sentence, "%s:%u: %s: assertion `%s' failed", file, line,
		 function, text);
	fail(FIBER_ASSERT, sentence);
}
