/*
 * samples.h - samples for inference, one after another, from a file, a pipe or many files.
 *
 * The first bytes, raw or gzipped, decide the kind: an IDX file of three dimensions; any number of
 * PNG, JPEG, PGM and PPM images (P2, P3, P5, P6) one after another; a .npy file; a .npz, whose
 * test part is read, else its training part; a batch of CIFAR-10, as records or a pickle, or an
 * archive of them; names of files, one a line, where the first line is one; else a table, a sample
 * a line, as csv.h reads it. A first line whose first field is not a number is a header, and is skipped.
 *
 * PNG and JPEG images are resized to the model's shape, as the images of a folder are in training.
 */
#ifndef NN_SAMPLES_H
#define NN_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "gpusim.h"
#include "nn/net.h"

struct samples;

/* Values that a model was trained on: not known, whole numbers from 0 to 255, or any. */
enum samples_values { SAMPLES_ANY, SAMPLES_BYTES, SAMPLES_NUMBERS };

/* The samples that a model accepts. */
struct samples_want {
	/* channels, rows and columns of images; numbers of a table's line */
	struct net_shape shape;
	enum samples_values values;
	const char *text; /* completes "the model takes ..."; stays the caller's */
};

/* Return true if a value is a whole number from 0 to 255. */
bool samples_is_byte(float v);

/* A file is one image, and bytes after it are ignored; a stream may have several, or names of files. */
enum samples_source { SAMPLES_STREAM, SAMPLES_FILE };

/*
 * samples_open - look at the first bytes.
 *
 *	fd	the caller's; where it blocks, so do these calls
 *	name	its name in error messages; stays the caller's
 * want the model's samples; another size, images of bytes for a model of numbers, and numbers other
 * than bytes for a model of bytes are rejected
 *	out	[out] released with samples_close; untouched on error
 *
 * Errors, here and in samples_next: RC_BADDATA "NAME: image 3: reason", from 0, or "NAME:LINE: reason":
 * another size, damaged, truncated, no samples; RC_FAILED with the system's reason.
 * Checked by: tests/unit/nn/t_samples.c
 */
enum rc samples_open(int fd, const char *name, enum samples_source source,
		     const struct samples_want *want, struct samples **out, struct err *err);

/* The samples of files, one after another; "-" is standard input. The names stay the caller's. */
struct samples *samples_open_files(char *const *names, size_t n, const struct samples_want *want);
void samples_close(struct samples *s);

/* The type of values: GPUSIM_U8 of images, 0 to 255; GPUSIM_F32 of a table and of many files. */
enum gpusim_dtype samples_dtype(const struct samples *s);

/* The next sample, planar, as many values as the shape has; *more false: no sample is left. */
enum rc samples_next(struct samples *s, void *item, bool *more, struct err *err);

/* Return true if unread bytes have come; samples_next may still wait for the rest of a sample. */
bool samples_ready(const struct samples *s);

#endif
