/* Data sets of numpy's arrays: names, .npz and .npy, and errors. */
#include <stdlib.h>
#include <string.h>

#include "dataset_test.h"
#include "npys.h"
#include "tap.h"
#include "zips.h"

static struct buf archive;
static bool deflated;

static void
add(const char *name, const char *type, const char *shape, const void *data, size_t n)
{
	struct buf b = {0};

	npy_put(&b, type, shape, data, n);
	zip_put(&archive, name, b.data, b.len, deflated);
	buf_fini(&b);
}

static const char *
put_archive(void)
{
	zip_end_all(&archive, "");
	return put_bytes("a.npz", archive.data, archive.len);
}

static const char images[] = "abcdABCDwxyzWXYZ", tests[] = "stuv";
static const int64_t classes[] = {0, 2, 1, 2};

/* Four images of 2x2 to train on and one to test with, under those names. */
static const char *
put_four(const char *x, const char *y, const char *xt, const char *yt)
{
	zip_begin(&archive);
	add(x, "|u1", "(4, 2, 2)", images, 16);
	add(y, "<i8", "(4,)", classes, 32);
	if (xt)
		add(xt, "|u1", "(1, 2, 2)", tests, 4);
	if (yt)
		add(yt, "<i8", "(1,)", classes + 1, 8);
	return put_archive();
}

static bool
is_four(const char *path)
{
	const struct dataset_options o = {.train = 1};
	struct dataset ds = {0};
	struct err err = {0};
	bool good = dataset_open(path, &o, &ds, &err) == RC_OK && ds.dtype == GPUSIM_U8 &&
		    ds.channels == 1 && ds.rows == 2 && ds.cols == 2 && ds.nclasses == 3 &&
		    !ds.class_name && ds.train.nitems == 4 && ds.test.nitems == 1 &&
		    memcmp(ds.test.items, tests, 4) == 0 && ds.test.labels[0] == 2;

	/* The training part may be shuffled. */
	for (uint32_t i = 0; good && i < 4; i++) {
		const char *item = (const char *)ds.train.items + i * 4,
			   *at = strchr(images, *item);

		good = at && (at - images) % 4 == 0 && memcmp(item, at, 4) == 0 &&
		       ds.train.labels[i] == classes[(at - images) / 4];
	}
	if (!good)
		printf("# %s %u %u\n", err.text, ds.train.nitems, ds.test.nitems);
	dataset_fini(&ds);
	return good;
}

static void
test_names(void)
{
	static const char *const row[][4] = {
	    {"x_train.npy", "y_train.npy", "x_test.npy", "y_test.npy"},
	    {"X_train.npy", "Y_TRAIN.npy", "X_test.npy", "Y_test.npy"},
	    {"train_images.npy", "train_labels.npy", "test_images.npy", "test_labels.npy"},
	    {"training-data.npy", "training-targets.npy", "testing.data.npy", "testing.target.npy"},
	    {"images.npy", "labels.npy", "test_images.npy", "test_labels.npy"},
	    {"X.npy", "y.npy", "X_test.npy", "y_test.npy"},
	    {"trainX.npy", "trainy.npy", "testX.npy", "testy.npy"},
	    {"features.npy", "classes.npy", "features_test.npy", "classes_test.npy"},
	    {"arr_0.npy", "arr_1.npy", "arr_2.npy", "arr_3.npy"}};

	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
		deflated = i % 2;
		ok(is_four(put_four(row[i][0], row[i][1], row[i][2], row[i][3])), "%s, %s",
		   row[i][0], row[i][1]);
	}
	deflated = false;
}

static void
test_parts(void)
{
	struct dataset ds = {0};
	struct err err = {0};

	zip_begin(&archive);
	add("x_train.npy", "|u1", "(4, 2, 2)", images, 16);
	add("y_train.npy", "<i8", "(4,)", classes, 32);
	add("x_val.npy", "|u1", "(1, 2, 2)", tests, 4);
	add("y_val.npy", "|u1", "(1, 3)", "\0\1\0", 3);
	add("x_test.npy", "|u1", "(1, 2, 2)", tests, 4);
	add("y_test.npy", "<i8", "(1,)", classes, 8);
	add("mean.npy", "<f8", "()", classes, 8);
	ok(dataset_open(put_archive(), NULL, &ds, &err) == RC_OK && ds.train.nitems == 4 &&
	       ds.validation.nitems == 1 && ds.validation.labels[0] == 1 && ds.test.nitems == 1,
	   "three parts, one of them one-hot, and something else %s", err.text);
	dataset_fini(&ds);
	ok(dataset_open(put_four("x.npy", "y.npy", NULL, NULL), NULL, &ds, &err) == RC_OK &&
	       ds.train.nitems == 3 && ds.test.nitems == 1,
	   "without a test part it is split %s", err.text);
	dataset_fini(&ds);
	zip_begin(&archive);
	add("x.npy", "<i4", "(2, 1, 2)", (const int32_t[]){1, 2, 3, 255}, 16);
	add("y.npy", "|u1", "(2,)", "\0\1", 2);
	add("x_test.npy", "<i4", "(1, 1, 2)", (const int32_t[]){1, 256}, 8);
	add("y_test.npy", "|u1", "(1,)", "\0", 1);
	ok(dataset_open(put_archive(), NULL, &ds, &err) == RC_OK && ds.dtype == GPUSIM_F32 &&
	       ((float *)ds.train.items)[3] == 255 && ((float *)ds.test.items)[1] == 256,
	   "whole numbers are bytes only if those of all parts are %s", err.text);
	dataset_fini(&ds);
}

static void
test_folder(void)
{
	struct buf b = {0};
	const struct dataset_options npz = {.format = DATASET_NPZ};

	put_dir("d");
	npy_put(&b, "|u1", "(4, 2, 2)", images, 16);
	put_bytes("d/x_train.npy", b.data, b.len);
	b.len = 0;
	npy_put(&b, "<i8", "(4,)", classes, 32);
	put_bytes("d/y_train.npy", b.data, b.len);
	b.len = 0;
	npy_put(&b, "|u1", "(1, 2, 2)", tests, 4);
	put_gzip("d/x_test.npy.gz", b.data, b.len);
	b.len = 0;
	npy_put(&b, "<i8", "(1,)", classes + 1, 8);
	put_bytes("d/y_test.npy", b.data, b.len);
	put_text("d/notes.txt", "hello");
	put_text("d/weights.npy", "hello");
	ok(is_four(in_folder("d")), "a folder of files, one of them gzipped");
	ok(is_four(in_folder("d/x_train.npy")), "one of its files");
	take_away("d/x_test.npy.gz");
	put_text("d/x_test.npy", "hello");
	ok(dataset_refused(in_folder("d"), NULL, RC_BADDATA, "d/x_test.npy: not a .npy file"),
	   "a file that is none");
	take_away("d/x_test.npy");
	ok(dataset_refused(in_folder("d"), NULL, RC_BADDATA,
			   "d/y_test.npy: its samples are missing"),
	   "labels alone");
	put_dir("e");
	ok(dataset_refused(in_folder("e"), &npz, RC_BADDATA, "e: no arrays to train on"),
	   "an empty folder");
	buf_fini(&b);
}

static void
refused(const char *what, const char *want)
{
	ok(dataset_refused(put_archive(), NULL, RC_BADDATA, want), "refused: %s", what);
}

static void
test_refusals(void)
{
	zip_begin(&archive);
	add("fc1.weight.npy", "<f4", "(1,)", classes, 4);
	refused("a model", "a.npz: no arrays to train on, such as x_train and y_train");
	zip_begin(&archive);
	add("x.npy", "|u1", "(4, 2, 2)", images, 16);
	refused("no labels", "a.npz: x: its labels are missing");
	zip_begin(&archive);
	add("x.npy", "|u1", "(4, 2, 2)", images, 16);
	add("y.npy", "<i8", "(3,)", classes, 24);
	refused("too few labels", "a.npz: y: 3 labels for 4 samples");
	zip_begin(&archive);
	add("x.npy", "|u1", "(4, 2, 2)", images, 16);
	add("images.npy", "|u1", "(4, 2, 2)", images, 16);
	refused("two arrays for one", "a.npz: images: has the same meaning as");
	zip_begin(&archive);
	add("x.npy", "|u1", "(4, 2, 2)", images, 16);
	add("y.npy", "<i8", "(4,)", classes, 32);
	add("x_test.npy", "|u1", "(4, 4)", images, 16);
	add("y_test.npy", "<i8", "(4,)", classes, 32);
	refused("another shape", "a.npz: x_test: its samples are 4x1x1, but ");
	zip_begin(&archive);
	add("x.npy", "|u1", "(2, 2, 2)", images, 8);
	add("y.npy", "|u1", "(2,)", "\0\1", 2);
	add("x_test.npy", "|u1", "(1, 2, 2)", images, 4);
	add("y_test.npy", "|u1", "(1,)", "\2", 1);
	refused("more classes", "a.npz: y_test: 3 classes; the training part has 2");
	zip_begin(&archive);
	zip_put(&archive, "x.npy", "hello", 5, false);
	refused("no .npy", "a.npz: x: not a .npy file");
	put_four("x.npy", "y.npy", NULL, NULL);
	archive.len -= 30;
	put_bytes("a.npz", archive.data, archive.len);
	ok(dataset_refused(in_folder("a.npz"), NULL, RC_BADDATA,
			   "a.npz: not a zip archive, or truncated"),
	   "truncated");
}

int
main(void)
{
	if (folder_begin() != 0) {
		ok(false, "a folder for the files");
		return tap_done();
	}
	test_names();
	test_parts();
	test_folder();
	test_refusals();
	buf_fini(&archive);
	ok(folder_end() == 0, "the folder is gone");
	return tap_done();
}
