/*
 * kern_patch.c - the patches of images as matrices, and back.
 */
#include "kern/kern_patch.h"

#include <stdint.h>
#include <string.h>

#include "mem/clones.h"

/* The columns of a row of the result that are inside the image for column kx of the kernel. */
struct span {
	size_t first, end, at; /* at: the image's column of the first */
};

static struct span
span_of(const struct conv_shape *s, size_t kx)
{
	struct span r = {0};

	if (kx < s->pad)
		r.first = (s->pad - kx + s->stride - 1) / s->stride;
	if (s->w + s->pad > kx)
		r.end = (s->w + s->pad - kx - 1) / s->stride + 1;
	if (r.end > s->ow)
		r.end = s->ow;
	if (r.first > r.end)
		r.first = r.end;
	r.at = r.first * s->stride + kx - s->pad;
	return r;
}

/* The image's row under row oy of the result for row ky of the kernel; false: beyond the edge. */
static inline bool
row_of(const struct conv_shape *s, size_t oy, size_t ky, size_t *iy)
{
	*iy = oy * s->stride + ky;
	if (*iy < s->pad || *iy >= s->h + s->pad)
		return false;
	*iy -= s->pad;
	return true;
}

/* dst[i] = src[i * stride] */
#define PICK(type)                                                                        \
	HOT_CLONES static void pick_##type(type *restrict dst, const type *src, size_t n, \
					   size_t stride)                                 \
	{                                                                                 \
		size_t i;                                                                 \
                                                                                          \
		if (stride == 2) {                                                        \
			for (i = 0; i < n; i++)                                           \
				dst[i] = src[2 * i];                                      \
			return;                                                           \
		}                                                                         \
		for (i = 0; i < n; i++)                                                   \
			dst[i] = src[i * stride];                                         \
	}
PICK(uint32_t)
PICK(uint64_t)

/* Copy mostly less than a hundred bytes, without a call. The areas do not overlap. */
static inline void
copy_row(unsigned char *dst, const unsigned char *src, size_t nbytes)
{
	size_t i;

	if (nbytes >= 512) {
		memcpy(dst, src, nbytes);
	} else if (nbytes >= 16) {
		for (i = 0; i < nbytes - 16; i += 16)
			memcpy(dst + i, src + i, 16);
		memcpy(dst + nbytes - 16, src + nbytes - 16, 16);
	} else {
		for (i = 0; i < nbytes; i += 4)
			memcpy(dst + i, src + i, 4);
	}
}

static inline void
zero_row(unsigned char *dst, size_t nbytes)
{
	size_t i;

	for (i = 0; i < nbytes; i += 4)
		memset(dst + i, 0, 4);
}

/* Rows [first, end) of the result lie over the image, for row ky of the kernel. */
static void
rows_of(const struct conv_shape *s, size_t ky, size_t *first, size_t *end)
{
	struct conv_shape turned = *s;
	struct span r;

	turned.w = s->h;
	turned.ow = s->oh;
	r = span_of(&turned, ky);
	*first = r.first;
	*end = r.end;
}

/* One row of the matrix of patches: element (ky, kx) of a kernel that goes over one plane. */
static void
unfold_plane(const struct conv_shape *s, unsigned char *dst, const unsigned char *plane, size_t ky,
	     size_t kx, size_t bytes)
{
	struct span r = span_of(s, kx);
	size_t first, end, oy, n = r.end - r.first, row = s->ow * bytes;
	const unsigned char *src;

	rows_of(s, ky, &first, &end);
	memset(dst, 0, first * row);
	memset(dst + end * row, 0, (s->oh - end) * row);
	if (n == 0 || first == end) {
		memset(dst, 0, s->oh * row);
		return;
	}
	dst += first * row;
	src = plane + ((first * s->stride + ky - s->pad) * s->w + r.at) * bytes;
	if (s->stride == 1 && s->ow == s->w) /* rows are contiguous in both */
		memcpy(dst + r.first * bytes, src, ((end - first - 1) * s->w + n) * bytes);
	for (oy = first; oy < end; oy++, dst += row, src += s->stride * s->w * bytes) {
		if (s->stride != 1 && bytes == sizeof(uint32_t))
			pick_uint32_t((uint32_t *)dst + r.first, (const uint32_t *)src, n,
				      s->stride);
		else if (s->stride != 1)
			pick_uint64_t((uint64_t *)dst + r.first, (const uint64_t *)src, n,
				      s->stride);
		else if (s->ow != s->w)
			copy_row(dst + r.first * bytes, src, n * bytes);
		zero_row(dst, r.first * bytes);
		zero_row(dst + r.end * bytes, (s->ow - r.end) * bytes);
	}
}

void
conv_unfold(const struct conv_shape *s, void *patches, size_t ld, const void *x, size_t bytes)
{
	const unsigned char *plane = x;
	unsigned char *row = patches;
	size_t ch, ky, kx;

	for (ch = 0; ch < s->c; ch++, plane += s->h * s->w * bytes) {
		for (ky = 0; ky < s->size; ky++) {
			for (kx = 0; kx < s->size; kx++, row += ld * bytes)
				unfold_plane(s, row, plane, ky, kx, bytes);
		}
	}
}

/* x[i * stride] += patches[i], row by row. */
#define FOLD(type)                                                                               \
	HOT_CLONES static void fold_##type(const struct conv_shape *s, type *x, const type *row, \
					   size_t ld)                                            \
	{                                                                                        \
		size_t ch, ky, kx, oy, iy, i, n;                                                 \
		const type *restrict from;                                                       \
		type *restrict to;                                                               \
		struct span r;                                                                   \
                                                                                                 \
		for (ch = 0; ch < s->c; ch++, x += s->h * s->w) {                                \
			for (ky = 0; ky < s->size; ky++) {                                       \
				for (kx = 0; kx < s->size; kx++, row += ld) {                    \
					r = span_of(s, kx);                                      \
					n = r.end - r.first;                                     \
					for (oy = 0; oy < s->oh; oy++) {                         \
						if (!row_of(s, oy, ky, &iy))                     \
							continue;                                \
						from = row + oy * s->ow + r.first;               \
						to = x + iy * s->w + r.at;                       \
						for (i = 0; s->stride == 1 && i < n; i++)        \
							to[i] += from[i];                        \
						for (i = 0; s->stride != 1 && i < n; i++)        \
							to[i * s->stride] += from[i];            \
					}                                                        \
				}                                                                \
			}                                                                        \
		}                                                                                \
	}
FOLD(float)
FOLD(double)

void
conv_fold(const struct conv_shape *s, void *x, const void *patches, size_t ld, size_t bytes)
{
	if (bytes == sizeof(float))
		fold_float(s, x, patches, ld);
	else
		fold_double(s, x, patches, ld);
}
