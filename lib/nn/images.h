/*
 * images.h - images that a net is asked about: from a file, a pipe or memory, without labels.
 *
 * What they are is told from the bytes: an IDX file of three dimensions, or any number of PGM and PPM
 * images (P2, P3, P5, P6) one after another; either raw or gzipped.
 */
#ifndef NN_IMAGES_H
#define NN_IMAGES_H

#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

#define IMAGES_MAX_NBYTES (UINT64_C(1) << 30) /* as they come, unpacked */

/* items is [nitems, channels, rows, cols]; nothing of it is 0. */
struct images {
	uint32_t nitems, channels, rows, cols;
	uint8_t *items;
};

/*
 * images_read - everything from a descriptor, to its end.   images_parse - the same of memory.
 *
 *	fd	the caller's; where it blocks, so does this
 *	name	what the bytes are called in the sentence
 *	im	[out] the caller releases it with images_fini; untouched on error
 *
 * Values of PGM and PPM become 0 to 255: v * 255 / maxval, rounded; maxval is 255 at most.
 * Errors: RC_BADDATA "NAME: reason", with the image's number from 0: no such format, damaged, cut
 * short, no images, images of several sizes, more than IMAGES_MAX_NBYTES; RC_FAILED what the system
 * refuses; RC_NOMEM.
 * Checked by: tests/unit/t_images.c
 */
enum rc images_read(int fd, const char *name, struct images *im, struct err *err);
enum rc images_parse(const void *bytes, size_t nbytes, const char *name, struct images *im,
		     struct err *err);

/* Release the items and make it {0}. */
void images_fini(struct images *im);

#endif
