/* Images in folders: layouts, classes, sizes, and files that do not belong there. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "dataset_test.h"
#include "pictures.h"
#include "tap.h"

/* An image of one colour. A name that ends in png is a PNG, else it is a JPEG. */
static void
put_image(const char *name, uint32_t rows, uint32_t cols, uint8_t r, uint8_t g, uint8_t b)
{
	uint8_t *rgb = malloc((size_t)rows * cols * 3);
	struct picture p;

	for (uint32_t i = 0; i < rows * cols; i++)
		memcpy(rgb + i * 3, (const uint8_t[]){r, g, b}, 3);
	p = strcasecmp(name + strlen(name) - 3, "png") == 0
		? make_png(rows, cols, PNG_FORMAT_RGB, rgb)
		: make_jpeg(rows, cols, 3, 0, rgb);
	put_bytes(name, p.bytes, p.nbytes);
	free(p.bytes);
	free(rgb);
}

static void
put_class(const char *name)
{
	char path[256];

	put_dir(name);
	snprintf(path, sizeof path, "%s/a.png", name);
	put_image(path, 4, 4, 10, 20, 30);
	snprintf(path, sizeof path, "%s/b.JPG", name);
	put_image(path, 9, 7, 100, 100, 100);
}

static bool
refused(const struct dataset_options *o, enum rc want_rc, const char *want)
{
	return dataset_refused(in_folder("f"), o, want_rc, want);
}

/* The number of items of a class in all parts. */
static uint32_t
count(const struct dataset *ds, uint8_t label)
{
	const struct dataset_part *part[] = {&ds->train, &ds->validation, &ds->test};
	uint32_t n = 0;

	for (int p = 0; p < 3; p++)
		for (uint32_t i = 0; i < part[p]->nitems; i++)
			n += part[p]->labels[i] == label;
	return n;
}

static void
test_flat(void)
{
	const struct dataset_options grey = {
	    .train = 0.5, .test = 0.5, .rows = 6, .cols = 5, .channels = 1};
	struct dataset ds = {0}, again = {0};
	struct err err = {0};

	put_dir("f");
	put_class("f/wolf");
	put_class("f/ant");
	put_class("f/Zebra");
	put_text("f/README.txt", "about the images");
	put_text("f/ant/.hidden", "not looked at");
	ok(dataset_open(in_folder("f"), NULL, &ds, &err) == RC_OK && ds.dtype == GPUSIM_U8 &&
	       ds.channels == 3 && ds.rows == 32 && ds.cols == 32 && ds.nclasses == 3 &&
	       strcmp(ds.class_name[0], "Zebra") == 0 && strcmp(ds.class_name[1], "ant") == 0 &&
	       strcmp(ds.class_name[2], "wolf") == 0 && ds.train.nitems == 4 &&
	       ds.test.nitems == 2 && count(&ds, 0) == 2 && count(&ds, 1) == 2 &&
	       count(&ds, 2) == 2,
	   "a folder a class, split, in the order of names %s", err.text);
	ok(dataset_open(in_folder("f"), NULL, &again, &err) == RC_OK &&
	       dataset_crc(&again) == dataset_crc(&ds),
	   "the same again");
	dataset_fini(&again);
	dataset_fini(&ds);
	ok(dataset_open(in_folder("f"), &grey, &ds, &err) == RC_OK && ds.channels == 1 &&
	       ds.rows == 6 && ds.cols == 5 && ds.train.nitems == 3 && ds.test.nitems == 3,
	   "grey, in another size %s", err.text);
	dataset_fini(&ds);
	take_away("f");
}

/* parts: the names of TRAIN and TEST. */
static void
put_parts(const char *train, const char *test)
{
	char path[256];

	snprintf(path, sizeof path, "f/%s/one", train);
	put_dir(path);
	snprintf(path, sizeof path, "f/%s/one/x.png", train);
	put_image(path, 32, 32, 1, 2, 3);
	snprintf(path, sizeof path, "f/%s/two", train);
	put_dir(path);
	snprintf(path, sizeof path, "f/%s/two/y.png", train);
	put_image(path, 64, 64, 200, 150, 100);
	snprintf(path, sizeof path, "f/%s/two/z.jpeg", train);
	put_image(path, 10, 90, 60, 60, 60);
	snprintf(path, sizeof path, "f/%s/two", test);
	put_dir(path);
	snprintf(path, sizeof path, "f/%s/two/t.png", test);
	put_image(path, 3, 3, 9, 8, 7);
}

static bool
is_parts(const struct dataset *ds)
{
	const uint8_t *train = ds->train.items, *test = ds->test.items;

	return ds->nclasses == 2 && ds->train.nitems == 3 && ds->test.nitems == 1 &&
	       ds->train.labels[0] == 0 && ds->train.labels[1] == 1 && ds->train.labels[2] == 1 &&
	       ds->test.labels[0] == 1 && train[0] == 1 && train[1024] == 2 && train[3071] == 3 &&
	       train[3072] == 200 && train[3072 + 1024] == 150 && train[2 * 3072] >= 58 &&
	       train[2 * 3072] <= 62 && test[0] == 9 && test[2047] == 8 && test[3071] == 7;
}

static void
test_parts(void)
{
	struct dataset ds = {0};
	struct err err = {0};

	put_dir("f");
	put_dir("f/train");
	put_dir("f/test");
	put_parts("train", "test");
	ok(dataset_open(in_folder("f"), NULL, &ds, &err) == RC_OK && is_parts(&ds),
	   "train and test: sorted by class and name %s", err.text);
	dataset_fini(&ds);
	put_dir("f/val");
	put_class("f/val/two");
	ok(dataset_open(in_folder("f"), NULL, &ds, &err) == RC_OK && is_parts(&ds) &&
	       ds.validation.nitems == 2,
	   "and val %s", err.text);
	dataset_fini(&ds);
	put_class("f/test/three");
	ok(refused(NULL, RC_BADDATA, "f/test/three: the training part has no such class"),
	   "a class to test alone");
	take_away("f");
	put_dir("f");
	put_dir("f/seg_train");
	put_dir("f/seg_train/seg_train");
	put_dir("f/seg_test");
	put_dir("f/seg_test/seg_test");
	put_dir("f/seg_pred");
	put_parts("seg_train/seg_train", "seg_test/seg_test");
	ok(dataset_open(in_folder("f"), NULL, &ds, &err) == RC_OK && is_parts(&ds),
	   "as the scenes lie: a folder in one of its name %s", err.text);
	dataset_fini(&ds);
	take_away("f");
	put_dir("f");
	put_dir("f/train");
	put_class("f/train/a");
	put_class("f/train/b");
	ok(dataset_open(in_folder("f"), NULL, &ds, &err) == RC_OK && ds.train.nitems == 3 &&
	       ds.test.nitems == 1 && ds.nclasses == 2,
	   "train alone is split %s", err.text);
	dataset_fini(&ds);
	take_away("f");
}

/* Content decides, links are followed, files that are not images are rejected. */
static void
test_files(void)
{
	const struct dataset_options folder_format = {.format = DATASET_FOLDER};
	struct dataset ds = {0};
	struct err err = {0};

	put_dir("f");
	put_class("f/a");
	put_class("f/b");
	rename(in_folder("f/a/a.png"), in_folder("f/a/a.jpg"));
	ok(symlink("../a/b.JPG", in_folder("f/b/link.png")) == 0 &&
	       dataset_open(in_folder("f"), NULL, &ds, &err) == RC_OK && count(&ds, 0) == 2 &&
	       count(&ds, 1) == 3,
	   "a PNG called .jpg, and a link to a JPEG called .png %s", err.text);
	dataset_fini(&ds);
	ok(symlink("nowhere", in_folder("f/b/broken.png")) == 0 &&
	       refused(NULL, RC_FAILED, "f/b/broken.png: No such file"),
	   "a link to nothing");
	take_away("f/b/broken.png");
	put_text("f/b/notes.txt", "the zebra is in the middle");
	ok(refused(NULL, RC_BADDATA, "f/b/notes.txt: neither PNG nor JPEG"), "a text");
	take_away("f/b/notes.txt");
	put_text("f/b/c.png", "");
	ok(refused(NULL, RC_BADDATA, "f/b/c.png: empty"), "an empty file");
	take_away("f/b/c.png");
	ok(mkfifo(in_folder("f/b/pipe.png"), 0600) == 0 &&
	       refused(NULL, RC_FAILED, "f/b/pipe.png: not a regular file"),
	   "a pipe");
	take_away("f/b/pipe.png");
	put_dir("f/b/deeper");
	ok(refused(NULL, RC_BADDATA, "f/b/deeper: a folder in a class's folder"),
	   "a folder in a class");
	take_away("f/b/deeper");
	put_image("f/stray.png", 2, 2, 0, 0, 0);
	ok(refused(NULL, RC_BADDATA, "f/stray.png: the image is not in the folder of a class"),
	   "an image beside the classes");
	take_away("f/stray.png");
	ok(truncate(in_folder("f/b/b.JPG"), 300) == 0 &&
	       refused(NULL, RC_BADDATA, "f/b/b.JPG: damaged JPEG"),
	   "a JPEG truncated");
	take_away("f/b/b.JPG");
	put_dir("f/c");
	ok(refused(NULL, RC_BADDATA, "f/c: a class without images"), "an empty class");
	take_away("f/c");
	take_away("f/b");
	ok(refused(NULL, RC_BADDATA, "f: only one class, 'a'"), "one class");
	take_away("f/a");
	ok(refused(NULL, RC_FAILED, "f: not a data set"), "nothing");
	ok(refused(&folder_format, RC_BADDATA, "f: no folders of images found"),
	   "nothing, and yet a folder of images");
}

static void
test_shapes(void)
{
	struct dataset_options o = {.rows = 1025, .cols = 8};

	put_class("f/a");
	put_class("f/b");
	ok(refused(&o, RC_INVAL, "images cannot be made 1025x8x3"), "too many rows");
	o.rows = 8;
	o.channels = 2;
	ok(refused(&o, RC_INVAL, "images cannot be made 8x8x2"), "two channels");
	for (int i = 0; i < 255; i++) {
		char name[16];

		snprintf(name, sizeof name, "f/c%d", i);
		put_dir(name);
		strcat(name, "/i.png");
		put_image(name, 1, 1, 1, 1, 1);
	}
	ok(refused(NULL, RC_BADDATA, "f: more than 256 classes"), "257 classes");
}

int
main(void)
{
	if (folder_begin() != 0) {
		ok(false, "a folder for the files");
		return tap_done();
	}
	test_flat();
	test_parts();
	test_files();
	test_shapes();
	ok(folder_end() == 0, "the folder is gone");
	return tap_done();
}
