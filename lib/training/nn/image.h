/*
 * image.h - PNG and JPEG files as pixels, and pixels in another size.
 */
#ifndef NN_IMAGE_H
#define NN_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

#define IMAGE_MAX_NBYTES (64u << 20) /* of a file */
#define IMAGE_MAX_PIXELS (1u << 25)  /* 33.5 million, 100 MB when unpacked */
#define IMAGE_MAX_LENGTH (1u << 15)  /* of either side */
#define IMAGE_MAX_SIDE	 1024	     /* of image_resize's output */

/* Interleaved: rgb[(row * cols + col) * 3 + channel]. Initialise with {0}; image_fini releases. */
struct image {
	uint32_t rows, cols;
	uint8_t *rgb;
};

/*
 * image_decode - the pixels of a PNG or JPEG file; recognised by the bytes, never by the name.
 *
 *	name	the name of the bytes in error messages
 *	im	[out] the caller's, untouched on error
 *
 * Transparent pixels are laid over black; 16 bits become 8. Errors: RC_BADDATA "NAME: reason": neither PNG
 * nor JPEG, damaged, truncated, larger than the limits, colours that are neither grey nor RGB.
 * Checked by: tests/unit/nn/t_image.c
 */
enum rc image_decode(const void *bytes, size_t nbytes, const char *name, struct image *im,
		     struct err *err);

void image_fini(struct image *im);

/*
 * image_resize - an image in another size, plane after plane.
 *
 *	rows, cols	1 to IMAGE_MAX_SIDE
 *	channels	1: grey, 0.299 R + 0.587 G + 0.114 B; 3: RGB
 *	dst		[channels, rows, cols], the caller's
 *
 * Each axis is resized by itself: down by the mean over the area of each new pixel, up by linear
 * interpolation between centres. The arithmetic is in integers, so the result is the same on every
 * machine. Resizing to the same size changes no pixel. Errors:
 */
void image_resize(const struct image *im, uint32_t rows, uint32_t cols, uint32_t channels,
		  uint8_t *dst);

#endif
