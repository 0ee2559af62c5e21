/*
 * Pools: memory in a stream's order.
 *
 * Design notes. Memory of cudaFreeAsync stays in the table of allocations until its stream has reached
 * the call, because earlier work may still use it. Until then an allocation of the same size and stream gets
 * it back at once, and later one of any stream, if the pool keeps it. A pool keeps what is below its release
 * threshold; without room on the device it keeps nothing. The list of freed memory is behind a lock,
 * which is outside of the table's.
 * Advice about managed memory is accepted and has no effect: it is always in the device's memory.
 */
#include <stdlib.h>

#include "cudart/cuda_impl.h"
#include "cudart/memcheck.h"

enum { REUSES = 3 };

struct pool {
	struct pool *next;
	int ordinal;
	bool ended; /* cudaMemPoolDestroy */
	uint64_t peers;
	int reuse[REUSES]; /* accepted: memory is always reused as all of them permit together */
	uint64_t threshold, used, used_high, reserved, reserved_high;
};

/* Freed by cudaFreeAsync. */
struct later {
	struct later *next;
	struct CUstream_st *stream;
	struct point point;
	struct memory memory;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct later *laters;
static struct pool *pools;		      /* the default ones, too; they stay */
static struct pool *first[SPACE_DEVICES_MAX]; /* by ordinal: the default pool */
static struct pool *now[SPACE_DEVICES_MAX];   /* NULL: the default pool */

/* ------------------------------------------------------------------ freed memory; lock held */

static void
count_used(struct pool *p, uint64_t nbytes)
{
	p->used += nbytes;
	p->used_high = p->used > p->used_high ? p->used : p->used_high;
}

static void
count_reserved(struct pool *p, uint64_t nbytes)
{
	p->reserved += nbytes;
	p->reserved_high = p->reserved > p->reserved_high ? p->reserved : p->reserved_high;
}

static bool
is_passed(const struct later *l)
{
	return !l->point.q || cmdq_done(l->point.q, l->point.at);
}

static void
let_go(struct later **at)
{
	struct later *l = *at;

	*at = l->next;
	if (l->memory.pool)
		l->memory.pool->reserved -= l->memory.nbytes;
	memory_release(&l->memory);
	free(l);
}

/* Release what streams have passed and its pool does not keep; a pool keeps at most `least` bytes. False: nothing. */
static bool
collect(int ordinal, const struct pool *only, uint64_t least)
{
	struct later **at = &laters, *l;
	bool any = false;

	while ((l = *at)) {
		struct pool *p = l->memory.pool;
		uint64_t keep = !p ? 0 : p->threshold < least ? p->threshold : least;

		if ((ordinal < 0 || l->memory.ordinal == ordinal) && (!only || p == only) &&
		    is_passed(l) && !(p && p->reserved <= keep)) {
			let_go(at);
			any = true;
		} else
			at = &l->next;
	}
	return any;
}

void
pool_collect(void)
{
	pthread_mutex_lock(&lock);
	collect(-1, NULL, UINT64_MAX);
	pthread_mutex_unlock(&lock);
}

void
pool_forget(int ordinal)
{
	pthread_mutex_lock(&lock);
	for (struct later **at = &laters; *at;)
		if ((*at)->memory.ordinal == ordinal)
			let_go(at);
		else
			at = &(*at)->next;
	for (struct pool *p = pools; p; p = p->next)
		if (p->ordinal == ordinal)
			p->used = p->reserved = 0;
	pthread_mutex_unlock(&lock);
}

/* The device is full: release what pools keep, else wait for memory that is being freed. False: there is none. */
static bool
make_room(int ordinal)
{
	struct point p = {NULL, 0};
	bool any;

	pthread_mutex_lock(&lock);
	any = collect(ordinal, NULL, 0);
	for (struct later *l = laters; l && !any; l = l->next)
		if (l->memory.ordinal == ordinal && !is_passed(l))
			p = l->point; /* the oldest is the last of the list */
	pthread_mutex_unlock(&lock);
	return any || (p.q && order_await(p) == cudaSuccess && make_room(ordinal));
}

cudaError_t
pool_allocate(struct device *d, struct memory m, void **out)
{
	cudaError_t e;

	pool_collect();
	do
		e = memory_allocate(d, m, out);
	while (e != cudaSuccess && m.asked <= d->space->nbytes && make_room(d->ordinal));
	return e;
}

/* Freed memory that this stream may have; NULL: none. */
static void *
reuse(struct pool *p, size_t size, const struct CUstream_st *s)
{
	void *base = NULL;

	pthread_mutex_lock(&lock);
	for (struct later **at = &laters; *at && !base; at = &(*at)->next) {
		struct later *l = *at;

		if (l->memory.pool != p || !memory_fits(&l->memory, size) ||
		    (l->stream != s && !is_passed(l)))
			continue;
		base = l->memory.base;
		memory_stay(base, size);
		count_used(p, l->memory.nbytes);
		*at = l->next;
		free(l);
		break;
	}
	pthread_mutex_unlock(&lock);
	return base;
}

static cudaError_t
take_from(struct pool *p, size_t size, struct CUstream_st *s, void **out)
{
	struct memory m = {.kind = MEMORY_DEVICE, .asked = size, .pool = p, .open = p->peers};
	cudaError_t e;

	*out = reuse(p, size, s);
	if (*out && memcheck_on() && memory_find(*out, size, &m, NULL) == cudaSuccess)
		memcheck_fill(&m);
	if (*out)
		return cudaSuccess;
	e = pool_allocate(cuda_device_at(p->ordinal), m, out);
	if (e == cudaSuccess && memory_find(*out, 1, &m, NULL) == cudaSuccess) {
		pthread_mutex_lock(&lock);
		count_used(p, m.nbytes);
		count_reserved(p, m.nbytes);
		pthread_mutex_unlock(&lock);
	}
	return e;
}

/* ------------------------------------------------------------------ pools */

static struct pool *
pool_new(int ordinal)
{
	struct pool *p = calloc(1, sizeof *p);

	if (!p)
		return NULL;
	*p = (struct pool){.next = pools, .ordinal = ordinal, .reuse = {1, 1, 1}};
	return pools = p;
}

/* The device's pool; NULL: out of memory. */
static struct pool *
pool_of(int ordinal, struct pool *const *which)
{
	struct pool *p;

	pthread_mutex_lock(&lock);
	if (!first[ordinal])
		first[ordinal] = pool_new(ordinal);
	p = which[ordinal] ? which[ordinal] : first[ordinal];
	pthread_mutex_unlock(&lock);
	return p;
}

static cudaError_t
get_pool(cudaMemPool_t *pool, int device, struct pool *const *which)
{
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess && !pool)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess && !cuda_device_at(device))
		e = cudaErrorInvalidDevice;
	if (e == cudaSuccess && !(*pool = (cudaMemPool_t)(void *)pool_of(device, which)))
		e = cudaErrorMemoryAllocation;
	return cuda_done(e);
}

cudaError_t
cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device)
{
	return get_pool(memPool, device, first);
}

cudaError_t
cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device)
{
	return get_pool(memPool, device, now);
}

static cudaError_t
about(cudaMemPool_t handle, struct pool **out)
{
	cudaError_t e = cuda_enter();
	struct pool *p;

	if (e != cudaSuccess)
		return e;
	pthread_mutex_lock(&lock);
	for (p = pools; p && (cudaMemPool_t)(void *)p != handle; p = p->next)
		;
	pthread_mutex_unlock(&lock);
	*out = p;
	return p && !p->ended ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t
cudaDeviceSetMemPool(int device, cudaMemPool_t memPool)
{
	struct pool *p;
	cudaError_t e = about(memPool, &p);

	if (e == cudaSuccess && p->ordinal != device)
		e = cudaErrorInvalidDevice;
	if (e == cudaSuccess)
		now[device] = p;
	return cuda_done(e);
}

cudaError_t
cudaMemPoolCreate(cudaMemPool_t *memPool, const struct cudaMemPoolProps *props)
{
	cudaError_t e = cuda_enter();
	struct pool *p = NULL;

	if (e == cudaSuccess &&
	    (!memPool || !props || props->allocType != cudaMemAllocationTypePinned ||
	     props->location.type != cudaMemLocationTypeDevice ||
	     !cuda_device_at(props->location.id)))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess && props->handleTypes != cudaMemHandleTypeNone) {
		cuda_tell("cudaMemPoolCreate: pools are not shared between processes; "
			  "cudaIpcGetMemHandle shares memory of cudaMalloc");
		e = cudaErrorNotSupported;
	}
	if (e != cudaSuccess)
		return cuda_done(e);
	pthread_mutex_lock(&lock);
	p = pool_new(props->location.id);
	pthread_mutex_unlock(&lock);
	*memPool = (cudaMemPool_t)(void *)p;
	return cuda_done(p ? cudaSuccess : cudaErrorMemoryAllocation);
}

/* Its memory stays valid until it is freed; the record of it stays for good. */
cudaError_t
cudaMemPoolDestroy(cudaMemPool_t memPool)
{
	struct pool *p;
	cudaError_t e = about(memPool, &p);

	if (e == cudaSuccess && p == first[p->ordinal])
		e = cudaErrorInvalidValue;
	if (e != cudaSuccess)
		return cuda_done(e);
	pthread_mutex_lock(&lock);
	p->ended = true;
	p->threshold = 0;
	if (now[p->ordinal] == p)
		now[p->ordinal] = NULL;
	collect(-1, p, 0);
	pthread_mutex_unlock(&lock);
	return cudaSuccess;
}

cudaError_t
cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep)
{
	struct pool *p;
	cudaError_t e = about(memPool, &p);

	if (e == cudaSuccess) {
		pthread_mutex_lock(&lock);
		collect(-1, p, minBytesToKeep);
		pthread_mutex_unlock(&lock);
	}
	return cuda_done(e);
}

/* The field of an attribute of 64 bits. */
static uint64_t *
field(struct pool *p, enum cudaMemPoolAttr attr)
{
	switch (attr) {
	case cudaMemPoolAttrReleaseThreshold:
		return &p->threshold;
	case cudaMemPoolAttrReservedMemCurrent:
		return &p->reserved;
	case cudaMemPoolAttrReservedMemHigh:
		return &p->reserved_high;
	case cudaMemPoolAttrUsedMemCurrent:
		return &p->used;
	case cudaMemPoolAttrUsedMemHigh:
		return &p->used_high;
	default:
		return NULL;
	}
}

static bool
is_reuse(enum cudaMemPoolAttr attr)
{
	return attr >= cudaMemPoolReuseFollowEventDependencies &&
	       attr <= cudaMemPoolReuseAllowInternalDependencies;
}

cudaError_t
cudaMemPoolSetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
	struct pool *p;
	cudaError_t e = about(memPool, &p);
	uint64_t *f = e == cudaSuccess ? field(p, attr) : NULL;
	bool high = f && (f == &p->reserved_high || f == &p->used_high);

	if (e == cudaSuccess && (!value || (!is_reuse(attr) && !high && f != &p->threshold) ||
				 (high && *(uint64_t *)value != 0)))
		e = cudaErrorInvalidValue;
	if (e != cudaSuccess)
		return cuda_done(e);
	pthread_mutex_lock(&lock);
	if (is_reuse(attr))
		p->reuse[attr - cudaMemPoolReuseFollowEventDependencies] = *(int *)value;
	else if (high)
		*f = f == &p->used_high ? p->used : p->reserved;
	else
		*f = *(uint64_t *)value;
	pthread_mutex_unlock(&lock);
	return cudaSuccess;
}

cudaError_t
cudaMemPoolGetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
	struct pool *p;
	cudaError_t e = about(memPool, &p);

	if (e == cudaSuccess && (!value || (!is_reuse(attr) && !field(p, attr))))
		e = cudaErrorInvalidValue;
	if (e != cudaSuccess)
		return cuda_done(e);
	pthread_mutex_lock(&lock);
	collect(-1, p, UINT64_MAX);
	if (is_reuse(attr))
		*(int *)value = p->reuse[attr - cudaMemPoolReuseFollowEventDependencies];
	else
		*(uint64_t *)value = *field(p, attr);
	pthread_mutex_unlock(&lock);
	return cudaSuccess;
}

static cudaError_t
set_access(struct pool *p, const struct cudaMemAccessDesc *d)
{
	int peer = d->location.id;

	if (d->location.type != cudaMemLocationTypeDevice || !cuda_device_at(peer))
		return cudaErrorInvalidDevice;
	if (peer >= 64)
		return cudaErrorNotSupported;
	if (d->flags != cudaMemAccessFlagsProtNone && d->flags != cudaMemAccessFlagsProtReadWrite)
		return cudaErrorInvalidValue;
	if (peer == p->ordinal && d->flags == cudaMemAccessFlagsProtNone)
		return cudaErrorInvalidDevice;
	pthread_mutex_lock(&lock);
	p->peers &= ~(UINT64_C(1) << peer);
	if (d->flags)
		p->peers |= UINT64_C(1) << peer;
	memory_open_pool(p, p->peers);
	pthread_mutex_unlock(&lock);
	return cudaSuccess;
}

cudaError_t
cudaMemPoolSetAccess(cudaMemPool_t memPool, const struct cudaMemAccessDesc *descList, size_t count)
{
	struct pool *p;
	cudaError_t e = about(memPool, &p);

	if (e == cudaSuccess && !descList && count)
		e = cudaErrorInvalidValue;
	for (size_t i = 0; i < count && e == cudaSuccess; i++)
		e = set_access(p, &descList[i]);
	return cuda_done(e);
}

cudaError_t
cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t memPool,
		     struct cudaMemLocation *location)
{
	struct pool *p;
	cudaError_t e = about(memPool, &p);

	if (e == cudaSuccess &&
	    (!flags || !location || location->type != cudaMemLocationTypeDevice ||
	     !cuda_device_at(location->id)))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		*flags = location->id == p->ordinal ||
				 (location->id < 64 && p->peers >> location->id & 1)
			     ? cudaMemAccessFlagsProtReadWrite
			     : cudaMemAccessFlagsProtNone;
	return cuda_done(e);
}

/* ------------------------------------------------------------------ allocating and freeing */

static cudaError_t
malloc_async(void **ptr, size_t size, struct pool *p, cudaStream_t stream)
{
	struct CUstream_st *s;
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess && !ptr)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = stream_of(stream, &s);
	if (e == cudaSuccess && s->capture)
		e = cudaErrorNotSupported;
	if (e != cudaSuccess)
		return e;
	*ptr = NULL;
	if (!p && !(p = pool_of(s->device->ordinal, now)))
		return cudaErrorMemoryAllocation;
	return size ? take_from(p, size, s, ptr) : cudaSuccess;
}

cudaError_t
cudaMallocAsync(void **ptr, size_t size, cudaStream_t stream)
{
	return cuda_done(malloc_async(ptr, size, NULL, stream));
}

cudaError_t
cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream)
{
	struct pool *p;
	cudaError_t e = about(memPool, &p);

	return cuda_done(e == cudaSuccess ? malloc_async(ptr, size, p, stream) : e);
}

cudaError_t
cudaFreeAsync(void *ptr, cudaStream_t stream)
{
	struct CUstream_st *s;
	struct later *l = NULL;
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess)
		e = stream_of(stream, &s);
	if (e == cudaSuccess && s->capture)
		e = cudaErrorNotSupported;
	if (e == cudaSuccess && !ptr)
		return cudaSuccess;
	if (e == cudaSuccess && !(l = calloc(1, sizeof *l)))
		e = cudaErrorMemoryAllocation;
	if (e == cudaSuccess)
		e = order_end_of(s, &l->point);
	if (e == cudaSuccess)
		e = memory_leave(ptr, &l->memory);
	if (e != cudaSuccess) {
		if (l)
			memcheck_bad_free(ptr);
		free(l);
		return cuda_done(e);
	}
	l->stream = s;
	pthread_mutex_lock(&lock);
	if (l->memory.pool)
		l->memory.pool->used -= l->memory.nbytes;
	l->next = laters;
	laters = l;
	pthread_mutex_unlock(&lock);
	return cudaSuccess;
}

void
pool_freed(struct pool *p, uint64_t nbytes)
{
	pthread_mutex_lock(&lock);
	p->used -= nbytes;
	p->reserved -= nbytes;
	pthread_mutex_unlock(&lock);
}

/* ------------------------------------------------------------------ advice */

static cudaError_t
check_managed(const void *p, size_t n)
{
	struct memory m = {0};
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess)
		e = memory_find(p, n, &m, NULL);
	return cuda_done(e == cudaSuccess && m.kind != MEMORY_MANAGED ? cudaErrorInvalidValue : e);
}

cudaError_t
cudaMemAdvise(const void *ptr, size_t count, enum cudaMemoryAdvise advice, int device)
{
	(void)advice, (void)device;
	return check_managed(ptr, count);
}

cudaError_t
cudaMemPrefetchAsync(const void *ptr, size_t count, int dstDevice, cudaStream_t stream)
{
	struct CUstream_st *s;
	cudaError_t e = check_managed(ptr, count);

	if (e == cudaSuccess && dstDevice != cudaCpuDeviceId && !cuda_device_at(dstDevice))
		e = cudaErrorInvalidDevice;
	return cuda_done(e == cudaSuccess ? stream_of(stream, &s) : e);
}

/* The device's number in the calls before CUDA 12. */
static int
location_device(struct cudaMemLocation l)
{
	return l.type == cudaMemLocationTypeDevice ? l.id : cudaCpuDeviceId;
}

cudaError_t
cudaMemAdvise_v2(const void *ptr, size_t count, enum cudaMemoryAdvise advice,
		 struct cudaMemLocation location)
{
	return cudaMemAdvise(ptr, count, advice, location_device(location));
}

cudaError_t
cudaMemPrefetchAsync_v2(const void *ptr, size_t count, struct cudaMemLocation location,
			unsigned int flags, cudaStream_t stream)
{
	if (flags)
		return cuda_done(cudaErrorInvalidValue);
	return cudaMemPrefetchAsync(ptr, count, location_device(location), stream);
}
