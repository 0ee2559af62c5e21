/*
 * npz_format.h - the layout that npz.c writes.
 *
 *	per array:  local header | NAME.npy | npy header | data
 *	then per array:  central header | NAME.npy
 *	then:  end record
 */
#ifndef NN_NPZ_FORMAT_H
#define NN_NPZ_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/npz.h"

/* Elements are copied as they lie in memory and declared little-endian. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "npz needs a little-endian machine");

enum {
	ZIP_LOCAL_NBYTES = 30,
	ZIP_CENTRAL_NBYTES = 46,
	ZIP_END_NBYTES = 22,
	ZIP_NAME_MAX = NPZ_MAX_NAME + 4,
	NPY_HEADER_MAX = 256, /* magic to newline, padded to a multiple of 64 */
};

/* One file of the zip. nbytes counts the npy header and the data. */
struct zip_entry {
	char name[ZIP_NAME_MAX + 1]; /* with .npy */
	uint32_t crc, nbytes, offset;
};

/* Render a header or the end record; the zip_* return the number of bytes, names included. */
size_t zip_local(const struct zip_entry *e, uint8_t out[ZIP_LOCAL_NBYTES + ZIP_NAME_MAX]);
size_t zip_central(const struct zip_entry *e, uint8_t out[ZIP_CENTRAL_NBYTES + ZIP_NAME_MAX]);
size_t zip_end(size_t nentries, uint32_t central_offset, uint32_t central_nbytes,
	       uint8_t out[ZIP_END_NBYTES]);

/* Render the npy header of an array; ndim <= NPZ_MAX_DIMS. Returns its length. */
size_t npy_header(const struct npz_array *a, char out[NPY_HEADER_MAX]);

/* The bytes of the data; false when that overflows or is 4 GiB or more. */
bool npz_data_nbytes(const struct npz_array *a, uint64_t *nbytes);

/* The element type as numpy spells it, "<f4"; NULL: not one of enum npz_type. */
const char *npz_type_name(enum npz_type type);

/* 1..NPZ_MAX_NAME bytes of [A-Za-z0-9_.-]. */
bool npz_name_good(const char *name);

#endif
