/*
 * npy.h - a .npy file, as numpy.save writes it: a header that is a Python dictionary, then elements.
 *
 * Source: numpy.lib.format, versions 1.0 to 3.0.
 */
#ifndef NN_NPY_H
#define NN_NPY_H

#include "nn/ndarray.h"

/* Return true if bytes begin as such a file. */
bool npy_is(const void *bytes, size_t nbytes);

/*
 * npy_parse - a .npy file in memory.
 *
 *	nbytes	of the file's `total` bytes; NPY_HEAD_MAX are enough, even without its data
 *	name	the name of the bytes in error messages
 *	a	[out] its data point into the bytes; untouched on error
 *
 * Errors: RC_BADDATA "NAME: reason": damaged, truncated, longer than its shape says, of a type that
 * ndarray.h does not have.
 * Checked by: tests/unit/nn/t_npy.c
 */
#define NPY_HEAD_MAX 65548
enum rc npy_parse(const void *bytes, size_t nbytes, uint64_t total, const char *name,
		  struct ndarray *a, struct err *err);

#endif
