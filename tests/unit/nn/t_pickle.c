/* Pickles: the output of Python 2 and 3 is read, all else is rejected, whatever it would call. */
#include "nn/pickle.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "pickles.h"
#include "tap.h"

#define ND "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87R"
#define U1 "cnumpy\ndtype\nU\2u1K\0K\1\x87R(K\3U\1|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"

static void
refused(const char *what, const void *bytes, size_t nbytes, const char *want)
{
	struct pickle *p = NULL;
	struct err err = {0};
	void *copy = malloc(nbytes + 1); /* so that a sanitizer detects overreads */
	enum rc rc;

	if (nbytes)
		memcpy(copy, bytes, nbytes);
	copy = realloc(copy, nbytes + !nbytes);
	rc = pickle_parse(copy, nbytes, "p", &p, &err);
	if (!ok(rc == RC_BADDATA && strncmp(err.text, "p: ", 3) == 0 && strstr(err.text, want) &&
		    !p,
		"refused: %s", what))
		printf("# %d %s\n", (int)rc, err.text);
	if (rc == RC_OK)
		pickle_free(p);
	free(copy);
}

#define REFUSED(what, text, want) refused(what, "\x80\2" text, sizeof("\x80\2" text) - 1, want)

static bool
is_text(const struct pickle_value *v, const char *want)
{
	const char *text;
	size_t len;

	return v && pickle_text(v, &text, &len) && len == strlen(want) &&
	       memcmp(text, want, len) == 0;
}

static bool
is_abc(const struct pickle *p, const struct pickle_value *v)
{
	struct ndarray a;

	return v && pickle_array(p, v, &a) && a.kind == 'u' && a.size == 1 && !a.fortran &&
	       a.ndim == 2 && a.dim[0] == 2 && a.dim[1] == 3 &&
	       memcmp(a.data, "ABC\xe9\xff\0", 6) == 0;
}

/* Numbers 6, 9, -2, 70000. */
static bool
is_list(const struct pickle *p, const struct pickle_value *v)
{
	static const int64_t want[] = {6, 9, -2, 70000};
	const struct pickle_cell *c = v ? pickle_first(p, v) : NULL;
	int64_t n;

	if (!v || pickle_length(v) != 4)
		return false;
	for (int i = 0; i < 4; i++, c = pickle_next(p, c))
		if (!c || !pickle_number(pickle_item(p, c), &n) || n != want[i])
			return false;
	return !c;
}

static void
test_python2(void)
{
	struct pickle *p = NULL;
	struct buf b = {0};
	struct err err = {0};

	PUT(&b, "\x80\2}q\1(U\5labelU\3oneq\2U\6labels]q\3("
		"K\6K\x09J\xfe\xff\xff\xff\x8a\3p\x11\1eU\4data");
	put_array(&b, 2, 3, "ABC\xe9\xff\0");
	PUT(&b, "U\1ah\2U\1bh\3U\1cNU\1d\x88u.");
	ok(pickle_parse(b.data, b.len, "p", &p, &err) == RC_OK, "Python 2's %s", err.text);
	ok(p && is_text(pickle_get(p, "label"), "one") && is_list(p, pickle_get(p, "labels")) &&
	       is_abc(p, pickle_get(p, "data")),
	   "text, numbers and an array");
	ok(p && is_text(pickle_get(p, "a"), "one") && is_list(p, pickle_get(p, "b")),
	   "... and what was kept");
	ok(p && !pickle_get(p, "dat") && !pickle_get(p, "datas") && !pickle_get(p, ""),
	   "no other keys");
	pickle_free(p);
	p = NULL;
	for (size_t n = 0; n < b.len; n++)
		if (pickle_parse(b.data, n, "p", &p, &err) != RC_BADDATA) {
			ok(false, "%zu of its bytes", n);
			break;
		}
	ok(!p, "truncated anywhere it is refused");
	buf_fini(&b);
}

/* As written by Python 3: bytes are encoded text. */
static void
test_python3(void)
{
	static const char text[] =
	    "\x80\2}q\0(c_codecs\nencode\nq\1X\4\0\0\0dataq\2X\6\0\0\0latin1q\3\x86q\4Rq\5"
	    "cnumpy._core.multiarray\n_"
	    "reconstruct\ncnumpy\nndarray\nK\0\x85h\1X\1\0\0\0bh\3\x86R\x87R"
	    "(K\1K\2K\3\x86"
	    "cnumpy\ndtype\nX\2\0\0\0u1\x89\x88\x87R(K\3X\1\0\0\0|"
	    "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
	    "K\0tb\x89h\1X\x08\0\0\0ABC\xc3\xa9\xc3\xbf\0h\3\x86Rtb"
	    "X\1\0\0\0ac__builtin__\nbytes\n)RX\1\0\0\0b]K\1aX\1\0\0\0c}X\1\0\0\0dNsu.";
	struct pickle *p = NULL;
	struct err err = {0};

	ok(pickle_parse(text, sizeof text - 1, "p", &p, &err) == RC_OK, "Python 3's %s", err.text);
	ok(p && is_abc(p, pickle_get(p, "data")) && is_text(pickle_get(p, "a"), "") &&
	       pickle_length(pickle_get(p, "b")) == 1,
	   "an array, bytes of nothing, and a list");
	pickle_free(p);
	REFUSED("a key without a value", "}(U\1au.", "not a list or dictionary");
}

static void
test_calls(void)
{
	REFUSED("os.system", "cposix\nsystem\n(U\6rm -rftR.",
		"the pickle calls posix.system; only arrays of numpy are supported");
	REFUSED("eval",
		"c__builtin__\neval\n(U\1"
		"1tR.",
		"the pickle calls __builtin__.eval");
	REFUSED("another of numpy's", "cnumpy\nload\n.", "the pickle calls numpy.load");
	REFUSED("a scalar of numpy's", "cnumpy.core.multiarray\nscalar\n.",
		"calls numpy.core.multiarray.scalar");
	REFUSED("a name with bytes that are no text", "c\x1b[2J\n\x07\n.", "calls ?[2J.?;");
	REFUSED("a longer name", "cnumpyx\ndtype\n.", "calls numpyx.dtype");
	REFUSED("a name without an end", "cnumpy", "truncated");
	REFUSED("a call of a number", "K\1)R.", "a call of something that is not a function");
	REFUSED("a call without a tuple", "cnumpy\ndtype\nK\1R.", "a call of something that is no");
	REFUSED("a call of ndarray", "cnumpy\nndarray\n)R.", "a call of numpy.ndarray");
	REFUSED("_reconstruct of a type",
		"cnumpy.core.multiarray\n_reconstruct\ncnumpy\ndtype\n\x85R.",
		"_reconstruct of something but numpy.ndarray");
	REFUSED("bytes of a number", "c__builtin__\nbytes\nK\1\x85R.", "bytes() of something");
	REFUSED("another encoding", "c_codecs\nencode\nX\1\0\0\0aX\5\0\0\0rot13\x86R.",
		"_codecs.encode of something but text as latin1");
	REFUSED("encoded bytes", "c_codecs\nencode\nU\1aX\6\0\0\0latin1\x86R.",
		"_codecs.encode of something but text");
	REFUSED("text beyond latin1", "c_codecs\nencode\nX\2\0\0\0\xc4\x80X\6\0\0\0latin1\x86R.",
		"text that is not latin1");
	REFUSED("half a character", "c_codecs\nencode\nX\1\0\0\0\xc3X\6\0\0\0latin1\x86R.",
		"text that is not latin1");
	REFUSED("a type of objects", "cnumpy\ndtype\nU\2O8K\0K\1\x87R.", "an array of type 'O8'");
	REFUSED("a state of a list", "](K\1tb.", "a state of something that is not an array");
	REFUSED("a type in structures",
		"cnumpy\ndtype\nU\2u1\x85R(K\3U\1|N)NJ\1\1\1\1J\1\1\1\1K\0tb.",
		"an array of structures");
	REFUSED("a type of no order", "cnumpy\ndtype\nU\2u1\x85R(K\3U\1!NNNtb.",
		"a numpy.dtype without a byte order");
	REFUSED("an array of too few bytes",
		ND "(K\1K\2K\3\x86" U1 "\x89U\5"
		   "ABCDEtb.",
		"an array whose shape does not match its number of bytes");
	REFUSED("an array of too many",
		ND "(K\1J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86" U1 "\x89U\0tb.",
		"an array whose shape does not match its number of bytes");
	REFUSED("an array of text", ND "(K\1K\1\x85" U1 "\x89X\1\0\0\0Atb.",
		"an array whose state is not shape, type, order and bytes");
	REFUSED("an array of nine dimensions",
		ND "(K\1(K\1K\1K\1K\1K\1K\1K\1K\1K\1t" U1 "\x89U\1Atb.",
		"an array of more than 8 dimensions");
	REFUSED("a dimension below 0", ND "(K\1J\xff\xff\xff\xff\x85" U1 "\x89U\1Atb.",
		"a dimension of an array that is not a number");
}

static void
test_opcodes(void)
{
	char text[80];
	struct buf b = {0};

	refused("nothing", "", 0, "not a pickle of protocol 2");
	refused("text", "(dp1\n.", 6, "not a pickle of protocol 2");
	refused("protocol 4", "\x80\4\x95\0", 4, "a pickle of protocol 4; only 2 is supported");
	REFUSED("no end", "N", "truncated");
	REFUSED("no value", ".", "the stack does not hold exactly one value at the end");
	REFUSED("two values", "NN.", "the stack does not hold exactly one value at the end");
	REFUSED("a mark alone", "(.", "the stack does not hold exactly one value at the end");
	REFUSED("bytes behind the end", "N.N", "trailing bytes");
	REFUSED("a string beyond the end", "T\xff\xff\xff\x7f.", "truncated");
	REFUSED("a number of 9 bytes",
		"\x8a\x09"
		"123456789.",
		"a number of more than 64 bits");
	REFUSED("nothing kept", "h\5.", "a memo index without a value");
	REFUSED("kept far away", "Nr\xff\xff\xff\x7f.", "memo indices are out of order");
	REFUSED("nothing to store in the memo", "q\1.", "nothing to store in the memo");
	REFUSED("a mark kept", "(q\1.", "nothing to store in the memo");
	REFUSED("a tuple of nothing", "\x87.", "too few values for a tuple");
	REFUSED("a tuple over a mark", "N(N\x86.", "too few values for a tuple");
	REFUSED("a tuple without a mark", "Nt.", "too few values for a tuple");
	REFUSED("items without a list", "(Ne.", "values for something that is not a list");
	REFUSED("items of a dictionary in a list", "](NNu.", "not a list or dictionary");
	REFUSED("an item of nothing", "Na.", "too few values");
	REFUSED("no mark", "]Ne.", "no mark");
	for (unsigned op = 0; op < 256; op++) {
		static const char known[] = "NKMJUTX}]()teuasqrhjcRb.\x88\x89\x8a\x85\x86\x87";

		if (op && strchr(known, (int)op))
			continue;
		text[0] = '\x80';
		text[1] = 2;
		text[2] = (char)op;
		text[3] = '.';
		if (op % 16 == 1 || strchr("oidIlgpPQ\x81\x93\x95", (int)op))
			refused("another opcode", text, 4, "is not supported");
	}
	/* Megabytes of the same text, encoded again and again. */
	PUT(&b, "\x80\2]c_codecs\nencode\nq\0X\x80\0\0\0");
	for (int i = 0; i < 128; i++)
		PUT(&b, "a");
	PUT(&b, "X\6\0\0\0latin1\x86q\1");
	for (int i = 0; i < 100; i++)
		PUT(&b, "h\0h\1R");
	PUT(&b, ".");
	refused("what grows beyond its bytes", b.data, b.len, "it encodes more bytes than it has");
	buf_fini(&b);
}

/* A list that contains itself, and is in many others. */
static void
test_cycle(void)
{
	static const char text[] = "\x80\2}(U\1a]q\0h\0ah\0ah\0aU\1bh\0h\0\x86u.";
	struct pickle *p = NULL;
	struct err err = {0};
	const struct pickle_value *v;

	ok(pickle_parse(text, sizeof text - 1, "p", &p, &err) == RC_OK, "a list in itself %s",
	   err.text);
	v = pickle_get(p, "a");
	ok(pickle_length(v) == 3 && pickle_item(p, pickle_first(p, v)) == v &&
	       pickle_length(pickle_get(p, "b")) == 2,
	   "... has itself");
	pickle_free(p);
}

int
main(void)
{
	test_python2();
	test_python3();
	test_calls();
	test_opcodes();
	test_cycle();
	return tap_done();
}
