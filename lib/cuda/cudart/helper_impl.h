/* helper_impl.h - the memory that the program and a helper share. */
#ifndef CUDART_HELPER_IMPL_H
#define CUDART_HELPER_IMPL_H

#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/rc.h"
#include "cudart/helper.h"
#include "mem/cmdq.h"

#define HELPER_QUEUES 64
#define HELPER_WORKS  256	   /* pending launches of a queue; a power of two */
#define HELPER_ARGS   (256u << 10) /* bytes of their arguments */
#define HELPER_DATA   64	   /* modules with variables */

struct helper_work {
	void (*run)(void *const *args); /* the same address in both, because the helper is a fork */
	const struct __gpusim_kernel *kernel;
	uint32_t grid[3], block[3];
	uint64_t shared;
	uint32_t resident;	  /* blocks that may run at once */
	uint32_t cooperative;	  /* 1: all blocks run at once */
	uint32_t host_param;	  /* not 0: the launch fails */
	uint32_t nparams, nbytes; /* nbytes: of their values */
	uint32_t at; /* in args: nparams offsets, then the bytes, at a multiple of 16 */
};

struct helper_queue {
	_Atomic uint32_t used;		       /* written last */
	uint64_t page;			       /* offset of the queue's page in the device's file */
	struct helper_work work[HELPER_WORKS]; /* number n at n % HELPER_WORKS */
	_Alignas(16) unsigned char args[HELPER_ARGS];
};

/* A module's variables on the device. */
struct helper_data {
	unsigned char *first, *after; /* their pages in the program */
	unsigned char *on_device;     /* this process's pointer to the device's copy */
	uint64_t file_offset;
	_Atomic uint32_t filled; /* with their initial values */
};

struct helper_shared {
	char path[256]; /* of the device's file */
	int ordinal;
	_Atomic uint32_t stop;	  /* after it, as after a new queue: space_wake */
	_Atomic uint64_t started; /* 1: it runs, 2: it failed, text has the reason */
	atomic_uint program_sleeps;
	_Atomic uint32_t error; /* the CUDA error of a failed kernel */
	uint32_t threads;	/* system threads for the blocks of a grid */
	/* If no block ends for so long, and others may wait for one, the kernel fails. */
	uint64_t stuck_ns;
	char text[256];
	uint32_t ndata;
	struct helper_data data[HELPER_DATA];
	struct helper_queue queue[HELPER_QUEUES];
};

/* Run the helper; ends the process. parent pidfd of the program */
_Noreturn void helper_main(struct helper_shared *s, int parent);

/* ---- how a kernel ends itself */

enum fiber_failure { FIBER_TRAP, FIBER_ASSERT };

/* Called in a kernel that fails by itself, on its own stack; must not return. Set before kernels run. */
typedef void fiber_fail_fn(enum fiber_failure why, const char *text);
void fiber_on_fail(fiber_fail_fn *fn);

/* ---- grids (helper_grid.c) */

/* A system thread that runs blocks. */
struct helper_runner;

/* Make the calling thread one. NULL: out of memory. */
struct helper_runner *helper_runner_new(void);

/*
 * Run a work's grid on this thread and, if it is large or cooperative, on others. A failure is stored in `all` and `x`.
 *
 *	args	of the kernel, by parameter
 */
void helper_grid_run(struct helper_runner *self, struct helper_shared *all, struct cmdq_extern *x,
		     const struct helper_work *work, void *const *args);

/*
 * The loop of a thread that looks after the grids: blocks of which none ends may wait for blocks that have not begun,
 * so these begin on further threads, up to work->resident.
 */
_Noreturn void helper_grid_watch(void);

/* ---- faults of kernels (helper_fault.c) */

struct fiber_gang;

/*
 * What a fault needs of the system thread that runs blocks; each such thread has its own. The thread
 * calls sigsetjmp(back, 1), then points helper_fault_here to its struct for as long as blocks run. A
 * fault stores what happened, and jumps to `back` with 1, also out of a fiber's stack.
 */
struct helper_fault {
	sigjmp_buf back;
	const struct fiber_gang *gang; /* whose stacks this thread uses */
	/* of the fault */
	int signal; /* 0: the kernel ended itself, and `why` has its text */
	void *address;
	enum fiber_failure own;
	char why[192];
};
extern _Thread_local struct helper_fault *helper_fault_here; /* NULL: a fault ends the process */

/* Sent to a thread whose blocks wait for others forever. */
#define HELPER_STUCK_SIGNAL SIGALRM

/* Take over the signals of faults, and fiber_on_fail. Once in the process, before its threads begin. */
void helper_fault_take(void);
/* Give the calling thread a stack for the handler. False: out of memory. */
bool helper_fault_stack(void);

/* After a jump to `back`, on the thread of the fault: write the reason to f->why, and return the CUDA error. */
uint32_t helper_fault_explain(struct helper_fault *f);

/*
 * Fail a work with f->why, which helper_fault_explain or the caller wrote, in a sentence that names the
 * kernel and the block and thread that ran last on the calling thread.
 *
 *	all	gets the CUDA error `code`, if it has none
 *	x	gets the sentence and the failure; its work's end is the caller's to publish
 */
void helper_fault_note(const struct helper_fault *f, struct helper_shared *all,
		       struct cmdq_extern *x, const struct helper_work *work, uint32_t code);

/* ---- an integer division without a result on this processor */

/*
 * In a handler of SIGFPE: give the instruction the result that a GPU gives, and continue after it. A
 * quotient by zero is all ones, its remainder the dividend; the least number divided by -1 is itself.
 *
 *	context	the handler's third argument
 *
 * False: not such an instruction, or the processor is not x86-64 (aarch64 has no such fault).
 */
bool helper_divide(void *context);

/* ---- the kernels' output, on its way to the program's standard output */

/* The file that helpers have as standard output; made by the first call. -1: not available, with
 * the reason in *err. */
int helper_output(struct err *err);

#endif
