/* Images that a net is asked about: IDX, PGM and PPM, from memory and from a pipe. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "nn/images.h"
#include "tap.h"

/* The sanitizers reserve terabytes of address space: no limit under them. */
#if defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static const uint8_t idx[16 + 12] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2,  0,  0,
				     0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

/* Do the bytes make so many images of channels x rows x cols with these values? */
static bool
reads(const void *bytes, size_t nbytes, uint32_t n, uint32_t channels, uint32_t rows, uint32_t cols,
      const uint8_t *values)
{
	struct images im = {0};
	struct err err = {0};
	bool good = images_parse(bytes, nbytes, "x", &im, &err) == RC_OK && im.nitems == n &&
		    im.channels == channels && im.rows == rows && im.cols == cols &&
		    memcmp(im.items, values, (size_t)n * channels * rows * cols) == 0;

	if (!good)
		printf("# %ux%ux%ux%u %s\n", im.nitems, im.channels, im.rows, im.cols, err.text);
	images_fini(&im);
	return good && !im.items;
}

static bool
refused(const void *bytes, size_t nbytes, const char *want)
{
	static const struct images untouched = {.nitems = 99};
	struct images im = untouched;
	struct err err = {0};
	enum rc rc = images_parse(bytes, nbytes, "x", &im, &err);
	bool good = rc == RC_BADDATA && strncmp(err.text, "x: ", 3) == 0 &&
		    strstr(err.text, want) && memcmp(&im, &untouched, sizeof im) == 0;

	if (!good)
		printf("# rc %d \"%s\", expected \"%s\"\n", (int)rc, err.text, want);
	if (rc == RC_OK)
		images_fini(&im);
	return good;
}

static void
test_reads(void)
{
	static const uint8_t values[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
	static const uint8_t scaled[] = {0, 128, 255}, planes[] = {1, 4, 2, 5, 3, 6};
	uint8_t packed[256];
	z_stream z = {0};

	ok(reads(idx, sizeof idx, 2, 1, 2, 3, values), "IDX");
	deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
	z.next_in = (Bytef *)(uintptr_t)idx;
	z.avail_in = sizeof idx;
	z.next_out = packed;
	z.avail_out = sizeof packed;
	deflate(&z, Z_FINISH);
	deflateEnd(&z);
	ok(reads(packed, z.total_out, 2, 1, 2, 3, values), "IDX, gzipped");
	ok(reads("P5\n3 2\n255\n\1\2\3\4\5\6", 17, 1, 1, 2, 3, values), "a PGM");
	ok(reads("P5 3 2 255 \1\2\3\4\5\6P5\n# two\n3 2\n255\n\7\10\11\12\13\14", 40, 2, 1, 2, 3,
		 values),
	   "two PGM, and a comment");
	ok(reads("P5 3 2 255 \1\2\3\4\5\6\nP2 3 2 255\n7 8 9\n10 11 #x\n12\n", 46, 2, 1, 2, 3,
		 values),
	   "one in bytes and one in digits, with a newline between and behind");
	ok(reads("P2\n3 1\n4\n0 2 4", 14, 1, 1, 1, 3, scaled), "values are scaled to 255");
	ok(reads("P6\n2 1\n255\n\1\2\3\4\5\6", 17, 1, 3, 1, 2, planes), "a PPM becomes planes");
	ok(reads("P3 2 1 255 1 2 3 4 5 6", 22, 1, 3, 1, 2, planes), "a PPM in digits");
	ok(reads("P5 1 1 255 P", 12, 1, 1, 1, 1, (const uint8_t *)"P"), "a pixel that is a P");
}

static void
test_refusals(void)
{
	static const struct {
		const char *text, *want;
	} row[] = {
	    {"", "no images"},
	    {"hello", "image 0: neither IDX, PGM nor PPM"},
	    {" \n", "image 0: neither IDX, PGM nor PPM"},
	    {"P4 8 1 x", "image 0: neither IDX, PGM nor PPM"},
	    {"P", "image 0: neither"},
	    {"P5", "image 0: width and height are not 1 to 32768"},
	    {"P5 0 1 255 ", "image 0: width and height"},
	    {"P5 40000 1 255 ", "image 0: width and height"},
	    {"P5 99999999999999999999 1 255 ", "image 0: width and height"},
	    {"P5 -1 1 255 x", "image 0: width and height"},
	    {"P5 1 1 65535 xx", "image 0: the largest value is not 1 to 255"},
	    {"P5 1 1 0 x", "image 0: the largest value is not 1 to 255"},
	    {"P5 1 1 255", "image 0: cut short after the header"},
	    {"P5 2 2 255 abc", "image 0: cut short"},
	    {"P5 32768 32768 255 abc", "image 0: cut short"},
	    {"P2 2 2 255 1 2 3", "image 0: cut short"},
	    {"P2 2 2 255 1 2 3   ", "image 0: cut short"},
	    {"P2 2 1 255 1 x", "image 0: a value is no number up to 255"},
	    {"P2 2 1 255 1 256", "image 0: a value is no number up to 255"},
	    {"P2 2 1 10 1 11", "image 0: a value beyond its largest"},
	    {"P5 2 1 10 \x01\x0b", "image 0: a value beyond its largest"},
	    {"P5 1 1 255 aP5 1 2 255 ab", "image 1 is 1x2x1, the first 1x1x1"},
	    {"P5 1 1 255 aP6 1 1 255 abc", "image 1 is 3x1x1, the first 1x1x1"},
	    {"P5 1 1 255 ab", "image 1: neither"},
	    {"P5 1 1 255 aP5 1 1", "image 1: the largest value"},
	};
	uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 1, 7};

	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
		ok(refused(row[i].text, strlen(row[i].text), row[i].want), "refused: %s",
		   row[i].want);
	ok(refused(idx, sizeof idx - 1, "truncated"), "IDX cut short");
	ok(refused(idx, 9, "header ends"), "IDX cut short in its header");
	ok(refused(labels, sizeof labels, "1 dimensions, images have 3"), "labels");
	ok(refused("\x1f\x8b\x08zz", 5, "gzip"), "broken gzip");
}

/* With half a GiB of address space, a claim that were believed would be RC_NOMEM, not RC_BADDATA. */
static void
test_claims(void)
{
	static const char claim[] = "P6 32768 32768 255 abc", digits[] = "P2 32768 32768 9 1 2 3";
	struct rlimit old, low;

	getrlimit(RLIMIT_AS, &old);
	low = old;
	low.rlim_cur = 512u << 20;
	if (!SANITIZED)
		setrlimit(RLIMIT_AS, &low);
	ok(refused(claim, sizeof claim - 1, "image 0: cut short") &&
	       refused(digits, sizeof digits - 1, "image 0: cut short"),
	   "sizes are not believed");
	setrlimit(RLIMIT_AS, &old);
}

/* From a pipe that is written in pieces; more than a pipe holds. */
static void
test_pipe(void)
{
	enum { SIDE = 300, N = 3 };
	struct images im = {0};
	struct err err = {0};
	uint8_t *all = malloc(N * (SIDE * SIDE + 16)), *p = all;
	bool good = true;
	int fd[2];
	pid_t child;

	for (int i = 0; i < N; i++) {
		p += sprintf((char *)p, "P5 %d %d 255\n", SIDE, SIDE);
		memset(p, i + 1, SIDE * SIDE);
		p += SIDE * SIDE;
	}
	if (pipe(fd) != 0 || (child = fork()) < 0) {
		ok(false, "a pipe");
		return;
	}
	if (child == 0) {
		close(fd[0]);
		for (uint8_t *q = all; q < p;) {
			ssize_t n = write(fd[1], q, (size_t)(p - q < 1000 ? p - q : 1000));

			if (n <= 0)
				_exit(1);
			q += n;
		}
		_exit(0);
	}
	close(fd[1]);
	good = images_read(fd[0], "standard input", &im, &err) == RC_OK && im.nitems == N &&
	       im.rows == SIDE && im.cols == SIDE;
	for (int i = 0; i < N && good; i++)
		good = im.items[i * SIDE * SIDE] == i + 1 &&
		       im.items[(i + 1) * SIDE * SIDE - 1] == i + 1;
	ok(good, "three images from a pipe %s", err.text);
	close(fd[0]);
	waitpid(child, NULL, 0);
	images_fini(&im);
	free(all);
	fd[0] = open(".", O_RDONLY | O_CLOEXEC);
	ok(images_read(fd[0], "standard input", &im, &err) == RC_FAILED &&
	       strstr(err.text, "standard input: Is a directory"),
	   "a folder: %s", err.text);
	close(fd[0]);
}

int
main(void)
{
	test_reads();
	test_refusals();
	test_claims();
	test_pipe();
	return tap_done();
}
