/*
 * npz.h - named arrays in a .npz file: a zip of .npy files, as numpy.savez writes them.
 *
 * Written: zip entries stored (weights do not compress), dated 1980-01-01 so that the same
 * arrays give the same bytes; .npy format 1.0, C order, little-endian. Below 4 GiB, no zip64.
 * Source: numpy.lib.format; PKWARE APPNOTE 6.3, sections 4.3 and 4.4.
 */
#ifndef NN_NPZ_H
#define NN_NPZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

#define NPZ_MAX_DIMS   4
#define NPZ_MAX_ARRAYS 1024
#define NPZ_MAX_NAME   63 /* bytes, without .npy */

enum npz_type { NPZ_F32 = 0, NPZ_I64 = 1, NPZ_F64 = 2, NPZ_U8 = 3 };

/* ndim 0 is a scalar. data holds the product of dim elements, row-major, and is only read. */
struct npz_array {
	char name[NPZ_MAX_NAME + 1];
	enum npz_type type;
	uint32_t ndim;
	uint64_t dim[NPZ_MAX_DIMS];
	const void *data; /* NULL: `take` left it out */
};

/* The contents of a file; array and every array[i].data belong to it. */
struct npz {
	struct npz_array *array;
	size_t narrays;
};

/*
 * npz_write - make or replace a .npz file, all of it or nothing.
 *
 *	path		a symbolic link is followed; anything but a regular file is rejected
 *	array, narrays	at most NPZ_MAX_ARRAYS; names are 1..NPZ_MAX_NAME bytes of
 *			[A-Za-z0-9_.-], each once; stay the caller's
 *
 * Written to PATH.PID-N.tmp, synced, renamed: after any failure the old file stays and no other is
 * left. Errors: RC_INVAL an array that cannot be written, RC_FAILED the system's reason.
 * Checked by: tests/unit/nn/t_npz.c
 */
enum rc npz_write(const char *path, const struct npz_array *array, size_t narrays, struct err *err);

struct buf;

/* Append the bytes of such a file to *out, which the caller releases in any case. RC_INVAL,
 * RC_FAILED. */
enum rc npz_pack(const struct npz_array *array, size_t narrays, struct buf *out, struct err *err);

/*
 * npz_read - read a .npz file of any maker, gzipped or not.   npz_parse - parse bytes in memory.
 *
 *	take		selects the arrays to unpack; the others come without data. NULL: all
 *	npz		[out] the caller owns it and releases it with npz_fini; untouched on
 *			error
 *
 * Entries are stored or deflated; each has the name of an array, a type of enum npz_type and C order. Every
 * checksum is compared. Errors: RC_BADDATA "NAME: reason", RC_FAILED the system's reason.
 */
enum rc npz_read(const char *path, struct npz *npz, struct err *err);

/* Return true to take an array of this name, type and shape. Others are never unpacked. */
typedef bool npz_take_fn(void *arg, const struct npz_array *a);

enum rc npz_parse(const void *bytes, size_t nbytes, const char *name, npz_take_fn *take, void *arg,
		  struct npz *npz, struct err *err);

/* The array of that name, owned by npz, or NULL. */
const struct npz_array *npz_find(const struct npz *npz, const char *name);

/* Release everything and make it {0}. */
void npz_fini(struct npz *npz);

#endif
