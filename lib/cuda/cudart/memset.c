/* Filling memory: by the stream's device in its own memory, else by the program. */
#include <stdlib.h>
#include <string.h>

#include "cudart/cuda_impl.h"
#include "cudart/memcheck.h"

#define BATCH	 64
#define BUFFERED (64u << 10)

static bool
on_device(const struct memory *m)
{
	return m->kind == MEMORY_DEVICE || m->kind == MEMORY_MANAGED;
}

/* As memory_find_late. */
static cudaError_t
look_late(const struct cudaMemsetParams *p, struct memory *m, uint64_t *addr)
{
	size_t row, n;
	cudaError_t e;

	if (!p->width || !p->height)
		return cudaSuccess;
	if (__builtin_mul_overflow(p->width, (size_t)p->elementSize, &row) ||
	    __builtin_mul_overflow(p->height - 1, p->pitch, &n) ||
	    __builtin_add_overflow(n, row, &n))
		return cudaErrorInvalidValue;
	e = memory_find_late(p->dst, n, m, addr);
	return e == cudaSuccess && m->kind == MEMORY_PAGEABLE ? cudaErrorInvalidValue : e;
}

static cudaError_t
look(const struct cudaMemsetParams *p, struct memory *m, uint64_t *addr)
{
	cudaError_t e = look_late(p, m, addr);

	return e == cudaSuccess && p->width && p->height && m->leaving ? cudaErrorInvalidValue : e;
}

cudaError_t
memset_check(const struct cudaMemsetParams *p)
{
	struct memory m;
	uint64_t addr;

	if (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4)
		return cudaErrorInvalidValue;
	if (p->width && p->height > 1 && p->pitch / p->elementSize < p->width)
		return cudaErrorInvalidPitchValue;
	if (memcheck_on() && p->width && p->height)
		memcheck_range("a memset", p->dst,
			       (p->height - 1) * p->pitch + p->width * p->elementSize);
	return look(p, &m, &addr);
}

/* One row, by the program. */
static enum gpusim_rc
fill_row(const struct memory *m, uint64_t addr, unsigned char *p, const unsigned char *pattern,
	 size_t n)
{
	for (size_t k; n; n -= k, addr += k, p += k) {
		enum gpusim_rc rc = GPUSIM_OK;

		k = n < BUFFERED ? n : BUFFERED;
		if (on_device(m))
			rc = gpusim_memcpy_h2d(cuda_connection(),
					       cuda_device_at(m->ordinal)->space->device,
					       (struct gpusim_addr){addr}, pattern, k);
		else
			memcpy(p, pattern, k);
		if (rc != GPUSIM_OK)
			return rc;
	}
	return GPUSIM_OK;
}

static enum rc
run_memset(void *arg, struct err *err)
{
	struct op *o = arg;
	const struct cudaMemsetParams *p = &o->u.memset;
	unsigned char *pattern = malloc(BUFFERED);
	struct memory m = {0};
	uint64_t addr = 0;
	enum gpusim_rc rc = GPUSIM_OK;

	if (!pattern)
		return err_set(err, RC_NOMEM, "out of memory");
	for (size_t i = 0; i < BUFFERED; i += p->elementSize)
		memcpy(pattern + i, &p->value, p->elementSize); /* little-endian */
	if (look_late(p, &m, &addr) != cudaSuccess)
		rc = GPUSIM_INVAL;
	for (size_t y = 0; y < p->height && rc == GPUSIM_OK; y++)
		rc = fill_row(&m, addr + y * p->pitch, (unsigned char *)p->dst + y * p->pitch,
			      pattern, p->width * p->elementSize);
	free(pattern);
	return rc == GPUSIM_OK
		   ? RC_OK
		   : err_set(err, (enum rc)rc, "a memset: %s",
			     rc == GPUSIM_INVAL ? "its memory was freed" : gpusim_error());
}

static cudaError_t
fill_in_queue(struct CUstream_st *s, const struct cudaMemsetParams *p, uint64_t addr)
{
	struct cmdq_command c[BATCH];
	size_t row = p->width * p->elementSize, height = p->height, n = 0;
	cudaError_t e = cudaSuccess;

	if (p->pitch == row || height == 1) {
		row *= height;
		height = 1;
	}
	for (size_t y = 0; y < height && e == cudaSuccess; y++) {
		c[n] = (struct cmdq_command){.kind = CMDQ_MEMSET};
		c[n].u.bytes.dst = addr + y * p->pitch;
		c[n].u.bytes.nbytes = row;
		c[n].u.bytes.value = p->value;
		c[n].u.bytes.width = p->elementSize;
		if (++n == BATCH || y + 1 == height) {
			e = order_append(s, c, n);
			n = 0;
		}
	}
	return e;
}

static cudaError_t
issue_memset(struct op *o, struct CUstream_st *s)
{
	const struct cudaMemsetParams *p = &o->u.memset;
	struct memory m;
	uint64_t addr;
	cudaError_t e = look(p, &m, &addr);

	if (e != cudaSuccess || !p->width || !p->height)
		return e;
	if (on_device(&m) && m.ordinal == s->device->ordinal)
		return fill_in_queue(s, p, addr);
	return work_enqueue(s, run_memset, op_drop_work, op_hold(o));
}

struct op *
op_memset(const struct cudaMemsetParams *p)
{
	struct op *o = op_new(cudaGraphNodeTypeMemset, -1, issue_memset);

	if (o)
		o->u.memset = *p;
	return o;
}

/* ------------------------------------------------------------------ calls */

static cudaError_t
fill(void *dst, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
	struct cudaMemsetParams p = {.dst = dst,
				     .pitch = pitch,
				     .value = (unsigned char)value,
				     .elementSize = 1,
				     .width = width,
				     .height = height};
	struct CUstream_st *s;
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess)
		e = stream_of(stream, &s);
	if (e == cudaSuccess)
		e = memset_check(&p);
	return e == cudaSuccess ? op_submit(s, op_memset(&p)) : e;
}

cudaError_t
cudaMemset(void *ptr, int value, size_t count)
{
	return cuda_done(fill(ptr, count, value, count, 1, cudaStreamLegacy));
}

cudaError_t
cudaMemsetAsync(void *ptr, int value, size_t count, cudaStream_t stream)
{
	return cuda_done(fill(ptr, count, value, count, 1, stream));
}

cudaError_t
cudaMemset2D(void *ptr, size_t pitch, int value, size_t width, size_t height)
{
	return cuda_done(fill(ptr, pitch, value, width, height, cudaStreamLegacy));
}

cudaError_t
cudaMemset2DAsync(void *ptr, size_t pitch, int value, size_t width, size_t height,
		  cudaStream_t stream)
{
	return cuda_done(fill(ptr, pitch, value, width, height, stream));
}

static cudaError_t
fill_3d(struct cudaPitchedPtr p, int value, struct cudaExtent x, cudaStream_t stream)
{
	cudaError_t e = cudaSuccess;

	for (size_t z = 0; z < x.depth && e == cudaSuccess; z++)
		e = fill((unsigned char *)p.ptr + z * p.pitch * p.ysize, p.pitch, value, x.width,
			 x.height, stream);
	return e;
}

cudaError_t
cudaMemset3D(struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent)
{
	return cuda_done(fill_3d(pitchedDevPtr, value, extent, cudaStreamLegacy));
}

cudaError_t
cudaMemset3DAsync(struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent,
		  cudaStream_t stream)
{
	return cuda_done(fill_3d(pitchedDevPtr, value, extent, stream));
}
