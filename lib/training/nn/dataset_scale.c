/* A net's input is item * scale + shift, channel by channel. */
#include <math.h>
#include <stdlib.h>

#include "base/must.h"
#include "nn/read.h"

struct moments {
	double mean, deviation;
};

/* The moments of bytes: exact, by counting. */
static struct moments
moments_u8(const struct dataset *ds, uint32_t channel)
{
	size_t plane = (size_t)ds->rows * ds->cols, item = dataset_item_size(ds);
	const uint8_t *first = (const uint8_t *)ds->train.items + channel * plane;
	uint64_t count[256] = {0};
	double n = (double)ds->train.nitems * (double)plane, sum = 0, square = 0;

	for (uint32_t i = 0; i < ds->train.nitems; i++)
		for (size_t k = 0; k < plane; k++)
			count[first[i * item + k]]++;
	for (int v = 0; v < 256; v++)
		sum += (double)count[v] * v;
	for (int v = 0; v < 256; v++)
		square += (double)count[v] * (v - sum / n) * (v - sum / n);
	return (struct moments){sum / n, sqrt(square / n)};
}

/* The moments of f32, in two passes. */
static struct moments
moments_f32(const struct dataset *ds, uint32_t channel)
{
	size_t plane = (size_t)ds->rows * ds->cols, item = dataset_item_size(ds);
	const float *first = (const float *)ds->train.items + channel * plane;
	double n = (double)ds->train.nitems * (double)plane, sum = 0, square = 0, off;

	for (uint32_t i = 0; i < ds->train.nitems; i++)
		for (size_t k = 0; k < plane; k++)
			sum += (double)first[i * item + k];
	for (uint32_t i = 0; i < ds->train.nitems; i++)
		for (size_t k = 0; k < plane; k++) {
			off = (double)first[i * item + k] - sum / n;
			square += off * off;
		}
	return (struct moments){sum / n, sqrt(square / n)};
}

/* Mean 0 and deviation 1; a constant channel becomes 0. */
static void
standardise(struct dataset *ds, uint32_t c)
{
	struct moments m = ds->dtype == GPUSIM_F32 ? moments_f32(ds, c) : moments_u8(ds, c);
	/* A sum of equal numbers may leave a deviation of a few roundings. */
	bool constant = m.deviation <= 1e-12 * fabs(m.mean) || m.deviation < 0x1p-126;
	double scale = constant ? 1 : 1 / m.deviation;

	ds->scale[c] = (float)scale;
	ds->shift[c] = (float)(-m.mean * scale);
}

void
dataset_scale(struct dataset *ds, enum dataset_normalize how)
{
	ds->scale = must_alloc(ds->channels, sizeof *ds->scale);
	ds->shift = must_alloc(ds->channels, sizeof *ds->shift);
	for (uint32_t c = 0; c < ds->channels; c++) {
		ds->scale[c] = how == DATASET_UNIT && ds->dtype == GPUSIM_U8 ? 1.0f / 255 : 1;
		if (how == DATASET_STANDARD)
			standardise(ds, c);
	}
}
