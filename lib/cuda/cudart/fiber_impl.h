/* fiber_impl.h - a running block. */
#ifndef CUDART_FIBER_IMPL_H
#define CUDART_FIBER_IMPL_H

#include <stddef.h>

#include "cudart/fiber.h"

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

/* Continue at `to`; returns when another context switches back to `from`. */
void fiber_context_switch(struct fiber_context *from, struct fiber_context *to);

/* The first call on a new context. */
void fiber_context_begin(void);

/* ---- a running block */

struct fiber_index {
	uint32_t x, y, z;
};

/* Variables that kernels read; gpusim_cuda.h declares them in C++. */
extern _Thread_local struct fiber_index __gpusim_thread_idx, __gpusim_block_idx, __gpusim_block_dim,
    __gpusim_grid_dim;

/* A stack, and the operand of its thread while it waits for its warp. */
struct fiber {
	struct fiber_context context;
	unsigned char *map; /* a guard page, then the stack */
	size_t shift;	    /* of its top below the map's end */
	struct fiber *next; /* of the list it is in */
	struct fiber *all;  /* of all */
	struct fiber_index at;
	uint32_t thread; /* of the block, in order x, y, z */
	uint32_t op, mask, arg;
	uint64_t value; /* operand, then result */
};

struct fiber_list {
	struct fiber *first, *last;
};

struct fiber_warp {
	uint32_t alive;	  /* lanes that have not ended, begun or not */
	uint32_t waiting; /* of them, those in lane[] */
	struct fiber *lane[FIBER_WARP];
};

struct fiber_gang {
	struct fiber_context base; /* of fiber_run */
	struct fiber *current, *idle, *all;
	size_t nstacks;
	struct fiber_list ready, barrier;
	struct fiber_list yielded; /* continue when no other thread can */
	uint32_t nthreads, next;   /* threads of the block; the first that has not begun */
	uint32_t live;		   /* threads that have not ended */
	uint32_t at_barrier, trues;
	uint32_t passed, passed_trues; /* of the barrier that was passed last */
	struct fiber_index at;	       /* of next */
	struct fiber_warp warp[FIBER_THREADS_MAX / FIBER_WARP];
	const struct fiber_grid *grid;
	unsigned char *shared_map, *shared; /* dynamic shared memory, with a guard page after it */
	size_t shared_nbytes, shared_map_nbytes;
};

#endif
