/*
 * kern_exp.h - exponentials that vectorise, with the same bits on every processor.
 */
#ifndef DEV_KERN_EXP_H
#define DEV_KERN_EXP_H

#include <stdint.h>
#include <string.h>

/* Inlined into each clone of a kernel; otherwise compiled for the oldest processor only. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

/*
 * e^x - 1 in two parts for -708 <= x <= 0, within an ulp or so: e^x = (1 + *rest) * power, where
 * power is a power of 2.
 *
 * x = k ln 2 + r with |r| <= ln 2 / 2: e^r - 1 by its series, and 2^k put together from its bits.
 */
static ALWAYS_INLINE double
exp_parts(double x, double *rest)
{
	static const double coefficient[] = {1 / 6227020800.,
					     1 / 479001600.,
					     1 / 39916800.,
					     1 / 3628800.,
					     1 / 362880.,
					     1 / 40320.,
					     1 / 5040.,
					     1 / 720.,
					     1 / 120.,
					     1 / 24.,
					     1 / 6.,
					     1 / 2.,
					     1.};
	const double shift = 0x1.8p52; /* beyond it a double has no fraction */
	double k = x * 0x1.71547652b82fep0 + shift, r, e = 0, power;
	uint64_t bits;

	memcpy(&bits, &k, sizeof bits);
	bits = (bits + 1023) << 52;
	memcpy(&power, &bits, sizeof power);
	k -= shift;
	r = (x - k * 0x1.62e42fefa3800p-1) - k * 0x1.ef35793c76730p-45;
	for (size_t i = 0; i < sizeof coefficient / sizeof coefficient[0]; i++)
		e = e * r + coefficient[i];
	*rest = e * r;
	return power;
}

/* e^x for x <= 0; 0 below -708, where results become subnormal. NaN stays. */
static ALWAYS_INLINE double
exp_negative(double x)
{
	double rest, power = exp_parts(x, &rest);

	return x < -708 ? 0 : (rest + 1) * power;
}

/* e^x of a float x <= 0, within 2 ulp; 0 below -87. NaN stays. For loops that need no more: twice as fast. */
static ALWAYS_INLINE float
exp_negative_float(float x)
{
	static const float coefficient[] = {1 / 5040.f, 1 / 720.f, 1 / 120.f, 1 / 24.f,
					    1 / 6.f,	1 / 2.f,   1.f};
	const float shift = 0x1.8p23f;
	float k = x * 0x1.715476p0f + shift, r, e = 0, power;
	uint32_t bits;

	memcpy(&bits, &k, sizeof bits);
	bits = (bits + 127) << 23;
	memcpy(&power, &bits, sizeof power);
	k -= shift;
	r = (x - k * 0x1.62e4p-1f) - k * 0x1.7f7d1cp-20f;
	for (size_t i = 0; i < sizeof coefficient / sizeof coefficient[0]; i++)
		e = e * r + coefficient[i];
	return x < -87 ? 0 : (e * r + 1) * power;
}

static ALWAYS_INLINE double
exp_negative_double(double x)
{
	return exp_negative(x);
}

/* e^x - 1 for x <= 0, also where it is nearly 0. NaN stays. */
static ALWAYS_INLINE double
expm1_negative(double x)
{
	double rest, power = exp_parts(x, &rest);

	return x < -708 ? -1 : rest * power + (power - 1);
}

#endif
