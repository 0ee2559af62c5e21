/*
 * Copies. Each form becomes a box: rows of bytes in slices.
 *
 * Within the device of the stream, a copy is commands of the queue. The program does all other
 * copies, through the device's memory file: a synchronous call on its own thread, an asynchronous
 * call on the stream's worker, or at once if the stream is idle and the copy short.
 */
#include <stdlib.h>
#include <string.h>

#include "cudart/cuda_impl.h"
#include "cudart/memcheck.h"

#define SHORT_BYTES (256u << 10)
#define BATCH	    64 /* commands appended at a time */

/* One side of a copy. */
struct side {
	struct memory m;
	uint64_t addr;
};

static bool
on_device(const struct side *s)
{
	return s->m.kind == MEMORY_DEVICE || s->m.kind == MEMORY_MANAGED;
}

/* Bytes from the first to the last of a box's side; false: overflow. */
static bool
span(const struct box *b, size_t pitch, size_t slice, size_t *out)
{
	size_t rows, slices, n;

	if (!b->width || !b->height || !b->depth) {
		*out = 0;
		return true;
	}
	return !__builtin_mul_overflow(b->height - 1, pitch, &rows) &&
	       !__builtin_mul_overflow(b->depth - 1, slice, &slices) &&
	       !__builtin_add_overflow(rows, slices, &n) &&
	       !__builtin_add_overflow(n, b->width, out);
}

typedef cudaError_t find_fn(const void *p, size_t nbytes, struct memory *out, uint64_t *addr);

/* Find the memory of a box's two sides. */
static cudaError_t
look_with(find_fn *find, const struct box *b, struct side *dst, struct side *src)
{
	size_t n;
	cudaError_t e;

	if (!span(b, b->dpitch, b->dslice, &n))
		return cudaErrorInvalidValue;
	*dst = *src = (struct side){.addr = 0};
	e = find(b->dst, n, &dst->m, &dst->addr);
	if (e != cudaSuccess || !span(b, b->spitch, b->sslice, &n))
		return cudaErrorInvalidValue;
	return find(b->src, n, &src->m, &src->addr);
}

static cudaError_t
look(const struct box *b, struct side *dst, struct side *src)
{
	return look_with(memory_find, b, dst, src);
}

/* Return true if a side's memory fits the direction: device memory, or the host's. */
static bool
fits(const struct side *s, bool device)
{
	if (s->m.kind == MEMORY_MANAGED)
		return true;
	/* Pinned memory has one address for both host and device. */
	return device ? s->m.kind != MEMORY_PAGEABLE : s->m.kind != MEMORY_DEVICE;
}

static void
check_sides(const struct box *b)
{
	size_t n;

	if (span(b, b->dpitch, b->dslice, &n))
		memcheck_range("the destination of a copy", b->dst, n);
	if (span(b, b->spitch, b->sslice, &n))
		memcheck_range("the source of a copy", b->src, n);
}

cudaError_t
copy_check(const struct box *b)
{
	struct side dst, src;
	cudaError_t e;

	if ((unsigned)b->kind > cudaMemcpyDefault)
		return cudaErrorInvalidMemcpyDirection;
	if (!b->width || !b->height || !b->depth)
		return cudaSuccess;
	if (!b->dst || !b->src)
		return cudaErrorInvalidValue;
	if ((b->height > 1 || b->depth > 1) && (b->dpitch < b->width || b->spitch < b->width))
		return cudaErrorInvalidPitchValue;
	e = look(b, &dst, &src);
	if (memcheck_on())
		check_sides(b);
	if (e == cudaSuccess && b->kind != cudaMemcpyDefault &&
	    (!fits(&dst,
		   b->kind == cudaMemcpyHostToDevice || b->kind == cudaMemcpyDeviceToDevice) ||
	     !fits(&src, b->kind == cudaMemcpyDeviceToHost || b->kind == cudaMemcpyDeviceToDevice)))
		e = cudaErrorInvalidValue;
	return e;
}

/* ------------------------------------------------------------------ by the program */

static struct gpusim_device
device_of(const struct side *s)
{
	return cuda_device_at(s->m.ordinal)->space->device;
}

static enum gpusim_rc
move(const struct side *dst, unsigned char *to, uint64_t doff, const struct side *src,
     const unsigned char *from, uint64_t soff, size_t n)
{
	struct gpusim *g = cuda_connection();
	struct gpusim_addr d = {dst->addr + doff}, s = {src->addr + soff};

	if (on_device(dst) && on_device(src))
		return gpusim_memcpy_d2d(g, device_of(dst), d, device_of(src), s, n);
	if (on_device(dst))
		return gpusim_memcpy_h2d(g, device_of(dst), d, from + soff, n);
	if (on_device(src))
		return gpusim_memcpy_d2h(g, to + doff, device_of(src), s, n);
	memmove(to + doff, from + soff, n);
	return GPUSIM_OK;
}

/* Merge rows that are contiguous on both sides. */
static struct box
merged(struct box b)
{
	if (b.dpitch == b.width && b.spitch == b.width && b.dslice == b.dpitch * b.height &&
	    b.sslice == b.spitch * b.height) {
		b.width *= b.height * b.depth;
		b.height = b.depth = 1;
	} else if (b.dpitch == b.width && b.spitch == b.width) {
		b.width *= b.height;
		b.height = 1;
	}
	return b;
}

static enum gpusim_rc
copy_now(const struct box *box)
{
	struct box b = merged(*box);
	struct side dst, src;
	enum gpusim_rc rc =
	    look_with(memory_find_late, &b, &dst, &src) == cudaSuccess ? GPUSIM_OK : GPUSIM_INVAL;

	for (size_t z = 0; z < b.depth; z++)
		for (size_t y = 0; y < b.height && rc == GPUSIM_OK; y++) {
			if (memcheck_on() && !on_device(&dst))
				memcheck_written("a copy to the host", b.site,
						 b.src + z * b.sslice + y * b.spitch, b.width);
			rc = move(&dst, b.dst, z * b.dslice + y * b.dpitch, &src, b.src,
				  z * b.sslice + y * b.spitch, b.width);
		}
	return rc;
}

static enum rc
run_copy(void *arg, struct err *err)
{
	struct op *o = arg;
	enum gpusim_rc rc = copy_now(&o->u.copy);

	if (rc == GPUSIM_OK)
		return RC_OK;
	return err_set(err, (enum rc)rc, "a copy of %zu x %zu x %zu bytes: %s", o->u.copy.width,
		       o->u.copy.height, o->u.copy.depth,
		       rc == GPUSIM_INVAL ? "its memory was freed" : gpusim_error());
}

/* ------------------------------------------------------------------ by the device */

static cudaError_t
copy_in_queue(struct CUstream_st *s, const struct box *box, const struct side *dst,
	      const struct side *src)
{
	struct box b = merged(*box);
	struct cmdq_command c[BATCH];
	cudaError_t e = cudaSuccess;
	size_t n = 0;

	for (size_t i = 0; i < b.height * b.depth && e == cudaSuccess; i++) {
		size_t z = i / b.height, y = i % b.height;

		c[n] = (struct cmdq_command){.kind = CMDQ_COPY};
		c[n].u.bytes.dst = dst->addr + z * b.dslice + y * b.dpitch;
		c[n].u.bytes.src = src->addr + z * b.sslice + y * b.spitch;
		c[n].u.bytes.nbytes = b.width;
		if (++n == BATCH || i + 1 == b.height * b.depth) {
			e = order_append(s, c, n);
			n = 0;
		}
	}
	return e;
}

static cudaError_t
issue_copy(struct op *o, struct CUstream_st *s)
{
	const struct box *b = &o->u.copy;
	struct side dst, src;
	enum gpusim_rc rc;
	cudaError_t e;

	if (!b->width || !b->height || !b->depth)
		return cudaSuccess;
	e = look(b, &dst, &src);
	if (e != cudaSuccess)
		return e;
	if (on_device(&dst) && on_device(&src) && dst.m.ordinal == src.m.ordinal &&
	    dst.m.ordinal == s->device->ordinal)
		return copy_in_queue(s, b, &dst, &src);
	if (b->width * b->height * b->depth <= SHORT_BYTES && order_is_idle(s) &&
	    (!atomic_load(&s->q) || order_error(atomic_load(&s->q)) == cudaSuccess)) {
		rc = copy_now(b);
		if (rc != GPUSIM_OK)
			cuda_tell(gpusim_error());
		return cuda_error_of(rc);
	}
	return work_enqueue(s, run_copy, op_drop_work, op_hold(o));
}

static void
fini_copy(struct op *o)
{
	free(o->u.copy.staged);
}

struct op *
op_copy(const struct box *b)
{
	struct op *o = op_new(cudaGraphNodeTypeMemcpy, -1, issue_copy);

	if (o) {
		o->u.copy = *b;
		o->fini = fini_copy;
	}
	return o;
}

/* ------------------------------------------------------------------ calls */

/* Pageable host memory may change, or be freed, once the call has returned. */
static cudaError_t
stage(struct box *b)
{
	size_t n;

	if (!span(b, b->spitch, b->sslice, &n))
		return cudaErrorInvalidValue;
	b->staged = malloc(n);
	if (!b->staged)
		return cudaErrorMemoryAllocation;
	memcpy(b->staged, b->src, n);
	b->src = b->staged;
	return cudaSuccess;
}

static cudaError_t
copy_and_wait(struct CUstream_st *s, const struct box *b)
{
	struct point end;
	enum gpusim_rc rc;
	cudaError_t e = order_end_of(s, &end);

	if (e == cudaSuccess)
		e = order_await(end);
	if (e != cudaSuccess)
		return e;
	rc = copy_now(b);
	if (rc != GPUSIM_OK)
		cuda_tell(gpusim_error());
	return cuda_error_of(rc);
}

static cudaError_t
copy_async(const struct box *box, cudaStream_t stream)
{
	struct CUstream_st *s;
	struct side dst, src;
	struct box b = *box;
	bool captured = false;
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess)
		e = stream_of(stream, &s);
	if (e == cudaSuccess)
		e = copy_check(&b);
	if (e == cudaSuccess)
		e = capture_look(s, &captured);
	if (e != cudaSuccess || !b.width || !b.height || !b.depth)
		return e;
	e = look(&b, &dst, &src);
	if (e == cudaSuccess && !captured && !on_device(&dst) &&
	    (!on_device(&src) || dst.m.kind == MEMORY_PAGEABLE))
		return copy_and_wait(s, &b);
	if (e == cudaSuccess && !captured && src.m.kind == MEMORY_PAGEABLE &&
	    !(order_is_idle(s) && b.width * b.height * b.depth <= SHORT_BYTES))
		e = stage(&b);
	return e == cudaSuccess ? op_submit(s, op_copy(&b)) : e;
}

/* Wait for all work that the legacy streams of both devices wait for. */
static cudaError_t
copy_sync(const struct box *b)
{
	struct CUstream_st *legacy;
	struct side dst, src;
	bool captured;
	enum gpusim_rc rc;
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess)
		e = copy_check(b);
	if (e == cudaSuccess)
		e = capture_forbids();
	if (e == cudaSuccess)
		e = stream_of(cudaStreamLegacy, &legacy);
	if (e == cudaSuccess)
		e = capture_look(legacy, &captured);
	if (e != cudaSuccess || !b->width || !b->height || !b->depth)
		return e;
	e = look(b, &dst, &src);
	if (e == cudaSuccess)
		e = order_drain_legacy(legacy->device);
	for (const struct side *s = &dst; e == cudaSuccess && s; s = s == &dst ? &src : NULL)
		if (on_device(s) && s->m.ordinal != legacy->device->ordinal)
			e = order_drain_legacy(cuda_device_at(s->m.ordinal));
	if (e != cudaSuccess)
		return e;
	if (on_device(&dst) && on_device(&src) && dst.m.ordinal == src.m.ordinal &&
	    dst.m.ordinal == legacy->device->ordinal) {
		e = copy_in_queue(legacy, b, &dst, &src);
		return e == cudaSuccess ? order_drain_stream(legacy) : e;
	}
	rc = copy_now(b);
	if (rc != GPUSIM_OK)
		cuda_tell(gpusim_error());
	return cuda_error_of(rc);
}

static struct box
line(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind)
{
	return (struct box){.dst = dst,
			    .src = src,
			    .dpitch = n,
			    .spitch = n,
			    .dslice = n,
			    .sslice = n,
			    .width = n,
			    .height = 1,
			    .depth = 1,
			    .site = memcheck_site(),
			    .kind = kind};
}

static struct box
rows(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
     enum cudaMemcpyKind kind)
{
	struct box b = line(dst, src, width, kind);

	b.dpitch = dpitch;
	b.spitch = spitch;
	b.height = height;
	b.dslice = dpitch * height;
	b.sslice = spitch * height;
	return b;
}

cudaError_t
copy_box(const struct cudaMemcpy3DParms *p, struct box *out)
{
	const struct cudaPitchedPtr *d = &p->dstPtr, *s = &p->srcPtr;
	struct box b;

	if (p->srcArray || p->dstArray)
		return cudaErrorNotSupported;
	b = rows(d->ptr, d->pitch, s->ptr, s->pitch, p->extent.width, p->extent.height, p->kind);
	b.depth = p->extent.depth;
	b.dslice = d->pitch * (d->ysize ? d->ysize : p->extent.height);
	b.sslice = s->pitch * (s->ysize ? s->ysize : p->extent.height);
	if (b.dst)
		b.dst += p->dstPos.z * b.dslice + p->dstPos.y * d->pitch + p->dstPos.x;
	if (b.src)
		b.src += p->srcPos.z * b.sslice + p->srcPos.y * s->pitch + p->srcPos.x;
	*out = b;
	return cudaSuccess;
}

cudaError_t
cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
	struct box b = line(dst, src, count, kind);

	return cuda_done(copy_sync(&b));
}

cudaError_t
cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
		cudaStream_t stream)
{
	struct box b = line(dst, src, count, kind);

	return cuda_done(copy_async(&b, stream));
}

/* Find the devices from the pointers. */
static cudaError_t
check_peers(int dst, int src)
{
	cudaError_t e = cuda_enter();

	return e == cudaSuccess && (!cuda_device_at(dst) || !cuda_device_at(src))
		   ? cudaErrorInvalidDevice
		   : e;
}

cudaError_t
cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t count)
{
	cudaError_t e = check_peers(dstDevice, srcDevice);

	return e == cudaSuccess ? cudaMemcpy(dst, src, count, cudaMemcpyDefault) : cuda_done(e);
}

cudaError_t
cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice, size_t count,
		    cudaStream_t stream)
{
	cudaError_t e = check_peers(dstDevice, srcDevice);

	return e == cudaSuccess ? cudaMemcpyAsync(dst, src, count, cudaMemcpyDefault, stream)
				: cuda_done(e);
}

cudaError_t
cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
	     enum cudaMemcpyKind kind)
{
	struct box b = rows(dst, dpitch, src, spitch, width, height, kind);

	return cuda_done(copy_sync(&b));
}

cudaError_t
cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
		  size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	struct box b = rows(dst, dpitch, src, spitch, width, height, kind);

	return cuda_done(copy_async(&b, stream));
}

cudaError_t
cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
	struct box b;
	cudaError_t e = p ? copy_box(p, &b) : cudaErrorInvalidValue;

	return cuda_done(e == cudaSuccess ? copy_sync(&b) : e);
}

cudaError_t
cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
	struct box b;
	cudaError_t e = p ? copy_box(p, &b) : cudaErrorInvalidValue;

	return cuda_done(e == cudaSuccess ? copy_async(&b, stream) : e);
}

static struct cudaMemcpy3DParms
without_devices(const struct cudaMemcpy3DPeerParms *p)
{
	return (struct cudaMemcpy3DParms){.srcArray = p->srcArray,
					  .srcPos = p->srcPos,
					  .srcPtr = p->srcPtr,
					  .dstArray = p->dstArray,
					  .dstPos = p->dstPos,
					  .dstPtr = p->dstPtr,
					  .extent = p->extent,
					  .kind = cudaMemcpyDefault};
}

cudaError_t
cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *p)
{
	struct cudaMemcpy3DParms q;

	if (!p)
		return cuda_done(cudaErrorInvalidValue);
	q = without_devices(p);
	return cudaMemcpy3D(&q);
}

cudaError_t
cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream)
{
	struct cudaMemcpy3DParms q;

	if (!p)
		return cuda_done(cudaErrorInvalidValue);
	q = without_devices(p);
	return cudaMemcpy3DAsync(&q, stream);
}
