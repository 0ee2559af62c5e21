/*
 * One axis after the other, in fixed point: the weights of an output pixel sum to 2^16, and the
 * values between the two passes have 8 more bits.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "base/must.h"
#include "nn/image.h"

#define ONE 65536u

/* Output i is the sum of input first[i] + k times weight[at[i] + k], k < at[i + 1] - at[i]. */
struct axis {
	uint32_t *first, *at, *weight;
};

static void
axis_fini(struct axis *a)
{
	free(a->first);
	free(a->at);
	free(a->weight);
}

/* Smaller: input pixels from i*in/out to (i+1)*in/out, each weighted by its overlap. */
static uint32_t
shrink_weights(uint32_t in, uint32_t out, uint32_t i, uint32_t *first, uint32_t *weight)
{
	/* In units of 1/out of an input pixel. */
	uint64_t begin = (uint64_t)i * in, end = begin + in, at = begin, to;
	uint32_t n = 0, given = 0, upto;

	*first = (uint32_t)(begin / out);
	for (; at < end; at = to) {
		to = (at / out + 1) * out;
		to = to < end ? to : end;
		upto = (uint32_t)((to - begin) * ONE / in); /* cumulated, so the sum is ONE */
		weight[n++] = upto - given;
		given = upto;
	}
	return n;
}

/* Larger: between the two input pixels whose centres lie around the output's. */
static uint32_t
grow_weights(uint32_t in, uint32_t out, uint32_t i, uint32_t *first, uint32_t *weight)
{
	/* The output's centre less half an input pixel, in units of 1 / (2 * out). */
	int64_t centre = (2 * (int64_t)i + 1) * in - out, unit = 2 * (int64_t)out;

	if (centre < 0)
		centre = 0;
	*first = (uint32_t)(centre / unit);
	if (*first >= in - 1) {
		*first = in - 1;
		weight[0] = ONE;
		return 1;
	}
	weight[1] = (uint32_t)(centre % unit * ONE / unit);
	weight[0] = ONE - weight[1];
	return 2;
}

static void
axis_init(struct axis *a, uint32_t in, uint32_t out)
{
	size_t most = (size_t)out * (out < in ? in / out + 2 : 2);
	uint32_t n = 0;

	a->first = must_resize(NULL, out, sizeof *a->first);
	a->at = must_resize(NULL, out + 1, sizeof *a->at);
	a->weight = must_resize(NULL, most, sizeof *a->weight);
	for (uint32_t i = 0; i < out; i++) {
		a->at[i] = n;
		n += (out < in ? shrink_weights : grow_weights)(in, out, i, &a->first[i],
								a->weight + n);
	}
	a->at[out] = n;
}

/* A pixel's grey, or one of its channels. */
static uint32_t
sample(const uint8_t *rgb, uint32_t channel, uint32_t channels)
{
	if (channels == 3)
		return rgb[channel];
	return (299u * rgb[0] + 587u * rgb[1] + 114u * rgb[2] + 500) / 1000;
}

/* All rows of one channel, in their new width, times 256. */
static void
across(const struct image *im, const struct axis *x, uint32_t cols, uint32_t channel,
       uint32_t channels, uint16_t *mid)
{
	for (uint32_t r = 0; r < im->rows; r++)
		for (uint32_t i = 0; i < cols; i++) {
			const uint8_t *rgb = im->rgb + ((size_t)r * im->cols + x->first[i]) * 3;
			uint32_t sum = ONE / 512; /* half of the last bit that is kept */

			for (uint32_t k = x->at[i]; k < x->at[i + 1]; k++, rgb += 3)
				sum += x->weight[k] * sample(rgb, channel, channels);
			mid[(size_t)r * cols + i] = (uint16_t)(sum >> 8);
		}
}

static void
down(const uint16_t *mid, const struct axis *y, uint32_t rows, uint32_t cols, uint8_t *dst)
{
	for (uint32_t r = 0; r < rows; r++)
		for (uint32_t i = 0; i < cols; i++) {
			const uint16_t *from = mid + (size_t)y->first[r] * cols + i;
			uint32_t sum = 1u << 23;

			for (uint32_t k = y->at[r]; k < y->at[r + 1]; k++, from += cols)
				sum += y->weight[k] * *from;
			dst[(size_t)r * cols + i] = (uint8_t)(sum >> 24);
		}
}

void
image_resize(const struct image *im, uint32_t rows, uint32_t cols, uint32_t channels, uint8_t *dst)
{
	struct axis x = {0}, y = {0};
	uint16_t *mid = must_resize(NULL, (size_t)im->rows * cols, sizeof *mid);

	axis_init(&x, im->cols, cols);
	axis_init(&y, im->rows, rows);
	for (uint32_t c = 0; c < channels; c++) {
		across(im, &x, cols, c, channels, mid);
		down(mid, &y, rows, cols, dst + (size_t)c * rows * cols);
	}
	axis_fini(&x);
	axis_fini(&y);
	free(mid);
}
