/*
 * augment.h - random crops within a border of zeros, and mirrored images, for training.
 *
 * The change is a function of the seed, the epoch and the image's number in the training part. So
 * any number of devices, and a resumed training, make the same images.
 */
#ifndef NN_AUGMENT_H
#define NN_AUGMENT_H

#include <stdint.h>

#include "base/rc.h"
#include "nn/dataset.h"

#define AUGMENT_PAD 4 /* zeros around an image */

enum { AUGMENT_CROP = 1, AUGMENT_FLIP = 2 };

/* "crop,flip", "crop", "flip" or "none". */
const char *augment_name(uint32_t what);

/* RC_INVAL: the data are not images, or the images are smaller than the border. */
enum rc augment_check(uint32_t what, const struct dataset *data, struct err *err);

/* The word that tells the kernel `augment` how to change an image. */
uint32_t augment_draw(uint32_t what, uint64_t seed, uint32_t epoch, uint32_t item);

/* The words of n images. */
void augment_draws(uint32_t what, uint64_t seed, uint32_t epoch, const uint32_t *items, uint64_t n,
		   uint32_t *draws);

#endif
