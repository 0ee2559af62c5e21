/*
 * cuda_impl.h - shared by the files of libcudart.
 *
 * Design notes. Locks, outer first: an event's, the lock of captures (capture.c), a stream's, a
 * device's. A stream's lock covers the order of its commands: a thread that appends to its queue
 * holds it. A device's lock covers its list of streams. Streams that a program has destroyed are
 * kept for reuse, with their queues, and never freed: an event may point to a queue forever.
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

/* CUDA_VISIBLE_DEVICES: the devices that a program sees, in order. Pure. */
#define VISIBLE_UUID 41 /* "GPU-" and 36 characters, with the NUL */

/*
 * visible_parse - a list of devices as CUDA reads it.
 *
 *	list	numbers, or prefixes of UUIDs that match one device each, with commas; NULL: all devices
 *	uuid of each of the n devices
 *	index	[out] n places: the devices that are visible, in order
 *
 * Returns their count. An entry that names no device ends the list, and so does an empty entry; a
 * list that names a device twice makes none visible.
 */
size_t visible_parse(const char *list, const char (*uuid)[VISIBLE_UUID], size_t n, size_t *index);

/* ------------------------------------------------------------------ results (error.c) */

/* Store a failure as this thread's last error, and return it. Every CUDA call returns through this
 * function. */
cudaError_t cuda_done(cudaError_t e);

/* Forget this thread's last error. */
void cuda_forget_error(void);

/* The CUDA error for a result of the client. */
cudaError_t cuda_error_of(enum gpusim_rc rc);

/* In tell.c. Print a message to standard error that CUDA's error codes cannot carry. Each message is printed once. */
void cuda_tell(const char *sentence);

/* ------------------------------------------------------------------ the process (process.c) */

struct device {
	int ordinal;
	const struct space_device *space;
	char name[64];
	unsigned flags; /* cudaSetDeviceFlags */
	pthread_mutex_t lock;
	struct CUstream_st *streams; /* all, including the legacy stream */
	struct CUstream_st *legacy;
	_Atomic(bool) *peers; /* by ordinal: access is enabled */
	struct small *small;  /* small allocations (pages.c) */
	/* The CUDA error of a failed kernel, stored by its helper; NULL: it has had none. */
	_Atomic(uint32_t) *_Atomic kernel_error;
};

/*
 * Begin a call: connect if it is the first. cudaErrorInitializationError in a child of fork,
 * cudaErrorNotPermitted in a host function of a stream, cudaErrorNoDevice. cuda_enter: also the error of a kernel
 * that failed on the current device, which every call returns until cudaDeviceReset.
 */
cudaError_t cuda_connect(void);
cudaError_t cuda_enter(void);
/* That error; d NULL: cudaSuccess. */
cudaError_t cuda_sticky(const struct device *d);
struct gpusim *cuda_connection(void);

int cuda_device_count(void);
struct device *cuda_device_at(int ordinal); /* NULL: none */
struct device *cuda_current(void);	    /* of this thread */
cudaError_t cuda_set_current(int ordinal);

/* The timeout of waits, in ms; 0: none. $GPUSIM_TIMEOUT */
uint32_t cuda_timeout_ms(void);

/* This thread runs a host function: calls of CUDA are not permitted. */
void cuda_forbid_calls(bool forbid);

/* ------------------------------------------------------------------ streams (stream.c, order.c, worker.c) */

#define STREAM_MAGIC 0x6770757374726d31ull

struct capture;
struct CUgraphNode_st;

struct CUstream_st {
	uint64_t magic, id;
	struct CUstream_st *next; /* of its device; never changes */
	struct device *device;
	unsigned flags;
	int priority;
	atomic_bool live;     /* false: destroyed, kept for reuse */
	atomic_bool blocking; /* waits for the legacy stream, and the legacy stream for this one */
	pthread_mutex_t lock; /* guards the order of commands, and the following fields */
	_Atomic(struct cmdq *) q; /* NULL until it is first used */
	uint64_t legacy_seen; /* position of the legacy stream that this stream already waits for */
	/* this stream's position that the legacy stream waits for (device's lock) */
	uint64_t legacy_waits;
	struct worker *worker; /* of its CMDQ_EXTERN works; NULL until the first */
	/* Guarded by the lock of captures. */
	struct capture *_Atomic capture;
	struct CUgraphNode_st **tips; /* the nodes that the next one depends on */
	size_t ntips;
};

/* The stream of a handle: 0 and the two special handles are streams of the current device. */
cudaError_t stream_of(cudaStream_t handle, struct CUstream_st **out);
/* A new stream, or a destroyed one that is free again. */
cudaError_t stream_new(struct device *d, unsigned flags, int priority, struct CUstream_st **out);
void stream_release(struct CUstream_st *s);
/* End all streams of a device, also per-thread ones: cudaDeviceReset. */
void stream_forget_all(struct device *d);

/* The stream's queue, opened on first use; lock held. */
cudaError_t stream_queue(struct CUstream_st *s, struct cmdq **out);

/* A position in a queue. */
struct point {
	struct cmdq *q; /* NULL: no position, always reached */
	uint64_t at;
};

/* Take the stream's lock, and append the waits that CUDA's order requires. order_end releases the lock. */
cudaError_t order_begin(struct CUstream_st *s, struct cmdq **out);
void order_end(struct CUstream_st *s);

/* Enqueue now, even if the stream is captured. */
cudaError_t order_enqueue(struct CUstream_st *s, gpusim_cuda_enqueue_fn *enqueue, void *arg);
cudaError_t order_append(struct CUstream_st *s, const struct cmdq_command *c, size_t n);

/* The current end of the stream, after everything that it must wait for. */
cudaError_t order_end_of(struct CUstream_st *s, struct point *out);

/* Make the stream wait for a point, of its own or another device. */
cudaError_t order_after(struct CUstream_st *s, struct point p);

/* Return true if the stream's next command would wait for nothing. */
bool order_is_idle(struct CUstream_st *s);

/* Wait on the host: for a point; for a stream; for a device's blocking streams; for all its streams. */
cudaError_t order_await(struct point p);
cudaError_t order_drain_stream(struct CUstream_st *s);
cudaError_t order_drain_legacy(struct device *d);
cudaError_t order_drain_device(struct device *d);
/* The failure of a queue, as a CUDA error. */
cudaError_t order_error(struct cmdq *q);

/*
 * Work of the program inside a stream's order: run() is called on the stream's worker thread when
 * the stream reaches it.
 *
 *	run its failure becomes the stream's, with the message in *err
 *	drop called once, after run or instead of it, also if this call fails; `e` is the reason why run
 *		was not called. May be NULL
 */
typedef enum rc work_fn(void *arg, struct err *err);
typedef void work_drop_fn(void *arg, cudaError_t e);
cudaError_t work_enqueue(struct CUstream_st *s, work_fn *run, work_drop_fn *drop, void *arg);
/* For drop: frees arg. */
void work_free(void *arg, cudaError_t e);

/* Within run(): report the work as `what` instead of a copy; q: the queue that it waits for, or NULL. */
void work_does(enum cmdq_does what, const struct cmdq *q);
/* Within run(): report it as a kernel of that name. */
void work_is_kernel(const char *name);

/* ------------------------------------------------------------------ memory (memory_table.c, memory.c, memory_api.c) */

/*
 * Find the allocation of a range; kind MEMORY_PAGEABLE: CUDA does not know it.
 *
 *	addr	[out] of device memory: the device's address of p
 *
 * cudaErrorInvalidValue: the range begins in an allocation and ends outside, or is in a device's
 * range but not allocated.
 */
cudaError_t memory_find(const void *p, size_t nbytes, struct memory *out, uint64_t *addr);
/* As memory_find, for work that was enqueued before cudaFreeAsync was called. */
cudaError_t memory_find_late(const void *p, size_t nbytes, struct memory *out, uint64_t *addr);

/*
 * Allocate m.asked bytes of a device, and enter them into the table; m has the kind and other properties.
 * cudaErrorMemoryAllocation.
 */
cudaError_t memory_allocate(struct device *d, struct memory m, void **out);
/* Begin to free an allocation: no call may use it any more. cudaErrorInvalidValue: not one, or freed. */
cudaError_t memory_leave(const void *ptr, struct memory *out);
/* Instead of memory_release: it is used again, for so many bytes, which must fit. */
void memory_stay(const void *base, uint64_t asked);
bool memory_fits(const struct memory *m, size_t size);
/*
 * Enter memory into the table; take an entry out of it; change one: its number among exported memory;
 * that nobody may use it any more.
 */
cudaError_t memory_enter(const struct memory *m);
void memory_remove(const void *base);
/* Take out what begins at base and is of that kind. cudaErrorInvalidValue: no such memory. */
cudaError_t memory_take(const void *base, enum memory_kind kind, struct memory *out);
/* Take out any allocation of a device. False: it has none. */
bool memory_take_any(int ordinal, struct memory *out);
/* Bytes of a device in the table. */
uint64_t memory_used(int ordinal);
void memory_export(const void *base, uint32_t number);
void memory_end(const void *base);
void memory_overrun(const void *base); /* a call that goes over its end was reported */
/* Free it for good, once no work uses it. */
void memory_release(const struct memory *m);
/* Set the peers that may use all memory of a pool. */
void memory_open_pool(const struct pool *p, uint64_t peers);

/* As memory_allocate; if the device is full, release what pools keep, and wait for memory that is being freed. */
cudaError_t pool_allocate(struct device *d, struct memory m, void **out);
/* Release memory of cudaFreeAsync that streams have passed, unless its pool keeps it. */
void pool_collect(void);
/* Release everything: the device is reset. */
void pool_forget(int ordinal);
/* cudaFree freed memory of a pool. */
void pool_freed(struct pool *p, uint64_t nbytes);

/* Device memory for the library's own use, which kernels cannot reach. */
cudaError_t memory_own(struct device *d, size_t nbytes, uint64_t *addr);
/* Device memory for a module's variables: pages of its own, in the table. */
cudaError_t memory_for_variables(struct device *d, size_t nbytes, struct memory *out);

/*
 * Take memory of a device for m->asked bytes: sets its base, nbytes and addresses. The caller enters it into the
 * table; after it has taken it out again, pages_give makes helpers unmap it, and frees it.
 */
enum pages { PAGES_SHARED /* with other small allocations */, PAGES_OWN };
enum gpusim_rc pages_take(struct device *d, enum pages pages, struct memory *m);
void pages_give(const struct memory *m);
/* Free all memory of a device: cudaDeviceReset. */
void memory_forget_all(struct device *d);

/* ------------------------------------------------------------------ operations */

/* A copy of depth slices of height rows of width bytes. */
struct box {
	unsigned char *dst;
	const unsigned char *src;
	size_t dpitch, spitch, dslice, sslice; /* bytes to the next row, the next slice */
	size_t width, height, depth;
	enum cudaMemcpyKind kind;
	const void *site; /* with GPUSIM_MEMCHECK: of the call */
	void *staged;	  /* src, if it is the library's copy of it */
};

/* What a library enqueues: hooks.h. */
struct call {
	gpusim_cuda_enqueue_fn *enqueue;
	gpusim_cuda_work_fn *run; /* not NULL: instead of enqueue */
	const char *name;	  /* of run, as a kernel */
	void *arg;
	void (*done_with)(void *arg);
};

/* One operation of a stream, or of a graph's node: issued once or many times. */
struct op {
	enum cudaGraphNodeType type;
	atomic_uint users;
	int ordinal; /* of the device that it runs on; -1: any */
	cudaError_t (*issue)(struct op *o, struct CUstream_st *s);
	void (*fini)(struct op *o);
	union {
		struct call call;
		struct box copy;
		struct cudaMemsetParams memset;
		struct cudaHostNodeParams host;
		cudaEvent_t event;
		struct CUgraph_st *graph;
	} u;
};
struct op *op_new(enum cudaGraphNodeType type, int ordinal,
		  cudaError_t (*issue)(struct op *, struct CUstream_st *));
void op_drop_work(void *arg, cudaError_t e); /* for work_enqueue, whose arg is op_hold(o) */
struct op *op_hold(struct op *o);
void op_drop(struct op *o); /* NULL is legal */

/*
 * Do an operation on a stream: issue it, or make it a node of the graph that is captured. Takes
 * over the caller's reference. NULL: out of memory.
 */
cudaError_t op_submit(struct CUstream_st *s, struct op *o);

/* Each kind of operation (copy.c, memset.c, host.c, event.c). NULL: out of memory. */
struct op *op_copy(const struct box *b);
struct op *op_memset(const struct cudaMemsetParams *p);
struct op *op_host(cudaHostFn_t fn, void *arg);
struct op *op_record(cudaEvent_t event);
struct op *op_wait(cudaEvent_t event);
struct op *op_empty(void);
/* cudaErrorInvalidValue, cudaErrorInvalidMemcpyDirection, cudaErrorInvalidPitchValue: the box is invalid. */
cudaError_t copy_check(const struct box *b);
cudaError_t copy_box(const struct cudaMemcpy3DParms *p, struct box *out);
cudaError_t memset_check(const struct cudaMemsetParams *p);

/* ------------------------------------------------------------------ capture (capture.c) */

/* Find out whether the stream is captured. cudaErrorStreamCaptureImplicit: it is the legacy stream,
 * and a blocking stream is captured; that capture becomes invalid. */
cudaError_t capture_look(struct CUstream_st *s, bool *is);
/* Add a node to the stream's capture. */
cudaError_t capture_add(struct CUstream_st *s, struct op *o);
/* Called by functions that a capture of this thread, or a global one, forbids. */
cudaError_t capture_forbids(void);
/* Called by functions that a captured stream does not support: cudaErrorStreamCaptureUnsupported;
 * the capture becomes invalid. */
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
/* The captured stream would wait for work outside: cudaErrorStreamCaptureIsolation; the capture
 * becomes invalid. */
cudaError_t capture_isolation(struct CUstream_st *s);

#endif
