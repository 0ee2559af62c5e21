/*
 * helper.h - the processes that run kernels: one for a device, forked from the program at the first launch.
 *
 * The program writes a launch into memory that it shares with the helper, and a CMDQ_EXTERN command
 * into the stream's queue; the device signals its turn, and the helper runs it and signals its end.
 */
#ifndef CUDART_HELPER_H
#define CUDART_HELPER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"
#include "client/cmdq.h"
#include "gpusim_cuda.h"

/* A launch, copied when it is enqueued. */
struct helper_launch {
	struct __gpusim_kernel *kernel;
	uint32_t grid[3], block[3];
	uint64_t shared;
	uint32_t resident; /* blocks that may run at once */
	bool cooperative;  /* all blocks run at once */
	/* the first that points to memory that kernels cannot access, from 1; 0: none */
	uint32_t host_param;
	uint32_t nparams;
	uint32_t nbytes;	/* of args */
	const uint32_t *offset; /* nparams, into args */
	const unsigned char *args;
};

/*
 * Make sure that the device's helper runs and knows all kernels registered so far. It may wait
 * until work in the device's queues has ended, if dlopen added kernels after the fork.
 */
enum rc helper_start(int ordinal, struct err *err);

/* Enqueue a launch. Waits while too many launches are pending in that queue. Thread-safe. */
enum rc helper_enqueue(int ordinal, struct cmdq *q, const struct helper_launch *l, struct err *err);

/*
 * The device's copy of a __device__ or __constant__ variable, as a pointer of this process to
 * device memory; starts the helper. RC_NOTFOUND: not such a variable.
 */
enum rc helper_symbol(int ordinal, const void *symbol, void **out, struct err *err);

/* ------------------------------------------------------------------ for the other files of libcudart */

/* The CUDA error of a kernel that failed on the device; 0: none. It stays until helper_reset. */
int helper_error(int ordinal);

/* Copy the kernels' output to standard output. Called when the program has waited for a stream. */
void helper_flush(void);

/* End the device's helper and forget its variables and error: cudaDeviceReset, after the streams
 * have been drained. */
void helper_reset(int ordinal);

#endif
