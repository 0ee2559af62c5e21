/*
 * Events: a position in a queue, and the time at which the device reached it.
 *
 * Design notes. The device writes the time into a slot of its memory that the event keeps. Slots of
 * a device come from pages of its memory; free ones are linked through a list here. An event's lock
 * covers what it recorded last.
 */
#include <stdlib.h>

#include "cudart/cuda_impl.h"
#include "cudart/ipc.h"

#define EVENT_MAGIC 0x6770756576656e74ull
#define SLOTS	    512 /* of a page */

struct CUevent_st {
	uint64_t magic;
	unsigned flags;
	struct device *device;
	uint64_t slot; /* address of its time; 0: none yet */
	pthread_mutex_t lock;
	bool recorded;
	struct point point;
	struct captured captured;
	struct ipc_event *ipc; /* NULL: no other process has it */
	cudaIpcEventHandle_t handle;
};

/* ------------------------------------------------------------------ slots */

struct slots {
	struct slots *next;
	int ordinal;
	uint64_t addr;
};
static struct slots *free_slots;
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;

static void
give_slot(int ordinal, uint64_t addr)
{
	struct slots *s = malloc(sizeof *s);

	if (!s)
		return; /* eight bytes of device memory are leaked */
	*s = (struct slots){free_slots, ordinal, addr};
	free_slots = s;
}

static uint64_t
take_slot(int ordinal)
{
	for (struct slots **at = &free_slots, *s; (s = *at); at = &s->next)
		if (s->ordinal == ordinal) {
			uint64_t addr = s->addr;

			*at = s->next;
			free(s);
			return addr;
		}
	return 0;
}

static uint64_t
slot_of(struct device *d)
{
	uint64_t page, addr;

	pthread_mutex_lock(&slots_lock);
	addr = take_slot(d->ordinal);
	if (!addr && memory_own(d, SLOTS * sizeof(uint64_t), &page) == cudaSuccess) {
		for (unsigned i = 1; i < SLOTS; i++)
			give_slot(d->ordinal, page + i * sizeof(uint64_t));
		addr = page;
	}
	pthread_mutex_unlock(&slots_lock);
	return addr;
}

/* ------------------------------------------------------------------ handles */

static cudaError_t
about(cudaEvent_t event)
{
	cudaError_t e = cuda_enter();

	return e == cudaSuccess && (!event || event->magic != EVENT_MAGIC)
		   ? cudaErrorInvalidResourceHandle
		   : e;
}

cudaError_t
cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
	struct CUevent_st *v;
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess && (!event || flags & ~7u))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess && flags & cudaEventInterprocess && !(flags & cudaEventDisableTiming))
		e = cudaErrorInvalidValue;
	if (e != cudaSuccess)
		return cuda_done(e);
	v = calloc(1, sizeof *v);
	if (!v)
		return cuda_done(cudaErrorMemoryAllocation);
	v->magic = EVENT_MAGIC;
	v->flags = flags;
	v->device = cuda_current();
	pthread_mutex_init(&v->lock, NULL);
	*event = v;
	return cudaSuccess;
}

cudaError_t
cudaEventCreate(cudaEvent_t *event)
{
	return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t
cudaEventDestroy(cudaEvent_t event)
{
	cudaError_t e = about(event);

	if (e != cudaSuccess)
		return cuda_done(e);
	event->magic = 0;
	pthread_mutex_lock(&slots_lock);
	if (event->slot)
		give_slot(event->device->ordinal, event->slot);
	pthread_mutex_unlock(&slots_lock);
	captured_fini(&event->captured);
	pthread_mutex_destroy(&event->lock);
	free(event); /* enqueued work may still use event->ipc */
	return cudaSuccess;
}

/* Before it is recorded: afterwards its position is only known here. */
cudaError_t
cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
	cudaError_t e = about(event);

	if (e == cudaSuccess &&
	    (!handle || !(event->flags & cudaEventInterprocess) || event->recorded))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess && !event->ipc)
		event->ipc = ipc_event_new(&event->handle);
	if (e == cudaSuccess && !event->ipc)
		e = cudaErrorMemoryAllocation;
	if (e == cudaSuccess)
		*handle = event->handle;
	return cuda_done(e);
}

cudaError_t
cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
	struct ipc_event *v;
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess && !event)
		e = cudaErrorInvalidValue;
	v = e == cudaSuccess ? ipc_event_open(&handle) : NULL;
	if (e == cudaSuccess && !v)
		e = cudaErrorInvalidResourceHandle;
	if (e == cudaSuccess)
		e = cudaEventCreateWithFlags(event, cudaEventInterprocess | cudaEventDisableTiming);
	if (e != cudaSuccess)
		return cuda_done(e);
	(*event)->ipc = v;
	(*event)->handle = handle;
	return cudaSuccess;
}

/* ------------------------------------------------------------------ recording and waiting */

static bool
is_timed(const struct CUevent_st *v)
{
	return !(v->flags & cudaEventDisableTiming);
}

struct record {
	struct CUevent_st *event;
	struct point end;
};

static enum gpusim_rc
append_record(void *arg, struct cmdq *q)
{
	struct record *r = arg;
	struct cmdq_command c = {.kind = CMDQ_STAMP, .u.bytes.dst = r->event->slot};
	enum gpusim_rc rc = is_timed(r->event) ? cmdq_append(q, &c, 1, NULL) : GPUSIM_OK;

	r->end = (struct point){q, cmdq_tail(q)};
	return rc;
}

static cudaError_t
record_now(struct CUevent_st *v, struct CUstream_st *s)
{
	struct record r = {.event = v};
	cudaError_t e;

	if (v->ipc)
		return ipc_event_record(v->ipc, s);
	if (s->device != v->device)
		return cudaErrorInvalidResourceHandle;
	pthread_mutex_lock(&v->lock);
	if (is_timed(v) && !v->slot)
		v->slot = slot_of(v->device);
	e = is_timed(v) && !v->slot ? cudaErrorMemoryAllocation
				    : order_enqueue(s, append_record, &r);
	if (e == cudaSuccess) {
		captured_fini(&v->captured);
		v->recorded = true;
		v->point = r.end;
	}
	pthread_mutex_unlock(&v->lock);
	return e;
}

/* The point that the event stands for now. */
static cudaError_t
recorded_point(struct CUevent_st *v, struct point *out)
{
	cudaError_t e = cudaSuccess;

	pthread_mutex_lock(&v->lock);
	if (v->captured.id)
		e = cudaErrorCapturedEvent;
	*out = v->recorded ? v->point : (struct point){.q = NULL};
	pthread_mutex_unlock(&v->lock);
	return e;
}

static cudaError_t
issue_record(struct op *o, struct CUstream_st *s)
{
	return record_now(o->u.event, s);
}

static cudaError_t
wait_now(struct CUevent_st *v, struct CUstream_st *s)
{
	struct point p;

	if (v->ipc)
		return ipc_event_wait(v->ipc, s);
	pthread_mutex_lock(&v->lock);
	p = v->recorded ? v->point : (struct point){.q = NULL};
	pthread_mutex_unlock(&v->lock);
	return order_after(s, p);
}

static cudaError_t
issue_wait(struct op *o, struct CUstream_st *s)
{
	return wait_now(o->u.event, s);
}

struct op *
op_record(cudaEvent_t event)
{
	struct op *o = op_new(cudaGraphNodeTypeEventRecord, event->device->ordinal, issue_record);

	if (o)
		o->u.event = event;
	return o;
}

struct op *
op_wait(cudaEvent_t event)
{
	struct op *o = op_new(cudaGraphNodeTypeWaitEvent, -1, issue_wait);

	if (o)
		o->u.event = event;
	return o;
}

/* In a capture an event stands for the nodes that the stream has so far. */
static cudaError_t
record_captured(struct CUevent_st *v, struct CUstream_st *s)
{
	struct captured now = {0};
	cudaError_t e = capture_record(s, &now);

	if (e != cudaSuccess)
		return e;
	pthread_mutex_lock(&v->lock);
	captured_fini(&v->captured);
	v->captured = now;
	pthread_mutex_unlock(&v->lock);
	return cudaSuccess;
}

cudaError_t
cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
	struct CUstream_st *s;
	bool captured;
	cudaError_t e = about(event);

	if (e == cudaSuccess && flags > cudaEventRecordExternal)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = stream_of(stream, &s);
	if (e == cudaSuccess)
		e = capture_look(s, &captured);
	if (e != cudaSuccess)
		return cuda_done(e);
	if (captured)
		return cuda_done(flags ? op_submit(s, op_record(event))
				       : record_captured(event, s));
	return cuda_done(record_now(event, s));
}

cudaError_t
cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t
cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
	struct CUstream_st *s;
	struct captured c;
	bool captured;
	cudaError_t e = about(event);

	if (e == cudaSuccess && flags > cudaEventWaitExternal)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = stream_of(stream, &s);
	if (e == cudaSuccess)
		e = capture_look(s, &captured);
	if (e != cudaSuccess)
		return cuda_done(e);
	if (captured && flags)
		return cuda_done(op_submit(s, op_wait(event)));
	pthread_mutex_lock(&event->lock);
	c = event->captured;
	e = c.id ? capture_wait(s, &c) : cudaSuccess;
	pthread_mutex_unlock(&event->lock);
	if (c.id)
		return cuda_done(e);
	if (captured)
		return cuda_done(event->recorded ? capture_isolation(s) : cudaSuccess);
	return cuda_done(wait_now(event, s));
}

/* ------------------------------------------------------------------ queries */

cudaError_t
cudaEventQuery(cudaEvent_t event)
{
	struct point p = {.q = NULL};
	cudaError_t e = about(event);

	if (e == cudaSuccess && event->ipc)
		return cuda_done(ipc_event_query(event->ipc, false));
	if (e == cudaSuccess)
		e = recorded_point(event, &p);
	if (e == cudaSuccess && p.q && !cmdq_done(p.q, p.at))
		e = cudaErrorNotReady;
	return cuda_done(e == cudaSuccess ? order_await(p) : e);
}

cudaError_t
cudaEventSynchronize(cudaEvent_t event)
{
	struct point p = {.q = NULL};
	cudaError_t e = about(event);

	if (e == cudaSuccess && event->ipc)
		return cuda_done(ipc_event_query(event->ipc, true));
	if (e == cudaSuccess)
		e = recorded_point(event, &p);
	return cuda_done(e == cudaSuccess ? order_await(p) : e);
}

static cudaError_t
read_time(struct CUevent_st *v, uint64_t *ns)
{
	struct point p = {.q = NULL};
	cudaError_t e = recorded_point(v, &p);

	if (e == cudaSuccess && (!p.q || !is_timed(v)))
		e = cudaErrorInvalidResourceHandle;
	if (e == cudaSuccess && !cmdq_done(p.q, p.at))
		e = cudaErrorNotReady;
	if (e == cudaSuccess)
		e = order_await(p);
	if (e == cudaSuccess)
		e = cuda_error_of(gpusim_memcpy_d2h(cuda_connection(), ns, v->device->space->device,
						    (struct gpusim_addr){v->slot}, sizeof *ns));
	return e;
}

cudaError_t
cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
	uint64_t from = 0, to = 0;
	cudaError_t e = about(start);

	if (e == cudaSuccess)
		e = about(end);
	if (e == cudaSuccess && !ms)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = read_time(start, &from);
	if (e == cudaSuccess)
		e = read_time(end, &to);
	if (e == cudaSuccess)
		*ms = (float)((double)(int64_t)(to - from) / 1e6);
	return cuda_done(e);
}
