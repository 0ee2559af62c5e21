/*
 * helper.h - the processes that run kernels: one for a device, forked from the program at the first launch.
 *
 * The program writes a launch into memory that it shares with the helper, and a CMDQ_EXTERN command into the stream's
 * queue; the device says when its turn has come, the helper runs it and says that it is done.
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
	uint32_t
	    host_param; /* the first that points to memory which kernels do not see, from 1; 0: none */
	uint32_t nparams;
	uint32_t nbytes;	/* of args */
	const uint32_t *offset; /* nparams, into args */
	const unsigned char *args;
};

/*
 * Make sure that the device's helper runs and knows all kernels registered so far. It may wait until work in the
 * device's queues has ended: when kernels came by dlopen after it was forked.
 */
enum rc helper_start(int ordinal, struct err *err);

/* Enqueue. Waits while too many launches are under way in that queue. Thread-safe. */
enum rc helper_enqueue(int ordinal, struct cmdq *q, const struct helper_launch *l, struct err *err);

/*
 * The device's copy of a __device__ or __constant__ variable, as this process points to device memory; starts the
 * helper. RC_NOTFOUND: it is no such variable.
 */
enum rc helper_symbol(int ordinal, const void *symbol, void **out, struct err *err);

/* ------------------------------------------------------------------ for the other files of libcudart */

/* The way a kernel of the device has failed, as CUDA numbers it; 0: none has. It stays until helper_reset. */
int helper_error(int ordinal);

/* Print to standard output whatever kernels have printed. Called when the program has waited for a stream. */
void helper_flush(void);

/* End the device's helper and forget its variables and error: cudaDeviceReset, after the streams have been drained. */
void helper_reset(int ordinal);

#endif
