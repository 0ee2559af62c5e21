/*
 * The order of commands: appending to a stream, waits for other streams, waiting on the host.
 *
 * Design notes. Work of the legacy stream follows all earlier work of blocking streams of its
 * device, and precedes their later work. So before a command, waits for the others' ends are
 * appended, unless these ends are already reached or waited for. A wait names an earlier position,
 * so waits cannot form a cycle, and no two streams are locked at a time.
 */

#include "base/clock.h"
#include "cudart/cuda_impl.h"
#include "cudart/helper.h"

#define WAITS 32 /* appended at a time */

/* ------------------------------------------------------------------ failures */

static int
ordinal_of(const struct cmdq *q)
{
	int i = 0;

	while (i + 1 < cuda_device_count() &&
	       cuda_device_at(i)->space->device.id != cmdq_device(q).id)
		i++;
	return i;
}

/* A failed kernel has stored its error. */
static cudaError_t
kernel_failure(struct cmdq *q)
{
	_Atomic(uint32_t) *error = atomic_load(&cuda_device_at(ordinal_of(q))->kernel_error);
	uint32_t e = error && !cmdq_page(q)->error.comm ? atomic_load(error) : 0;

	return e ? (cudaError_t)e : cudaErrorLaunchFailure;
}

/* Convert a queue's result to a CUDA error; print its message. */
static cudaError_t
failure(struct cmdq *q, enum gpusim_rc rc)
{
	if (rc == GPUSIM_OK)
		return cudaSuccess;
	cuda_tell(gpusim_error());
	switch (rc) {
	case GPUSIM_UNREACHABLE: /* collectives report it for another rank */
		return cmdq_page(q)->error.comm ? cudaErrorLaunchFailure
						: cudaErrorDevicesUnavailable;
	case GPUSIM_NOMEM:
		return cudaErrorMemoryAllocation;
	case GPUSIM_TIMEOUT:
		return cudaErrorLaunchTimeout;
	case GPUSIM_INVAL: /* kernels and copies report it for an address */
		return cmdq_page(q)->error.comm ? cudaErrorLaunchFailure : cudaErrorIllegalAddress;
	case GPUSIM_FAILED:
		return kernel_failure(q);
	default:
		return cudaErrorLaunchFailure;
	}
}

cudaError_t
order_error(struct cmdq *q)
{
	return failure(q, cmdq_error(q, NULL));
}

/* ------------------------------------------------------------------ appending */

static cudaError_t
append_waits(struct cmdq *q, const struct point *v, size_t n)
{
	struct cmdq_command c[WAITS];

	for (size_t i = 0; i < n; i++)
		c[i] =
		    (struct cmdq_command){.kind = CMDQ_WAIT, .u.wait = {cmdq_id(v[i].q), v[i].at}};
	return n && cmdq_append(q, c, n, NULL) != GPUSIM_OK ? order_error(q) : cudaSuccess;
}

/* Collect the ends of blocking streams that the legacy stream does not wait for yet; at most WAITS. */
static size_t
ends_of_blocking(struct CUstream_st *legacy, struct point *v)
{
	struct device *d = legacy->device;
	size_t n = 0;

	pthread_mutex_lock(&d->lock);
	for (struct CUstream_st *s = d->streams; s && n < WAITS; s = s->next) {
		struct cmdq *q = atomic_load(&s->q);
		uint64_t end = q ? cmdq_tail(q) : 0;

		if (!q || s == legacy || !atomic_load(&s->blocking) || s->legacy_waits >= end ||
		    cmdq_done(q, end))
			continue;
		s->legacy_waits = end;
		v[n++] = (struct point){q, end};
	}
	pthread_mutex_unlock(&d->lock);
	return n;
}

/* Lock held. */
static cudaError_t
wait_for_legacy(struct CUstream_st *s, struct cmdq *q)
{
	struct CUstream_st *legacy = s->device->legacy;
	struct point p = {.q = legacy ? atomic_load(&legacy->q) : NULL};

	if (!p.q)
		return cudaSuccess;
	p.at = cmdq_tail(p.q);
	if (p.at <= s->legacy_seen || cmdq_done(p.q, p.at))
		return cudaSuccess;
	s->legacy_seen = p.at;
	return append_waits(q, &p, 1);
}

cudaError_t
order_begin(struct CUstream_st *s, struct cmdq **out)
{
	struct point v[WAITS];
	cudaError_t e;
	size_t n;

	pthread_mutex_lock(&s->lock);
	e = stream_queue(s, out);
	if (e != cudaSuccess || !atomic_load_explicit(&s->blocking, memory_order_relaxed))
		return e;
	if (s != s->device->legacy)
		return wait_for_legacy(s, *out);
	do {
		n = ends_of_blocking(s, v);
		e = append_waits(*out, v, n);
	} while (e == cudaSuccess && n == WAITS);
	return e;
}

void
order_end(struct CUstream_st *s)
{
	pthread_mutex_unlock(&s->lock);
}

cudaError_t
order_enqueue(struct CUstream_st *s, gpusim_cuda_enqueue_fn *enqueue, void *arg)
{
	struct cmdq *q;
	cudaError_t e = order_begin(s, &q);
	enum gpusim_rc rc;

	if (e == cudaSuccess) {
		rc = enqueue(arg, q);
		if (rc != GPUSIM_OK) {
			e = order_error(q);
			e = e == cudaSuccess ? cuda_error_of(rc) : e;
		}
	}
	order_end(s);
	return e;
}

struct commands {
	const struct cmdq_command *c;
	size_t n;
};

static enum gpusim_rc
enqueue_commands(void *arg, struct cmdq *q)
{
	struct commands *v = arg;

	return cmdq_append(q, v->c, v->n, NULL);
}

cudaError_t
order_append(struct CUstream_st *s, const struct cmdq_command *c, size_t n)
{
	struct commands v = {c, n};

	return order_enqueue(s, enqueue_commands, &v);
}

/* ------------------------------------------------------------------ points */

static enum gpusim_rc
tell_end(void *arg, struct cmdq *q)
{
	*(struct point *)arg = (struct point){q, cmdq_tail(q)};
	return GPUSIM_OK;
}

cudaError_t
order_end_of(struct CUstream_st *s, struct point *out)
{
	return order_enqueue(s, tell_end, out);
}

static bool
is_reached(struct point p)
{
	return !p.q || cmdq_done(p.q, p.at);
}

/* ------------------------------------------------------------------ waiting on the host */

#define GRACE_MS \
	500 /* the device's own limit expires first: its message names the rank that it waited for */

static uint32_t
patience_ms(void)
{
	uint32_t ms = cuda_timeout_ms();

	return ms && ms < UINT32_MAX - GRACE_MS ? ms + GRACE_MS : ms;
}

cudaError_t
order_await(struct point p)
{
	enum gpusim_rc rc = p.q ? cmdq_wait(p.q, p.at, patience_ms()) : GPUSIM_OK;

	helper_flush();
	return p.q ? failure(p.q, rc) : cudaSuccess;
}

static struct point
end_of(struct CUstream_st *s)
{
	struct cmdq *q = s ? atomic_load(&s->q) : NULL;

	return (struct point){q, q ? cmdq_tail(q) : 0};
}

cudaError_t
order_drain_stream(struct CUstream_st *s)
{
	if (s == s->device->legacy)
		return order_drain_legacy(s->device);
	return order_await(end_of(s));
}

enum which { ALL, BLOCKING };

/* Streams are added at the head of the list and never leave it. */
static cudaError_t
drain(struct device *d, enum which which)
{
	struct CUstream_st *s;
	cudaError_t first = cudaSuccess, e;

	pthread_mutex_lock(&d->lock);
	s = d->streams;
	pthread_mutex_unlock(&d->lock);
	for (; s; s = s->next) {
		if (which == BLOCKING && !atomic_load(&s->blocking))
			continue;
		e = order_await(end_of(s));
		first = first == cudaSuccess ? e : first;
	}
	return first;
}

cudaError_t
order_drain_legacy(struct device *d)
{
	return drain(d, BLOCKING);
}

cudaError_t
order_drain_device(struct device *d)
{
	return drain(d, ALL);
}

bool
order_is_idle(struct CUstream_st *s)
{
	struct device *d = s->device;
	bool idle = is_reached(end_of(s));

	if (!idle || !atomic_load(&s->blocking))
		return idle;
	if (s != d->legacy)
		return is_reached(end_of(d->legacy));
	pthread_mutex_lock(&d->lock);
	for (s = d->streams; s && idle; s = s->next)
		if (atomic_load(&s->blocking))
			idle = is_reached(end_of(s));
	pthread_mutex_unlock(&d->lock);
	return idle;
}

/* ------------------------------------------------------------------ hooks */

void
gpusim_cuda_forgive(int ordinal, uint64_t comm)
{
	struct device *d = cuda_device_at(ordinal);
	struct CUstream_st *s;

	pthread_mutex_lock(&d->lock);
	s = d->streams;
	pthread_mutex_unlock(&d->lock);
	for (; s; s = s->next)
		if (atomic_load(&s->q))
			cmdq_forgive(atomic_load(&s->q), comm);
}

enum gpusim_rc
gpusim_cuda_drain(int ordinal, uint32_t timeout_ms)
{
	struct device *d = cuda_device_at(ordinal);
	uint64_t until = deadline_in_ms(timeout_ms);
	enum gpusim_rc rc = GPUSIM_OK;
	struct CUstream_st *s;

	if (!d)
		return GPUSIM_NOTFOUND;
	pthread_mutex_lock(&d->lock);
	s = d->streams;
	pthread_mutex_unlock(&d->lock);
	for (; s && rc != GPUSIM_TIMEOUT; s = s->next) {
		struct point p = end_of(s);
		uint64_t now = clock_now_ns();
		uint32_t left =
		    timeout_ms ? (uint32_t)((until > now ? until - now : 0) / NS_PER_MS) + 1 : 0;
		enum gpusim_rc one = p.q ? cmdq_wait(p.q, p.at, left) : GPUSIM_OK;

		rc = rc == GPUSIM_OK || one == GPUSIM_TIMEOUT ? one : rc;
	}
	return rc;
}
