/*
 * samples_impl.h - samples of one kind, while they are read.
 */
#ifndef NN_SAMPLES_IMPL_H
#define NN_SAMPLES_IMPL_H

#include "base/buf.h"
#include "nn/csv.h"
#include "nn/ndarray.h"
#include "nn/samples.h"

typedef enum rc samples_next_fn(struct samples *s, void *item, bool *more, struct err *err);

struct samples {
	struct input in; /* fd -1: files are opened one after another */
	struct samples_want want;
	samples_next_fn *next;
	enum gpusim_dtype dtype;
	bool single; /* a file: it is all one image */
	bool open;   /* input_begin succeeded */
	uint64_t n;  /* samples read */
	/* Bytes that have been unpacked. */
	size_t pos, len;
	uint8_t chunk[INPUT_CHUNK];
	uint32_t total; /* IDX: images that the header announces */
	struct csv csv; /* table */
	bool has_csv;
	/* An array, whose elements are in `whole`. */
	struct buf whole;
	struct ndarray array;
	struct ndarray_items items;
	/* Files by their names: those of a list, or lines of the bytes above. */
	char *const *names;
	size_t nnames;
	char *name; /* of the file that is open */
	struct samples *inner;
	int fd;
	uint8_t *item; /* of the file's */
};

/* samples.c has found the kind from the first bytes: read up to the first sample. */
void samples_begin_images(struct samples *s);

/* "NAME: image N: reason". */
enum rc samples_refuse(const struct samples *s, const char *reason, struct err *err);

/* RC_BADDATA if the images do not fit the model. */
enum rc samples_check_shape(const struct samples *s, uint32_t channels, uint32_t rows,
			    uint32_t cols, struct err *err);

/* The next byte without taking it, or -1 at the end. */
enum rc samples_peek(struct samples *s, int *c, struct err *err);

/* n bytes, or fewer at the end. */
enum rc samples_take(struct samples *s, uint8_t *dst, size_t n, size_t *got, struct err *err);

/* Append the rest. RC_BADDATA: more than `limit`. */
enum rc samples_take_all(struct samples *s, uint64_t limit, struct buf *out, struct err *err);

#endif
