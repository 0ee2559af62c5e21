/* A folder of images and labels, the seeded generator, and the shares of the ranks. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nn/dataset.h"
#include "nn/rng.h"
#include "tap.h"

static char dir[] = "/tmp/t_dataset.XXXXXX";
static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
				    "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

static const char *
in_dir(const char *name)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

static void
put(const char *name, const uint8_t *bytes, size_t nbytes)
{
	FILE *f = fopen(in_dir(name), "wb");

	fwrite(bytes, 1, nbytes, f);
	fclose(f);
}

/* n images of rows x 3; the first byte of image i is i. */
static void
put_images(const char *name, uint8_t n, uint8_t rows)
{
	uint8_t b[16 + 255 * 9] = {0, 0, 8, 3, 0, 0, 0, n, 0, 0, 0, rows, 0, 0, 0, 3};

	for (size_t i = 0; i < n; i++)
		b[16 + i * rows * 3] = (uint8_t)i;
	put(name, b, 16 + (size_t)n * rows * 3);
}

/* n labels 0, 1, ... with `last` as the last. */
static void
put_labels(const char *name, uint8_t n, uint8_t last)
{
	uint8_t b[8 + 255] = {0, 0, 8, 1, 0, 0, 0, n};

	for (uint8_t i = 0; i < n; i++)
		b[8 + i] = i;
	b[8 + n - 1] = last;
	put(name, b, 8 + (size_t)n);
}

static void
put_all(void)
{
	put_images(names[0], 5, 2);
	put_labels(names[1], 5, 4);
	put_images(names[2], 3, 2);
	put_labels(names[3], 3, 6);
}

/* True when the folder is refused with rc and a sentence with `want`, and ds is untouched. */
static bool
refused(enum rc want_rc, const char *want)
{
	static const struct dataset untouched = {.rows = 99, .nclasses = 77};
	struct dataset ds = untouched;
	struct err err = {0};
	enum rc rc = dataset_open(dir, NULL, &ds, &err);
	bool good =
	    rc == want_rc && strstr(err.text, want) && memcmp(&ds, &untouched, sizeof ds) == 0;

	if (!good)
		printf("# rc %d \"%s\", expected \"%s\"\n", (int)rc, err.text, want);
	if (rc == RC_OK)
		dataset_fini(&ds);
	return good;
}

static void
test_reads(void)
{
	struct dataset ds = {0};
	struct err err = {0};
	char from[128];

	put_all();
	ok(dataset_open(dir, NULL, &ds, &err) == RC_OK, "a small folder is read %s", err.text);
	ok(ds.rows == 2 && ds.cols == 3 && ds.train.nitems == 5 && ds.test.nitems == 3,
	   "its numbers");
	ok(ds.nclasses == 7, "classes: the largest label of both parts, plus 1");
	ok(((uint8_t *)ds.train.items)[4 * 6] == 4 && ds.train.labels[3] == 3 &&
	       ((uint8_t *)ds.test.items)[2 * 6] == 2 && ds.test.labels[2] == 6,
	   "images and labels are in their places");
	ok(dataset_check_labels(&ds, 7, &err) == RC_OK, "labels below 7");
	ok(dataset_check_labels(&ds, 6, &err) == RC_BADDATA &&
	       strstr(err.text, "t10k-labels-idx1-ubyte: label 6 of item 2, but the model has 6"),
	   "a label beyond the model is named");
	dataset_fini(&ds);
	ok(!ds.train.items && !ds.test.labels_path, "dataset_fini makes it empty");

	snprintf(from, sizeof from, "%s", in_dir(names[0]));
	rename(from, in_dir("train-images.idx3-ubyte"));
	snprintf(from, sizeof from, "%s", in_dir(names[3]));
	rename(from, in_dir("t10k-labels-idx1-ubyte.gz"));
	ok(dataset_open(dir, NULL, &ds, &err) == RC_OK && ds.train.nitems == 5 &&
	       ds.test.labels[2] == 6,
	   "the other spellings; a raw file called .gz");
	dataset_fini(&ds);
	unlink(in_dir("train-images.idx3-ubyte"));
	unlink(in_dir("t10k-labels-idx1-ubyte.gz"));

	ok(dataset_open("tests/data", NULL, &ds, &err) == RC_OK && ds.train.nitems == 512 &&
	       ds.test.nitems == 256 && ds.rows == 28 && ds.cols == 28 && ds.nclasses == 10,
	   "real MNIST from tests/data %s", err.text);
	dataset_fini(&ds);
}

static void
test_refusals(void)
{
	const struct dataset_options idx = {.format = DATASET_IDX};
	struct dataset ds;
	struct err err = {0};

	put_all();
	ok(dataset_open("/no/such", NULL, &ds, &err) == RC_FAILED &&
	       strstr(err.text, "/no/such: No such file"),
	   "a missing folder: %s", err.text);
	ok(dataset_open(in_dir(names[0]), &idx, &ds, &err) == RC_FAILED &&
	       strstr(err.text, "Not a directory"),
	   "a file given as folder");
	for (int i = 0; i < 4; i++) {
		unlink(in_dir(names[i]));
		ok(refused(RC_FAILED, names[i]), "without %s", names[i]);
		put_all();
	}
	put_labels(names[1], 4, 3);
	ok(refused(RC_BADDATA, "train-images-idx3-ubyte: 5 images but 4 labels in"),
	   "a label too few");
	put_images(names[1], 5, 2);
	ok(refused(RC_BADDATA, "train-labels-idx1-ubyte: mislabelled: 3 dimensions"),
	   "images called labels");
	put_all();
	put_labels(names[2], 3, 2);
	ok(refused(RC_BADDATA, "t10k-images-idx3-ubyte: mislabelled: 1 dimensions"),
	   "labels called images");
	put_images(names[2], 3, 3);
	ok(refused(RC_BADDATA, "train images are 2x3 but t10k images 3x3"), "two image sizes");
	put_all();
	ok(truncate(in_dir(names[2]), 20) == 0 &&
	       refused(RC_BADDATA, "t10k-images-idx3-ubyte: truncated"),
	   "a truncated file");
}

static void
test_rng(void)
{
	static const uint64_t mix[] = {6457827717110365317u, 3203168211198807973u,
				       9817491932198370423u, 4593380528125082431u,
				       16408922859458223821u};
	static const uint64_t xo[] = {11520u,
				      0u,
				      1509978240u,
				      1215971899390074240u,
				      1216172134540287360u,
				      607988272756665600u,
				      16172922978634559625u,
				      8476171486693032832u,
				      10595114339597558777u,
				      2904607092377533576u};
	struct rng rng = {{1, 2, 3, 4}};
	uint64_t state = 1234567;
	double sum = 0;
	float lo = 2, hi = -2;
	bool good = true;

	for (size_t i = 0; i < sizeof mix / sizeof mix[0]; i++)
		good &= splitmix64(&state) == mix[i];
	ok(good, "splitmix64 as published");
	good = true;
	for (size_t i = 0; i < sizeof xo / sizeof xo[0]; i++)
		good &= rng_next(&rng) == xo[i];
	ok(good, "xoshiro256** as published");
	good = true;
	for (uint64_t n = 1; n < 100; n++)
		for (int i = 0; i < 100; i++)
			good &= rng_below(&rng, n) < n;
	for (int i = 0; i < 1000; i++)
		good &= rng_below(&rng, (UINT64_C(1) << 63) + 1) <= UINT64_C(1) << 63;
	ok(good, "rng_below stays below");
	rng_init(&rng, 0);
	for (int i = 0; i < 100000; i++) {
		float x = rng_uniform(&rng, -1, 3);

		lo = x < lo ? x : lo;
		hi = x > hi ? x : hi;
		sum += (double)x;
	}
	ok(lo >= -1 && lo < -0.99f && hi <= 3 && hi > 2.99f && sum > 98000 && sum < 102000,
	   "rng_uniform fills [-1, 3]: %g..%g, mean %g", (double)lo, (double)hi, sum / 100000);
}

static void
test_permutation(void)
{
	static const uint32_t golden[10] = {7, 3, 8, 9, 5, 6, 4, 1, 0, 2};
	enum { N = 60000 };
	uint32_t *a = calloc(N, 4), *b = calloc(N, 4), few[10];
	uint8_t *seen = calloc(N, 1);
	struct rng rng;
	uint32_t fixed = 0;
	bool good = true;
	int first[3] = {0};

	rng_init(&rng, 42);
	rng_permutation(&rng, 10, few);
	ok(memcmp(few, golden, sizeof few) == 0, "seed 42 gives the same order as ever");
	rng_init(&rng, 7);
	rng_permutation(&rng, N, a);
	rng_init(&rng, 7);
	rng_permutation(&rng, N, b);
	ok(memcmp(a, b, N * 4) == 0, "the same seed, the same order");
	rng_init(&rng, 8);
	rng_permutation(&rng, N, b);
	ok(memcmp(a, b, N * 4) != 0, "another seed, another order");
	for (uint32_t i = 0; i < N; i++) {
		good &= a[i] < N && !seen[a[i]];
		seen[a[i] % N] = 1;
		fixed += a[i] == i;
	}
	ok(good, "each of 60000 once");
	ok(fixed < 10, "few stay where they were: %u", fixed);
	rng_permutation(&rng, 0, NULL);
	for (int i = 0; i < 3000; i++) {
		rng_permutation(&rng, 3, few);
		first[few[0]]++;
	}
	good = true;
	for (int i = 0; i < 3; i++)
		good &= first[i] > 850 && first[i] < 1150;
	ok(good, "each of three is first as often: %d %d %d", first[0], first[1], first[2]);
	free(a);
	free(b);
	free(seen);
}

static void
test_share(void)
{
	uint32_t begin, end, at;
	bool good = true;

	for (uint32_t p = 1; p <= 64; p++)
		for (uint32_t n = 0; n <= 3 * p; n++) {
			at = 0;
			for (uint32_t r = 0; r < p; r++) {
				dataset_share(n, r, p, &begin, &end);
				good &= begin == at && end - begin >= n / p &&
					end - begin <= (n + p - 1) / p;
				at = end;
			}
			good &= at == n;
		}
	ok(good, "shares cover all samples once, p = 1..64, n = 0..3p");
	dataset_share(UINT32_MAX, UINT32_MAX - 1, UINT32_MAX, &begin, &end);
	ok(begin == UINT32_MAX - 1 && end == UINT32_MAX, "no overflow at the largest numbers");
}

int
main(void)
{
	if (!mkdtemp(dir)) {
		ok(false, "mkdtemp");
		return tap_done();
	}
	test_reads();
	test_refusals();
	for (int i = 0; i < 4; i++)
		unlink(in_dir(names[i]));
	ok(rmdir(dir) == 0, "nothing else in the folder");
	test_rng();
	test_permutation();
	test_share();
	return tap_done();
}
