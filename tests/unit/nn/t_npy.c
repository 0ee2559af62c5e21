/* Arrays of numpy: files of one, elements of every type, samples and labels of every shape. */
#include "nn/npy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "npys.h"
#include "tap.h"

static struct buf file;

/* The file of such an array; n bytes of elements. */
static void
make(const char *type, const char *shape, const void *data, size_t n)
{
	file.len = 0;
	npy_put(&file, type, shape, data, n);
}

static enum rc
parse(struct ndarray *a, struct err *err)
{
	*err = (struct err){0};
	return npy_parse(file.data, file.len, file.len, "a.npy", a, err);
}

static void
refused(const char *what, const char *want)
{
	struct ndarray a;
	struct err err;
	enum rc rc = parse(&a, &err);

	if (!ok(rc == RC_BADDATA && strncmp(err.text, "a.npy: ", 7) == 0 && strstr(err.text, want),
		"refused: %s", what))
		printf("# %d %s\n", (int)rc, err.text);
}

/* A header with that dictionary, and n bytes after it. */
static void
make_raw(unsigned version, const char *dictionary, const void *data, size_t n)
{
	file.len = 0;
	npy_put_raw(&file, version, dictionary, data, n);
}

static void
test_types(void)
{
	static const struct {
		const char *type, *bytes;
		size_t size;
		double want;
	} row[] = {{"|u1", "\xfe", 1, 254},
		   {"|b1", "\1", 1, 1},
		   {"|i1", "\xfe", 1, -2},
		   {"<u2", "\x34\x12", 2, 0x1234},
		   {">u2", "\x12\x34", 2, 0x1234},
		   {"<i2", "\xfe\xff", 2, -2},
		   {"<u4", "\xff\xff\xff\xff", 4, 4294967295.},
		   {"<i4", "\xfe\xff\xff\xff", 4, -2},
		   {">i4", "\xff\xff\xff\xfe", 4, -2},
		   {"<i8", "\xfe\xff\xff\xff\xff\xff\xff\xff", 8, -2},
		   {"<u8", "\0\0\0\0\0\0\0\x80", 8, 9223372036854775808.},
		   {"<f4", "\0\0\x20\xc0", 4, -2.5},
		   {">f4", "\xc0\x20\0\0", 4, -2.5},
		   {"<f8", "\0\0\0\0\0\0\4\xc0", 8, -2.5},
		   {">f8", "\xc0\4\0\0\0\0\0\0", 8, -2.5}};
	static const char *const none[] = {"|O",   "<f2", "<c8", "|S3", "<U1", "|V4",
					   "<f16", "<M8", "<u3", "b",	"",    "<<f4"};
	struct ndarray a = {0};
	struct err err;

	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
		make(row[i].type, "(1,)", row[i].bytes, row[i].size);
		if (!ok(parse(&a, &err) == RC_OK && a.ndim == 1 && a.dim[0] == 1 &&
			    ndarray_at(&a, 0) == row[i].want,
			"%s", row[i].type))
			printf("# %s %g\n", err.text, a.data ? ndarray_at(&a, 0) : NAN);
	}
	for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
		make(none[i], "(1,)", "0123456789abcdef", 8);
		refused(none[i], "its type must be bool, u1 to u8");
	}
}

static void
test_headers(void)
{
	static const char *const bad[] = {
	    "",
	    "{}",
	    "{'descr': '|u1', 'fortran_order': False, }",
	    "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), 'shape': (3,), }",
	    "{'descr': '|u1', 'fortran_order': false, 'shape': (3,), }",
	    "{'descr': '|u1', 'fortran_order': False, 'shape': (3), }",
	    "{'descr': '|u1', 'fortran_order': False, 'shape': (3,",
	    "{'descr': '|u1', 'fortran_order': False, 'shape': (-3,), }",
	    "{'descr': '|u1', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,3), }",
	    "{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999,), }",
	    "{'descr': [('a', '|u1')], 'fortran_order': False, 'shape': (3,), }",
	    "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), 'more': 1}",
	    "{'descr': '|u1' 'fortran_order': False, 'shape': (3,)}",
	    "{'descr': '|u1"};
	struct ndarray a;
	struct err err;

	make("<f4", "(2, 3)", "0123456789012345678901234", 24);
	ok(parse(&a, &err) == RC_OK && a.ndim == 2 && a.dim[0] == 2 && a.dim[1] == 3 &&
	       !a.fortran && memcmp(a.data, "0123", 4) == 0,
	   "two dimensions %s", err.text);
	for (size_t n = 0; n < file.len; n++) {
		enum rc rc = npy_parse(file.data, n, n, "a.npy", &a, &err);

		if (rc != RC_BADDATA)
			ok(false, "%zu of its bytes: %d", n, (int)rc);
	}
	(void)buf_add(&file, "x", 1);
	refused("a byte too many", "its shape does not match its size of 25");
	make("|u1", "()", "x", 1);
	ok(parse(&a, &err) == RC_OK && a.ndim == 0, "a scalar %s", err.text);
	make_raw(2, "{\"shape\": (3L, ), 'descr':'|u1','fortran_order':True}  \n", "abc", 3);
	ok(parse(&a, &err) == RC_OK && a.fortran && a.dim[0] == 3, "version 2, in another order %s",
	   err.text);
	make_raw(3, "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\n", "abc", 3);
	ok(parse(&a, &err) == RC_OK, "version 3 %s", err.text);
	make_raw(4, "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\n", "abc", 3);
	refused("version 4", "version 4 of .npy");
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		make_raw(1, bad[i], "abc", 3);
		refused(bad[i], "its header does not describe an array of numbers");
	}
	make_raw(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
		 "abc", 3);
	refused("2^64 elements", "its shape does not match its size");
	file.len = 0;
	(void)buf_add(&file, "PK\3\4", 4);
	refused("something else", "not a .npy file");
}

/* The shape of samples, "CxRxC u8"; or the error message. */
static const char *
shape_of(const char *type, const char *shape, const void *data, size_t n)
{
	static char out[sizeof(struct err)];
	struct ndarray_items items;
	struct ndarray a;
	struct err err = {0};

	make(type, shape, data, n);
	if (parse(&a, &err) == RC_OK && ndarray_items(&a, "a", &items, &err) == RC_OK)
		snprintf(out, sizeof out, "%ux%ux%u %s", items.channels, items.rows, items.cols,
			 items.dtype == GPUSIM_U8 ? "u8" : "f32");
	else
		snprintf(out, sizeof out, "%s", err.text);
	return out;
}

static void
test_shapes(void)
{
	static uint8_t zeros[8 * 2 * 3 * 100];
	static const uint8_t large[8 * 4] = {0, 1, [24] = 1};
	static const struct {
		const char *type, *shape;
		size_t n;
		const char *want;
	} row[] = {{"|u1", "(5,)", 5, "1x1x1 u8"},
		   {"<i8", "(5,)", 40, "1x1x1 f32"},
		   {"<f4", "(2, 7)", 56, "7x1x1 f32"},
		   {"|u1", "(2, 7)", 14, "7x1x1 u8"},
		   {"<i4", "(2, 7)", 56, "7x1x1 f32"},
		   {"|u1", "(2, 64)", 128, "1x8x8 u8"},
		   {"<i8", "(2, 100)", 1600, "1x10x10 u8"},
		   {"<f4", "(2, 64)", 512, "64x1x1 f32"},
		   {"|u1", "(2, 4, 5)", 40, "1x4x5 u8"},
		   {"<f8", "(2, 4, 5)", 320, "1x4x5 f32"},
		   {"|b1", "(2, 4, 5)", 40, "1x4x5 f32"},
		   {"|u1", "(2, 4, 5, 3)", 120, "3x4x5 u8"},
		   {"|u1", "(2, 3, 4, 5)", 120, "3x4x5 u8"},
		   {"<i2", "(2, 4, 5, 1)", 80, "1x4x5 u8"},
		   {"|u1", "(2, 1, 4, 5)", 40, "1x4x5 u8"},
		   {"|u1", "(2, 4, 5, 4)", 160, "a: images of 4 or 4 channels; needs 1 or 3"},
		   {"|u1", "(2, 1, 1, 1, 1)", 2, "a: 5 dimensions; samples have 1 to 4"},
		   {"|u1", "()", 1, "a: 0 dimensions; samples have 1 to 4"},
		   {"|u1", "(0, 4)", 0, "a: dimension 0 is 0, not 1 to 4294967295"},
		   {"|u1", "(4, 0)", 0, "a: dimension 1 is 0, not 1 to 16777216"}};

	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
		const char *got = shape_of(row[i].type, row[i].shape, zeros, row[i].n);

		if (!ok(strcmp(got, row[i].want) == 0, "%s of %s: %s", row[i].shape, row[i].type,
			row[i].want))
			printf("# %s\n", got);
	}
	ok(strcmp(shape_of("<i8", "(1, 2, 2)", large, 32), "1x2x2 f32") == 0,
	   "numbers beyond 255 are no bytes");
}

static bool
copies(const char *type, const char *shape, const void *data, size_t n, uint64_t nitems, void *out,
       struct err *err)
{
	struct ndarray_items items;
	struct ndarray a;

	make(type, shape, data, n);
	return parse(&a, err) == RC_OK && ndarray_items(&a, "a", &items, err) == RC_OK &&
	       ndarray_copy(&a, "a", &items, 0, nitems, out, err) == RC_OK;
}

static void
test_copies(void)
{
	static const char pixels[] =
	    "rgbRGBxyzXYZ"; /* one image of 2x2 in 3 channels, then as planes */
	static const uint16_t words[] = {1, 2, 3, 4, 5, 6};
	static const double finite[] = {0.5, 1e300}, nan_[] = {NAN, 1};
	char bytes[16] = "";
	float f[4];
	struct err err = {0};

	ok(copies("|u1", "(1, 2, 2, 3)", pixels, 12, 1, bytes, &err) &&
	       memcmp(bytes, "rRxXgGyYbBzZ", 12) == 0,
	   "channels last become planes");
	ok(copies("|u1", "(1, 3, 2, 2)", pixels, 12, 1, bytes, &err) &&
	       memcmp(bytes, pixels, 12) == 0,
	   "channels first are planes");
	ok(copies("<u2", "(1, 2, 1, 3)", words, 12, 1, bytes, &err) &&
	       memcmp(bytes, "\1\4\2\5\3\6", 6) == 0,
	   "words that are bytes");
	ok(copies("<i2", "(2, 2)", words, 8, 2, f, &err) && f[0] == 1 && f[3] == 4,
	   "whole numbers as features");
	ok(!copies("<f8", "(1, 2)", finite, 16, 1, f, &err) && err.rc == RC_BADDATA &&
	       strstr(err.text, "a: value 1 of sample 0 is not a finite 32-bit number"),
	   "a number that is too large");
	ok(!copies("<f8", "(2,)", nan_, 16, 2, f, &err) && strstr(err.text, "value 0 of sample 0"),
	   "not a number");
	make_raw(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2,2), }", "abcd", 4);
	{
		struct ndarray_items items;
		struct ndarray a;

		ok(parse(&a, &err) == RC_OK && ndarray_items(&a, "a", &items, &err) == RC_BADDATA &&
		       strstr(err.text, "a: the array is in Fortran order; convert it by "
					"numpy.ascontiguousarray()"),
		   "Fortran order is refused");
	}
}

/* The labels as text, "0 1 2 of 3"; or the error message. */
static const char *
labels_of(const char *type, const char *shape, const void *data, size_t n)
{
	static char out[sizeof(struct err)];
	uint8_t *labels = NULL;
	uint32_t nclasses;
	struct ndarray a;
	struct err err = {0};
	size_t len = 0;

	make(type, shape, data, n);
	if (parse(&a, &err) != RC_OK ||
	    ndarray_labels(&a, "a", &labels, &nclasses, &err) != RC_OK) {
		snprintf(out, sizeof out, "%s", err.text);
		return out;
	}
	for (uint64_t i = 0; i < a.dim[0]; i++)
		len += (size_t)snprintf(out + len, sizeof out - len, "%u ", labels[i]);
	snprintf(out + len, sizeof out - len, "of %u", nclasses);
	free(labels);
	return out;
}

static void
test_labels(void)
{
	static const double reals[] = {0, 2, 255, 0.5, -1, 256, NAN};
	static const int32_t hot[] = {0, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 2, 0, 0};
#define LABELS(want, type, shape, data, n)                                          \
	do {                                                                        \
		const char *got = labels_of(type, shape, data, n);                  \
		if (!ok(strcmp(got, want) == 0, "%s of %s: %s", shape, type, want)) \
			printf("# %s\n", got);                                      \
	} while (0)

	LABELS("0 2 255 of 256", "<f8", "(3,)", reals, 24);
	LABELS("2 1 0 of 3", "|u1", "(3, 1)", "\2\1\0", 3);
	LABELS("1 2 of 3", "<i4", "(2, 3)", hot, 24);
	LABELS("a: row 0 is not one-hot: one 1, and zeros", "<i4", "(1, 3)", hot + 6, 12);
	LABELS("a: row 0 is not one-hot: one 1, and zeros", "<i4", "(1, 3)", hot + 9, 12);
	LABELS("a: row 0 is not one-hot: one 1, and zeros", "<i4", "(1, 3)", hot + 12, 12);
	LABELS("a: label 0.5 of sample 0; labels are 0 to 255", "<f8", "(1,)", reals + 3, 8);
	LABELS("a: label -1 of sample 0; labels are 0 to 255", "<f8", "(1,)", reals + 4, 8);
	LABELS("a: label 256 of sample 0; labels are 0 to 255", "<f8", "(1,)", reals + 5, 8);
	LABELS("a: label nan of sample 0; labels are 0 to 255", "<f8", "(1,)", reals + 6, 8);
	LABELS("a: labels must be [n] or [n, classes]", "<f8", "(1, 1, 1)", reals, 8);
	LABELS("a: labels must be [n] or [n, classes]", "<f8", "(1, 0)", reals, 0);
}

int
main(void)
{
	test_types();
	test_headers();
	test_shapes();
	test_copies();
	test_labels();
	buf_fini(&file);
	return tap_done();
}
