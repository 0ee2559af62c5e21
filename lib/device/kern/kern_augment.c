/*
 * kern_augment.c - images moved and mirrored. The kernel draws no random numbers: its argument says what
 * to do with each image, so the result does not depend on the device.
 */
#include "kern/kern_impl.h"

#include <inttypes.h>
#include <string.h>

#define MAX_PAD 127 /* a shift of up to 2 * pad has 8 bits */

enum { AUG_DST, AUG_SRC, AUG_HOW, AUG_N, AUG_C, AUG_H, AUG_W, AUG_PAD, AUG_DTYPE };

/* A row of pixels of `size` bytes. */
struct row {
	unsigned char *dst;
	const unsigned char *src;
	size_t w, size;
};

#define MIRROR(type)                                                                   \
	do {                                                                           \
		for (k = 0; k < n; k++)                                                \
			((type *)(void *)dst)[-(ptrdiff_t)k] = ((const type *)src)[k]; \
	} while (0)

/* Copy n pixels from src on, to dst and backwards. */
static void
mirror(void *dst, const void *src, size_t n, size_t size)
{
	size_t k;

	switch (size) {
	case 1:
		MIRROR(uint8_t);
		break;
	case 2:
		MIRROR(uint16_t);
		break;
	case 4:
		MIRROR(uint32_t);
		break;
	default:
		MIRROR(uint64_t);
	}
}

/* dst[x] = src[x + shift], 0 outside; flip: mirrored. */
static void
move_row(const struct row *r, ptrdiff_t shift, bool flip)
{
	ptrdiff_t w = (ptrdiff_t)r->w, lo = shift < 0 ? -shift : 0, hi = shift > 0 ? w - shift : w;
	const unsigned char *src = r->src + (lo + shift) * (ptrdiff_t)r->size;

	memset(r->dst, 0, r->w * r->size);
	if (lo >= hi)
		return;
	if (flip)
		mirror(r->dst + (size_t)(w - 1 - lo) * r->size, src, (size_t)(hi - lo), r->size);
	else
		memcpy(r->dst + (size_t)lo * r->size, src, (size_t)(hi - lo) * r->size);
}

/* One image: planes of h rows, of which row y comes from y + down. */
static void
move_image(struct row r, size_t c, size_t h, ptrdiff_t down, ptrdiff_t shift, bool flip)
{
	const size_t step = r.w * r.size;
	const unsigned char *plane = r.src;

	for (; c > 0; c--, plane += h * step)
		for (size_t y = 0; y < h; y++, r.dst += step) {
			ptrdiff_t from = (ptrdiff_t)y + down;

			if (from < 0 || from >= (ptrdiff_t)h) {
				memset(r.dst, 0, step);
				continue;
			}
			r.src = plane + (size_t)from * step;
			move_row(&r, shift, flip);
		}
}

/* A word is out of range for the padding. */
static bool
is_how(uint32_t how, uint64_t pad)
{
	return (how & 0xff) <= 2 * pad && (how >> 8 & 0xff) <= 2 * pad && how >> 16 <= 1;
}

static enum rc
augment_run(struct kern_call *call)
{
	uint64_t n = call->v[AUG_N].u, c = call->v[AUG_C].u, h = call->v[AUG_H].u,
		 w = call->v[AUG_W].u, i;
	uint64_t pad = call->v[AUG_PAD].u,
		 image = kern_product(call, "src", (uint64_t[]){c, h, w}, 3);
	size_t size = kern_type(call, AUG_DTYPE);
	struct row r = {.dst = kern_at(call, AUG_DST, n, image, size),
			.src = kern_at(call, AUG_SRC, n, image, size),
			.w = w,
			.size = size};
	/* Volatile, as gather's index: a changed word cannot move a read out of its image. */
	const volatile uint32_t *how = kern_at(call, AUG_HOW, n, 1, sizeof *how);

	kern_apart(call, AUG_DST, AUG_SRC);
	kern_apart(call, AUG_DST, AUG_HOW);
	if (call->rc == RC_OK && pad > MAX_PAD)
		kern_fail(call, RC_INVAL, "pad: %" PRIu64 " is more than %d", pad, MAX_PAD);
	for (i = 0; call->rc == RC_OK && i < n; i++)
		if (!is_how(how[i], pad))
			kern_fail(call, RC_BADDATA,
				  "how[%" PRIu64 "] is 0x%" PRIx32 ", which a pad of %" PRIu64
				  " does not allow",
				  i, how[i], pad);
	if (call->rc != RC_OK || image == 0)
		return call->rc;
	for (i = 0; i < n; i++, r.dst += image * size, r.src += image * size) {
		uint32_t word = how[i];

		move_image(r, c, h, (ptrdiff_t)(word & 0xff) - (ptrdiff_t)pad,
			   (ptrdiff_t)(word >> 8 & 0xff) - (ptrdiff_t)pad, word >> 16 & 1);
	}
	return RC_OK;
}

/*
 * augment - a window of each image, which is first surrounded by pad zeros, then mirrored left to right
 * or not.
 *
 * how[i] = row + 256 column + 65536 mirrored, where row and column, 0 to 2 pad, are the window's origin;
 * pad leaves the image as it was. dst overlaps neither src nor how. Errors: RC_INVAL; RC_BADDATA another
 * word. Checked by: tests/unit/kern/t_kern_augment.c
 */
const struct kernel kernel_augment = {
    .name = "augment",
    .summary = "move images within a border of zeros, and mirror them",
    .params =
	{
	    [AUG_DST] = {"dst", KP_ADDR, false, 0, "[n,c,h,w] out"},
	    [AUG_SRC] = {"src", KP_ADDR, false, 0, "[n,c,h,w] in"},
	    [AUG_HOW] = {"how", KP_ADDR, false, 0, "u32[n] row + 256 column + 65536 mirrored"},
	    [AUG_N] = {"n", KP_COUNT, false, 0, "images"},
	    [AUG_C] = {"c", KP_COUNT, false, 0, "channels"},
	    [AUG_H] = {"h", KP_COUNT, false, 0, "rows of an image"},
	    [AUG_W] = {"w", KP_COUNT, false, 0, "columns of an image"},
	    [AUG_PAD] = {"pad", KP_COUNT, true, 4, "zeros around an image, at most 127"},
	    [AUG_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, "any type"},
	},
    .run = augment_run,
};
