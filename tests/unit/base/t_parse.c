/* What people type, and what they are told: numbers with units, results, deadlines, buffers. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/parse.h"
#include "tap.h"

/* Let an impossible allocation return NULL under the address sanitizer, as it does elsewhere. */
const char *__asan_default_options(void);

const char *
__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define KEPT	 0x5a5a5a5a5a5a5a5au

typedef enum rc parser(const char *s, uint64_t *out, struct err *err);

struct good {
	const char *text;
	uint64_t value;
};

/* Each of n texts gives its value. */
static void
check_good(parser *parse, const struct good *g, size_t n, const char *what)
{
	struct err err = {0};
	size_t i;
	uint64_t v = KEPT;

	for (i = 0; i < n; i++)
		if (parse(g[i].text, &v, &err) != RC_OK || v != g[i].value)
			break;
	if (!ok(i == n, "%s: %zu texts give their value", what, n))
		printf("#   '%s' gave %llu %s\n", g[i].text, (unsigned long long)v, err.text);
}

/* Each of n texts is refused with a sentence that quotes it, and *out stays. */
static void
check_bad(parser *parse, const char *const *bad, size_t n, const char *what)
{
	struct err err;
	size_t i;
	uint64_t v = KEPT;

	for (i = 0; i < n; i++) {
		err = (struct err){0};
		if (parse(bad[i], &v, &err) != RC_INVAL || err.rc != RC_INVAL || v != KEPT ||
		    !strstr(err.text, bad[i]) || parse(bad[i], &v, NULL) != RC_INVAL)
			break;
	}
	if (!ok(i == n, "%s: %zu kinds of rubbish are refused and quoted", what, n))
		printf("#   '%s' gave %llu '%s'\n", bad[i], (unsigned long long)v, err.text);
}

static enum rc
whole(const char *s, uint64_t *out, struct err *err)
{
	return parse_u64(s, 0, UINT64_MAX, out, err);
}

static void
test_u64(void)
{
	static const struct good good[] = {{"0", 0},
					   {"007", 7},
					   {"42", 42},
					   {"0x10", 16},
					   {"0XfF", 255},
					   {"18446744073709551615", UINT64_MAX},
					   {"0xffffffffffffffff", UINT64_MAX}};
	static const char *const bad[] = {"",
					  " 1",
					  "1 ",
					  "-1",
					  "+1",
					  "1.0",
					  "1e3",
					  "0x",
					  "x1",
					  "1K",
					  "0x-1",
					  "0x 1",
					  "ten",
					  "1\n",
					  "--",
					  "18446744073709551616",
					  "0x10000000000000000"};
	struct err err = {0};
	uint64_t v = KEPT;

	check_good(whole, good, COUNT(good), "parse_u64");
	check_bad(whole, bad, COUNT(bad), "parse_u64");
	ok(parse_u64("5", 5, 9, &v, &err) == RC_OK && v == 5 &&
	       parse_u64("9", 5, 9, &v, &err) == RC_OK && v == 9,
	   "parse_u64: both ends of the range are in it");
	ok(parse_u64("4", 5, 9, &v, &err) == RC_INVAL && v == 9 &&
	       parse_u64("10", 5, 9, &v, &err) == RC_INVAL && v == 9 &&
	       strcmp(err.text, "10 is out of range (5 to 9)") == 0,
	   "parse_u64: out of range, in one sentence");
}

static void
test_size(void)
{
	static const struct good good[] = {{"0", 0},
					   {"4096", 4096},
					   {"1B", 1},
					   {"64K", 65536},
					   {"64kib", 65536},
					   {"3KB", 3072},
					   {"1.5G", 3ull << 29},
					   {".5m", 1u << 19},
					   {"1T", 1ull << 40},
					   {"8388607T", 8388607ull << 40},
					   {"4503599627370497", 4503599627370497u},
					   {"9007199254740993", 9007199254740993u},
					   {"9223372036854775807", INT64_MAX}};
	static const char *const bad[] = {"",
					  "K",
					  "-1",
					  "+1",
					  " 1",
					  "1 K",
					  "1KK",
					  "1X",
					  ".",
					  "nan",
					  "inf",
					  "1.2.3",
					  "1e999",
					  "8388608T",
					  "1P",
					  "1K ",
					  "9223372036854775808"};

	check_good(parse_size, good, COUNT(good), "parse_size");
	check_bad(parse_size, bad, COUNT(bad), "parse_size");
}

static void
test_duration_and_rate(void)
{
	static const struct good durations[] = {
	    {"5", 5000000000u}, {"0.25", 250000000}, {"5s", 5000000000u},   {"500ms", 500000000},
	    {"10us", 10000},	{"7ns", 7},	     {"2m", 120000000000u}, {"1h", 3600000000000u},
	    {"0.6ns", 1},	{"0ms", 0}};
	static const char *const no_duration[] = {"",	 "s",	"-5s", "5 s",  "5d",
						  "5ss", "5s5", "ms",  "1e12h"};
	static const struct good rates[] = {{"1000", 1000},	     {"9600", 9600},
					    {"56kb", 56000},	     {"100Mb", 100000000},
					    {"1Gb", 1000000000},     {"2.5gbit", 2500000000u},
					    {"1Tb", 1000000000000u}, {"3M", 3000000}};
	static const char *const no_rate[] = {"",     "0",    "0Gb",   "Gb",   "1",	"10",
					      "999b", "-1Gb", "1GB/s", "1Kib", "1e10Gb"};

	check_good(parse_duration, durations, COUNT(durations), "parse_duration");
	check_bad(parse_duration, no_duration, COUNT(no_duration), "parse_duration");
	check_good(parse_rate, rates, COUNT(rates), "parse_rate");
	check_bad(parse_rate, no_rate, COUNT(no_rate), "parse_rate");
}

static void
test_double(void)
{
	static const char *const bad[] = {"",	 " 1",	 "1 ",	  "1x", "nan",
					  "inf", "-inf", "1e999", ".",	"-"};
	struct err err = {0};
	double v = 7;
	size_t i;

	ok(parse_double("-0.5", -1, 1, &v, &err) == RC_OK && v == -0.5 &&
	       parse_double("1e-3", 0, 1, &v, &err) == RC_OK && v == 1e-3 &&
	       parse_double("1", 0, 1, &v, &err) == RC_OK && v == 1,
	   "parse_double: numbers, and the end of the range");
	for (i = 0; i < COUNT(bad); i++)
		if (parse_double(bad[i], -1e300, 1e300, &v, &err) != RC_INVAL || v != 1)
			break;
	if (!ok(i == COUNT(bad), "parse_double: rubbish and what is not finite is refused"))
		printf("#   '%s'\n", bad[i]);
	ok(parse_double("1.5", 0, 1, &v, &err) == RC_INVAL && v == 1 &&
	       strcmp(err.text, "1.5 is out of range (0 to 1)") == 0,
	   "parse_double: out of range, in one sentence");
}

static void
test_rc(void)
{
	static const int exits[] = {0, 1, 2, 3, 4, 5, 6, 1, 1, 8, 1, 1};
	unsigned bad = 0;

	ok(COUNT(exits) == RC_RECOVERED + 1, "the table of this test has every rc");
	for (unsigned i = 0; i < COUNT(exits); i++) {
		const char *name = rc_name((enum rc)i);

		bad += rc_exit((enum rc)i) != exits[i] || !name || !*name;
		for (unsigned j = 0; j < i && name; j++)
			bad += strcmp(name, rc_name((enum rc)j)) == 0;
	}
	ok(bad == 0, "every rc has its exit code and a name of its own");
	ok(rc_exit((enum rc)(RC_RECOVERED + 1)) == EXIT_INTERNAL &&
	       rc_exit((enum rc) - 1) == EXIT_INTERNAL && rc_name((enum rc) - 1) != NULL &&
	       rc_name((enum rc)1000) != NULL,
	   "a result nobody knows is an internal error");
}

static void
test_err(void)
{
	struct err err = {0};
	char text[2 * sizeof err.text];

	memset(text, 'x', sizeof text);
	text[sizeof text - 1] = '\0';
	ok(err_set(NULL, RC_BUSY, "nobody reads this") == RC_BUSY, "err_set without an err");
	ok(err_set(&err, RC_BUSY, "%s", text) == RC_BUSY && err.rc == RC_BUSY &&
	       strlen(err.text) == sizeof err.text - 1,
	   "err_set cuts a long sentence");
	ok(err_prefix(&err, "gpudev %d", 3) == RC_BUSY &&
	       strncmp(err.text, "gpudev 3: xxx", 13) == 0 &&
	       strlen(err.text) == sizeof err.text - 1,
	   "err_prefix cuts the end, not the prefix");
	ok(err_prefix(&err, "%s", text) == RC_BUSY && strlen(err.text) == sizeof err.text - 1,
	   "err_prefix with a prefix too long");
}

static void
test_clock(void)
{
	uint64_t before = clock_now_ns(), at = deadline_in_ms(0), after = clock_now_ns();
	int32_t left = deadline_left_ms(deadline_in_ms(3600 * 1000));
	struct timespec ts = deadline_timespec(5 * NS_PER_SEC + 7);

	ok(before <= at && at <= after, "a timeout of 0 is now");
	ok(deadline_in_ms(UINT64_MAX) == UINT64_MAX &&
	       deadline_in_ms(UINT64_MAX / NS_PER_MS) == UINT64_MAX &&
	       deadline_in_ms(UINT64_MAX / NS_PER_MS - after / NS_PER_MS + 1) == UINT64_MAX,
	   "a deadline saturates");
	ok(deadline_left_ms(0) == 0 && deadline_left_ms(before) == 0 &&
	       deadline_left_ms(UINT64_MAX) == INT32_MAX && left > 0 && left <= 3600 * 1000,
	   "what is left of a deadline is 0 ... INT32_MAX");
	ok(ts.tv_sec == 5 && ts.tv_nsec == 7, "a deadline as a timespec");
	ts = deadline_timespec(UINT64_MAX);
	ok(ts.tv_sec >= INT32_MAX && ts.tv_nsec >= 0 && ts.tv_nsec < 1000000000,
	   "the last deadline is a valid timespec");
}

static void
test_buf(void)
{
	struct buf b = {0}, was;
	bool good = true;

	for (unsigned i = 0; i < 3000; i++)
		good = good && buf_addf(&b, "%04u,", i) && b.len == 5 * (i + 1) && b.len < b.cap;
	for (unsigned i = 0; i < 3000 && good; i++)
		good = (unsigned)strtoul(b.data + (size_t)5 * i, NULL, 10) == i;
	ok(good && b.data[b.len] == '\0', "buf_addf grows the buffer and ends it with a zero byte");
	was = b;
	ok(!buf_reserve(&b, SIZE_MAX) && !buf_reserve(&b, SIZE_MAX / 2) &&
	       !buf_add(&b, "", SIZE_MAX - b.len) && b.data == was.data && b.len == was.len &&
	       b.cap == was.cap && b.failed,
	   "more than there can be is refused and remembered, the buffer is as it was");
	buf_fini(&b);
	ok(!b.data && b.len == 0 && b.cap == 0, "buf_fini makes it {0}");
	ok(buf_add(&b, NULL, 0) && b.len == 0 && buf_addf(&b, "%s", "") && b.len == 0 &&
	       buf_add(&b, "ab", 2) && b.len == 2 && memcmp(b.data, "ab", 2) == 0,
	   "nothing may be added");
	ok(buf_reserve(&b, 100000) && b.len == 2 && b.cap >= 100002, "buf_reserve adds no length");
	buf_fini(&b);
	buf_fini(&b);
}

static void
test_alloc(void)
{
	volatile size_t huge = SIZE_MAX / 2 + 1;
	unsigned char *p = alloc_zeroed(16, 4), *q;
	void *none = alloc_zeroed(0, 8);
	bool zero = p != NULL;

	for (int i = 0; i < 64 && zero; i++)
		zero = p[i] == 0;
	ok(zero && none, "alloc_zeroed gives zero bytes, and something for nothing");
	ok(!alloc_zeroed(huge, 2) && !alloc_zeroed(2, huge), "alloc_zeroed: n * size overflows");
	p[63] = 9;
	ok(!alloc_resize(p, huge, 2), "alloc_resize: n * size overflows");
	q = alloc_resize(p, 32, 4);
	ok(q && q[63] == 9, "alloc_resize keeps the content");
	free(q ? q : p);
	free(none);
}

static void
test_bounds(void)
{
	struct err err = {0};
	uint32_t u = 1;
	int fd = -1;

	ok(parse_u32("4294967295", 0, UINT32_MAX, &u, &err) == RC_OK && u == UINT32_MAX &&
	       parse_u32("4294967296", 0, UINT32_MAX, &u, &err) == RC_INVAL && u == UINT32_MAX,
	   "parse_u32 does not wrap");
	ok(parse_fd("1", &fd, &err) == RC_OK && fd == 1 &&
	       parse_fd("2147483647", &fd, &err) == RC_INVAL && fd == 1 &&
	       strstr(err.text, "2147483647 is not open") &&
	       parse_fd("-1", &fd, &err) == RC_INVAL && parse_fd("", &fd, &err) == RC_INVAL,
	   "parse_fd takes open descriptors only");
}

int
main(void)
{
	test_u64();
	test_size();
	test_duration_and_rate();
	test_double();
	test_rc();
	test_err();
	test_clock();
	test_buf();
	test_alloc();
	test_bounds();
	return tap_done();
}
