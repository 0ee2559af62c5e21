#include "nn/decimal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool
is_digit(char c)
{
	return (unsigned char)(c - '0') <= 9;
}

/* A number in parts: +-m * 10^e10 while m has no more than 18 digits. */
struct parts {
	bool negative;
	uint64_t m;
	int ndigits, e10;
	bool has_exponent;
};

/* Digits from s on into p, the end of them. */
static const char *
scan_digits(const char *s, const char *end, struct parts *p)
{
	for (; s < end && is_digit(*s); s++) {
		if (p->ndigits < 18)
			p->m = p->m * 10 + (uint64_t)(*s - '0');
		if (p->ndigits < 1000 && (p->m > 0 || p->ndigits > 0))
			p->ndigits++;
	}
	return s;
}

/* False: not a decimal number from the first character to the last. */
static bool
scan(const char *s, size_t len, struct parts *p)
{
	const char *end = s + len, *first, *point;
	bool any;

	*p = (struct parts){.negative = len && *s == '-'};
	s += len && (*s == '-' || *s == '+');
	first = s;
	s = scan_digits(s, end, p);
	any = s > first;
	if (s < end && *s == '.') {
		point = ++s;
		s = scan_digits(s, end, p);
		any |= s > point;
		p->e10 = s - point < 1000 ? -(int)(s - point) : -1000;
	}
	if (!any)
		return false;
	if (s < end && (*s == 'e' || *s == 'E')) {
		p->has_exponent = true;
		s++;
		s += s < end && (*s == '-' || *s == '+');
		first = s;
		while (s < end && is_digit(*s))
			s++;
		if (s == first)
			return false;
	}
	return s == end;
}

static bool
is_not_finite(const char *s, size_t len)
{
	static const char *const words[] = {"nan", "inf", "infinity"};

	if (len && (*s == '-' || *s == '+')) {
		s++;
		len--;
	}
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (len == strlen(words[i]) && strncasecmp(s, words[i], len) == 0)
			return true;
	return false;
}

/* Through strtof, of a terminated copy. */
static enum decimal
slow(const char *text, size_t len, locale_t c, float *out)
{
	char small[128], *copy = len < sizeof small ? small : malloc(len + 1);
	float f;

	if (!copy)
		return DECIMAL_NOMEM;
	memcpy(copy, text, len);
	copy[len] = '\0';
	f = strtof_l(copy, NULL, c);
	if (copy != small)
		free(copy);
	if (isinf(f))
		return DECIMAL_RANGE;
	*out = f;
	return DECIMAL_OK;
}

enum decimal
decimal_f32(const char *text, size_t len, locale_t c, float *out)
{
	static const float p10[] = {1e0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f,
				    1e6f, 1e7f, 1e8f, 1e9f, 1e10f};
	struct parts p;
	float f;

	if (!scan(text, len, &p))
		return is_not_finite(text, len) ? DECIMAL_NOT_FINITE : DECIMAL_SYNTAX;
	/* m and the power are exact, so the one division rounds once. (Clinger, PLDI 1990) */
	if (p.has_exponent || p.ndigits > 18 || p.m > 1u << 24 || p.e10 < -10)
		return slow(text, len, c, out);
	f = (float)p.m / p10[-p.e10];
	*out = p.negative ? -f : f;
	return DECIMAL_OK;
}

bool
decimal_whole(const char *text, size_t len, int64_t *out)
{
	const char *point = memchr(text, '.', len);
	size_t whole = point ? (size_t)(point - text) : len;
	struct parts p;

	if (whole == 0 || !scan(text, whole, &p) || p.has_exponent || p.ndigits > 18)
		return false;
	for (size_t i = whole + 1; i < len; i++)
		if (text[i] != '0')
			return false;
	*out = p.negative ? -(int64_t)p.m : (int64_t)p.m;
	return true;
}
