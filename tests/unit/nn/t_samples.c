/* Samples for inference: IDX, PGM, PPM and tables, from files and from pipes. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "folder.h"
#include "gzip.h"
#include "nn/samples.h"
#include "npys.h"
#include "pickles.h"
#include "pictures.h"
#include "tap.h"
#include "tars.h"
#include "zips.h"

static const uint8_t idx[16 + 12] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2,  0,  0,
				     0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static struct err err;
static enum samples_source source = SAMPLES_STREAM;
static enum samples_values values_wanted = SAMPLES_ANY;

static int
file_of(const void *bytes, size_t nbytes)
{
	int fd = memfd_create("samples", MFD_CLOEXEC);

	if (fd < 0 || write(fd, bytes, nbytes) != (ssize_t)nbytes || lseek(fd, 0, SEEK_SET) != 0)
		exit(1);
	return fd;
}

/* Read all samples, one after the other, into *out; *n counts the samples before an error. */
static enum rc
read_all(const void *bytes, size_t nbytes, struct net_shape shape, struct buf *out, unsigned *n)
{
	int fd = file_of(bytes, nbytes);
	struct samples *s = NULL;
	bool more = true;
	enum rc rc;

	err = (struct err){0};
	*n = 0;
	rc = samples_open(fd, "x", source, &(struct samples_want){shape, values_wanted, "so many"},
			  &s, &err);
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

/* An error after n samples. */
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
	ok(refused("1,2,3\n", 6, four, 0, "x:1: 3 values; the model takes so many"),
	   "too few values");
	ok(refused("1,2,3,4\n\n5\n", 11, four, 1, "x:3: 1 value; the model takes so many"),
	   "too few in the second sample");
	ok(refused("1,2,3,4\n1,2,x,4\n", 16, four, 1, "x:2: 'x' is not a number"), "not a number");
	ok(refused("1,2,3,4\na,b,c,d\n", 16, four, 1, "x:2: 'a' is not a number"), "a late header");
	ok(refused("1,2,3,nan\n", 10, four, 0, "x:1: 'nan' is not finite"), "not finite");
	ok(refused("a,b,c,d\n", 8, four, 0,
		   "x:1: 'a' is neither a number nor a file, and nothing follows; the model takes "
		   "so many"),
	   "a header alone");
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
	    {"hello", 0,
	     "x:1: 'hello' is neither a number nor a file, and nothing follows; the model takes so "
	     "many"},
	    {"P4 8 1 x", 0, "x: image 0: neither PNG, JPEG, PGM nor PPM"},
	    {"P5", 0, "x: image 0: truncated"},
	    {"P5 0 1 255 ", 0, "x: image 0: its width is not 1 to 32768"},
	    {"P5 2 40000 255 ", 0, "x: image 0: its height is not 1 to 32768"},
	    {"P5 99999999999999999999 1 255 ", 0, "x: image 0: its width is not 1 to 32768"},
	    {"P5 -1 1 255 x", 0, "x: image 0: its width is not 1 to 32768"},
	    {"P5 2 1 65535 xx", 0, "x: image 0: its largest value is not 1 to 255"},
	    {"P5 2 1 0 x", 0, "x: image 0: its largest value is not 1 to 255"},
	    {"P5 2 1 255", 0, "x: image 0: truncated"},
	    {"P5 2 1 255 a", 0, "x: image 0: truncated"},
	    {"P5 2 2 255 abcd", 0, "x: image 0 is 1x2x2; the model takes 1x1x2"},
	    {"P6 2 1 255 abcdef", 0, "x: image 0 is 3x1x2; the model takes 1x1x2"},
	    {"P2 2 1 255 1   ", 0, "x: image 0: truncated"},
	    {"P2 2 1 255 1 x", 0, "x: image 0: a value exceeds the largest value of the header"},
	    {"P2 2 1 10 1 11", 0, "x: image 0: a value exceeds the largest value of the header"},
	    {"P5 2 1 10 \x01\x0b", 0,
	     "x: image 0: a value exceeds the largest value of the header"},
	    {"P5 2 1 255 abhello", 1, "x: image 1: neither PNG, JPEG, PGM nor PPM"},
	    {"P5 2 1 255 abP5 2 1 255 c", 1, "x: image 1: truncated"},
	};
	const struct net_shape pair = {1, 1, 2}, grey = {1, 2, 3};
	uint8_t bad[sizeof idx + 1], packed[256];
	size_t n = gzip(idx, sizeof idx, packed, sizeof packed);

	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
		ok(refused(row[i].text, strlen(row[i].text), pair, row[i].before, row[i].want),
		   "refused: %s", row[i].want);
	ok(refused(idx, sizeof idx - 1, grey, 1, "x: image 1: truncated"), "IDX truncated");
	ok(refused(idx, 9, grey, 0, "x: truncated in the header"), "... in its header");
	ok(refused(idx, sizeof idx, pair, 0, "x: image 0 is 1x2x3; the model takes 1x1x2"),
	   "IDX of another size");
	memcpy(bad, idx, sizeof idx);
	bad[sizeof idx] = 0;
	ok(refused(bad, sizeof bad, grey, 2, "x: trailing bytes after the last image"),
	   "IDX too long");
	bad[7] = 0;
	ok(refused(bad, 16, grey, 0, "x: no images"), "IDX of none");
	bad[3] = 1;
	ok(refused(bad, 16, grey, 0, "x: not an IDX file of images of bytes"), "IDX of labels");
	ok(refused(packed, n - 12, grey, 0, "x: the gzip data are truncated") ||
	       refused(packed, n - 12, grey, 1, "x: the gzip data are truncated"),
	   "gzip truncated");
	n = gzip("1,2,3\n", 6, packed, sizeof packed);
	ok(refused(packed, n, grey, 0, "x:1: 3 values; the model takes so many"),
	   "a gzipped table");
}

/* Samples that have arrived are available without waiting for the rest. */
static void
test_pipe(void)
{
	static const struct samples_want want = {{1, 1, 2}, SAMPLES_BYTES, "2"};
	static const char first[] = "P5 2 1 255 ab", second[] = "P5 2 1 2";
	struct samples *s = NULL;
	uint8_t item[2];
	bool more = false;
	int fd[2];

	if (pipe(fd) != 0 || write(fd[1], first, sizeof first - 1) < 0)
		exit(1);
	ok(samples_open(fd[0], "x", SAMPLES_STREAM, &want, &s, &err) == RC_OK &&
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

/* ---- arrays and CIFAR-10 */

static void
test_arrays(void)
{
	static const uint8_t values[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
	static const float numbers[] = {1, 2, 3, 4, 5, 6}, own[] = {0.5f, 2, 1, -3};
	const struct net_shape grey = {1, 2, 3}, four = {4, 1, 1}, six = {6, 1, 1};
	static const int64_t whole[] = {1, 2, 3, 4, 5, 6};
	struct buf b = {0}, z = {0};
	uint8_t packed[512];

	npy_put(&b, "|u1", "(2, 2, 3)", values, 12);
	ok(reads(b.data, b.len, 2, grey, values, 12), ".npy of images");
	ok(reads(packed, gzip(b.data, b.len, packed, sizeof packed), 2, grey, values, 12),
	   "... gzipped");
	zip_begin(&z);
	zip_put(&z, "x_train.npy", b.data, b.len, false);
	zip_put(&z, "mean.npy", b.data, b.len, false);
	zip_end_all(&z, "");
	ok(reads(z.data, z.len, 2, grey, values, 12), ".npz of images to train on");
	zip_begin(&z);
	zip_put(&z, "frames.npy", b.data, b.len, true);
	zip_end_all(&z, "");
	ok(reads(z.data, z.len, 2, grey, values, 12), ".npz of one array");
	zip_begin(&z);
	zip_put(&z, "x_train.npy", b.data, b.len, true);
	b.len = 0;
	npy_put(&b, "|u1", "(1, 2, 3)", values + 6, 6);
	zip_put(&z, "x_test.npy", b.data, b.len, true);
	zip_end_all(&z, "");
	ok(reads(z.data, z.len, 1, grey, values + 6, 6), ".npz of images to test with");
	b.len = 0;
	npy_put(&b, "|u1", "(2, 6)", values, 12);
	ok(reads(b.data, b.len, 2, grey, values, 12), "rows of as many values");
	b.len = 0;
	npy_put(&b, "|u1", "(2, 3)", values, 6);
	ok(reads(b.data, b.len, 1, grey, values, 6), "one image by itself");
	b.len = 0;
	npy_put(&b, "<i8", "(6,)", whole, 48);
	ok(reads(b.data, b.len, 1, six, numbers, sizeof numbers), "one row by itself");
	b.len = 0;
	npy_put(&b, "<f4", "(1, 4)", own, sizeof own);
	ok(reads(b.data, b.len, 1, four, own, sizeof own), "rows of features");
	ok(refused(b.data, b.len, grey, 0, "x: samples are 4x1x1; the model takes so many"),
	   "rows of another size");
	b.len = 0;
	npy_put(&b, "|O", "(1, 4)", own, sizeof own);
	ok(refused(b.data, b.len, grey, 0,
		   "x: its type must be bool, u1 to u8, i1 to i8, f4 or f8"),
	   "an array of objects");
	zip_begin(&z);
	zip_put(&z, "fc1.weight.npy", b.data, b.len, false);
	zip_put(&z, "fc1.bias.npy", b.data, b.len, false);
	zip_end_all(&z, "");
	ok(refused(z.data, z.len, grey, 0, "x: no array of samples, such as x_test or images"),
	   "a model");
	buf_fini(&b);
	buf_fini(&z);
}

static void
test_cifar10(void)
{
	const struct net_shape shape = {3, 32, 32}, grey = {1, 2, 3};
	static uint8_t records[2 * 3073], images[2 * 3072], labels[2] = {9, 0};
	struct buf b = {0}, tar = {0};

	for (size_t i = 0; i < sizeof images; i++)
		images[i] = (uint8_t)(i * 7 % 251 * (i < 3072)); /* the second begins with zeros */
	for (int i = 0; i < 2; i++) {
		records[i * 3073] = labels[i];
		memcpy(records + i * 3073 + 1, images + i * 3072, 3072);
	}
	ok(reads(records, sizeof records, 2, shape, images, sizeof images), "records of CIFAR-10");
	ok(reads(records + 3073, 3073, 1, shape, images + 3072, 3072), "... that begin with zeros");
	ok(refused(records, sizeof records - 1, shape, 1, "x: image 1: truncated"),
	   "... truncated");
	records[3073] = 10;
	ok(refused(records, sizeof records, shape, 1,
		   "x: image 1: neither a record of CIFAR-10 nor another format that is supported"),
	   "... with a label of 10");
	put_batch(&b, 2, images, labels);
	ok(reads(b.data, b.len, 2, shape, images, sizeof images), "a pickle");
	ok(refused(b.data, b.len, grey, 0, "x: samples are 3x32x32; the model takes so many"),
	   "... for another model");
	tar_add(&tar, "c/data_batch_1", '0', b.data, b.len);
	tar_end(&tar);
	ok(reads(tar.data, tar.len, 2, shape, images, sizeof images), "an archive");
	tar.len = 0;
	tar_add(&tar, "c/readme", '0', "hello", 5);
	ok(refused(tar.data, tar.len, shape, 0, "x: no batch of CIFAR-10 in the archive"),
	   "another archive");
	ok(refused("\x80\2cos\nsystem\n.", 15, shape, 0,
		   "x: the pickle calls os.system; only arrays of numpy are supported"),
	   "another pickle");
	buf_fini(&b);
	buf_fini(&tar);
}

/* ---- PNG, JPEG, and names of files */

static void
test_encoded(void)
{
	const struct net_shape grey = {1, 2, 3}, small = {3, 1, 1}, half = {1, 1, 2};
	static const uint8_t pixels[] = {1, 2, 3, 4, 5, 6}, wide[] = {10, 20, 30, 40};
	static const uint8_t twice[] = {1, 2, 3, 4, 5, 6, 9, 9, 9, 9, 9, 9, 1, 2, 3, 4, 5, 6};
	static uint8_t nines[6] = {9, 9, 9, 9, 9, 9};
	struct picture png = make_png(2, 3, PNG_FORMAT_GRAY, pixels);
	struct picture jpeg = make_jpeg(2, 3, 1, 0, nines);
	struct buf b = {0};
	bool all = true;

	ok(reads(png.bytes, png.nbytes, 1, grey, pixels, 6), "PNG");
	(void)buf_add(&b, png.bytes, png.nbytes);
	(void)buf_add(&b, jpeg.bytes, jpeg.nbytes);
	(void)buf_add(&b, "\nP5 3 2 255 \1\2\3\4\5\6", 18);
	ok(reads(b.data, b.len, 3, grey, twice, sizeof twice), "PNG, JPEG and PGM in turn");
	for (size_t n = 1; all && n < png.nbytes; n++)
		all = refused(png.bytes, n, grey, 0, "x: image 0: truncated");
	for (size_t n = 3; all && n < jpeg.nbytes; n++)
		all = refused(jpeg.bytes, n, grey, 0, "x: image 0: truncated");
	ok(all, "truncated anywhere");
	(void)buf_add(&b, "junk", 4);
	ok(refused(b.data, b.len, grey, 3, "x: image 3: neither PNG, JPEG, PGM nor PPM"),
	   "rubbish behind them");
	b.len = 0;
	(void)buf_add(&b, png.bytes, png.nbytes);
	(void)buf_add(&b, "junk", 4);
	source = SAMPLES_FILE;
	ok(reads(b.data, b.len, 1, grey, pixels, 6), "a file by itself is an image");
	source = SAMPLES_STREAM;
	ok(refused(png.bytes, png.nbytes, small, 0, "x: an image; the model takes so many"),
	   "a model of features");
	png.bytes[png.nbytes - 14] ^= 1;
	ok(refused(png.bytes, png.nbytes, grey, 0, "x: image 0: damaged PNG: IDAT: CRC error") ||
	       strstr(err.text, "damaged PNG"),
	   "a damaged PNG");
	free(png.bytes);
	png = make_png(1, 4, PNG_FORMAT_GRAY, wide);
	ok(reads(png.bytes, png.nbytes, 1, half, (uint8_t[]){15, 35}, 2),
	   "another size is made fit");
	free(png.bytes);
	free(jpeg.bytes);
	buf_fini(&b);
}

static void
test_files(void)
{
	const struct net_shape grey = {1, 2, 3};
	static const uint8_t pixels[] = {1, 2, 3, 4, 5, 6};
	static const float want[] = {1, 2, 3, 4,  5,  6,  1,  2, 3, 4, 5, 6,
				     7, 8, 9, 10, 11, 12, .5, 0, 0, 0, 0, 0};
	static const struct samples_want want_six = {{1, 2, 3}, SAMPLES_ANY, "so many"};
	struct picture png = make_png(2, 3, PNG_FORMAT_GRAY, pixels);
	char text[1024], *names[4], sentence[300];
	struct samples *s = NULL;
	float values[24];
	bool more = true;
	unsigned n = 0;

	names[0] = strdup(put_bytes("a.png", png.bytes, png.nbytes));
	names[1] = strdup(put_bytes("b.idx", idx, sizeof idx));
	names[2] = strdup(put_text("c.csv", ".5,0,0,0,0,0\n"));
	names[3] = strdup(in_folder("none.png"));
	snprintf(text, sizeof text, "%s\r\n\n%s\n%s", names[0], names[1], names[2]);
	ok(reads(text, strlen(text), 4, grey, want, sizeof want), "names of files, one a line");
	s = samples_open_files(names, 4, &want_six);
	ok(samples_dtype(s) == GPUSIM_F32 && samples_ready(s), "files");
	while (more && samples_next(s, values + 6 * n, &more, &err) == RC_OK)
		n += more && n < 3;
	snprintf(sentence, sizeof sentence, "%s: No such file or directory", names[3]);
	ok(memcmp(values, want, 6 * n * sizeof *values) == 0 && err.rc == RC_FAILED &&
	       strcmp(err.text, sentence) == 0,
	   "... to the one that is not there: %s", err.text);
	samples_close(s);
	snprintf(text, sizeof text, "%s\n%s\n", names[0], folder);
	snprintf(sentence, sizeof sentence, "%s: Is a directory", folder);
	n = 0;
	{
		struct buf out = {0};

		ok(read_all(text, strlen(text), grey, &out, &n) == RC_FAILED && n == 1 &&
		       strcmp(err.text, sentence) == 0,
		   "a folder among them");
		buf_fini(&out);
	}
	for (int i = 0; i < 4; i++)
		free(names[i]);
	free(png.bytes);
}

/* On the scale of training, or rejected. */
static void
test_scale(void)
{
	static const float bytes[] = {1, 2, 3, 4, 255, 0}, fractions[] = {1, 2, .5f, 4, 5, 6};
	static const uint8_t own[] = {1, 2, 3, 4, 255, 0};
	const struct net_shape grey = {1, 2, 3}, six = {6, 1, 1};
	struct buf b = {0};

	values_wanted = SAMPLES_BYTES;
	npy_put(&b, "<f4", "(1, 2, 3)", bytes, sizeof bytes);
	ok(reads(b.data, b.len, 1, grey, bytes, sizeof bytes), "numbers that are bytes");
	b.len = 0;
	npy_put(&b, "<f4", "(1, 2, 3)", fractions, sizeof fractions);
	ok(refused(b.data, b.len, grey, 0, "x: sample 0: value 2 is 0.5; the model takes so many"),
	   "fractions are none");
	ok(refused("1,2,3,4,5,6\n1,2,3,4,5,256\n", 26, grey, 1,
		   "x: sample 1: value 5 is 256; the model takes so many"),
	   "nor is 256");
	ok(refused("1,2,3,4,5,-1\n", 13, grey, 0,
		   "x: sample 0: value 5 is -1; the model takes so many"),
	   "nor -1");
	values_wanted = SAMPLES_NUMBERS;
	ok(reads(b.data, b.len, 1, grey, fractions, sizeof fractions), "numbers for numbers");
	ok(refused(idx, sizeof idx, grey, 0, "x: images of bytes; the model takes so many"),
	   "images of bytes are on another scale");
	b.len = 0;
	npy_put(&b, "|u1", "(1, 6)", own, sizeof own);
	ok(reads(b.data, b.len, 1, six, own, sizeof own), "features may be bytes");
	b.len = 0;
	npy_put(&b, "<i2", "(1, 2, 3)", (int16_t[]){1, 2, 3, 4, 255, 0}, 12);
	ok(reads(b.data, b.len, 1, grey, bytes, sizeof bytes), "words are numbers");
	values_wanted = SAMPLES_ANY;
	buf_fini(&b);
}

int
main(void)
{
	test_images();
	test_tables();
	test_refusals();
	test_pipe();
	test_arrays();
	test_cifar10();
	test_encoded();
	test_scale();
	ok(folder_begin() == 0, "a folder");
	test_files();
	ok(folder_end() == 0, "... is gone");
	return tap_done();
}
