/*
 * idx.h - read an IDX file, the format of MNIST: big-endian header, then the elements.
 *
 *	0 0 TYPE NDIM | NDIM x u32 | the elements, row-major: as many as the product of the dimensions
 *
 * Only u8 elements (TYPE 0x08) and 1 to 4 dimensions are read. The bytes may be gzipped (one or
 * more members); recognised by the content, never by the name.
 * Source: http://yann.lecun.com/exdb/mnist/, "The IDX file format".
 */
#ifndef NN_IDX_H
#define NN_IDX_H

#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

#define IDX_MAX_DIMS   4
#define IDX_MAX_NBYTES (UINT64_C(4) << 30) /* elements, after unpacking */

/* dim[i] is at least 1 for i < ndim and 0 beyond; data holds nbytes, the product of dim. */
struct idx {
	uint32_t ndim, dim[IDX_MAX_DIMS];
	uint8_t *data;
	size_t nbytes;
};

/*
 * idx_read - read a whole file.   idx_parse - parse bytes in memory.
 *
 *	path		a regular file, raw or gzipped
 *	name		the name of the bytes in error messages
 *	idx		[out] the caller owns it and releases it with idx_fini; untouched on error
 *
 * Memory grows with the bytes that are there, never with the header's claims. Errors: RC_BADDATA "NAME:
 * reason" for a bad magic, another element type, a dimension of 0, dimensions that overflow or do not fit,
 * missing or trailing bytes, broken gzip; RC_FAILED with the system's reason; RC_NOMEM.
 * Checked by: tests/unit/nn/t_idx.c
 */
enum rc idx_read(const char *path, struct idx *idx, struct err *err);
enum rc idx_parse(const void *bytes, size_t nbytes, const char *name, struct idx *idx,
		  struct err *err);

/* Release the data and make it {0}. */
void idx_fini(struct idx *idx);

#endif
