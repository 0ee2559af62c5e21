/*
 * samples_array.c - samples of arrays and of batches of CIFAR-10, which are read whole, and its records.
 */
#include <inttypes.h>
#include <string.h>

#include "nn/cifar10.h"
#include "nn/npy.h"
#include "nn/pickle.h"
#include "nn/read.h"
#include "nn/samples_impl.h"
#include "nn/tar.h"
#include "nn/zip.h"

/* Images of CIFAR-10 in `whole` as an array of [n, 3, 32, 32]. */
static void
take_images(struct samples *s, struct buf *images)
{
	buf_fini(&s->whole);
	s->whole = *images;
	*images = (struct buf){0};
	s->array =
	    (struct ndarray){.kind = 'u',
			     .size = 1,
			     .ndim = 4,
			     .dim = {s->whole.len / CIFAR10_ITEM, 3, CIFAR10_SIDE, CIFAR10_SIDE},
			     .data = (const uint8_t *)s->whole.data};
}

/* Find the array in the bytes. */
static enum rc
find_array(struct samples *s, struct err *err)
{
	const char *name = s->in.name;
	struct buf file = {0};
	struct cifar10_batch batch = {{0}, {0}};
	enum rc rc = samples_take_all(s, SAMPLES_MAX_NBYTES, &file, err);

	if (rc != RC_OK) {
		buf_fini(&file);
		return rc;
	}
	if (zip_is(file.data, file.len)) {
		rc = npz_samples(file.data, file.len, name, &s->whole, &s->array, err);
	} else if (npy_is(file.data, file.len)) {
		s->whole = file;
		file = (struct buf){0};
		rc = npy_parse(s->whole.data, s->whole.len, s->whole.len, name, &s->array, err);
	} else {
		rc = pickle_is(file.data, file.len) ? cifar10_pickle(name, &file, &batch, err)
						    : cifar10_archive(&file, name, &batch, err);
		if (rc == RC_OK)
			take_images(s, &batch.images);
	}
	buf_fini(&file);
	buf_fini(&batch.images);
	buf_fini(&batch.labels);
	return rc;
}

/* Return true if samples of an array fit the model: the same shape, or rows with as many values. */
static bool
fits(const struct samples *s, const struct ndarray *a, struct ndarray_items *items, struct err *err)
{
	const struct net_shape *want = &s->want.shape;

	if (ndarray_items(a, s->in.name, items, err) != RC_OK)
		return false;
	return (items->channels == want->channels && items->rows == want->rows &&
		items->cols == want->cols) ||
	       (a->ndim <= 2 &&
		(uint64_t)items->channels * items->rows * items->cols == net_shape_size(*want));
}

/* One sample, without the dimension of the count. */
static bool
fits_alone(struct samples *s)
{
	struct ndarray one = s->array;
	struct ndarray_items items;
	struct err unused;

	if (one.ndim == 0 || one.ndim == NDARRAY_MAX_DIMS)
		return false;
	memmove(one.dim + 1, one.dim, one.ndim * sizeof *one.dim);
	one.dim[0] = 1;
	one.ndim++;
	if (!fits(s, &one, &items, &unused))
		return false;
	s->array = one;
	s->items = items;
	return true;
}

static enum rc
next_row(struct samples *s, void *item, bool *more, struct err *err)
{
	*more = s->n < s->array.dim[0];
	return *more ? ndarray_copy(&s->array, s->in.name, &s->items, s->n, 1, item, err) : RC_OK;
}

enum rc
samples_begin_array(struct samples *s, struct err *err)
{
	struct err why = {0};
	enum rc rc = find_array(s, err);

	if (rc != RC_OK)
		return rc;
	if (!fits(s, &s->array, &s->items, &why) && !fits_alone(s))
		return why.rc != RC_OK ? err_set(err, why.rc, "%s", why.text)
				       : err_set(err, RC_BADDATA,
						 "%s: samples are %" PRIu32 "x%" PRIu32 "x%" PRIu32
						 "; the model takes %s",
						 s->in.name, s->items.channels, s->items.rows,
						 s->items.cols, s->want.text);
	/* A model of numbers also takes numbers that happen to be whole and from 0 to 255. */
	if (s->want.values == SAMPLES_NUMBERS && s->array.size > 1)
		s->items.dtype = GPUSIM_F32;
	s->dtype = s->items.dtype;
	s->next = next_row;
	return RC_OK;
}

/* ---- records of CIFAR-10 */

static enum rc
next_record(struct samples *s, void *item, bool *more, struct err *err)
{
	uint8_t label;
	size_t got;
	enum rc rc = samples_take(s, &label, 1, &got, err);

	*more = rc == RC_OK && got;
	if (!*more)
		return rc;
	if (label >= CIFAR10_CLASSES)
		return samples_refuse(
		    s, "neither a record of CIFAR-10 nor another format that is supported", err);
	rc = samples_check_shape(s, 3, CIFAR10_SIDE, CIFAR10_SIDE, err);
	if (rc == RC_OK)
		rc = samples_take(s, item, CIFAR10_ITEM, &got, err);
	return rc == RC_OK && got < CIFAR10_ITEM ? samples_refuse(s, "truncated", err) : rc;
}

void
samples_begin_cifar10(struct samples *s)
{
	s->dtype = GPUSIM_U8;
	s->next = next_record;
}
