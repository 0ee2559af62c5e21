/* fiber_impl.h - a running block. */
#ifndef CUDART_FIBER_IMPL_H
#define CUDART_FIBER_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include "cudart/fiber.h"

/* So that the compiler may inline what follows within a file of the shared library. */
#pragma GCC visibility push(hidden)

/* ---- a stack and the execution state on it */

#if defined(__x86_64__) || defined(__aarch64__)
struct fiber_context {
	void *sp;
#ifdef __SANITIZE_ADDRESS__
	void *fake, *bottom;
	size_t nbytes;
#endif
};
#else
#include <ucontext.h>
struct fiber_context {
	ucontext_t at;
};
#endif

/* Make a context that runs entry() on a stack; entry never returns. */
void fiber_context_make(struct fiber_context *c, void *stack, size_t nbytes, void (*entry)(void));

#if defined(__x86_64__)
/*
 * Keep the place and the stack in *save, and continue at the place that another call kept. In line, and by a jump: the
 * processor predicts jumps to one place, and calls and returns stay in pairs on each stack. The 128 bytes
 * below the stack's end may be in use by the function around it.
 */
static inline __attribute__((always_inline)) void
fiber_swap(void **save, void *to)
{
	__asm__ volatile("leaq -128(%%rsp), %%rsp\n\t"
			 "pushq %%rbp\n\t"
			 "leaq 1f(%%rip), %%rax\n\t"
			 "pushq %%rax\n\t"
			 "movq %%rsp, (%0)\n\t"
			 "movq %1, %%rsp\n\t"
			 "popq %%rax\n\t"
			 "jmp *%%rax\n"
			 "1:\n\t"
			 "popq %%rbp\n\t"
			 "leaq 128(%%rsp), %%rsp\n"
			 : "+D"(save), "+S"(to)
			 :
			 : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13",
			   "r14", "r15", "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4",
			   "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
			   "xmm13", "xmm14", "xmm15");
}
#elif defined(__aarch64__)
void fiber_swap(void **save, void *sp) __attribute__((visibility("hidden")));
#endif

/* Continue at `to`; returns when another context switches back to `from`. */
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(__SANITIZE_ADDRESS__)
static inline __attribute__((always_inline)) void
fiber_context_switch(struct fiber_context *from, struct fiber_context *to)
{
	fiber_swap(&from->sp, to->sp);
}
#else
void fiber_context_switch(struct fiber_context *from, struct fiber_context *to);
#endif

/* The first call on a new context. */
void fiber_context_begin(void);

/* ---- a running block */

struct fiber_index {
	uint32_t x, y, z;
};

/* Variables that kernels read; gpusim_cuda.h declares them in C++. */
#pragma GCC visibility push(default)
extern _Thread_local struct fiber_index __gpusim_thread_idx, __gpusim_block_idx, __gpusim_block_dim,
    __gpusim_grid_dim;
#pragma GCC visibility pop

/* A stack, and its thread. */
struct fiber {
	struct fiber_context context;
	struct fiber *next; /* of the list it is in */
	struct fiber_index at;
	uint32_t thread;    /* of the block, in order x, y, z */
	unsigned char *map; /* a guard page, then the stack */
	struct fiber *all;  /* of all */
};

struct fiber_list {
	struct fiber *first, *last;
};

/* The lanes of a warp; value and so on are those of waiting lanes. */
struct fiber_warp {
	uint32_t alive;	  /* have not ended, begun or not */
	uint32_t waiting; /* of them */
	bool mixed;	  /* they may wait for different things */
	uint32_t op[FIBER_WARP], mask[FIBER_WARP], arg[FIBER_WARP];
	uint64_t value[FIBER_WARP]; /* the operand, then the result */
	struct fiber *lane[FIBER_WARP];
};

enum fiber_phase { PHASE_THREADS, PHASE_BLOCK };

struct fiber_gang {
	struct fiber *current, *idle;
	struct fiber_list ready, barrier;
	struct fiber_index *index; /* &__gpusim_thread_idx of the system thread */
	uint32_t nthreads, next;   /* threads of the block; the first that has not begun */
	uint32_t live;		   /* threads that have not ended */
	uint32_t at_barrier, trues;
	uint32_t passed, passed_trues; /* of the barrier that was passed last */
	const struct fiber *leader;    /* one of the threads that passed it */
	struct fiber_index at;	       /* of next */
	struct fiber_list yielded;     /* continue when no other thread can */
	struct fiber_context base;     /* of fiber_run */
	void (*loop)(void);	       /* what a stack runs */
	struct fiber *all;
	size_t nstacks;
	enum fiber_phase phase; /* PHASE_BLOCK: the block's part for all threads comes next */
	bool no_memory;
	struct fiber_warp warp[FIBER_THREADS_MAX / FIBER_WARP];
	const struct fiber_grid *grid;
	struct fiber_team *team;
	uint64_t block;			    /* that runs, in order x, y, z */
	unsigned char *shared_map, *shared; /* dynamic shared memory, with a guard after it */
	size_t shared_nbytes, shared_map_nbytes;
	void *slots; /* __gpusim_slots */
	unsigned nslots;
};

/* ---- for all of its files (fiber_wait.c) */

static inline size_t
fiber_page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* The gang that runs on this system thread; NULL: none. */
extern _Thread_local struct fiber_gang *fiber_here;

/* Append to a list. */
static inline void
fiber_add(struct fiber_list *l, struct fiber *f)
{
	f->next = NULL;
	if (l->last)
		l->last->next = f;
	else
		l->first = f;
	l->last = f;
}

/* Take the first. NULL: the list is empty. */
static inline struct fiber *
fiber_take(struct fiber_list *l)
{
	struct fiber *f = l->first;

	if (f) {
		l->first = f->next;
		if (!l->first)
			l->last = NULL;
	}
	return f;
}

/* A stack that begins threads. NULL: out of memory. */
struct fiber *fiber_take_idle(struct fiber_gang *g);

/* The next stack to continue on: of a thread that is ready, or one that begins threads. NULL: neither,
 * or no memory for a stack. */
static inline struct fiber *
fiber_next(struct fiber_gang *g)
{
	if (g->ready.first)
		return fiber_take(&g->ready);
	return g->next < g->nthreads ? fiber_take_idle(g) : NULL;
}

/* Leave the stack of `from`, and continue on the next one; without one, in fiber_run. In line: each return from a
 * function on another stack than its call may be predicted wrongly. */
static inline __attribute__((always_inline)) void
fiber_go_on(struct fiber_gang *g, struct fiber_context *from)
{
	struct fiber *f = fiber_next(g);

	if (!f) {
		fiber_context_switch(from, &g->base);
		return;
	}
	g->current = f;
	*g->index = f->at;
	if (from != &f->context)
		fiber_context_switch(from, &f->context);
}

/* Suspend the running thread, which is in a list, and continue with the next. */
static inline __attribute__((always_inline)) void
fiber_wait(struct fiber_gang *g)
{
	fiber_go_on(g, &g->current->context);
}

/* A thread has reached the barrier, or ended: the barrier opens when all live threads have reached it. */
void fiber_arrived(struct fiber_gang *g);

/* End the kernel, which runs on this system thread. */
_Noreturn void fiber_fail(const char *sentence);

/* End the kernel if it runs for all threads together: then none can wait. */
void fiber_must_be_thread(const struct fiber_gang *g);

/* ---- fiber_warp.c */

/* A lane has ended: its warp must no longer wait for it. */
void fiber_warp_ended(struct fiber_gang *g, uint32_t thread);

/* No other thread can run: release threads that wait for "the lanes that are here". False: none does. */
bool fiber_warp_settle(struct fiber_gang *g);

#pragma GCC visibility pop

#endif
