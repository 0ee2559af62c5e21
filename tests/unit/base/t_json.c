/* Values of JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

#include "tap.h"

static void
is(const char *want, const char *s, double v)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	if (s)
		json_string(s, f);
	else
		json_real(v, f);
	fclose(f);
	ok(strcmp(text, want) == 0, "%s: %s", want, text);
	free(text);
}

int
main(void)
{
	is("\"\"", "", 0);
	is("\"a b\"", "a b", 0);
	is("\"\\\"\\\\\\u000a\\u007f\"", "\"\\\n\x7f", 0);
	is("\"Gr\u00fc\u00dfe \u4e2d \U0001f600\"", "Gr\u00fc\u00dfe \u4e2d \U0001f600", 0);
	/* Truncated, too long a form, a surrogate, beyond the last, a byte that follows none. */
	is("\"\\u00c3\"", "\xc3", 0);
	is("\"\\u00e4\\u00b8a\"",
	   "\xe4\xb8"
	   "a",
	   0);
	is("\"\\u00c0\\u00af\"", "\xc0\xaf", 0);
	is("\"\\u00ed\\u00a0\\u0080\"", "\xed\xa0\x80", 0);
	is("\"\\u00f4\\u0090\\u0080\\u0080\"", "\xf4\x90\x80\x80", 0);
	is("\"\\u00ff\\u0080\"", "\xff\x80", 0);
	is("0.5", NULL, 0.5);
	is("1.67004511e+30", NULL, 1.670045105e30);
	is("null", NULL, NAN);
	is("null", NULL, -NAN);
	is("null", NULL, INFINITY);
	is("null", NULL, -INFINITY);
	return tap_done();
}
