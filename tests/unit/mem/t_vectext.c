/* Vectors as lines: what is accepted, what is refused and how it is named, and round trips. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mem/dtype.h"
#include "mem/vectext.h"

#include "chance.h"
#include "tap.h"

static uint64_t seed = 0x13198a2e03707344ull;

static uint64_t
rnd(void)
{
	return xorshift_star(&seed);
}

/* Parse from an exact-size heap block, so that a read beyond it is seen. */
static enum rc
parse_exact(enum gpusim_dtype t, const char *text, size_t nbytes, struct vectext *v,
	    struct err *err)
{
	char *p = malloc(nbytes ? nbytes : 1);
	enum rc rc;

	if (nbytes)
		memcpy(p, text, nbytes);
	rc = vectext_parse(t, p, nbytes, 1, v, err);
	free(p);
	return rc;
}

/* All vectors of v as text again. */
static void
format_all(enum gpusim_dtype t, const struct vectext *v, struct buf *out)
{
	size_t i;

	for (i = 0; i < v->nvec; i++)
		vectext_format(t, (char *)v->data + i * v->nelem * dtype_size(t), v->nelem, out,
			       NULL);
}

static const struct {
	const char *what;
	enum gpusim_dtype t;
	const char *text, *want; /* want: the same in the form that vectext_format writes */
} good[] = {
    {"blanks", GPUSIM_I32, "1 2 3\n4 5 6\n", "1 2 3\n4 5 6\n"},
    {"no newline at the end", GPUSIM_I32, "1 2\n3 4", "1 2\n3 4\n"},
    {"CRLF", GPUSIM_F32, "1 2\r\n3 4\r\n", "1 2\n3 4\n"},
    {"CR at the end", GPUSIM_F32, "1 2\r\n3 4\r", "1 2\n3 4\n"},
    {"commas", GPUSIM_F32, "1,2,3\n4,5,6\n", "1 2 3\n4 5 6\n"},
    {"commas among blanks", GPUSIM_F32, "1, 2 ,3\t,\t4\n", "1 2 3 4\n"},
    {"blanks all around", GPUSIM_U8, " \t 1 \t 2 \t \n\t3 4", "1 2\n3 4\n"},
    {"one element", GPUSIM_I64, "-5", "-5\n"},
    {"floats", GPUSIM_F32, "0.1 -0 1e3 nan -inf 0x1p-2", "0.1 -0 1000 nan -inf 0.25\n"},
    {"one blank line", GPUSIM_F32, "\n", "\n"},
    {"three blank lines", GPUSIM_F32, "\n  \n\r\n", "\n\n\n"},
    {"blanks without a newline", GPUSIM_F32, "  ", "\n"},
};

static const struct {
	enum gpusim_dtype t;
	const char *text, *want;
} bad[] = {
    {GPUSIM_F32, "", "no vectors on standard input"},
    {GPUSIM_F32, "1 2 3 4\n5 6 7\n", "line 2 has 3 elements, line 1 has 4"},
    {GPUSIM_F32, "1\n2\n3 4 5\n", "line 3 has 3 elements, line 1 has 1"},
    {GPUSIM_F32, "1 2\n3\n", "line 2 has 1 element, line 1 has 2"},
    {GPUSIM_F32, "1 2\n3 4\n5", "line 3 has 1 element, line 1 has 2"},
    {GPUSIM_F32, "1 2\n\n", "line 2 has 0 elements, line 1 has 2"},
    {GPUSIM_F32, "\n1 2\n", "line 2 has 2 elements, line 1 has 0"},
    {GPUSIM_F32, "1 2 3\n4 5 x7\n", "line 2, element 3: 'x7' is not a number of type f32"},
    {GPUSIM_I32, "1 2.5\n", "line 1, element 2: '2.5' is not a number of type i32"},
    {GPUSIM_U8, "1\n300\n", "line 2, element 1: '300' is out of range for u8 (0 to 255)"},
    {GPUSIM_U64, "-1",
     "line 1, element 1: '-1' is out of range for u64 (0 to 18446744073709551615)"},
    {GPUSIM_F16, "1 70000", "line 1, element 2: '70000' is out of range for f16 (at most 65504)"},
    {GPUSIM_F32, "1,,2", "line 1, element 2: '' is not a number of type f32"},
    {GPUSIM_F32, ",1", "line 1, element 1: '' is not a number of type f32"},
    {GPUSIM_F32, "1 2,\n", "line 1, element 3: '' is not a number of type f32"},
    {GPUSIM_F32, ",", "line 1, element 1: '' is not a number of type f32"},
    {GPUSIM_F32, "1\r2\n", "line 1, element 1: '1?2' is not a number of type f32"},
    {GPUSIM_F32, "\x1b[2J\n", "line 1, element 1: '?[2J' is not a number of type f32"},
    {GPUSIM_F32, "abcdefghijabcdefghijabcdefghijabcdefghijklm",
     "line 1, element 1: 'abcdefghijabcdefghijabcdefghijabcdefghij...' is not a number of type "
     "f32"},
};

static void
test_lines(void)
{
	struct vectext v = {0};
	struct err err = {0};
	struct buf b = {0};
	size_t i;

	for (i = 0; i < sizeof good / sizeof good[0]; i++) {
		b.len = 0;
		if (parse_exact(good[i].t, good[i].text, strlen(good[i].text), &v, &err) == RC_OK)
			format_all(good[i].t, &v, &b);
		if (!ok(b.len == strlen(good[i].want) && memcmp(b.data, good[i].want, b.len) == 0,
			"%s", good[i].what))
			printf("# %.*s %s\n", (int)b.len, b.data, err.text);
		vectext_fini(&v);
	}
	for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		err = (struct err){0};
		ok(parse_exact(bad[i].t, bad[i].text, strlen(bad[i].text), &v, &err) ==
			   RC_BADDATA &&
		       !v.data && strcmp(err.text, bad[i].want) == 0,
		   "%s", bad[i].want);
		if (strcmp(err.text, bad[i].want) != 0)
			printf("# %s\n", err.text);
		vectext_fini(&v);
	}
	ok(parse_exact(GPUSIM_F32, "1\0002\n", 4, &v, &err) == RC_BADDATA, "a NUL: %s", err.text);
	ok(parse_exact((enum gpusim_dtype)77, "1", 1, &v, &err) == RC_INVAL &&
	       vectext_format((enum gpusim_dtype)77, "1", 1, &b, &err) == RC_INVAL,
	   "a number that is no type: %s", err.text);
	buf_fini(&b);
}

/* Random bit patterns of every type: text and back, and the same text again. */
static void
test_round_trip(enum gpusim_dtype t)
{
	const size_t size = dtype_size(t), nvec = 7, nelem = 1001;
	char *data = malloc(nvec * nelem * size + 1), *at = data + 1; /* at no alignment */
	struct buf once = {0}, twice = {0};
	struct vectext v = {0};
	struct err err = {0};
	uint64_t x;
	size_t i;
	bool same;

	for (i = 0; i < nvec * nelem; i++) {
		x = rnd();
		memcpy(at + i * size, &x, size);
	}
	for (i = 0; i < nvec; i++)
		vectext_format(t, at + i * nelem * size, nelem, &once, NULL);
	same = parse_exact(t, once.data, once.len, &v, &err) == RC_OK && v.nvec == nvec &&
	       v.nelem == nelem;
	if (same) {
		format_all(t, &v, &twice);
		same = once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0;
	}
	/* Other NaN than the one that "nan" is come back as that one. */
	for (i = 0; same && i < nvec * nelem; i++) {
		twice.len = 0;
		vectext_format(t, at + i * size, 1, &twice, NULL);
		if (twice.len == 4 && memcmp(twice.data, "nan\n", 4) == 0)
			continue;
		same = memcmp(at + i * size, (char *)v.data + i * size, size) == 0;
	}
	ok(same, "%s: %zu random elements come back%s", dtype_name(t), nvec * nelem, err.text);
	vectext_fini(&v);
	buf_fini(&once);
	buf_fini(&twice);
	free(data);
}

/* Shapes that would cost quadratic time or memory if lines were counted carelessly. */
static void
test_shapes(void)
{
	const size_t n = 1000000;
	char *text = malloc(2 * n + 4);
	struct vectext v = {0};
	struct err err = {0};
	size_t i, sum = 0;

	ok(parse_exact(GPUSIM_I32,
		       "\xef\xbb\xbf"
		       "1\n",
		       5, &v, &err) == RC_BADDATA &&
	       strstr(err.text, "begins as a byte order mark"),
	   "a byte order mark: %s", err.text);
	ok(parse_exact(GPUSIM_I32, "1\0\n", 4, &v, &err) == RC_BADDATA &&
	       strstr(err.text, "begins as UTF-16"),
	   "UTF-16 without a mark: %s", err.text);
	for (i = 0; i < n; i++)
		memcpy(text + 2 * i, "7 ", 2);
	ok(vectext_parse(GPUSIM_I32, text, 2 * n, 1, &v, &err) == RC_OK && v.nvec == 1 &&
	       v.nelem == n,
	   "a line of a million elements");
	for (i = 0; v.data && i < n; i++)
		sum += (size_t)((int32_t *)v.data)[i];
	ok(sum == 7 * n, "all of them right");
	vectext_fini(&v);
	for (i = 0; i < n; i++)
		text[2 * i + 1] = '\n';
	ok(vectext_parse(GPUSIM_I32, text, 2 * n, 1, &v, &err) == RC_OK && v.nvec == n &&
	       v.nelem == 1,
	   "a million lines of one element");
	vectext_fini(&v);
	for (i = 0; i < n / 2; i++)
		text[2 * i + 1] = ' ';
	memset(text + n, '\n', n);
	ok(vectext_parse(GPUSIM_F64, text, 2 * n, 1, &v, &err) == RC_BADDATA,
	   "half a million elements, then a million blank lines: %s", err.text);
	memset(text, ',', 2 * n);
	ok(vectext_parse(GPUSIM_F64, text, 2 * n, 1, &v, &err) == RC_BADDATA, "commas alone: %s",
	   err.text);
	for (i = 0; i < 1000; i++)
		memcpy(text + 2 * i, i % 2 ? "1\n" : "1,", 2);
	ok(vectext_parse(GPUSIM_U8, text, 2000, 1, &v, &err) == RC_OK && v.nvec == 500 &&
	       v.nelem == 2,
	   "500 lines of two, as tight as text can be");
	vectext_fini(&v);
	free(text);
}

/* Random bytes from the alphabet of numbers: never a crash, and what is accepted stays the same. */
static void
test_garbage(void)
{
	static const char alphabet[] = "0123456789 ,\n-.einfax\r\t+\n 1";
	struct buf once = {0}, twice = {0};
	struct vectext v = {0}, w = {0};
	unsigned i, accepted = 0, wrong = 0;
	char text[24];
	size_t n, k;
	int t;

	for (i = 0; i < 50000; i++) {
		n = rnd() % sizeof text;
		for (k = 0; k < n; k++)
			text[k] = alphabet[(rnd() >> 40) % (sizeof alphabet - 1)];
		t = (int)((rnd() >> 40) % GPUSIM_NDTYPES);
		if (parse_exact((enum gpusim_dtype)t, text, n, &v, NULL))
			continue;
		accepted++;
		once.len = twice.len = 0;
		format_all((enum gpusim_dtype)t, &v, &once);
		if (parse_exact((enum gpusim_dtype)t, once.data, once.len, &w, NULL) == RC_OK)
			format_all((enum gpusim_dtype)t, &w, &twice);
		wrong += once.len != twice.len || memcmp(once.data, twice.data, once.len) != 0;
		vectext_fini(&v);
		vectext_fini(&w);
	}
	ok(wrong == 0 && accepted > 500, "random lines: %u of %u accepted, and stable", accepted,
	   i);
	buf_fini(&once);
	buf_fini(&twice);
}

static void
test_format(void)
{
	static const float f[] = {1, -2.5f, 0};
	struct buf b = {0};

	buf_add(&b, "x", 1);
	ok(vectext_format(GPUSIM_F32, f, 3, &b, NULL) == RC_OK &&
	       vectext_format(GPUSIM_F32, f, 0, &b, NULL) == RC_OK && b.len == 11 &&
	       memcmp(b.data, "x1 -2.5 0\n\n", 11) == 0,
	   "lines are appended; no elements make an empty one");
	buf_fini(&b);
}

int
main(void)
{
	int t;

	test_lines();
	test_format();
	for (t = 0; t < GPUSIM_NDTYPES; t++)
		test_round_trip((enum gpusim_dtype)t);
	test_shapes();
	test_garbage();
	return tap_done();
}
