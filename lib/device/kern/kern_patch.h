/*
 * kern_patch.h - the patches of images as matrices.
 *
 * An image is c planes of h x w. Its patches are a matrix [c * size * size, oh * ow]: a row for
 * each element of a kernel, a column for each place it is laid on, 0 where that is beyond the edge.
 * The patches of several images may lie side by side, so a row has `ld` elements.
 */
#ifndef DEV_KERN_PATCH_H
#define DEV_KERN_PATCH_H

#include <stdbool.h>
#include <stddef.h>

struct conv_shape {
	size_t c, h, w, size, stride, pad, oh, ow;
};

/* patches = the patches of the image x; elements of `bytes` bytes, 4 or 8. */
void conv_unfold(const struct conv_shape *s, void *patches, size_t ld, const void *x, size_t bytes);

/* x += the patches, each element where it came from. Elements are float (4 bytes) or double. */
void conv_fold(const struct conv_shape *s, void *x, const void *patches, size_t ld, size_t bytes);

#endif
