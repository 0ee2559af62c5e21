#include "nn/decimal.h"

#include <math.h>
#include <string.h>

#include "base/must.h"
#include "mem/num.h"

enum decimal
decimal_f32(const char *text, size_t len, float *out)
{
	float f;

	/* strtod also accepts hexadecimal and "nan(...)". */
	for (size_t i = 0; i < len; i++)
		if (text[i] == 'x' || text[i] == 'X' || text[i] == '(')
			return DECIMAL_SYNTAX;
	switch (num_parse(GPUSIM_F32, text, len, &f)) {
	case NUM_OK:
		if (!isfinite(f))
			return DECIMAL_NOT_FINITE;
		*out = f;
		return DECIMAL_OK;
	case NUM_RANGE:
		return DECIMAL_RANGE;
	case NUM_NOMEM:
		must_fail();
	case NUM_SYNTAX:
		break;
	}
	return DECIMAL_SYNTAX;
}

bool
decimal_whole(const char *text, size_t len, int64_t *out)
{
	const char *point = memchr(text, '.', len);
	size_t whole = point ? (size_t)(point - text) : len;
	int64_t v;

	for (size_t i = whole + 1; i < len; i++)
		if (text[i] != '0')
			return false;
	if (num_parse(GPUSIM_I64, text, whole, &v) != NUM_OK || v >= DECIMAL_WHOLE_MAX ||
	    v <= -DECIMAL_WHOLE_MAX)
		return false;
	*out = v;
	return true;
}
