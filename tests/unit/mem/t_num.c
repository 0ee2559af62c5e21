/* One element as text: rounding against exact arithmetic, shortest forms, limits, spellings. */
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mem/dtype.h"
#include "mem/num.h"

#include "chance.h"
#include "tap.h"

static uint64_t seed = 0x243f6a8885a308d3ull;

static uint64_t
rnd(void)
{
	return xorshift_star(&seed);
}

static double
value_of(enum gpusim_dtype t, uint64_t bits)
{
	uint32_t u = (uint32_t)bits;
	double d;
	float f;

	switch (t) {
	case GPUSIM_F16:
		return f16_to_f32((uint16_t)bits);
	case GPUSIM_BF16:
		return bf16_to_f32((uint16_t)bits);
	case GPUSIM_F8E4M3:
		return f8e4m3_to_f32((uint8_t)bits);
	case GPUSIM_F8E5M2:
		return f8e5m2_to_f32((uint8_t)bits);
	case GPUSIM_F32:
		memcpy(&f, &u, sizeof f);
		return f;
	default:
		memcpy(&d, &bits, sizeof d);
		return d;
	}
}

/* num_parse of a terminated text into the bits of the element. */
static enum num_status
parse(enum gpusim_dtype t, const char *text, uint64_t *bits)
{
	uint64_t b = 0;
	enum num_status st = num_parse(t, text, strlen(text), &b);

	if (st == NUM_OK)
		*bits = b;
	return st;
}

/* Significant digits of a decimal. */
static int
count_digits(const char *s)
{
	int n = 0, zeros = 0;

	for (; *s && *s != 'e'; s++) {
		if (*s < '0' || *s > '9' || (*s == '0' && n == 0))
			continue;
		zeros = *s == '0' ? zeros + 1 : 0;
		n++;
	}
	return n - zeros;
}

/* The fewest digits of which some decimal reads back: the nearest, or one of its neighbours. */
static int
fewest_digits(enum gpusim_dtype t, uint64_t bits)
{
	double x = value_of(t, bits);
	char text[64];
	uint64_t got;
	int n, i, e;
	long long m;

	for (n = 1; n < 17; n++) {
		snprintf(text, sizeof text, "%.*e", n - 1, x);
		e = atoi(strchr(text, 'e') + 1) - (n - 1);
		*strchr(text, 'e') = '\0';
		if (strchr(text, '.'))
			memmove(strchr(text, '.'), strchr(text, '.') + 1,
				strlen(strchr(text, '.')));
		m = atoll(text);
		for (i = -1; i <= 1; i++) {
			snprintf(text, sizeof text, "%llde%d", m + i, e);
			if (parse(t, text, &got) == NUM_OK && got == bits)
				return n;
		}
	}
	return 17;
}

/* Formats, reads back, and is no longer than need be. */
static bool
good_format(enum gpusim_dtype t, uint64_t bits, char *text)
{
	const uint64_t sign = (uint64_t)1 << (8 * dtype_size(t) - 1);
	char small[NUM_MAX_CHARS + 1];
	uint64_t got = 0;
	size_t n;
	double x;

	memset(small, 'x', sizeof small);
	n = num_format(t, &bits, small);
	if (n == 0 || n > NUM_MAX_CHARS || small[NUM_MAX_CHARS] != 'x')
		return false;
	memcpy(text, small, n);
	text[n] = '\0';
	if (parse(t, text, &got) != NUM_OK)
		return false;
	if (!dtype_is_float(t))
		return got == bits;
	x = value_of(t, bits);
	if (isnan(x))
		return strcmp(text, "nan") == 0;
	if (got != bits)
		return false;
	if (isinf(x) || (fabs(x) < 1e15 && x == floor(x)))
		return strspn(text, "-0123456789inf") == n;
	return count_digits(text) == fewest_digits(t, bits & ~sign);
}

/* All patterns of 16 bits and less; else random ones, powers of two and their neighbours. */
static void
test_round_trip(enum gpusim_dtype t)
{
	const size_t size = dtype_size(t);
	const uint64_t mask = size == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * size) - 1;
	const uint64_t exp1 = t == GPUSIM_F64 ? (uint64_t)1 << 52 : 1 << 23;
	const uint64_t n = size <= 2 ? mask + 1 : 10000;
	unsigned bad = 0;
	char text[64], first[64] = "";
	uint64_t i, bits;

	for (i = 0; i < n; i++) {
		bits = size <= 2 ? i : rnd() & mask;
		if (size > 2 && i % 8 == 1)
			bits = (rnd() % 2047 * exp1 + rnd() % 3 - 1) & mask;
		if (size > 2 && i % 8 == 2) /* integers small enough to type */
			bits = (rnd() % 2001 - 1000) & mask;
		if (!good_format(t, bits, text) && bad++ == 0)
			snprintf(first, sizeof first, "%016llx: %s", (unsigned long long)bits,
				 text);
	}
	ok(bad == 0, "%s: %llu patterns read back from their shortest text", dtype_name(t),
	   (unsigned long long)n);
	if (bad)
		printf("# %u wrong, first %s\n", bad, first);
}

/* Decimals people type, with few digits: f32 against strtof and f64 against strtod. */
static void
test_against_strtod(void)
{
	unsigned i, bad = 0;
	char text[64], first[64] = "";
	uint64_t got32, got64;
	double d;
	float f;

	for (i = 0; i < 100000; i++) {
		snprintf(text, sizeof text, "%s%llu.%0*llue%d", i % 2 ? "-" : "",
			 (unsigned long long)(rnd() >> (rnd() % 64)), (int)(rnd() % 4),
			 (unsigned long long)(rnd() >> (1 + rnd() % 63)), (int)(rnd() % 60) - 45);
		f = strtof(text, NULL);
		d = strtod(text, NULL);
		if (isinf(f))
			continue;
		if (parse(GPUSIM_F32, text, &got32) || parse(GPUSIM_F64, text, &got64) ||
		    memcmp(&got32, &f, 4) != 0 || memcmp(&got64, &d, 8) != 0)
			if (bad++ == 0)
				memcpy(first, text, sizeof first);
	}
	ok(bad == 0, "f32 and f64 are read as strtof and strtod do");
	if (bad)
		printf("# %u wrong, first %s\n", bad, first);
}

/*
 * The exact midpoint of two neighbours, in all its digits, and the same with a digit beyond: to
 * even, and up. Rounding twice gets the second wrong.
 */
static void
test_midpoints(enum gpusim_dtype t, uint64_t step)
{
	const uint64_t max = t == GPUSIM_F16	  ? 0x7bff
			     : t == GPUSIM_BF16	  ? 0x7f7f
			     : t == GPUSIM_F8E4M3 ? 0x7e
			     : t == GPUSIM_F8E5M2 ? 0x7b
						  : 0x7f7fffff;
	char text[256], first[256] = "";
	uint64_t b, got = 0;
	unsigned bad = 0;
	double mid;

	for (b = 0; b < max; b += step) {
		mid = (value_of(t, b) + value_of(t, b + 1)) / 2;
		snprintf(text, sizeof text, "%.180g", mid);
		if ((parse(t, text, &got) || got != b + (b & 1)) && bad++ == 0)
			memcpy(first, text, sizeof first);
		snprintf(text, sizeof text, "%.170e", mid);
		*(strchr(text, 'e') - 1) = '1'; /* the last of the zeros behind all its digits */
		if ((parse(t, text, &got) || got != b + 1) && bad++ == 0)
			memcpy(first, text, sizeof first);
	}
	ok(bad == 0, "%s: midpoints go to even, and up from just above", dtype_name(t));
	if (bad)
		printf("# %u wrong, first %s\n", bad, first);
}

static const struct {
	enum gpusim_dtype t;
	const char *text;
	enum num_status st;
	const char *back; /* what it formats to */
} cases[] = {
    {GPUSIM_I8, "127", NUM_OK, "127"},
    {GPUSIM_I8, "-128", NUM_OK, "-128"},
    {GPUSIM_I8, "128", NUM_RANGE, 0},
    {GPUSIM_I8, "-129", NUM_RANGE, 0},
    {GPUSIM_U8, "255", NUM_OK, "255"},
    {GPUSIM_U8, "256", NUM_RANGE, 0},
    {GPUSIM_U8, "-1", NUM_RANGE, 0},
    {GPUSIM_U8, "-0", NUM_OK, "0"},
    {GPUSIM_U8, "+007", NUM_OK, "7"},
    {GPUSIM_I32, "2147483648", NUM_RANGE, 0},
    {GPUSIM_I32, "-2147483648", NUM_OK, "-2147483648"},
    {GPUSIM_U32, "4294967295", NUM_OK, "4294967295"},
    {GPUSIM_U32, "4294967296", NUM_RANGE, 0},
    {GPUSIM_I64, "-9223372036854775808", NUM_OK, "-9223372036854775808"},
    {GPUSIM_I64, "9223372036854775808", NUM_RANGE, 0},
    {GPUSIM_U64, "18446744073709551615", NUM_OK, "18446744073709551615"},
    {GPUSIM_U64, "18446744073709551616", NUM_RANGE, 0},
    {GPUSIM_U64, "99999999999999999999999999x", NUM_SYNTAX, 0},
    {GPUSIM_U64, "000000000000000000000000000000012", NUM_OK, "12"},
    {GPUSIM_I32, "", NUM_SYNTAX, 0},
    {GPUSIM_I32, "-", NUM_SYNTAX, 0},
    {GPUSIM_I32, "+-1", NUM_SYNTAX, 0},
    {GPUSIM_I32, "1.0", NUM_SYNTAX, 0},
    {GPUSIM_I32, " 1", NUM_SYNTAX, 0},
    {GPUSIM_I32, "nan", NUM_SYNTAX, 0},
    {GPUSIM_F32, "", NUM_SYNTAX, 0},
    {GPUSIM_F32, ".", NUM_SYNTAX, 0},
    {GPUSIM_F32, "-", NUM_SYNTAX, 0},
    {GPUSIM_F32, "x7", NUM_SYNTAX, 0},
    {GPUSIM_F32, "7x", NUM_SYNTAX, 0},
    {GPUSIM_F32, "1e", NUM_SYNTAX, 0},
    {GPUSIM_F32, "1e+", NUM_SYNTAX, 0},
    {GPUSIM_F32, "0x", NUM_SYNTAX, 0},
    {GPUSIM_F32, " 1", NUM_SYNTAX, 0},
    {GPUSIM_F32, "\v1", NUM_SYNTAX, 0},
    {GPUSIM_F32, "1 ", NUM_SYNTAX, 0},
    {GPUSIM_F32, "1,5", NUM_SYNTAX, 0},
    {GPUSIM_F32, "infx", NUM_SYNTAX, 0},
    {GPUSIM_F32, "12", NUM_OK, "12"},
    {GPUSIM_F32, "-0", NUM_OK, "-0"},
    {GPUSIM_F32, "-0.0e5", NUM_OK, "-0"},
    {GPUSIM_F32, "1.", NUM_OK, "1"},
    {GPUSIM_F32, "+.5", NUM_OK, "0.5"},
    {GPUSIM_F32, "0.1", NUM_OK, "0.1"},
    {GPUSIM_F32, "0x1.8p1", NUM_OK, "3"},
    {GPUSIM_F32, "0X10", NUM_OK, "16"},
    {GPUSIM_F32, "NaN", NUM_OK, "nan"},
    {GPUSIM_F32, "-nan(7)", NUM_OK, "nan"},
    {GPUSIM_F32, "Infinity", NUM_OK, "inf"},
    {GPUSIM_F32, "-INF", NUM_OK, "-inf"},
    {GPUSIM_F32, "1e39", NUM_RANGE, 0},
    {GPUSIM_F32, "-1e999999999999", NUM_RANGE, 0},
    {GPUSIM_F32, "0x1p128", NUM_RANGE, 0},
    {GPUSIM_F32, "3.4028235e38", NUM_OK, "3.4028235e38"},
    {GPUSIM_F32, "1e-999999999999", NUM_OK, "0"},
    {GPUSIM_F32, "-1e-60", NUM_OK, "-0"},
    {GPUSIM_F32, "1e-45", NUM_OK, "1e-45"},
    {GPUSIM_F32, "16777217", NUM_OK, "16777216"},
    {GPUSIM_F32, "1e14", NUM_OK, "100000000376832"},
    {GPUSIM_F32, "1e20", NUM_OK, "1e20"},
    {GPUSIM_F32, "0.00001234", NUM_OK, "0.00001234"},
    {GPUSIM_F32, "1.5e-7", NUM_OK, "1.5e-7"},
    {GPUSIM_F64, "0.1", NUM_OK, "0.1"},
    {GPUSIM_F64, "0.30000000000000004", NUM_OK, "0.30000000000000004"},
    {GPUSIM_F64, "5e-324", NUM_OK, "5e-324"},
    {GPUSIM_F64, "2e-324", NUM_OK, "0"},
    {GPUSIM_F64, "5.6843418860808015e-14", NUM_OK, "5.684341886080802e-14"},
    {GPUSIM_F64, "9007199254740993", NUM_OK, "9.007199254740992e15"},
    {GPUSIM_F64, "999999999999999", NUM_OK, "999999999999999"},
    {GPUSIM_F64, "1000000000000000", NUM_OK, "1e15"},
    {GPUSIM_F64, "1e309", NUM_RANGE, 0},
    {GPUSIM_F64, "1.7976931348623157e308", NUM_OK, "1.7976931348623157e308"},
    {GPUSIM_F16, "65504", NUM_OK, "65504"},
    {GPUSIM_F16, "65519.99", NUM_OK, "65504"},
    {GPUSIM_F16, "65520", NUM_RANGE, 0},
    {GPUSIM_F16, "inf", NUM_OK, "inf"},
    {GPUSIM_F16, "0.1", NUM_OK, "0.1"},
    {GPUSIM_F16, "1.00048828125", NUM_OK, "1"},
    {GPUSIM_F16, "1.00048828125001", NUM_OK, "1.001"},
    {GPUSIM_F16, "2.9802322387695312e-8", NUM_OK, "0"},
    {GPUSIM_F16, "2.9802322387695313e-8", NUM_OK, "6e-8"},
    {GPUSIM_F8E4M3, "448", NUM_OK, "448"},
    {GPUSIM_F8E4M3, "464", NUM_OK, "448"},
    {GPUSIM_F8E4M3, "464.00001", NUM_RANGE, 0},
    {GPUSIM_F8E4M3, "-inf", NUM_RANGE, 0},
    {GPUSIM_F8E4M3, "1e999", NUM_RANGE, 0},
    {GPUSIM_F8E4M3, "nan", NUM_OK, "nan"},
    {GPUSIM_F8E4M3, "0.1", NUM_OK, "0.1"},
    {GPUSIM_F8E4M3, "0.002", NUM_OK, "0.002"},
    {GPUSIM_F8E5M2, "57344", NUM_OK, "57344"},
    {GPUSIM_F8E5M2, "61439.99", NUM_OK, "57344"},
    {GPUSIM_F8E5M2, "61440", NUM_RANGE, 0},
    {GPUSIM_F8E5M2, "-inf", NUM_OK, "-inf"},
    {GPUSIM_F8E5M2, "1e999", NUM_RANGE, 0},
    {GPUSIM_F8E5M2, "nan", NUM_OK, "nan"},
    {GPUSIM_F8E5M2, "0.00002", NUM_OK, "0.00002"},
    {GPUSIM_BF16, "3.39e38", NUM_OK, "3.39e38"},
    {GPUSIM_BF16, "3.4e38", NUM_RANGE, 0},
    {GPUSIM_BF16, "0.1", NUM_OK, "0.1"},
};

static void
test_cases(void)
{
	char text[NUM_MAX_CHARS + 1], wrong[160] = "";
	uint64_t bits, before;
	enum num_status st;
	size_t i;

	for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		before = bits = rnd();
		st = num_parse(cases[i].t, cases[i].text, strlen(cases[i].text), &bits);
		text[0] = '\0';
		if (st == NUM_OK)
			text[num_format(cases[i].t, &bits, text)] = '\0';
		if (st != cases[i].st || (st ? bits != before : strcmp(text, cases[i].back) != 0))
			snprintf(wrong, sizeof wrong, "%s '%.40s': status %d, %s",
				 dtype_name(cases[i].t), cases[i].text, (int)st, text);
	}
	ok(!wrong[0], "%zu spellings mean what they should", i);
	if (wrong[0])
		printf("# %s\n", wrong);
}

static void
test_odd_texts(void)
{
	static char big[100001];
	uint64_t bits = 0;
	double d;

	memset(big, '1', sizeof big - 1);
	ok(parse(GPUSIM_F64, big, &bits) == NUM_RANGE && parse(GPUSIM_U64, big, &bits) == NUM_RANGE,
	   "100000 digits are out of range");
	memset(big, '0', sizeof big - 2);
	big[1] = '.';
	big[sizeof big - 2] = '7';
	ok(parse(GPUSIM_F64, big, &bits) == NUM_OK && bits == 0, "0.000...7 is 0");
	d = 1.5;
	ok(num_parse(GPUSIM_F64, "1.5\0x", 4, &bits) == NUM_SYNTAX && bits == 0,
	   "a NUL is no digit");
	ok(num_parse(GPUSIM_F64, "1.5999", 3, &bits) == NUM_OK && memcmp(&bits, &d, 8) == 0 &&
	       num_parse(GPUSIM_F64, "0x1.8999", 5, &bits) == NUM_OK && memcmp(&bits, &d, 8) == 0,
	   "no byte beyond the length is read");
	ok(num_parse((enum gpusim_dtype)99, "1", 1, &bits) == NUM_SYNTAX &&
	       num_format((enum gpusim_dtype)99, &bits, big) == 0,
	   "a number that is no type");
}

/* A locale with a decimal comma, where the machine has one. */
static void
test_locale(void)
{
	static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR"};
	const char *name = NULL;
	char text[NUM_MAX_CHARS + 1];
	uint64_t bits = 0;
	size_t i;

	for (i = 0; i < sizeof names / sizeof names[0] && !name; i++)
		name = setlocale(LC_ALL, names[i]);
	if (!name) {
		ok(true, "a decimal comma # SKIP no such locale here");
		return;
	}
	parse(GPUSIM_F64, "0.30000000000000004", &bits);
	text[num_format(GPUSIM_F64, &bits, text)] = '\0';
	ok(strcmp(text, "0.30000000000000004") == 0, "%s: still a point: %s", name, text);
	setlocale(LC_ALL, "C");
}

int
main(void)
{
	int t;

	for (t = 0; t < GPUSIM_NDTYPES; t++)
		test_round_trip((enum gpusim_dtype)t);
	test_against_strtod();
	test_midpoints(GPUSIM_F16, 1);
	test_midpoints(GPUSIM_BF16, 1);
	test_midpoints(GPUSIM_F8E4M3, 1);
	test_midpoints(GPUSIM_F8E5M2, 1);
	test_midpoints(GPUSIM_F32, 104729);
	test_cases();
	test_odd_texts();
	test_locale();
	return tap_done();
}
