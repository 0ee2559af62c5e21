/* A folder of four IDX files, as MNIST has them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/must.h"
#include "nn/idx.h"
#include "nn/read.h"

/* "train-images" SEP "idx3-ubyte" END, in the order they are looked for. */
static const struct {
	char sep;
	const char *end;
} spelling[] = {{'-', ""}, {'-', ".gz"}, {'.', ""}, {'.', ".gz"}};

#define NSPELLINGS (sizeof spelling / sizeof spelling[0])

/* *path [out] is malloc'ed. RC_NOTFOUND: no file of any spelling. */
static enum rc
find_file(const char *dir, const char *stem, const char *suffix, char **path, struct err *err)
{
	struct stat st;
	char *p;

	for (size_t i = 0; i < NSPELLINGS; i++) {
		p = must_printf("%s/%s%c%s%s", dir, stem, spelling[i].sep, suffix, spelling[i].end);
		if (stat(p, &st) == 0 || errno != ENOENT) {
			*path = p;
			return RC_OK;
		}
		free(p);
	}
	return err_set(err, RC_NOTFOUND, "%s: %s-%s not found, raw or .gz", dir, stem, suffix);
}

/* *path [out] is malloc'ed. */
static enum rc
read_file(const char *dir, const char *stem, const char *suffix, uint32_t ndim, const char *what,
	  struct idx *idx, char **path, struct err *err)
{
	struct idx tmp = {0};
	char *p = NULL;
	enum rc rc;

	rc = find_file(dir, stem, suffix, &p, err);
	if (rc == RC_NOTFOUND)
		return err ? err->rc = RC_FAILED : RC_FAILED;
	if (rc == RC_OK)
		rc = idx_read(p, &tmp, err);
	if (rc == RC_OK && tmp.ndim != ndim)
		rc = err_set(err, RC_BADDATA,
			     "%s: mislabelled: %" PRIu32 " dimensions; %s have %" PRIu32, p,
			     tmp.ndim, what, ndim);
	if (rc != RC_OK) {
		idx_fini(&tmp);
		free(p);
		return rc;
	}
	*idx = tmp;
	*path = p;
	return RC_OK;
}

/* Both files of a part; dim[1..2] of the images to rows and cols. */
static enum rc
read_part(const char *dir, const char *stem, struct dataset_part *part, uint32_t *rows,
	  uint32_t *cols, struct err *err)
{
	char images_stem[32], labels_stem[32], *images_path = NULL, *labels_path = NULL;
	struct idx images = {0}, labels = {0};
	enum rc rc;

	snprintf(images_stem, sizeof images_stem, "%s-images", stem);
	snprintf(labels_stem, sizeof labels_stem, "%s-labels", stem);
	rc = read_file(dir, images_stem, "idx3-ubyte", 3, "images", &images, &images_path, err);
	if (rc == RC_OK)
		rc = read_file(dir, labels_stem, "idx1-ubyte", 1, "labels", &labels, &labels_path,
			       err);
	if (rc == RC_OK && images.dim[0] != labels.dim[0])
		rc =
		    err_set(err, RC_BADDATA, "%s: %" PRIu32 " images, but %" PRIu32 " labels in %s",
			    images_path, images.dim[0], labels.dim[0], labels_path);
	free(images_path);
	if (rc != RC_OK) {
		idx_fini(&images);
		idx_fini(&labels);
		free(labels_path);
		return rc;
	}
	*rows = images.dim[1];
	*cols = images.dim[2];
	*part = (struct dataset_part){images.dim[0], images.data, labels.data, labels_path};
	return RC_OK;
}

static bool
is_here(const char *dir, const char *stem, const char *suffix)
{
	char *path;

	if (find_file(dir, stem, suffix, &path, NULL) != RC_OK)
		return false;
	free(path);
	return true;
}

/* The test part's name is t10k or test. */
static const char *
test_stem(const char *dir)
{
	bool t10k =
	    is_here(dir, "t10k-images", "idx3-ubyte") || is_here(dir, "t10k-labels", "idx1-ubyte");
	bool test =
	    is_here(dir, "test-images", "idx3-ubyte") || is_here(dir, "test-labels", "idx1-ubyte");

	return test && !t10k ? "test" : "t10k";
}

bool
idx_is_here(const char *dir)
{
	return is_here(dir, "train-images", "idx3-ubyte") ||
	       is_here(dir, "train-labels", "idx1-ubyte") ||
	       is_here(dir, "t10k-images", "idx3-ubyte") ||
	       is_here(dir, "t10k-labels", "idx1-ubyte");
}

static uint32_t
count_classes(const struct dataset_part *part)
{
	uint32_t n = 1;

	for (uint32_t i = 0; i < part->nitems; i++)
		if (part->labels[i] >= n)
			n = part->labels[i] + 1u;
	return n;
}

/* Data without anything to learn are an error. */
static enum rc
check_test_labels(const struct dataset *ds, struct err *err)
{
	const struct dataset_part *test = &ds->test;

	for (uint32_t i = 0; i < test->nitems; i++)
		if (test->labels[i] >= ds->nclasses)
			return err_set(err, RC_BADDATA,
				       "%s: label %u of item %" PRIu32
				       "; the largest training label is %" PRIu32,
				       test->labels_path, test->labels[i], i, ds->nclasses - 1);
	return RC_OK;
}

enum rc
read_idx(const char *dir, const struct dataset_options *o, struct dataset *ds, struct err *err)
{
	const char *stem = test_stem(dir);
	uint32_t rows, cols;
	enum rc rc;

	(void)o;
	ds->channels = 1;
	ds->dtype = GPUSIM_U8;
	rc = read_part(dir, "train", &ds->train, &ds->rows, &ds->cols, err);
	if (rc == RC_OK)
		rc = read_part(dir, stem, &ds->test, &rows, &cols, err);
	if (rc != RC_OK)
		return rc;
	if (rows != ds->rows || cols != ds->cols)
		return err_set(err, RC_BADDATA,
			       "%s: train images are %" PRIu32 "x%" PRIu32
			       ", but %s images are %" PRIu32 "x%" PRIu32,
			       dir, ds->rows, ds->cols, stem, rows, cols);
	ds->nclasses = count_classes(&ds->train);
	return check_test_labels(ds, err);
}
