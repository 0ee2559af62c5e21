/*
 * samples.h - samples that a net is asked about, one after another, from a file or a pipe.
 *
 * What they are is told from the first bytes: an IDX file of three dimensions, or any number of PGM and
 * PPM images (P2, P3, P5, P6) one after another, raw or gzipped; else a table, a sample a line, as
 * csv.h reads it. A first line whose first field is no number is a header, and is skipped.
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

/*
 * samples_open - look at what there is.
 *
 *	fd	the caller's; where it blocks, so do these calls
 *	name	what it is called in sentences; stays the caller's
 *	shape	what each sample must have: images its channels, rows and columns; lines of a table as
 *		many numbers
 *	out	[out] released with samples_close; untouched on error
 *
 * Errors, here and in samples_next: RC_BADDATA "NAME: image 3: reason", from 0, or "NAME:LINE: reason":
 * another size, damaged, cut short, no samples; RC_FAILED what the system refuses; RC_NOMEM.
 * Checked by: tests/unit/t_samples.c
 */
enum rc samples_open(int fd, const char *name, struct net_shape shape, struct samples **out,
		     struct err *err);
void samples_close(struct samples *s);

/* The type of values: GPUSIM_U8 of images, 0 to 255; GPUSIM_F32 of a table. */
enum gpusim_dtype samples_dtype(const struct samples *s);

/* The next sample, planar, as many values as the shape has; *more false: there is none. */
enum rc samples_next(struct samples *s, void *item, bool *more, struct err *err);

/* Whether something has come that samples_next has not seen: it may wait for the rest of a sample. */
bool samples_ready(const struct samples *s);

#endif
