/*
 * cuda_impl.h - what the files of libcudart share.
 *
 * Design notes. Locks, outer first: an event's, the lock of captures (capture.c), a stream's, a device's. A stream's lock
 * covers the order of its commands: who appends to its queue holds it. A device's lock covers its list of streams.
 * Streams that a program has destroyed are kept for reuse, with their queues, and never freed: an event may
 * point to a queue for ever.
 */
#ifndef CUDART_IMPL_H
#define CUDART_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "client/cmdq.h"
#include "cuda_runtime_api.h"
#include "cudart/allocs.h"
#include "cudart/hooks.h"
#include "cudart/space.h"

/* ------------------------------------------------------------------ results (error.c) */

/* Note a failure as this thread's last error; returns it. Every call of CUDA's ends through this. */
cudaError_t cuda_done(cudaError_t e);

/* CUDA's number for a result of the client. */
cudaError_t cuda_error_of(enum gpusim_rc rc);

/* Tell the program's user, on standard error, a sentence that CUDA's numbers have no room for. Each once. */
void cuda_tell(const char *sentence);

/* ------------------------------------------------------------------ the process (process.c) */

struct device {
	int ordinal;
	const struct space_device *space;
	char name[64];
	unsigned flags; /* cudaSetDeviceFlags */
	pthread_mutex_t lock;
	struct CUstream_st *streams; /* all, the legacy stream too */
	struct CUstream_st *legacy;
	_Atomic(bool) *peers; /* by ordinal: access is enabled */
};

/*
 * Begin a call: connect if it is the first. cudaErrorInitializationError in a child of fork,
 * cudaErrorNotPermitted in a host function of a stream, cudaErrorNoDevice.
 */
cudaError_t cuda_enter(void);
struct gpusim *cuda_connection(void);

int cuda_device_count(void);
struct device *cuda_device_at(int ordinal); /* NULL: none */
struct device *cuda_current(void);	    /* of this thread */
cudaError_t cuda_set_current(int ordinal);

/* How long waits last, in ms; 0: for ever. $GPUSIM_TIMEOUT */
uint32_t cuda_timeout_ms(void);

/* This thread runs a host function: calls of CUDA are not permitted. */
void cuda_forbid_calls(bool forbid);

/* Set in a child of fork: nothing of this library may touch the parent's connection. */
bool cuda_is_forked(void);

/* ------------------------------------------------------------------ streams (stream.c, order.c, worker.c) */

#define STREAM_MAGIC 0x6770757374726d31ull

struct capture;
struct CUgraphNode_st;

struct CUstream_st {
	uint64_t magic, id;
	struct CUstream_st *next; /* of its device; for ever */
	struct device *device;
	unsigned flags;
	int priority;
	atomic_bool live;	  /* false: destroyed, to be used again */
	atomic_bool blocking;	  /* waits for the legacy stream, and it for this one */
	pthread_mutex_t lock;	  /* of the order of commands, and of what follows */
	_Atomic(struct cmdq *) q; /* NULL until it is first used */
	uint64_t legacy_seen;  /* position of the legacy stream that this one waits for already */
	uint64_t legacy_waits; /* of the legacy stream: of this one's position (device's lock) */
	struct worker *worker; /* of its CMDQ_EXTERN works; NULL until it has some */
	/* Capture; its lock held. */
	struct capture *_Atomic capture;
	struct CUgraphNode_st **tips; /* the nodes that the next one depends on */
	size_t ntips;
};

/* The stream of a handle: 0 and the two special ones are of the current device. */
cudaError_t stream_of(cudaStream_t handle, struct CUstream_st **out);
/* A new one, or one that is free again. */
cudaError_t stream_new(struct device *d, unsigned flags, int priority, struct CUstream_st **out);
void stream_release(struct CUstream_st *s);
/* End the per-thread streams and others of a device: cudaDeviceReset. */
void stream_forget_all(struct device *d);

/* Its queue, opened if need be; lock held. */
cudaError_t stream_queue(struct CUstream_st *s, struct cmdq **out);

/* A position in a queue. */
struct point {
	struct cmdq *q; /* NULL: nowhere, which is reached */
	uint64_t at;
};

/* Take the stream's lock, and append the waits that CUDA's order demands. order_end gives the lock back. */
cudaError_t order_begin(struct CUstream_st *s, struct cmdq **out);
void order_end(struct CUstream_st *s);

/* Enqueue now, whether the stream is captured or not. */
cudaError_t order_enqueue(struct CUstream_st *s, gpusim_cuda_enqueue_fn *enqueue, void *arg);
cudaError_t order_append(struct CUstream_st *s, const struct cmdq_command *c, size_t n);

/* All that the stream has to wait for to be in order with what was enqueued: where its end is now. */
cudaError_t order_end_of(struct CUstream_st *s, struct point *out);

/* Make the stream wait for a point, of its own or another device. */
cudaError_t order_after(struct CUstream_st *s, struct point p);

/* Nothing is under way that the stream's next command would wait for. */
bool order_is_idle(struct CUstream_st *s);

/* Wait on the host: for a point; for a stream; for a device's blocking streams; for all its streams. */
cudaError_t order_await(struct point p);
cudaError_t order_drain_stream(struct CUstream_st *s);
cudaError_t order_drain_legacy(struct device *d);
cudaError_t order_drain_device(struct device *d);
/* The failure of a queue, as CUDA numbers it. */
cudaError_t order_error(struct cmdq *q);

/*
 * Work of the program inside a stream's order: run() on the stream's worker thread when the stream gets there.
 *
 *	run	its failure becomes the stream's, with the sentence in *err
 *	drop	called once, after run or instead of it, also when this call fails; `e` tells why it did not run.
 *		May be NULL
 */
typedef enum rc work_fn(void *arg, struct err *err);
typedef void work_drop_fn(void *arg, cudaError_t e);
cudaError_t work_enqueue(struct CUstream_st *s, work_fn *run, work_drop_fn *drop, void *arg);

/* Within run(): it is no copy, but this; q: the queue that it waits for, or NULL. */
void work_does(enum cmdq_does what, const struct cmdq *q);

/* ------------------------------------------------------------------ memory (memory.c) */

/*
 * What CUDA knows of a range; kind MEMORY_PAGEABLE: nothing.
 *
 *	addr	[out] of device memory: the device's address of p
 *
 * cudaErrorInvalidValue: the range begins in an allocation and ends outside, or lies in a device's range
 * without being allocated.
 */
cudaError_t memory_find(const void *p, size_t nbytes, struct memory *out, uint64_t *addr);
/* Device memory for the library's own use. */
cudaError_t memory_own(struct device *d, size_t nbytes, uint64_t *addr);
/* Free all of a device: cudaDeviceReset. */
void memory_forget_all(struct device *d);
/* Host memory. cudaErrorHostMemoryAlreadyRegistered; cudaErrorInvalidValue: there is none such. */
cudaError_t memory_add_host(void *base, size_t nbytes, enum memory_kind kind, unsigned flags);
cudaError_t memory_take_host(const void *base, enum memory_kind kind, struct memory *out);
/* A device's address as this process points to it. */
void *memory_pointer(const struct space_device *d, uint64_t addr);

/* ------------------------------------------------------------------ operations */

/* A copy of depth slices of height rows of width bytes. */
struct box {
	unsigned char *dst;
	const unsigned char *src;
	size_t dpitch, spitch, dslice, sslice; /* bytes to the next row, the next slice */
	size_t width, height, depth;
	enum cudaMemcpyKind kind;
	void *staged; /* src, if it is the library's copy of it */
};

/* One operation of a stream or a graph's node: issued once or often. */
struct op {
	enum cudaGraphNodeType type;
	atomic_uint users;
	int ordinal; /* of the device it runs on; -1: any */
	cudaError_t (*issue)(struct op *o, struct CUstream_st *s);
	void (*fini)(struct op *o);
	union {
		struct {
			gpusim_cuda_enqueue_fn *enqueue;
			void *arg;
			void (*done_with)(void *arg);
		} call;
		struct box copy;
		struct cudaMemsetParams memset;
		struct cudaHostNodeParams host;
		cudaEvent_t event;
		struct CUgraph_st *graph;
	} u;
};
struct op *op_new(enum cudaGraphNodeType type, int ordinal,
		  cudaError_t (*issue)(struct op *, struct CUstream_st *));
struct op *op_hold(struct op *o);
void op_drop(struct op *o); /* NULL is legal */

/*
 * Do an operation on a stream: issue it, or make it a node of the graph that is captured. The caller's
 * reference passes on. NULL: out of memory.
 */
cudaError_t op_submit(struct CUstream_st *s, struct op *o);

/* Each kind of operation (copy.c, memset.c, host.c, event.c). NULL: out of memory. */
struct op *op_copy(const struct box *b);
struct op *op_memset(const struct cudaMemsetParams *p);
struct op *op_host(cudaHostFn_t fn, void *arg);
struct op *op_record(cudaEvent_t event);
struct op *op_wait(cudaEvent_t event);
struct op *op_empty(void);
/* cudaErrorInvalidValue, cudaErrorInvalidMemcpyDirection, cudaErrorInvalidPitchValue: what is wrong with them. */
cudaError_t copy_check(const struct box *b);
cudaError_t copy_box(const struct cudaMemcpy3DParms *p, struct box *out);
cudaError_t memset_check(const struct cudaMemsetParams *p);

/* ------------------------------------------------------------------ capture (capture.c) */

/* Whether the stream is captured. cudaErrorStreamCaptureImplicit: it is the legacy stream, and a blocking one is:
 * that capture is invalid now. */
cudaError_t capture_look(struct CUstream_st *s, bool *is);
/* Add a node to the stream's capture. */
cudaError_t capture_add(struct CUstream_st *s, struct op *o);
/* A call that a capture of this thread, or a global one, forbids. */
cudaError_t capture_forbids(void);
/* A call on a stream that is captured: cudaErrorStreamCaptureUnsupported, and the capture is invalid. */
cudaError_t capture_forbids_on(struct CUstream_st *s);

/* Events recorded in a capture. */
struct captured {
	uint64_t id; /* of the capture; 0: none */
	struct CUgraphNode_st **tips;
	size_t ntips;
};
void captured_fini(struct captured *c);
cudaError_t capture_record(struct CUstream_st *s, struct captured *out);
cudaError_t capture_wait(struct CUstream_st *s, const struct captured *e);
/* The captured stream would wait for work outside: cudaErrorStreamCaptureIsolation, and the capture is invalid. */
cudaError_t capture_isolation(struct CUstream_st *s);

#endif
