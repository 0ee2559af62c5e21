#include "nn/augment.h"

#include "nn/rng.h"

static const char *const names[] = {"none", "crop", "flip", "crop,flip"};

const char *
augment_name(uint32_t what)
{
	return what < sizeof names / sizeof names[0] ? names[what] : "?";
}

enum rc
augment_check(uint32_t what, const struct dataset *data, struct err *err)
{
	if (what && (data->rows < 2 || data->cols < 2))
		return err_set(err, RC_INVAL,
			       "--augment: the samples are not images: they have %ux%ux%u values",
			       data->channels, data->rows, data->cols);
	if (what & AUGMENT_CROP && (data->rows <= AUGMENT_PAD || data->cols <= AUGMENT_PAD))
		return err_set(
		    err, RC_INVAL,
		    "--augment crop: images of %ux%u are too small for a shift of up to %d",
		    data->rows, data->cols, AUGMENT_PAD);
	return RC_OK;
}

uint32_t
augment_draw(uint32_t what, uint64_t seed, uint32_t epoch, uint32_t item)
{
	uint64_t state = seed ^ 0x61756720696d6773u,
		 bits; /* distinct from the states of the orders */
	uint32_t row = AUGMENT_PAD, column = AUGMENT_PAD, mirrored = 0;

	state = splitmix64(&state) + epoch;
	state = splitmix64(&state) + item;
	bits = splitmix64(&state);
	if (what & AUGMENT_FLIP)
		mirrored = bits & 1;
	if (what & AUGMENT_CROP) {
		row = (uint32_t)(bits >> 1 & 0x7fffffff) % (2 * AUGMENT_PAD + 1);
		column = (uint32_t)(bits >> 32) % (2 * AUGMENT_PAD + 1);
	}
	return row | column << 8 | mirrored << 16;
}

void
augment_draws(uint32_t what, uint64_t seed, uint32_t epoch, const uint32_t *items, uint64_t n,
	      uint32_t *draws)
{
	for (uint64_t i = 0; i < n; i++)
		draws[i] = augment_draw(what, seed, epoch, items[i]);
}
