/* Values of JSON. */
#include <inttypes.h>
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

/* A document of several pieces. */
static void
test_put(void)
{
	char *text = NULL;
	size_t n;
	struct json j = {open_memstream(&text, &n), false};
	const char *none = getenv("no such variable");

	json_put(
	    &j,
	    "{index:%zu id:%016lx state:%s none:%s spare:%hhu bad:%g ok:%.3f null_1:null rows:[",
	    (size_t)3, 0xabcul, "a\"b", none, (bool)true, NAN, 1.25);
	for (int i = 0; i < 2; i++)
		json_put(&j, "{rank:%u v:[%d %d] all:[]}", (unsigned)i, -i, 2 * i);
	json_put(&j, "] %s:%" PRIu64 " x:%" PRId64, "a name", UINT64_MAX, INT64_MIN);
	json_put(&j, "}\n");
	json_put(&j, "[]\n");
	fclose(j.f);
	ok(strcmp(text,
		  "{\"index\":3,\"id\":\"0000000000000abc\",\"state\":\"a\\\"b\",\"none\":null,"
		  "\"spare\":true,\"bad\":null,\"ok\":1.250,\"null_1\":null,\"rows\":["
		  "{\"rank\":0,\"v\":[0,0],\"all\":[]},{\"rank\":1,\"v\":[-1,2],\"all\":[]}],"
		  "\"a name\":18446744073709551615,\"x\":-9223372036854775808}\n[]\n") == 0,
	   "a document: %s", text);
	free(text);
}

int
main(void)
{
	test_put();
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
