/* cast between all pairs of types, against one element at a time in long double. */
#include "kern_test.h"

#define NELEM 1100 /* more than two of cast's blocks */

static const long double edges[] = {
    0.0L,
    0.5L,
    1.0L,
    1.5L,
    2.5L,
    126.5L,
    127.0L,
    127.5L,
    128.0L,
    254.5L,
    255.0L,
    255.5L,
    256.0L,
    1 + 0x1p-11L,
    1 + 0x1p-11L + 0x1p-40L,
    1 + 0x3p-11L - 0x1p-40L,
    1 + 0x1p-8L,
    1 + 0x1p-8L + 0x1p-40L,
    0x1p-24L,
    0x1p-25L,
    0x1p-25L + 0x1p-60L,
    0x1p-14L,
    0x1p-149L,
    0x1p-150L,
    0x1p-200L,
    65504.0L,
    65519.0L,
    65519.99999999L,
    65520.0L,
    0x1p24L + 1,
    0x1p31L - 1,
    0x1p31L,
    0x1p31L - 0.5L,
    0x1p32L - 1,
    0x1p32L - 0.5L,
    0x1p32L,
    0x1p53L,
    0x1p53L + 1,
    0x1p62L + 0x1p38L + 1,
    0x1p62L + 0x1p54L + 1,
    0x1p63L - 1,
    0x1p63L - 1024,
    0x1p63L,
    0x1p64L - 1,
    0x1p64L - 2048,
    0x1p64L,
    3.4e38L,
    3.5e38L,
    1e300L,
    INFINITY,
};
#define NEDGES (sizeof edges / sizeof *edges)

static long double
load(enum gpusim_dtype t, const void *p)
{
	switch (t) {
	case GPUSIM_F64:
		return *(const double *)p;
	case GPUSIM_F32:
		return *(const float *)p;
	case GPUSIM_F16:
		return f16_to_f32(*(const uint16_t *)p);
	case GPUSIM_BF16:
		return bf16_to_f32(*(const uint16_t *)p);
	case GPUSIM_F8E4M3:
		return f8e4m3_to_f32(*(const uint8_t *)p);
	case GPUSIM_F8E5M2:
		return f8e5m2_to_f32(*(const uint8_t *)p);
	case GPUSIM_I8:
		return *(const int8_t *)p;
	case GPUSIM_U8:
		return *(const uint8_t *)p;
	case GPUSIM_I32:
		return *(const int32_t *)p;
	case GPUSIM_U32:
		return *(const uint32_t *)p;
	case GPUSIM_I64:
		return *(const int64_t *)p;
	default:
		return *(const uint64_t *)p;
	}
}

/* x in a binary type of so many fraction bits, smallest exponent emin and largest emax. */
static long double
round_to(long double x, int fraction, int emin, int emax)
{
	int e;
	long double q;

	if (x == 0 || !isfinite(x))
		return x;
	frexpl(x, &e);
	e = e - 1 < emin ? emin : e - 1;
	q = ldexpl(rintl(ldexpl(x, fraction - e)), e - fraction);
	return fabsl(q) < ldexpl(1, emax + 1) ? q : copysignl(INFINITY, x);
}

static long double
saturated(long double x, long double most)
{
	return fabsl(x) > most ? copysignl(most, x) : x;
}

static long double
whole(long double x, int bits, bool is_signed)
{
	long double lo = is_signed ? -ldexpl(1, bits - 1) : 0, hi = ldexpl(1, bits - is_signed) - 1;

	x = isnan(x) ? 0 : rintl(x);
	return x < lo ? lo : x > hi ? hi : x;
}

/* What x has to become in type t. */
static long double
reference(enum gpusim_dtype t, long double x)
{
	switch (t) {
	case GPUSIM_F64:
		return round_to(x, 52, -1022, 1023);
	case GPUSIM_F32:
		return round_to(x, 23, -126, 127);
	case GPUSIM_F16:
		return round_to(x, 10, -14, 15);
	case GPUSIM_BF16:
		return round_to(x, 7, -126, 127);
	case GPUSIM_F8E4M3:
		return saturated(round_to(x, 3, -6, 8), 448);
	case GPUSIM_F8E5M2:
		return saturated(round_to(x, 2, -14, 15), 57344);
	default:
		return whole(x, (int)dtype_size(t) * 8,
			     t == GPUSIM_I8 || t == GPUSIM_I32 || t == GPUSIM_I64);
	}
}

/* The edges that the type can hold (or its nearest), both signs, and then random bits. */
static void
make_source(enum gpusim_dtype t, unsigned char *p)
{
	size_t size = dtype_size(t), i;
	long double x;
	uint64_t bits;

	for (i = 0; i < NELEM; i++, p += size) {
		x = i < 2 * NEDGES ? (i % 2 ? -edges[i / 2] : edges[i / 2]) : 0;
		bits = kt_rnd();
		if (i >= 2 * NEDGES) {
			memcpy(p, &bits, size);
		} else if (t == GPUSIM_F64) {
			*(double *)p = (double)x;
		} else if (t == GPUSIM_F32) {
			*(float *)p = (float)x;
		} else if (dtype_is_half(t)) {
			memcpy(p, &bits, size);
		} else {
			x = reference(t, x);
			bits = x < 0 ? 0 - (uint64_t)-x : (uint64_t)x;
			memcpy(p, &bits, size); /* the low bytes: little-endian */
		}
	}
}

static bool
same(long double got, long double want)
{
	return (isnan(got) && isnan(want)) || (got == want && !signbit(got) == !signbit(want));
}

static bool
pair(enum gpusim_dtype from, enum gpusim_dtype to, uint64_t src, uint64_t dst)
{
	unsigned char *s = kt_at(src), *d = kt_at(dst);
	long double x, got, want;
	size_t i;

	make_source(from, s);
	if (kt_run("cast", ARGS(U("src", src), U("dst", dst), U("n", NELEM), U("from", from),
				U("to", to))) != RC_OK) {
		printf("# %s\n", kt_err.text);
		return false;
	}
	for (i = 0; i < NELEM; i++) {
		x = load(from, s + i * dtype_size(from));
		got = load(to, d + i * dtype_size(to));
		want = from == to ? x : reference(to, x);
		if (!dtype_is_float(to))
			want += 0; /* an integer has no -0 */
		if (!same(got, want) && !(got == 0 && want == 0 && !dtype_is_float(to))) {
			printf("# %s -> %s [%zu]: %.20Lg became %.20Lg, not %.20Lg\n",
			       dtype_name(from), dtype_name(to), i, x, got, want);
			return false;
		}
	}
	return true;
}

/* Bytes to f32 have a way of their own: one rounding of the product in double, whatever the scale.
 */
static bool
bytes(uint64_t src, uint64_t dst)
{
	static const double scales[] = {
	    1,	   1.0 / 255, 1.0 / 256, 0.1, 1.0 / 3,	   -1.0 / 7,	 1e-40,
	    1e-46, 3e38,      1e300,	 0.0, 1 + 0x1p-30, 0x1.000001p0, (double)INFINITY};
	size_t s, i, at;
	bool good = true;

	for (s = 0; s < sizeof scales / sizeof *scales + 200; s++) {
		double scale = s < sizeof scales / sizeof *scales ? scales[s] : kt_real();

		for (i = 0; i < NELEM; i++)
			((uint8_t *)kt_at(src))[i] = (uint8_t)(i * 5 + s);
		at = s % 3;
		good = kt_run("cast", ARGS(U("src", src + at), U("dst", dst), U("n", NELEM - 2),
					   U("from", GPUSIM_U8), U("to", GPUSIM_F32),
					   R("scale", scale))) == RC_OK &&
		       good;
		for (i = 0; good && i < NELEM - 2; i++) {
			uint8_t b = ((uint8_t *)kt_at(src))[at + i];
			float want = (float)((double)b * scale), got = ((float *)kt_at(dst))[i];

			good = same(got, want);
			if (!good)
				printf("# %u * %.17g became %.9g, not %.9g\n", b, scale,
				       (double)got, (double)want);
		}
	}
	return good;
}

int
main(void)
{
	uint64_t src, dst;
	unsigned from, to;
	bool good;
	size_t i;
	int k;

	kt_open();
	src = kt_alloc(NELEM * 8);
	dst = kt_alloc(NELEM * 8);
	for (from = 0; from < GPUSIM_NDTYPES; from++) {
		good = true;
		for (to = 0; to < GPUSIM_NDTYPES; to++)
			good = pair(from, to, src, dst) && good;
		ok(good, "cast: %s to every type rounds once, saturates, exactly",
		   dtype_name(from));
	}

	for (i = 0; i < 256; i++)
		((uint8_t *)kt_at(src))[i] = (uint8_t)i;
	good = kt_run("cast", ARGS(U("src", src), U("dst", dst), U("n", 256), U("from", GPUSIM_U8),
				   U("to", GPUSIM_F32), R("scale", 1.0 / 255))) == RC_OK;
	for (i = 0; i < 256; i++)
		good = good &&
		       kt_near("pixel", i, kt_get(dst, i, 4), (double)(float)(i / 255.0), 0x1p-24);
	ok(good && kt_get(dst, 255, 4) == 1 && kt_get(dst, 0, 4) == 0, "cast: pixels to [0, 1]");

	ok(bytes(src, dst), "cast: bytes times any scale to f32 round once");

	for (k = 0; k < 8; k++)
		((int64_t *)kt_at(src))[k] = k - 4;
	good = kt_run("cast", ARGS(U("src", src), U("dst", dst), U("n", 8), U("from", GPUSIM_I64),
				   U("to", GPUSIM_I8), R("scale", 0.5))) == RC_OK;
	ok(good && memcmp(kt_at(dst), "\xfe\xfe\xff\x00\x00\x00\x01\x02", 8) == 0,
	   "cast: the scale multiplies before the rounding");
	ok(kt_run("cast",
		  ARGS(U("src", src), U("dst", dst), U("n", 0), U("from", 1), U("to", 2))) == RC_OK,
	   "cast: nothing");
	ok(kt_refuses(RC_INVAL, "cast",
		      ARGS(U("src", src), U("dst", src), U("n", 4), U("from", 1), U("to", 1))),
	   "cast: refuses an overlap");
	ok(kt_sweep("cast", "src",
		    ARGS(U("src", src), U("dst", dst), U("n", 9), U("from", GPUSIM_U8),
			 U("to", GPUSIM_F32))) &&
	       kt_sweep("cast", "dst",
			ARGS(U("src", src), U("dst", dst), U("n", 9), U("from", GPUSIM_F64),
			     U("to", GPUSIM_I8))),
	   "cast: refuses bad arguments");
	kt_close();
	return tap_done();
}
