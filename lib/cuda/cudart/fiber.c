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
static fiber_fail_fn *fail_fn;

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

static void
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

/* Suspend the running thread, and switch to the next. */
static void
fiber_wait(struct fiber_gang *g)
{
	fiber_context_switch(&g->current->context, &g->base);
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

/*
 * ---- operations among the threads of a warp: each lane stores its operand and waits; the last lane computes all
 * results, so that no lane reads a replaced operand
 */

static bool
has(uint32_t set, unsigned lane)
{
	return set >> lane & 1;
}

/* ---- results, for a lane among those of `group` */

static uint64_t
fold(uint32_t op, uint64_t a, uint64_t b)
{
	switch (op) {
	case GPUSIM_WARP_ADD:
		return a + b;
	case GPUSIM_WARP_MIN:
		return (int64_t)b < (int64_t)a ? b : a;
	case GPUSIM_WARP_MAX:
		return (int64_t)b > (int64_t)a ? b : a;
	case GPUSIM_WARP_UMIN:
		return b < a ? b : a;
	case GPUSIM_WARP_UMAX:
		return b > a ? b : a;
	case GPUSIM_WARP_AND:
		return a & b;
	case GPUSIM_WARP_OR:
		return a | b;
	default:
		return a ^ b;
	}
}

/* A result that is the same for all lanes: a mask or a sum. */
static uint64_t
common(const struct fiber_warp *w, uint32_t group, uint32_t op)
{
	uint64_t out = 0;
	bool first = true, same = true;
	const struct fiber *any = w->lane[__builtin_ctz(group)];

	for (unsigned l = 0; l < FIBER_WARP; l++) {
		if (!has(group, l))
			continue;
		if (op == GPUSIM_WARP_BALLOT)
			out |= (uint64_t)(w->lane[l]->value != 0) << l;
		else
			out = first ? w->lane[l]->value : fold(op, out, w->lane[l]->value);
		same = same && w->lane[l]->value == any->value;
		first = false;
	}
	if (op == GPUSIM_WARP_ACTIVE)
		return group;
	return op == GPUSIM_WARP_MATCH_ALL ? (same ? group : 0) : out;
}

static uint64_t
own(const struct fiber_warp *w, uint32_t group, unsigned lane)
{
	const struct fiber *f = w->lane[lane];
	uint64_t out = 0;

	if (f->op == GPUSIM_WARP_SHFL)
		return has(group, f->arg % FIBER_WARP) ? w->lane[f->arg % FIBER_WARP]->value
						       : f->value;
	for (unsigned l = 0; l < FIBER_WARP; l++)
		if (has(group, l) && w->lane[l]->value == f->value)
			out |= UINT64_C(1) << l;
	return out;
}

static void
complete(struct fiber_gang *g, struct fiber_warp *w, uint32_t group)
{
	uint32_t op = w->lane[__builtin_ctz(group)]->op;
	bool each = op == GPUSIM_WARP_SHFL || op == GPUSIM_WARP_MATCH;
	uint64_t all = each ? 0 : common(w, group, op), result[FIBER_WARP];

	for (unsigned l = 0; l < FIBER_WARP; l++)
		if (has(group, l))
			result[l] = each ? own(w, group, l) : all;
	for (unsigned l = 0; l < FIBER_WARP; l++)
		if (has(group, l)) {
			w->lane[l]->value = result[l];
			fiber_add(&g->ready, w->lane[l]);
		}
	w->waiting &= ~group;
}

/* ---- waiting */

/* Return true if all lanes that f waits for have reached the same operation. */
static bool
is_complete(const struct fiber_warp *w, const struct fiber *f, uint32_t *group)
{
	*group = f->mask & w->alive;
	if (*group & ~w->waiting)
		return false;
	for (unsigned l = 0; l < FIBER_WARP; l++)
		if (has(*group, l) && (w->lane[l]->op != f->op || w->lane[l]->mask != f->mask ||
				       (f->op == GPUSIM_WARP_ACTIVE && w->lane[l]->arg != f->arg)))
			return false;
	return true;
}

/* A lane has ended: its warp must no longer wait for it. */
static void
warp_ended(struct fiber_gang *g, uint32_t thread)
{
	struct fiber_warp *w = &g->warp[thread / FIBER_WARP];
	uint32_t group;

	for (unsigned l = 0; l < FIBER_WARP; l++)
		if (has(w->waiting, l) && is_complete(w, w->lane[l], &group))
			complete(g, w, group);
}

/* No other thread can run: release threads that wait for "the lanes that are here". False: none does. */
static bool
warp_settle(struct fiber_gang *g)
{
	bool any = false;

	for (uint32_t i = 0; i * FIBER_WARP < g->nthreads; i++) {
		struct fiber_warp *w = &g->warp[i];
		uint32_t group = 0;
		const struct fiber *first = NULL;

		for (unsigned l = 0; l < FIBER_WARP; l++) {
			if (!has(w->waiting, l) || w->lane[l]->op != GPUSIM_WARP_ACTIVE)
				continue;
			if (!first)
				first = w->lane[l];
			if (w->lane[l]->arg == first->arg)
				group |= 1u << l;
		}
		if (group) {
			complete(g, w, group);
			any = true;
		}
	}
	return any;
}

unsigned long long
__gpusim_warp(int op, unsigned mask, unsigned long long value, unsigned arg)
{
	struct fiber_gang *g = fiber_gang_here;
	struct fiber *f = g ? g->current : NULL;
	struct fiber_warp *w;
	uint32_t lane, group;

	if (!f)
		return value;
	w = &g->warp[f->thread / FIBER_WARP];
	lane = f->thread % FIBER_WARP;
	f->op = (uint32_t)op;
	f->mask = mask | 1u << lane;
	f->value = value;
	f->arg = arg;
	w->lane[lane] = f;
	w->waiting |= 1u << lane;
	if (is_complete(w, f, &group))
		complete(g, w, group);
	fiber_wait(g);
	return f->value;
}

static void
ended(struct fiber_gang *g, uint32_t thread)
{
	struct fiber_warp *w = &g->warp[thread / FIBER_WARP];

	g->live--;
	w->alive &= ~(1u << thread % FIBER_WARP);
	if (w->waiting)
		warp_ended(g, thread);
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
			if (!warp_settle(g))
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

/* Let other threads of the block run, if there are any. False: there are none. */
static bool
yield(void)
{
	struct fiber_gang *g = fiber_gang_here;

	if (!g || (!g->ready.first && !g->yielded.first && g->next == g->nthreads))
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
