/* IDX files, raw and gzipped: accepted files, and every error with its message. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gzip.h"
#include "nn/idx.h"
#include "tap.h"

/* A small image file: 3 images of 2x4. */
static const uint8_t images[16 + 24] = {0, 0, 8, 3, 0, 0, 0, 3,	  0,  0,
					0, 2, 0, 0, 0, 4, 7, 200, 255};

static const struct idx untouched = {.ndim = 99, .nbytes = 77};

/* True if the bytes are rejected with RC_BADDATA, "x.idx: ...want...", and idx untouched. */
static bool
refused(const void *bytes, size_t nbytes, const char *want)
{
	struct idx idx = untouched;
	struct err err = {0};
	enum rc rc = idx_parse(bytes, nbytes, "x.idx", &idx, &err);
	bool good = rc == RC_BADDATA && err.rc == rc && strncmp(err.text, "x.idx: ", 7) == 0 &&
		    strstr(err.text, want) && memcmp(&idx, &untouched, sizeof idx) == 0;

	if (!good)
		printf("# rc %d \"%s\", expected \"%s\"\n", (int)rc, err.text, want);
	if (rc == RC_OK)
		idx_fini(&idx);
	return good;
}

static bool
is_images(const struct idx *idx)
{
	return idx->ndim == 3 && idx->dim[0] == 3 && idx->dim[1] == 2 && idx->dim[2] == 4 &&
	       idx->dim[3] == 0 && idx->nbytes == 24 && memcmp(idx->data, images + 16, 24) == 0;
}

static void
test_reads(void)
{
	uint8_t packed[4096], four[4 + 16 + 1] = {0, 0, 8, 4};
	struct idx idx = {0};
	struct err err = {0};
	size_t n, half;
	bool good = true;

	ok(idx_parse(images, sizeof images, "x", &idx, &err) == RC_OK && is_images(&idx), "raw");
	idx_fini(&idx);
	ok(idx.data == NULL && idx.nbytes == 0, "idx_fini makes it empty");
	n = gzip(images, sizeof images, packed, sizeof packed);
	ok(idx_parse(packed, n, "x", &idx, &err) == RC_OK && is_images(&idx), "gzipped");
	idx_fini(&idx);
	half = gzip(images, 21, packed, sizeof packed);
	n = half + gzip(images + 21, sizeof images - 21, packed + half, sizeof packed - half);
	ok(idx_parse(packed, n, "x", &idx, &err) == RC_OK && is_images(&idx),
	   "gzipped in two members");
	idx_fini(&idx);
	for (uint8_t nd = 1; nd <= 4; nd++) {
		for (int i = 0; i < nd; i++)
			four[4 + 4 * i + 3] = 1;
		four[3] = nd;
		good &= idx_parse(four, 4 + 4u * nd + 1, "x", &idx, &err) == RC_OK &&
			idx.ndim == nd && idx.nbytes == 1;
		idx_fini(&idx);
	}
	ok(good, "1 to 4 dimensions");
}

/* Large enough that the buffer grows several times and the file is read in several pieces. */
static void
test_large(void)
{
	const size_t ndata = 1000003;
	uint8_t *raw = calloc(1, 8 + ndata), *packed = malloc(2 * ndata);
	struct idx idx = {0};
	struct err err = {0};
	uint64_t x = 1;
	size_t n;

	memcpy(raw, (const uint8_t[]){0, 0, 8, 1, 0, 0x0f, 0x42, 0x43}, 8);
	for (size_t i = 0; i < ndata; i++)
		raw[8 + i] = (uint8_t)((x = x * 6364136223846793005u + 1442695040888963407u) >> 56);
	n = gzip(raw, 8 + ndata, packed, 2 * ndata);
	ok(idx_parse(packed, n, "x", &idx, &err) == RC_OK && idx.nbytes == ndata &&
	       memcmp(idx.data, raw + 8, ndata) == 0,
	   "a million gzipped bytes");
	idx_fini(&idx);
	ok(refused(packed, n - 9, "are truncated"), "truncated in the last block");
	ok(refused(packed, n - 8, "are truncated"), "truncated before the checksum");
	ok(refused(packed, n - 1, "are truncated"), "truncated in the length");
	packed[n / 2] ^= 0xff;
	ok(refused(packed, n, "gzip"), "a flipped byte in the middle");
	packed[n / 2] ^= 0xff;
	packed[n - 6] ^= 1;
	ok(refused(packed, n, "incorrect data check"), "a wrong checksum");
	free(raw);
	free(packed);
}

static void
test_refusals(void)
{
	uint8_t b[64], packed[4096], z[4096] = {0};
	bool good = true;
	size_t n;

	memcpy(b, images, sizeof images);
	ok(refused("", 0, "0 bytes are too few"), "empty");
	for (size_t i = 1; i < sizeof images; i++)
		good = good && refused(images, i,
				       i < 4	? "too few"
				       : i < 16 ? "header ends after"
						: "truncated: dimensions 3x2x4 need 40");
	ok(good, "every truncation of a raw file");
	n = gzip(images, sizeof images, packed, sizeof packed);
	good = true;
	for (size_t i = 1; i < n; i++)
		good = good && refused(packed, i, i < 2 ? "too few" : "are truncated");
	ok(good, "every truncation of a gzipped file");
	ok(refused(b, sizeof images + 1, "trailing bytes"), "trailing bytes, raw");
	n = gzip(b, sizeof images + 1, packed, sizeof packed);
	ok(refused(packed, n, "trailing bytes after the 24"), "trailing bytes inside the gzip");
	n = gzip(images, sizeof images, packed, sizeof packed);
	packed[n] = 'x';
	ok(refused(packed, n + 1, "trailing bytes after the gzip"),
	   "trailing bytes after the gzip");
	n = gzip(images, sizeof images - 5, packed, sizeof packed);
	ok(refused(packed, n, "need 24 bytes of data, there are 19"),
	   "a short file, gzipped whole");
	packed[2] = 9;
	ok(refused(packed, n, "corrupted gzip"), "an unknown gzip method");
	ok(refused("\x89PNG\r\n", 6, "not an IDX file: magic 0x89504e47"), "a picture");
	b[2] = 0x0d;
	ok(refused(b, sizeof images, "type 0x0d"), "float elements");
	b[2] = 8;
	b[3] = 0;
	ok(refused(b, sizeof images, "0 dimensions"), "no dimensions");
	b[3] = 5;
	ok(refused(b, sizeof images, "5 dimensions"), "5 dimensions");
	b[3] = 3;
	b[7] = 0;
	ok(refused(b, sizeof images, "dimensions 0x2x4 hold no items"), "zero images");
	ok(refused(b, 16, "dimensions 0x2x4 hold no items"), "zero images and no data");
	n = gzip(z, sizeof z, packed, sizeof packed);
	ok(refused(packed, n, "type 0x00"), "gzipped zeros");
}

/* With 1 GiB of address space, allocating by the claim would give RC_NOMEM, not RC_BADDATA. */
static void
test_claims(void)
{
	uint8_t h[4 + 16] = {0, 0, 8, 4}, packed[256];
	struct rlimit old, low;
	size_t n;

	getrlimit(RLIMIT_AS, &old);
	low = old;
	if (!SANITIZED) /* which reserve terabytes of address space */
		low.rlim_cur = (rlim_t)1 << 30;
	setrlimit(RLIMIT_AS, &low);
	memset(h + 4, 0xff, 16);
	ok(refused(h, sizeof h, "more than the limit"), "dimensions whose product overflows");
	memcpy(h, (const uint8_t[]){0, 0, 8, 2, 0, 1, 0, 0, 0, 1, 0, 1}, 12);
	ok(refused(h, 12, "more than the limit of 4294967296"), "one byte row over the limit");
	h[11] = 0;
	ok(refused(h, 12, "need 4294967308 bytes; the file has 12"), "4 GiB claimed, raw");
	n = gzip(h, 12, packed, sizeof packed);
	ok(refused(packed, n, "cannot hold them"), "4 GiB claimed, gzipped");
	setrlimit(RLIMIT_AS, &old);
}

static void
test_files(void)
{
	char dir[] = "/tmp/t_idx.XXXXXX", path[64];
	struct idx idx = untouched;
	struct err err = {0};
	FILE *f;

	if (!mkdtemp(dir)) {
		ok(false, "mkdtemp");
		return;
	}
	snprintf(path, sizeof path, "%s/no such", dir);
	ok(idx_read(path, &idx, &err) == RC_FAILED && strstr(err.text, "No such file"),
	   "a missing file: %s", err.text);
	ok(idx_read(dir, &idx, &err) == RC_FAILED && strstr(err.text, "directory"), "a directory");
	snprintf(path, sizeof path, "%s/fifo", dir);
	mkfifo(path, 0600);
	ok(idx_read(path, &idx, &err) == RC_FAILED && strstr(err.text, "not a regular file"),
	   "a fifo does not block");
	unlink(path);
	ok(memcmp(&idx, &untouched, sizeof idx) == 0, "the output is untouched");
	snprintf(path, sizeof path, "%s/images", dir);
	f = fopen(path, "wb");
	fwrite(images, 1, sizeof images, f);
	fclose(f);
	ok(idx_read(path, &idx, &err) == RC_OK && is_images(&idx), "a raw file");
	idx_fini(&idx);
	if (truncate(path, 39) != 0 || idx_read(path, &idx, &err) != RC_BADDATA)
		snprintf(err.text, sizeof err.text, "not refused");
	ok(strstr(err.text, "/images: truncated: dimensions 3x2x4 need 40 bytes; the file has 39"),
	   "a truncated raw file");
	unlink(path);
	rmdir(dir);
	ok(idx_read("tests/data/train-images-idx3-ubyte.gz", &idx, &err) == RC_OK &&
	       idx.ndim == 3 && idx.dim[0] == 512 && idx.dim[1] == 28 && idx.dim[2] == 28,
	   "real MNIST images from tests/data");
	idx_fini(&idx);
}

int
main(void)
{
	test_reads();
	test_large();
	test_refusals();
	test_claims();
	test_files();
	return tap_done();
}
