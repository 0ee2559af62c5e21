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

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Thread_local struct fiber_index __gpusim_thread_idx, __gpusim_block_idx, __gpusim_block_dim,
    __gpusim_grid_dim;
_Thread_local struct fiber_gang *fiber_gang_here;

#define SHARED_ALIGN 128
/* Stacks begin at different offsets of their pages, or their tops would all compete for the same
 * lines of the cache. */
#define SHIFTS 61
#define SHIFT  320

static size_t
page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- stacks */

void
fiber_add(struct fiber_list *l, struct fiber *f)
{
	f->next = NULL;
	if (l->last)
		l->last->next = f;
	else
		l->first = f;
	l->last = f;
}

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
	fiber_context_make(&f->context, f->map + page(), FIBER_STACK - f->shift, loop);
	f->next = g->idle;
	g->idle = f;
}

static struct fiber *
new_fiber(struct fiber_gang *g)
{
	struct fiber *f = calloc(1, sizeof *f);
	size_t nbytes = FIBER_STACK + page();
	void *map = f ? mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
		      : MAP_FAILED;

	if (map == MAP_FAILED || mprotect(map, page(), PROT_NONE) != 0) {
		if (map != MAP_FAILED)
			munmap(map, nbytes);
		free(f);
		return NULL;
	}
	f->map = map;
	f->shift = g->nstacks++ % SHIFTS * SHIFT;
	f->all = g->all;
	g->all = f;
	make_idle(g, f);
	return f;
}

void
fiber_forget(struct fiber_gang *g)
{
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

/* The loop of a stack: begin threads while no waiting thread is ready. */
static void
loop(void)
{
	fiber_context_begin();
	for (;;) {
		struct fiber_gang *g = fiber_gang_here;
		struct fiber *f = g->current;

		if (g->next < g->nthreads && !g->ready.first) {
			f->thread = g->next;
			f->at = __gpusim_thread_idx = g->at;
			advance(g);
			g->grid->run(g->grid->args);
			ended(g, f->thread);
		} else {
			f->next = g->idle;
			g->idle = f;
			fiber_context_switch(&f->context, &g->base);
		}
	}
}

void
fiber_wait(struct fiber_gang *g)
{
	fiber_context_switch(&g->current->context, &g->base);
}

static enum fiber_end
run_block(struct fiber_gang *g)
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
	while (g->live) {
		struct fiber *f = take(&g->ready);

		if (!f && g->next < g->nthreads) {
			f = g->idle ? g->idle : new_fiber(g);
			if (!f)
				return FIBER_NO_MEMORY;
			g->idle = f->next;
		}
		if (!f)
			f = take(&g->yielded);
		if (!f) {
			if (!fiber_warp_settle(g))
				return FIBER_STUCK;
			continue;
		}
		g->current = f;
		__gpusim_thread_idx = f->at;
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

static enum fiber_end
run_grid(struct fiber_gang *g)
{
	const uint32_t *n = g->grid->grid;
	struct fiber_index *at = &__gpusim_block_idx;
	enum fiber_end end = FIBER_ENDED;

	for (at->z = 0; at->z < n[2]; at->z++)
		for (at->y = 0; at->y < n[1]; at->y++)
			for (at->x = 0; at->x < n[0]; at->x++) {
				if (g->grid->stop &&
				    atomic_load_explicit(g->grid->stop, memory_order_relaxed))
					return FIBER_STOPPED;
				end = run_block(g);
				if (end != FIBER_ENDED)
					return end;
			}
	return end;
}

enum fiber_end
fiber_run(struct fiber_gang *g, const struct fiber_grid *grid)
{
	enum fiber_end end;

	if (!make_shared(g, grid->shared))
		return FIBER_NO_MEMORY;
	g->grid = grid;
	__gpusim_block_dim = index_of(grid->block);
	__gpusim_grid_dim = index_of(grid->grid);
	fiber_gang_here = g;
	end = run_grid(g);
	if (end == FIBER_STUCK || end == FIBER_NO_MEMORY)
		fiber_forget(g);
	fiber_gang_here = NULL;
	return end;
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
		free(f);
		f = next;
	}
	if (g)
		drop_shared(g);
	free(g);
}

void
fiber_where(uint32_t block[3], uint32_t thread[3])
{
	struct fiber_index b = __gpusim_block_idx, t = __gpusim_thread_idx;

	memcpy(block, &b, sizeof b);
	memcpy(thread, &t, sizeof t);
}

bool
fiber_yield(void)
{
	struct fiber_gang *g = fiber_gang_here;

	if (!g || (!g->ready.first && !g->yielded.first && g->next == g->nthreads))
		return false;
	fiber_add(&g->yielded, g->current);
	fiber_wait(g);
	return true;
}
