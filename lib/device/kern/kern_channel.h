/*
 * kern_channel.h - sums over a channel of images [n,c,hw], in double, the same on every processor.
 */
#ifndef DEV_KERN_CHANNEL_H
#define DEV_KERN_CHANNEL_H

#include <stddef.h>

/* Elements are float (size 4) or double (size 8). */
struct channel {
	const void *x, *dy;
	size_t n, c, which, hw, size;
};

/* Sum of x. */
double channel_sum(const struct channel *ch);

/* sum[0] = sum of x, sum[1] = sum of x^2. */
void channel_squares(const struct channel *ch, double sum[2]);

/* sum[0] = sum of dy, sum[1] = sum of dy (x - mean) factor. */
void channel_products(const struct channel *ch, double mean, double factor, double sum[2]);

#endif
