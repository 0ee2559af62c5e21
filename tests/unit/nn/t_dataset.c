/* A folder of images and labels, the seeded generator, and the shares of the ranks. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataset_test.h"
#include "nn/rng.h"
#include "tap.h"

static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
				    "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

/* n images of rows x 3; the first byte of image i is i. */
static void
put_images(const char *name, uint8_t n, uint8_t rows)
{
	uint8_t b[16 + 255 * 9] = {0, 0, 8, 3, 0, 0, 0, n, 0, 0, 0, rows, 0, 0, 0, 3};

	for (size_t i = 0; i < n; i++)
		b[16 + i * rows * 3] = (uint8_t)i;
	put_bytes(name, b, 16 + (size_t)n * rows * 3);
}

/* n labels 0, 1, ... with `last` as the last. */
static void
put_labels(const char *name, uint8_t n, uint8_t last)
{
	uint8_t b[8 + 255] = {0, 0, 8, 1, 0, 0, 0, n};

	for (uint8_t i = 0; i < n; i++)
		b[8 + i] = i;
	b[8 + n - 1] = last;
	put_bytes(name, b, 8 + (size_t)n);
}

static void
put_all(void)
{
	put_images(names[0], 5, 2);
	put_labels(names[1], 5, 6);
	put_images(names[2], 3, 2);
	put_labels(names[3], 3, 5);
}

static bool
refused(enum rc want_rc, const char *want)
{
	return dataset_refused(folder, NULL, want_rc, want);
}

static void
test_untaught(void)
{
	put_all();
	put_labels(names[3], 3, 7);
	ok(refused(RC_BADDATA,
		   "t10k-labels-idx1-ubyte: label 7 of item 2; the largest training label is 6"),
	   "a class that is only tested");
}

static void
test_reads(void)
{
	struct dataset ds = {0};
	struct err err = {0};
	char from[PATH_MAX];

	put_all();
	ok(dataset_open(folder, NULL, &ds, &err) == RC_OK, "a small folder is read %s", err.text);
	ok(ds.rows == 2 && ds.cols == 3 && ds.train.nitems == 5 && ds.test.nitems == 3,
	   "its numbers");
	ok(ds.nclasses == 7, "classes: the largest label to train with, plus 1");
	ok(((uint8_t *)ds.train.items)[4 * 6] == 4 && ds.train.labels[3] == 3 &&
	       ((uint8_t *)ds.test.items)[2 * 6] == 2 && ds.test.labels[2] == 5,
	   "images and labels are in their places");
	ok(dataset_check_labels(&ds, 7, &err) == RC_OK, "labels below 7");
	ok(dataset_check_labels(&ds, 6, &err) == RC_BADDATA &&
	       strstr(err.text, "train-labels-idx1-ubyte: label 6 of item 4, but the model has 6"),
	   "a label beyond the model is named");
	dataset_fini(&ds);
	ok(!ds.train.items && !ds.test.labels_path, "dataset_fini makes it empty");

	snprintf(from, sizeof from, "%s", in_folder(names[0]));
	rename(from, in_folder("train-images.idx3-ubyte"));
	snprintf(from, sizeof from, "%s", in_folder(names[3]));
	rename(from, in_folder("t10k-labels-idx1-ubyte.gz"));
	ok(dataset_open(folder, NULL, &ds, &err) == RC_OK && ds.train.nitems == 5 &&
	       ds.test.labels[2] == 5,
	   "the other spellings; a raw file called .gz");
	dataset_fini(&ds);
	unlink(in_folder("train-images.idx3-ubyte"));
	unlink(in_folder("t10k-labels-idx1-ubyte.gz"));

	put_all();
	snprintf(from, sizeof from, "%s", in_folder(names[2]));
	rename(from, in_folder("test-images-idx3-ubyte"));
	snprintf(from, sizeof from, "%s", in_folder(names[3]));
	rename(from, in_folder("test-labels-idx1-ubyte"));
	ok(dataset_open(folder, NULL, &ds, &err) == RC_OK && ds.test.nitems == 3,
	   "test for t10k %s", err.text);
	dataset_fini(&ds);
	unlink(in_folder("test-images-idx3-ubyte"));
	unlink(in_folder("test-labels-idx1-ubyte"));

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
	ok(dataset_open(in_folder(names[0]), &idx, &ds, &err) == RC_FAILED &&
	       strstr(err.text, "Not a directory"),
	   "a file given as folder");
	for (int i = 0; i < 4; i++) {
		unlink(in_folder(names[i]));
		ok(refused(RC_FAILED, names[i]), "without %s", names[i]);
		put_all();
	}
	put_labels(names[1], 4, 3);
	ok(refused(RC_BADDATA, "train-images-idx3-ubyte: 5 images, but 4 labels in"),
	   "a label too few");
	put_images(names[1], 5, 2);
	ok(refused(RC_BADDATA, "train-labels-idx1-ubyte: mislabelled: 3 dimensions"),
	   "images called labels");
	put_all();
	put_labels(names[2], 3, 2);
	ok(refused(RC_BADDATA, "t10k-images-idx3-ubyte: mislabelled: 1 dimensions"),
	   "labels called images");
	put_images(names[2], 3, 3);
	ok(refused(RC_BADDATA, "train images are 2x3, but t10k images are 3x3"), "two image sizes");
	put_all();
	ok(truncate(in_folder(names[2]), 20) == 0 &&
	       refused(RC_BADDATA, "t10k-images-idx3-ubyte: truncated"),
	   "a truncated file");
}

/* 200 images to train and 50 to test, each with unique bytes: its number. */
static void
put_numbered(void)
{
	uint8_t images[16 + 200 * 2] = {0, 0, 8, 3, 0, 0, 0, 200, 0, 0, 0, 1, 0, 0, 0, 2};
	uint8_t labels[8 + 200] = {0, 0, 8, 1, 0, 0, 0, 200};

	for (int part = 0; part < 2; part++) {
		uint8_t n = part ? 50 : 200;

		images[7] = labels[7] = n;
		for (uint8_t i = 0; i < n; i++) {
			images[16 + 2 * i] = i;
			images[17 + 2 * i] = (uint8_t)part;
			labels[8 + i] = (uint8_t)((i + part) % 10);
		}
		put_bytes(names[2 * part], images, 16 + 2u * n);
		put_bytes(names[2 * part + 1], labels, 8 + (size_t)n);
	}
}

/*
 * Count each image in all parts; false if an image is there twice, or with a wrong label. *crossed:
 * the images outside of their file's part.
 */
static bool
each_once(const struct dataset *ds, uint32_t *crossed)
{
	const struct dataset_part *part[] = {&ds->train, &ds->validation, &ds->test};
	uint8_t seen[2][256] = {{0}};
	bool good = true;

	*crossed = 0;
	for (int p = 0; p < 3; p++)
		for (uint32_t i = 0; i < part[p]->nitems; i++) {
			const uint8_t *item = (uint8_t *)part[p]->items + 2 * (size_t)i;

			good &= !seen[item[1]][item[0]]++ &&
				part[p]->labels[i] == (item[0] + item[1]) % 10;
			*crossed += item[1] != (p == 2);
		}
	return good;
}

static void
test_split(void)
{
	static const struct {
		struct dataset_options o;
		uint32_t train, validation, test;
		bool crosses;
		const char *what;
	} row[] = {
	    {{0}, 200, 0, 50, false, "as the files say"},
	    {{.validation = 0.1}, 180, 20, 50, false, "validation is taken from training"},
	    {{.train = 0.7, .validation = 0.2}, 140, 40, 50, false, "the test part stays"},
	    {{.train = 0.7, .validation = 0.2, .test = 0.1}, 175, 50, 25, true, "all is dealt out"},
	    {{.train = 0.8, .test = 0.2}, 200, 0, 50, true, "without validation"},
	    {{.train = 0.5, .test = 0.1}, 125, 0, 25, true, "less than 1 leaves some out"},
	    {{.train = 1. / 3, .validation = 1. / 3, .test = 1. / 3}, 83, 83, 84, true, "thirds"},
	    {{.train_items = 30}, 30, 0, 50, false, "30 to train on"},
	    {{.train_items = 9999}, 200, 0, 50, false, "so many there are not"},
	    {{.train = 0.8, .test = 0.2, .train_items = 7}, 7, 0, 50, true, "7 of a split"},
	    {{.seed = 5, .train = 0.8, .test = 0.2}, 200, 0, 50, true, "another seed"},
	    {{.test_items = 30}, 200, 0, 30, false, "30 to test with"},
	    {{.test_items = 50}, 200, 0, 50, false, "all that there are"},
	    {{.test_items = 30, .seed = 5}, 200, 0, 30, false, "30 by another seed"},
	    {{.train = 0.8, .test = 0.2, .test_items = 7}, 200, 0, 7, true, "7 of a split's"},
	    {{.test_items = 1, .train_items = 1, .validation = 0.1}, 1, 20, 1, false, "one each"},
	};
	struct dataset ds = {0};
	struct err err = {0};
	uint32_t crossed, crc[16];

	put_numbered();
	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
		enum rc rc = dataset_open(folder, &row[i].o, &ds, &err);
		bool once = rc == RC_OK && each_once(&ds, &crossed);

		ok(once && ds.train.nitems == row[i].train &&
		       ds.validation.nitems == row[i].validation && ds.test.nitems == row[i].test &&
		       (crossed > 0) == row[i].crosses && ds.nclasses == 10,
		   "split: %s: %u %u %u %s", row[i].what, ds.train.nitems, ds.validation.nitems,
		   ds.test.nitems, err.text);
		crc[i] = dataset_crc(&ds);
		dataset_fini(&ds);
	}
	ok(crc[4] != crc[10], "another seed, another split");
	ok(crc[11] != crc[13] && crc[12] == crc[0], "another seed, others to test with");
	ok(dataset_open(folder, &row[3].o, &ds, &err) == RC_OK && dataset_crc(&ds) == crc[3],
	   "the same seed, the same split");
	dataset_fini(&ds);
}

static void
test_bad_split(void)
{
	static const struct {
		struct dataset_options o;
		enum rc rc;
		const char *want;
	} row[] = {
	    {{.train = 0.8, .test = 0.3}, RC_INVAL, "split: 0.8, 0 and 0.3 sum to more than 1"},
	    {{.train = -0.1, .test = 0.3}, RC_INVAL, "split: -0.1 is not a fraction"},
	    {{.train = __builtin_nan(""), .test = 0.3}, RC_INVAL, "is not a fraction"},
	    {{.validation = 1}, RC_BADDATA, "the split 0,1,0 of 200 samples leaves none to train"},
	    {{.test = 0.5}, RC_BADDATA, "the split 0,0,0.5 of 250 samples leaves none to train on"},
	    {{.train = 0.5, .test = 0.001}, RC_BADDATA, "leaves none to test with"},
	};
	struct dataset ds;

	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
		struct err err = {0};

		ok(dataset_open(folder, &row[i].o, &ds, &err) == row[i].rc &&
		       strstr(err.text, row[i].want),
		   "refused: %s", err.text);
	}
}

static void
test_scales(void)
{
	const struct dataset_options unit = {0}, raw = {.normalize = DATASET_RAW},
				     standard = {.normalize = DATASET_STANDARD};
	struct dataset ds = {0};
	struct err err = {0};
	uint32_t crc[3];
	double mean = 0, square = 0;

	put_numbered();
	ok(dataset_open(folder, &unit, &ds, &err) == RC_OK && ds.scale[0] == 1.0f / 255 &&
	       ds.shift[0] == 0,
	   "bytes become 0 to 1");
	crc[0] = dataset_crc(&ds);
	ds.train.labels[3] ^= 1;
	ok(ds.validation.nitems == 0 && dataset_crc(&ds) != crc[0],
	   "the checksum has the training labels, without a validation part, too");
	dataset_fini(&ds);
	ok(dataset_open(folder, &raw, &ds, &err) == RC_OK && ds.scale[0] == 1 && ds.shift[0] == 0,
	   "or stay as they are");
	crc[1] = dataset_crc(&ds);
	dataset_fini(&ds);
	ok(dataset_open(folder, &standard, &ds, &err) == RC_OK, "or are standardised");
	for (int i = 0; i < 400; i++) {
		double x =
		    ((uint8_t *)ds.train.items)[i] * (double)ds.scale[0] + (double)ds.shift[0];

		mean += x / 400;
		square += x * x / 400;
	}
	ok(fabs(mean) < 1e-6 && fabs(square - 1) < 1e-6, "to mean %g and deviation %g", mean,
	   square);
	crc[2] = dataset_crc(&ds);
	dataset_fini(&ds);
	ok(crc[0] != crc[1] && crc[1] != crc[2] && crc[0] != crc[2],
	   "the checksum tells the scales apart");
}

/* Features are scaled separately; one of them is constant. */
static void
test_feature_scales(void)
{
	const struct dataset_options o = {.normalize = DATASET_STANDARD, .train = 0.5, .test = 0.5};
	static const char table[] = "1000001,0.1,-5,a\n1000003,0.1,5,b\n1000001,0.1,-5,a\n"
				    "1000003,0.1,5,b\n";
	struct dataset ds = {0};
	struct err err = {0};
	const char *path = put_text("t.csv", table);
	bool good = dataset_open(path, &o, &ds, &err) == RC_OK && ds.channels == 3;

	for (uint32_t i = 0; good && i < 2; i++)
		for (uint32_t c = 0; c < 3; c++) {
			float x = ((float *)ds.train.items)[i * 3 + c] * ds.scale[c] + ds.shift[c];

			good &= c == 1 ? fabsf(x) < 1e-6f : fabsf(x) < 1.5f;
		}
	ok(good && isfinite(ds.scale[1]),
	   "features are standardised one by one; constants become 0");
	dataset_fini(&ds);
	ok(dataset_open(path, NULL, &ds, &err) == RC_OK && ds.scale[2] == 1 && ds.shift[2] == 0,
	   "without that, features are as they are");
	dataset_fini(&ds);
	unlink(path);
}

static void
test_parsers(void)
{
	static const char *const bad[] = {
	    "",	    "1",  "0.5",      "a,b", "0.5,0.5,0.1", "0.2,0.2,0.2,0.2",
	    "0.5,", ",,", "-0.5,0.5", "2,0", "nan,0.5",	    "0.5,0.5 "};
	struct dataset_options o = {.train = 9}, keep = o;
	struct err err;
	bool good = true;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		good &= dataset_split_parse(bad[i], &o, &err) == RC_INVAL &&
			memcmp(&o, &keep, sizeof o) == 0;
	ok(good, "what is no split");
	ok(dataset_split_parse("0.7,0.2,0.1", &o, &err) == RC_OK && o.train == 0.7 &&
	       o.validation == 0.2 && o.test == 0.1,
	   "a split in three");
	ok(dataset_split_parse("0.8,0.2", &o, &err) == RC_OK && o.train == 0.8 &&
	       o.validation == 0 && o.test == 0.2,
	   "a split in two");
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
	if (folder_begin() != 0) {
		ok(false, "a folder for the files");
		return tap_done();
	}
	test_untaught();
	test_reads();
	test_refusals();
	test_split();
	test_bad_split();
	test_scales();
	test_feature_scales();
	test_parsers();
	for (int i = 0; i < 4; i++)
		unlink(in_folder(names[i]));
	ok(rmdir(folder) == 0, "nothing else in the folder");
	test_rng();
	test_permutation();
	test_share();
	return tap_done();
}
