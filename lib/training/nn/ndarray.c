#include "nn/ndarray.h"
#include "base/must.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_SIDE = 8, MOST_SIDE = 512, MAX_CLASSES = 256 };

#define MAX_LENGTH (1u << 24) /* of a dimension of a sample */

bool
ndarray_type(struct ndarray *a, const char *text, size_t len)
{
	char order = '|';

	if (len == 3) {
		order = *text++;
		len--;
	}
	if (len != 2 || !strchr("<>|=", order) || !strchr("uifb", text[0]) ||
	    !strchr("1248", text[1]) || !order || !text[0] || !text[1])
		return false;
	a->kind = text[0];
	a->size = (uint8_t)(text[1] - '0');
	a->big = order == '>';
	return a->kind == 'f' ? a->size >= 4 : a->kind != 'b' || a->size == 1;
}

static bool
ndarray_count(const struct ndarray *a, uint64_t *n)
{
	uint64_t count = 1;

	for (uint32_t i = 0; i < a->ndim; i++)
		if (__builtin_mul_overflow(count, a->dim[i], &count))
			return false;
	*n = count;
	return true;
}

bool
ndarray_nbytes(const struct ndarray *a, uint64_t *nbytes)
{
	uint64_t n;

	return ndarray_count(a, &n) && !__builtin_mul_overflow(n, a->size, nbytes);
}

/* The bytes of element i as an unsigned number. */
static uint64_t
bits_at(const struct ndarray *a, uint64_t i)
{
	const uint8_t *p = a->data + i * a->size;
	uint64_t bits = 0;

	for (uint32_t k = 0; k < a->size; k++)
		bits |= (uint64_t)p[a->big ? a->size - 1 - k : k] << 8 * k;
	return bits;
}

double
ndarray_at(const struct ndarray *a, uint64_t i)
{
	uint64_t bits = bits_at(a, i);
	uint32_t unused = 64 - 8 * (uint32_t)a->size, half = (uint32_t)bits;
	double d;
	float f;

	if (a->kind == 'f' && a->size == 8) {
		memcpy(&d, &bits, sizeof d);
		return d;
	}
	if (a->kind == 'f') {
		memcpy(&f, &half, sizeof f);
		return (double)f;
	}
	/* The element's highest bit is the sign. */
	return a->kind == 'i' ? (double)((int64_t)(bits << unused) >> unused) : (double)bits;
}

/* ---- samples */

/* Return true if all elements are whole numbers from 0 to 255, by type and value. */
static bool
is_bytes(const struct ndarray *a)
{
	uint64_t n = 0;

	if (a->kind == 'u' && a->size == 1)
		return true;
	if ((a->kind != 'u' && a->kind != 'i') || !ndarray_count(a, &n))
		return false;
	for (uint64_t i = 0; i < n; i++)
		if (bits_at(a, i) > 255)
			return false;
	return true;
}

/* s if s * s is n and s is a valid side of images; else 0. */
static uint32_t
side_of(uint64_t n)
{
	for (uint32_t s = LEAST_SIDE; s <= MOST_SIDE; s++)
		if ((uint64_t)s * s == n)
			return s;
	return 0;
}

static bool
is_channels(uint64_t n)
{
	return n == 1 || n == 3;
}

/* Return true if the last of four dimensions is the channels. */
static bool
channels_last(const struct ndarray *a)
{
	return a->ndim == 4 && is_channels(a->dim[3]);
}

static enum rc
choose_shape(const struct ndarray *a, const char *name, bool bytes, struct ndarray_items *out,
	     struct err *err)
{
	const uint64_t *d = a->dim;
	uint32_t side = a->ndim == 2 && bytes ? side_of(d[1]) : 0;

	if (a->ndim == 1)
		*out = (struct ndarray_items){.channels = 1, .rows = 1, .cols = 1};
	else if (side)
		*out = (struct ndarray_items){.channels = 1, .rows = side, .cols = side};
	else if (a->ndim == 2)
		*out = (struct ndarray_items){.channels = (uint32_t)d[1], .rows = 1, .cols = 1};
	else if (a->ndim == 3)
		*out = (struct ndarray_items){
		    .channels = 1, .rows = (uint32_t)d[1], .cols = (uint32_t)d[2]};
	else if (channels_last(a))
		*out = (struct ndarray_items){
		    .channels = (uint32_t)d[3], .rows = (uint32_t)d[1], .cols = (uint32_t)d[2]};
	else if (a->ndim == 4 && is_channels(d[1]))
		*out = (struct ndarray_items){
		    .channels = (uint32_t)d[1], .rows = (uint32_t)d[2], .cols = (uint32_t)d[3]};
	else if (a->ndim == 4)
		return err_set(err, RC_BADDATA,
			       "%s: images of %" PRIu64 " or %" PRIu64 " channels; needs 1 or 3",
			       name, d[3], d[1]);
	else
		return err_set(err, RC_BADDATA, "%s: %" PRIu32 " dimensions; samples have 1 to 4",
			       name, a->ndim);
	return RC_OK;
}

enum rc
ndarray_items(const struct ndarray *a, const char *name, struct ndarray_items *out, struct err *err)
{
	struct ndarray_items items = {0};
	bool bytes = is_bytes(a);
	enum rc rc;

	for (uint32_t i = 0; i < a->ndim; i++)
		if (a->dim[i] == 0 || a->dim[i] > (i ? MAX_LENGTH : UINT32_MAX))
			return err_set(err, RC_BADDATA,
				       "%s: dimension %" PRIu32 " is %" PRIu64
				       ", not 1 to %" PRIu32,
				       name, i, a->dim[i], i ? MAX_LENGTH : UINT32_MAX);
	if (a->fortran && a->ndim > 1)
		return err_set(
		    err, RC_BADDATA,
		    "%s: the array is in Fortran order; convert it by numpy.ascontiguousarray()",
		    name);
	rc = choose_shape(a, name, bytes, &items, err);
	if (rc != RC_OK)
		return rc;
	bytes = bytes && (a->size == 1 || items.rows > 1 || items.cols > 1);
	items.dtype = bytes ? GPUSIM_U8 : GPUSIM_F32;
	*out = items;
	return RC_OK;
}

/* The position in a sample of its planar value k. */
static uint64_t
place(const struct ndarray *a, const struct ndarray_items *items, uint64_t k)
{
	uint64_t plane = (uint64_t)items->rows * items->cols;

	return channels_last(a) ? k % plane * items->channels + k / plane : k;
}

static enum rc
copy_f32(const struct ndarray *a, const char *name, const struct ndarray_items *items,
	 uint64_t first, uint64_t n, float *dst, struct err *err)
{
	uint64_t item = (uint64_t)items->channels * items->rows * items->cols;

	for (uint64_t i = first; i < first + n; i++)
		for (uint64_t k = 0; k < item; k++, dst++) {
			*dst = (float)ndarray_at(a, i * item + place(a, items, k));
			if (!isfinite(*dst))
				return err_set(err, RC_BADDATA,
					       "%s: value %" PRIu64 " of sample %" PRIu64
					       " is not a finite 32-bit number",
					       name, k, i);
		}
	return RC_OK;
}

enum rc
ndarray_copy(const struct ndarray *a, const char *name, const struct ndarray_items *items,
	     uint64_t first, uint64_t n, void *dst, struct err *err)
{
	uint64_t item = (uint64_t)items->channels * items->rows * items->cols;
	uint8_t *bytes = dst;

	if (items->dtype == GPUSIM_F32)
		return copy_f32(a, name, items, first, n, dst, err);
	if (a->size == 1 && (!channels_last(a) || items->channels == 1)) {
		memcpy(bytes, a->data + first * item, (size_t)(n * item));
		return RC_OK;
	}
	for (uint64_t i = first; i < first + n; i++)
		for (uint64_t k = 0; k < item; k++)
			*bytes++ = (uint8_t)bits_at(a, i * item + place(a, items, k));
	return RC_OK;
}

/* ---- labels */

static enum rc
take_number(const struct ndarray *a, const char *name, uint64_t i, uint8_t *label,
	    uint32_t *nclasses, struct err *err)
{
	double v = ndarray_at(a, i);

	if (!(v >= 0 && v < MAX_CLASSES) || v != floor(v))
		return err_set(err, RC_BADDATA,
			       "%s: label %g of sample %" PRIu64 "; labels are 0 to %d", name, v, i,
			       MAX_CLASSES - 1);
	*label = (uint8_t)v;
	if (*label >= *nclasses)
		*nclasses = *label + 1u;
	return RC_OK;
}

static enum rc
take_one_hot(const struct ndarray *a, const char *name, uint64_t i, uint8_t *label, struct err *err)
{
	uint64_t ones = 0, n = a->dim[1];

	for (uint64_t k = 0; k < n; k++) {
		double v = ndarray_at(a, i * n + k);

		if (v == 1)
			*label = (uint8_t)k;
		ones += v == 1 ? 1 : v == 0 ? 0 : 2;
	}
	if (ones == 1)
		return RC_OK;
	return err_set(err, RC_BADDATA, "%s: row %" PRIu64 " is not one-hot: one 1, and zeros",
		       name, i);
}

enum rc
ndarray_labels(const struct ndarray *a, const char *name, uint8_t **labels, uint32_t *nclasses,
	       struct err *err)
{
	bool one_hot = a->ndim == 2 && a->dim[1] > 1;
	uint32_t classes = one_hot ? (uint32_t)a->dim[1] : 0;
	uint8_t *out;
	enum rc rc = RC_OK;

	if (a->ndim == 0 || a->ndim > 2 || a->dim[a->ndim - 1] == 0 || a->dim[0] > UINT32_MAX)
		return err_set(err, RC_BADDATA, "%s: labels must be [n] or [n, classes]", name);
	if (one_hot && a->dim[1] > MAX_CLASSES)
		return err_set(err, RC_BADDATA, "%s: %" PRIu64 " classes; the limit is %d", name,
			       a->dim[1], MAX_CLASSES);
	if (one_hot && a->fortran)
		return err_set(
		    err, RC_BADDATA,
		    "%s: the array is in Fortran order; convert it by numpy.ascontiguousarray()",
		    name);
	out = must_alloc((size_t)a->dim[0], 1);
	for (uint64_t i = 0; rc == RC_OK && i < a->dim[0]; i++)
		rc = one_hot ? take_one_hot(a, name, i, &out[i], err)
			     : take_number(a, name, i, &out[i], &classes, err);
	if (rc != RC_OK) {
		free(out);
		return rc;
	}
	*labels = out;
	*nclasses = classes;
	return RC_OK;
}
