/*
 * hooks.h - functions of libcudart.so.12 for libnccl.so.2, besides CUDA's own calls. Exported under
 * the version node GPUSIM_PRIVATE; not a public interface.
 *
 * A device is a CUDA ordinal of this process, after CUDA_VISIBLE_DEVICES. The message of a failure
 * is in gpusim_error().
 */
#ifndef CUDART_HOOKS_H
#define CUDART_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "client/cmdq.h"
#include "cuda_runtime_api.h"

/* The connection of this process, made by the first call; lives until the end. */
enum gpusim_rc gpusim_cuda_connect(struct gpusim **out);

/* The gpusim device of an ordinal. GPUSIM_NOTFOUND. */
enum gpusim_rc gpusim_cuda_device(int ordinal, struct gpusim_device *out);

/*
 * Translate a program's pointer to device memory into ordinal and address. False: not device memory
 * (*host distinguishes pinned or managed host memory from memory that CUDA does not know). The
 * range must lie in one allocation.
 */
struct gpusim_cuda_place {
	int ordinal;   /* of device memory */
	uint64_t addr; /* the device's address */
	bool host;     /* memory of cudaHostAlloc or registered */
};
bool gpusim_cuda_find(const void *p, size_t nbytes, struct gpusim_cuda_place *out);

/*
 * Enqueue on a stream in CUDA's order: the legacy stream and blocking streams wait for each other; in a
 * capture the work becomes a node, and `enqueue` is called at each launch of the graph instead. cudart then
 * owns `arg`, and calls done_with when it no longer needs it (at once, or with the graph).
 *
 *	ordinal	the device of the communicator; the stream must be on it
 *	enqueue	appends commands to the queue; may be called on another thread; its failure is the stream's
 */
typedef enum gpusim_rc gpusim_cuda_enqueue_fn(void *arg, struct cmdq *q);
cudaError_t gpusim_cuda_enqueue(cudaStream_t stream, int ordinal, gpusim_cuda_enqueue_fn *enqueue,
				void *arg, void (*done_with)(void *arg));

/*
 * Enqueue work of the program in CUDA's order, as gpusim_cuda_enqueue does: run() is called on a thread of the
 * stream's own when the stream reaches it, each time that a graph does. Recorders show it as a kernel.
 *
 *	name	of the kernel, static
 *	run	its failure becomes the stream's, with the message in *err; RC_INVAL is a wrong address
 */
typedef enum rc gpusim_cuda_work_fn(void *arg, struct err *err);
cudaError_t gpusim_cuda_work(cudaStream_t stream, int ordinal, const char *name,
			     gpusim_cuda_work_fn *run, void *arg, void (*done_with)(void *arg));

/*
 * This process's own pointer to memory that kernels can access: device, managed, pinned or registered memory. The
 * program's mapping of device memory is never the address that CUDA gave. NULL: the range is in no allocation, or
 * (with a message in gpusim_error()) the disk has no room for it.
 *
 *	late	the work was enqueued before, so memory that is being freed is still there
 */
void *gpusim_cuda_touch(const void *p, size_t nbytes, bool late);

/* Print a message to standard error that CUDA's error codes cannot carry, once. */
void gpusim_cuda_tell(const char *sentence);

/* This thread's latest message, printed or not, and forget it: "" if there is none. Valid until the thread's next call
 * of it. For bindings, whose exceptions carry the text. */
const char *gpusim_cuda_told(void);

/* Return true if the stream is being captured: then nothing runs before a launch. */
bool gpusim_cuda_is_capturing(cudaStream_t stream);

/* Report wrong use of a buffer by an NCCL call, with GPUSIM_MEMCHECK; reads: also bytes that were never written,
 * once the stream reaches the call. */
void gpusim_cuda_memcheck(const char *call, const char *which, const void *p, size_t nbytes,
			  cudaStream_t stream, bool reads);

/* Clear a communicator's errors on this process's queues of one device: its rank there aborted, revoked or destroyed
 * it. Other ranks of this process still hear of the failure. */
void gpusim_cuda_forgive(int ordinal, uint64_t comm);

/* Wait for all work that this process has enqueued on a device; timeout_ms 0: without limit. */
enum gpusim_rc gpusim_cuda_drain(int ordinal, uint32_t timeout_ms);

#endif
