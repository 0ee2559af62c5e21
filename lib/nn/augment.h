/*
 * augment.h - what becomes of a training image before it is used: a random part of it within a border of
 * zeros, and mirrored or not.
 *
 * It is a function of seed, epoch and the image's number in the training part alone, so it is the same on any
 * number of devices, whoever trains with the image, and when training is resumed.
 */
#ifndef NN_AUGMENT_H
#define NN_AUGMENT_H

#include <stdint.h>

#include "base/rc.h"
#include "nn/dataset.h"

#define AUGMENT_PAD 4 /* zeros around an image */

enum { AUGMENT_CROP = 1, AUGMENT_FLIP = 2 };

/* "crop,flip", "crop", "flip" or "none" to a set of those. RC_INVAL. augment_name: the other way. */
enum rc augment_parse(const char *text, uint32_t *out, struct err *err);
const char *augment_name(uint32_t what);

/* RC_INVAL: the data are no images, or too small for a border to leave anything of them. */
enum rc augment_check(uint32_t what, const struct dataset *data, struct err *err);

/* The word that the kernel `augment` takes for an image. */
uint32_t augment_draw(uint32_t what, uint64_t seed, uint32_t epoch, uint32_t item);

/* Those of n images. */
void augment_draws(uint32_t what, uint64_t seed, uint32_t epoch, const uint32_t *items, uint64_t n,
		   uint32_t *draws);

#endif
