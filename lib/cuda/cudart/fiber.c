/*
 * A block's threads.
 *
 * Design notes. A block runs on one system thread; only blocks are shared among gangs. A stack begins
 * threads one after the other in loop(); a thread that waits leaves its stack in a list and goes on with the
 * next one itself (fiber_wait.c). fiber_run's own stack gets control when no thread can continue. A fault
 * leaves a block by a jump, so nothing here may need unwinding.
 */
#include "cudart/fiber_impl.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "gpusim_cuda.h"

#define SHARED_ALIGN 128
#define SHARED_GUARD (256u << 10)
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
	struct fiber_gang *const g = fiber_here;
	struct fiber *const f = g->current;

	fiber_context_begin();
	for (;;) {
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
				fiber_go_on(g, &f->context);
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
		struct fiber *f = fiber_next(g);

		if (g->no_memory)
			return FIBER_NO_MEMORY;
		if (!f)
			f = fiber_take(&g->yielded);
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

/* Inaccessible memory follows, as much as a block may have. */
static bool
make_shared(struct fiber_gang *g, uint64_t nbytes)
{
	size_t want = (size_t)(nbytes + SHARED_ALIGN - 1) / SHARED_ALIGN * SHARED_ALIGN;
	size_t room = (want + fiber_page() - 1) / fiber_page() * fiber_page();
	void *map;

	if (g->shared_map && want == g->shared_nbytes)
		return true;
	drop_shared(g);
	map = mmap(NULL, room + SHARED_GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		   -1, 0);
	if (map == MAP_FAILED)
		return false;
	g->shared_map = map;
	g->shared_map_nbytes = room + SHARED_GUARD;
	g->shared_nbytes = want;
	g->shared = g->shared_map + room - want;
	return mprotect(g->shared_map + room, SHARED_GUARD, PROT_NONE) == 0;
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
	fiber_here = g;
	end = run(g, team);
	if (end == FIBER_STUCK || end == FIBER_NO_MEMORY)
		fiber_forget(g);
	fiber_here = NULL;
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
	struct fiber_gang *g = calloc(1, sizeof *g);

	if (g)
		g->loop = loop;
	return g;
}

void
fiber_gang_free(struct fiber_gang *g)
{
	struct fiber *f = g ? g->all : NULL;

	while (f) {
		struct fiber *next = f->all;

		munmap(f->map, FIBER_STACK + fiber_page());
		f = next;
	}
	if (g) {
		drop_shared(g);
		free(g->slots);
	}
	free(g);
}
