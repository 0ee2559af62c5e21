/*
 * half.h - the floats shorter than f32 as inline, branch-free arithmetic that a vectoriser can widen.
 *
 * All are rounded to nearest even. Overflow of binary16 and bfloat16 is infinity, and a NaN keeps the
 * top of its payload and becomes quiet, as the F16C instructions do. The two of 8 bits saturate, as
 * CUDA's conversions do by default: values above the largest number, infinity included, become the largest
 * number. e4m3 has no infinity, and one NaN of each sign; e5m2 is the upper byte of a binary16.
 *
 * Source: OCP 8-bit Floating Point Specification (OFP8), revision 1.0; F. Giesen, "half <-> float
 * conversions", https://gist.github.com/rygorous/2156668
 */
#ifndef MEM_HALF_H
#define MEM_HALF_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t
f32_bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof u);
	return u;
}

static inline float
f32_of_bits(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof f);
	return f;
}

static inline uint64_t
f64_bits(double f)
{
	uint64_t u;

	memcpy(&u, &f, sizeof u);
	return u;
}

static inline double
f64_of_bits(uint64_t u)
{
	double f;

	memcpy(&f, &u, sizeof f);
	return f;
}

/*
 * yes where cond, else no. In masks, because a compiler that honours floating-point traps turns ?: into a
 * branch if an arm was computed in floating point, and then does not vectorise.
 */
static inline uint32_t
pick32(bool cond, uint32_t yes, uint32_t no)
{
	uint32_t m = 0u - (uint32_t)cond;

	return (yes & m) | (no & ~m);
}

static inline uint64_t
pick64(bool cond, uint64_t yes, uint64_t no)
{
	uint64_t m = 0u - (uint64_t)cond;

	return (yes & m) | (no & ~m);
}

static inline float
f16_to_f32(uint16_t h)
{
	uint32_t sign = (h & 0x8000u) << 16, mag = (h & 0x7fffu) << 13;
	uint32_t normal = mag + ((127u - 15) << 23);
	uint32_t special = mag | 0x7f800000u;
	/* 2^-14 (1 + m) - 2^-14 normalises the subnormal 2^-14 m without a loop. */
	uint32_t subnormal = f32_bits(f32_of_bits(mag + (113u << 23)) - 0x1p-14f);
	uint32_t r = pick32(mag < (1u << 23), subnormal, normal);

	r = pick32(mag >= (31u << 23), special, r);
	r = pick32(mag > (31u << 23), special | 0x400000u, r);
	return f32_of_bits(r | sign);
}

static inline uint16_t
f16_from_f32(float f)
{
	uint32_t u = f32_bits(f), mag = u & 0x7fffffffu;
	/* The carry of the rounding may run into the exponent, and from 65504 into infinity. */
	uint32_t normal = (mag - ((127u - 15) << 23) + 0xfff + ((mag >> 13) & 1)) >> 13;
	/* Adding 0.5 makes the adder round the significand at 2^-24, the subnormal's last place. */
	uint32_t subnormal = f32_bits(f32_of_bits(mag) + 0.5f) - f32_bits(0.5f);
	uint32_t nan = 0x7e00 | ((mag >> 13) & 0x3ff);
	uint32_t r = pick32(mag < (113u << 23), subnormal, normal);

	r = pick32(mag >= (143u << 23), 0x7c00, r);
	r = pick32(mag > 0x7f800000u, nan, r);
	return (uint16_t)(r | (u >> 16 & 0x8000));
}

static inline float
bf16_to_f32(uint16_t h)
{
	return f32_of_bits((uint32_t)h << 16);
}

static inline uint16_t
bf16_from_f32(float f)
{
	uint32_t u = f32_bits(f);
	uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
	uint32_t nan = (u >> 16) | 0x40;

	return (uint16_t)pick32((u & 0x7fffffffu) > 0x7f800000u, nan, rounded);
}

static inline float
f8e4m3_to_f32(uint8_t h)
{
	uint32_t sign = (h & 0x80u) << 24, mag = (h & 0x7fu) << 20;
	uint32_t normal = mag + ((127u - 7) << 23);
	uint32_t subnormal = f32_bits(f32_of_bits(mag + (121u << 23)) - 0x1p-6f);
	uint32_t r = pick32(mag < (1u << 23), subnormal, normal);

	r = pick32(mag == (0x7fu << 20), 0x7fc00000u, r);
	return f32_of_bits(r | sign);
}

static inline uint8_t
f8e4m3_from_f32(float f)
{
	uint32_t u = f32_bits(f), mag = u & 0x7fffffffu;
	uint32_t normal = (mag - ((127u - 7) << 23) + 0x7ffff + ((mag >> 20) & 1)) >> 20;
	/* Adding 2^14 makes the adder round at 2^-9, the subnormal's last place. */
	uint32_t subnormal = f32_bits(f32_of_bits(mag) + 0x1p14f) - f32_bits(0x1p14f);
	uint32_t r = pick32(mag < (121u << 23), subnormal, normal);

	r = pick32(mag > 0x43e00000u, 0x7e, r); /* more than 448 */
	r = pick32(mag > 0x7f800000u, 0x7f, r);
	return (uint8_t)(r | (u >> 24 & 0x80));
}

static inline float
f8e5m2_to_f32(uint8_t h)
{
	return f16_to_f32((uint16_t)(h << 8));
}

static inline uint8_t
f8e5m2_from_f32(float f)
{
	uint32_t u = f32_bits(f), mag = u & 0x7fffffffu;
	uint32_t normal = (mag - ((127u - 15) << 23) + 0xfffff + ((mag >> 21) & 1)) >> 21;
	/* Adding 2^7 makes the adder round at 2^-16, the subnormal's last place. */
	uint32_t subnormal = f32_bits(f32_of_bits(mag) + 0x1p7f) - f32_bits(0x1p7f);
	uint32_t r = pick32(mag < (113u << 23), subnormal, normal);

	r = pick32(mag > 0x47600000u, 0x7b, r); /* more than 57344 */
	r = pick32(mag > 0x7f800000u, 0x7e | ((mag >> 21) & 1), r);
	return (uint8_t)(r | (u >> 24 & 0x80));
}

#endif
