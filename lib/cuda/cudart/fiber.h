/*
 * fiber.h - the threads of a block, on one system thread.
 *
 * A thread of a block is a call of the kernel's function. Calls follow each other on one stack as
 * long as none waits; a thread that waits, at a barrier or for its warp, keeps the stack, and the
 * next thread gets another. So a kernel without barriers costs a call a thread.
 *
 * The functions that a kernel calls (__gpusim_barrier and so on, gpusim_cuda.h) find its block
 * through a thread-local pointer.
 */
#ifndef CUDART_FIBER_H
#define CUDART_FIBER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FIBER_THREADS_MAX 1024 /* of a block */
#define FIBER_WARP	  32
#define FIBER_STACK	  (256u << 10)

/* The stacks and the state of a running block; one for each system thread. */
struct fiber_gang;

struct fiber_grid {
	uint32_t grid[3], block[3];
	uint64_t shared; /* bytes of dynamic shared memory */
	void (*run)(void *const *args);
	void *const *args;
	unsigned flags; /* of the kernel: GPUSIM_KERNEL_BLOCK */
};

/* What the gangs that run one grid share. Initialise with {0}. */
struct fiber_team {
	_Atomic uint64_t next;	/* the first block that no gang has taken */
	_Atomic uint64_t ended; /* blocks */
	_Atomic uint32_t stop;	/* not 0: no further block begins */
	/* Of a cooperative launch: all blocks run at once, and wait for each other. */
	uint64_t nblocks;		  /* 0: not cooperative */
	_Atomic uint64_t arrived, passed; /* blocks at the grid's barrier; barriers so far */
	atomic_uint sleeps;
};

enum fiber_end {
	FIBER_ENDED,
	FIBER_STUCK, /* threads wait for each other forever */
	FIBER_NO_MEMORY,
	FIBER_STOPPED,
};

/* NULL: out of memory. Used and freed by the thread that makes it. fiber_gang_free(NULL) is legal. */
struct fiber_gang *fiber_gang_new(void);
void fiber_gang_free(struct fiber_gang *g);

/*
 * Run blocks of a grid, in order, until none is left.
 *
 *	team	shared with the gangs that run other blocks of the grid; NULL: there are none
 *
 * FIBER_STUCK: fiber_where names the thread that ran last. Checked by: tests/unit/cudart/t_fiber.c
 */
enum fiber_end fiber_run(struct fiber_gang *g, const struct fiber_grid *grid,
			 struct fiber_team *team);

/* After a jump out of fiber_run and fiber_forget: run that block again, thread by thread, so that a
 * fault has a thread. */
enum fiber_end fiber_again(struct fiber_gang *g);

/* Return true if the gang runs a kernel's part for all threads of a block: fiber_where's thread means nothing. */
bool fiber_in_block_part(const struct fiber_gang *g);

/* A block has ended, or will not arrive at the grid's barrier any more. */
void fiber_block_ended(struct fiber_team *t);

/* After a jump out of fiber_run (a fault in a kernel): forget the block. */
void fiber_forget(struct fiber_gang *g);

/* Return true if an address is in the guard page of a stack, which was then too small. */
bool fiber_is_guard(const struct fiber_gang *g, const void *p);

/* The block and thread index of the CUDA thread that runs on this system thread. */
void fiber_where(uint32_t block[3], uint32_t thread[3]);

#endif
