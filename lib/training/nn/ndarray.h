/*
 * ndarray.h - arrays as in numpy: a type, a shape, and elements in the caller's bytes.
 */
#ifndef NN_NDARRAY_H
#define NN_NDARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "gpusim.h"

#define NDARRAY_MAX_DIMS 8

struct ndarray {
	char kind;    /* 'u' and 'i': whole numbers without and with a sign; 'f'; 'b': 0 or 1 */
	uint8_t size; /* bytes of an element: 1, 2, 4, 8 */
	bool big;     /* bytes of an element are big-endian */
	bool fortran; /* the first dimension is the fastest */
	uint32_t ndim;
	uint64_t dim[NDARRAY_MAX_DIMS];
	const uint8_t *data; /* ndarray_nbytes of them, at any address; borrowed */
};

/* Kind, size and order as numpy spells them: "<f4", "|u1", "i8". False: not a type of struct ndarray. */
bool ndarray_type(struct ndarray *a, const char *text, size_t len);

/* The number of its elements, and of its bytes. False: 2^64 or more. */
bool ndarray_nbytes(const struct ndarray *a, uint64_t *nbytes);

/* Element i, in the order of the bytes, as a double; whole numbers beyond 2^53 are rounded. */
double ndarray_at(const struct ndarray *a, uint64_t i);

/* The way in which an array's items become planar samples, as in struct dataset. */
struct ndarray_items {
	uint32_t channels, rows, cols;
	enum gpusim_dtype dtype; /* GPUSIM_U8 or GPUSIM_F32 */
};

/*
 * ndarray_items - find the layout of samples in an array.
 *
 * [n], [n, features]; [n, rows, columns]; [n, rows, columns, channels] or, with 1 or 3 channels there,
 * [n, channels, rows, columns]. [n, s * s] of bytes with s from 8 to 512 is of grey images. Images
 * are bytes if the type is u1 or all elements are whole numbers from 0 to 255. Everything else
 * becomes 32-bit floats. Errors: RC_BADDATA "NAME: reason".
 * Checked by: tests/unit/nn/t_npy.c
 */
enum rc ndarray_items(const struct ndarray *a, const char *name, struct ndarray_items *out,
		      struct err *err);

/* Samples [first, first + n) of such an array, into dst. RC_BADDATA: a number is not finite or
 * does not fit 32 bits. */
enum rc ndarray_copy(const struct ndarray *a, const char *name, const struct ndarray_items *items,
		     uint64_t first, uint64_t n, void *dst, struct err *err);

/*
 * ndarray_labels - numbers from 0 to 255, as [n] or [n, 1]; or one-hot, as [n, classes], where each row has
 * a 1 and zeros.
 *
 *	labels		[out] a byte each, malloc'ed
 *	nclasses	[out] the largest label plus one; one-hot: the number of columns
 */
enum rc ndarray_labels(const struct ndarray *a, const char *name, uint8_t **labels,
		       uint32_t *nclasses, struct err *err);

#endif
