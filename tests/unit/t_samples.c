/* Samples that a net is asked about: IDX, PGM, PPM and tables, from files and from pipes. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "gzip.h"
#include "nn/samples.h"
#include "tap.h"

static const uint8_t idx[16 + 12] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2,  0,  0,
				     0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static struct err err;

static int
file_of(const void *bytes, size_t nbytes)
{
	int fd = memfd_create("samples", MFD_CLOEXEC);

	if (fd < 0 || write(fd, bytes, nbytes) != (ssize_t)nbytes || lseek(fd, 0, SEEK_SET) != 0)
		exit(1);
	return fd;
}

/* All samples, one behind the other, into *out; *n counts those that came before what is wrong. */
static enum rc
read_all(const void *bytes, size_t nbytes, struct net_shape shape, struct buf *out, unsigned *n)
{
	int fd = file_of(bytes, nbytes);
	struct samples *s = NULL;
	bool more = true;
	enum rc rc;

	err = (struct err){0};
	*n = 0;
	rc = samples_open(fd, "x", shape, &s, &err);
	while (rc == RC_OK) {
		size_t item = net_shape_size(shape) * (samples_dtype(s) == GPUSIM_F32 ? 4 : 1);

		if (!buf_reserve(out, item))
			exit(1);
		rc = samples_next(s, out->data + out->len, &more, &err);
		if (rc != RC_OK || !more)
			break;
		out->len += item;
		++*n;
	}
	samples_close(s);
	close(fd);
	return rc;
}

static bool
reads(const void *bytes, size_t nbytes, unsigned n, struct net_shape shape, const void *values,
      size_t values_nbytes)
{
	struct buf out = {0};
	unsigned got;
	bool good = read_all(bytes, nbytes, shape, &out, &got) == RC_OK && got == n &&
		    out.len == values_nbytes && memcmp(out.data, values, out.len) == 0;

	if (!good)
		printf("# %u samples: %s\n", got, err.text);
	buf_fini(&out);
	return good;
}

/* After so many samples. */
static bool
refused(const void *bytes, size_t nbytes, struct net_shape shape, unsigned n, const char *want)
{
	struct buf out = {0};
	unsigned got;
	enum rc rc = read_all(bytes, nbytes, shape, &out, &got);
	bool good = rc == RC_BADDATA && strcmp(err.text, want) == 0 && got == n;

	if (!good)
		printf("# rc %d after %u \"%s\", expected \"%s\"\n", (int)rc, got, err.text, want);
	buf_fini(&out);
	return good;
}

static void
test_images(void)
{
	static const uint8_t values[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
	static const uint8_t scaled[] = {0, 128, 255}, planes[] = {1, 4, 2, 5, 3, 6};
	const struct net_shape grey = {1, 2, 3}, line = {1, 1, 3}, rgb = {3, 1, 2};
	static const char two[] = "P5 3 2 255 \1\2\3\4\5\6P5\n# two\n3 2\n255\n\7\10\11\12\13\14";
	static const char digits[] = "P5 3 2 255 \1\2\3\4\5\6\nP2 3 2 255\n7 8 9\n10 11 #x\n12\n";
	uint8_t packed[256];

	ok(reads(idx, sizeof idx, 2, grey, values, 12), "IDX");
	ok(reads(packed, gzip(idx, sizeof idx, packed, sizeof packed), 2, grey, values, 12),
	   "IDX, gzipped");
	ok(reads(two, sizeof two - 1, 2, grey, values, 12), "two PGM, and a comment");
	ok(reads(packed, gzip(two, sizeof two - 1, packed, sizeof packed), 2, grey, values, 12),
	   "the same, gzipped");
	ok(reads(digits, sizeof digits - 1, 2, grey, values, 12),
	   "one in bytes and one in digits, with a newline between and behind");
	ok(reads("P2\n3 1\n4\n0 2 4", 14, 1, line, scaled, 3), "values are scaled to 255");
	ok(reads("P6\n2 1\n255\n\1\2\3\4\5\6", 17, 1, rgb, planes, 6), "a PPM becomes planes");
	ok(reads("P3 2 1 255 1 2 3 4 5 6", 22, 1, rgb, planes, 6), "a PPM in digits");
}

static void
test_tables(void)
{
	const struct net_shape four = {4, 1, 1};
	static const float values[] = {5.1f, 3.5f, 1.4f, 0.2f, -1, 2e3f, 0.5f, 0};
	static const char plain[] = "5.1,3.5,1.4,0.2\n-1,2e3,.5,0\n";
	static const char header[] = "a;b;c;d\r\n\r\n5.1;3.5;1.4;0.2\r\n-1; 2e3 ;.5;0";

	ok(reads(plain, sizeof plain - 1, 2, four, values, sizeof values), "a table");
	ok(reads(header, sizeof header - 1, 2, four, values, sizeof values),
	   "with a header, semicolons, CR LF and a blank line");
	ok(refused("1,2,3\n", 6, four, 0, "x:1: 3 values, the model takes 4"), "too few values");
	ok(refused("1,2,3,4\n\n5\n", 11, four, 1, "x:3: 1 value, the model takes 4"),
	   "too few in the second sample");
	ok(refused("1,2,3,4\n1,2,x,4\n", 16, four, 1, "x:2: 'x' is no number"), "no number");
	ok(refused("1,2,3,4\na,b,c,d\n", 16, four, 1, "x:2: 'a' is no number"), "a late header");
	ok(refused("1,2,3,nan\n", 10, four, 0, "x:1: 'nan' is not finite"), "not finite");
	ok(refused("a,b,c,d\n", 8, four, 0, "x: no samples"), "a header alone");
}

static void
test_refusals(void)
{
	static const struct {
		const char *text;
		unsigned before;
		const char *want;
	} row[] = {
	    {"", 0, "x: no samples"},
	    {"hello", 0, "x: no samples"},
	    {"P4 8 1 x", 0, "x: image 0: neither PGM nor PPM"},
	    {"P5", 0, "x: image 0: cut short"},
	    {"P5 0 1 255 ", 0, "x: image 0: its width is not 1 to 32768"},
	    {"P5 2 40000 255 ", 0, "x: image 0: its height is not 1 to 32768"},
	    {"P5 99999999999999999999 1 255 ", 0, "x: image 0: its width is not 1 to 32768"},
	    {"P5 -1 1 255 x", 0, "x: image 0: its width is not 1 to 32768"},
	    {"P5 2 1 65535 xx", 0, "x: image 0: its largest value is not 1 to 255"},
	    {"P5 2 1 0 x", 0, "x: image 0: its largest value is not 1 to 255"},
	    {"P5 2 1 255", 0, "x: image 0: cut short"},
	    {"P5 2 1 255 a", 0, "x: image 0: cut short"},
	    {"P5 2 2 255 abcd", 0, "x: image 0 is 1x2x2, the model takes 1x1x2"},
	    {"P6 2 1 255 abcdef", 0, "x: image 0 is 3x1x2, the model takes 1x1x2"},
	    {"P2 2 1 255 1   ", 0, "x: image 0: cut short"},
	    {"P2 2 1 255 1 x", 0, "x: image 0: a value is not 0 to its largest"},
	    {"P2 2 1 10 1 11", 0, "x: image 0: a value is not 0 to its largest"},
	    {"P5 2 1 10 \x01\x0b", 0, "x: image 0: a value is not 0 to its largest"},
	    {"P5 2 1 255 abhello", 1, "x: image 1: neither PGM nor PPM"},
	    {"P5 2 1 255 abP5 2 1 255 c", 1, "x: image 1: cut short"},
	};
	const struct net_shape pair = {1, 1, 2}, grey = {1, 2, 3};
	uint8_t bad[sizeof idx + 1], packed[256];
	size_t n = gzip(idx, sizeof idx, packed, sizeof packed);

	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
		ok(refused(row[i].text, strlen(row[i].text), pair, row[i].before, row[i].want),
		   "refused: %s", row[i].want);
	ok(refused(idx, sizeof idx - 1, grey, 1, "x: image 1: cut short"), "IDX cut short");
	ok(refused(idx, 9, grey, 0, "x: cut short in the header"), "... in its header");
	ok(refused(idx, sizeof idx, pair, 0, "x: image 0 is 1x2x3, the model takes 1x1x2"),
	   "IDX of another size");
	memcpy(bad, idx, sizeof idx);
	bad[sizeof idx] = 0;
	ok(refused(bad, sizeof bad, grey, 2, "x: bytes behind the last image"), "IDX too long");
	bad[7] = 0;
	ok(refused(bad, 16, grey, 0, "x: no images"), "IDX of none");
	bad[3] = 1;
	ok(refused(bad, 16, grey, 0, "x: not an IDX file of images of bytes"), "IDX of labels");
	ok(refused(packed, n - 12, grey, 0, "x: the gzip data end early") ||
	       refused(packed, n - 12, grey, 1, "x: the gzip data end early"),
	   "gzip cut short");
	n = gzip("1,2,3\n", 6, packed, sizeof packed);
	ok(refused(packed, n, grey, 0, "x: gzip, but not of IDX, PGM or PPM"), "a gzipped table");
}

/* What has come is there without waiting for what has not. */
static void
test_pipe(void)
{
	static const char first[] = "P5 2 1 255 ab", second[] = "P5 2 1 2";
	struct samples *s = NULL;
	uint8_t item[2];
	bool more = false;
	int fd[2];

	if (pipe(fd) != 0 || write(fd[1], first, sizeof first - 1) < 0)
		exit(1);
	ok(samples_open(fd[0], "x", (struct net_shape){1, 1, 2}, &s, &err) == RC_OK &&
	       samples_dtype(s) == GPUSIM_U8 && samples_ready(s),
	   "a pipe with one image");
	ok(samples_next(s, item, &more, &err) == RC_OK && more && memcmp(item, "ab", 2) == 0,
	   "... which comes");
	ok(!samples_ready(s), "... and nothing else");
	if (write(fd[1], second, sizeof second - 1) < 0)
		exit(1);
	ok(samples_ready(s), "a part of another one");
	if (write(fd[1], "55 cd", 5) < 0)
		exit(1);
	close(fd[1]);
	ok(samples_next(s, item, &more, &err) == RC_OK && more && memcmp(item, "cd", 2) == 0,
	   "... and the rest of it");
	ok(samples_ready(s) && samples_next(s, item, &more, &err) == RC_OK && !more, "the end");
	samples_close(s);
	close(fd[0]);
	samples_close(NULL);
}

int
main(void)
{
	test_images();
	test_tables();
	test_refusals();
	test_pipe();
	return tap_done();
}
