#include "nn/dataset.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "nn/idx.h"

/* "train-images" SEP "idx3-ubyte" END, in the order they are looked for. */
static const struct {
	char sep;
	const char *end;
} spelling[] = {{'-', ""}, {'-', ".gz"}, {'.', ""}, {'.', ".gz"}};

#define NSPELLINGS (sizeof spelling / sizeof spelling[0])

/* *path [out] is malloc'ed. */
static enum rc
find_file(const char *dir, const char *stem, const char *suffix, char **path, struct err *err)
{
	struct stat st;
	char *p;

	if (stat(dir, &st) != 0)
		return err_set(err, RC_FAILED, "%s: %s", dir, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return err_set(err, RC_FAILED, "%s: %s", dir, strerror(ENOTDIR));
	for (size_t i = 0; i < NSPELLINGS; i++) {
		if (asprintf(&p, "%s/%s%c%s%s", dir, stem, spelling[i].sep, suffix,
			     spelling[i].end) < 0)
			return err_set(err, RC_NOMEM, "%s: out of memory", dir);
		if (stat(p, &st) == 0 || errno != ENOENT) {
			*path = p;
			return RC_OK;
		}
		free(p);
	}
	return err_set(err, RC_FAILED, "%s: no %s-%s here, raw or .gz", dir, stem, suffix);
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
	if (rc == RC_OK)
		rc = idx_read(p, &tmp, err);
	if (rc == RC_OK && tmp.ndim != ndim)
		rc = err_set(err, RC_BADDATA,
			     "%s: mislabelled: %" PRIu32 " dimensions, %s have %" PRIu32, p,
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
		rc = err_set(err, RC_BADDATA, "%s: %" PRIu32 " images but %" PRIu32 " labels in %s",
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

static uint32_t
count_classes(const struct dataset_part *part, uint32_t atleast)
{
	for (uint32_t i = 0; i < part->nitems; i++)
		if (part->labels[i] >= atleast)
			atleast = part->labels[i] + 1u;
	return atleast;
}

/* What a net sees of bytes from 0 to 255. */
static bool
set_scale(struct dataset *ds, enum dataset_normalize how)
{
	ds->scale = calloc(ds->channels, sizeof *ds->scale);
	ds->shift = calloc(ds->channels, sizeof *ds->shift);
	for (uint32_t c = 0; ds->scale && c < ds->channels; c++)
		ds->scale[c] = how == DATASET_RAW ? 1 : 1.0f / 255;
	return ds->scale && ds->shift;
}

enum rc
dataset_open(const char *dir, const struct dataset_options *o, struct dataset *ds, struct err *err)
{
	struct dataset tmp = {.channels = 1, .dtype = GPUSIM_U8};
	uint32_t rows, cols;
	enum rc rc;

	rc = read_part(dir, "train", &tmp.train, &tmp.rows, &tmp.cols, err);
	if (rc == RC_OK)
		rc = read_part(dir, "t10k", &tmp.test, &rows, &cols, err);
	if (rc == RC_OK && (rows != tmp.rows || cols != tmp.cols))
		rc = err_set(err, RC_BADDATA,
			     "%s: train images are %" PRIu32 "x%" PRIu32 " but t10k images %" PRIu32
			     "x%" PRIu32,
			     dir, tmp.rows, tmp.cols, rows, cols);
	if (rc == RC_OK && !set_scale(&tmp, o ? o->normalize : DATASET_UNIT))
		rc = err_set(err, RC_NOMEM, "%s: out of memory", dir);
	if (rc != RC_OK) {
		dataset_fini(&tmp);
		return rc;
	}
	tmp.nclasses = count_classes(&tmp.test, count_classes(&tmp.train, 1));
	*ds = tmp;
	return RC_OK;
}

uint64_t
dataset_item_size(const struct dataset *ds)
{
	return (uint64_t)ds->channels * ds->rows * ds->cols;
}

enum rc
dataset_check_labels(const struct dataset *ds, uint32_t nclasses, struct err *err)
{
	const struct dataset_part *parts[] = {&ds->train, &ds->test};

	for (int p = 0; p < 2; p++)
		for (uint32_t i = 0; i < parts[p]->nitems; i++)
			if (parts[p]->labels[i] >= nclasses)
				return err_set(err, RC_BADDATA,
					       "%s: label %u of item %" PRIu32
					       ", but the model has %" PRIu32 " classes",
					       parts[p]->labels_path, parts[p]->labels[i], i,
					       nclasses);
	return RC_OK;
}

uint32_t
dataset_crc(const struct dataset *ds)
{
	const struct dataset_part *parts[] = {&ds->train, &ds->test};
	size_t pixels = (size_t)dataset_item_size(ds) * (ds->dtype == GPUSIM_F32 ? 4 : 1);
	uLong crc = crc32(0, NULL, 0);

	for (int p = 0; p < 2; p++) {
		crc = crc32_z(crc, parts[p]->items, parts[p]->nitems * pixels);
		crc = crc32_z(crc, parts[p]->labels, parts[p]->nitems);
	}
	return (uint32_t)crc;
}

static void
part_fini(struct dataset_part *part)
{
	free(part->items);
	free(part->labels);
	free(part->labels_path);
}

void
dataset_fini(struct dataset *ds)
{
	part_fini(&ds->train);
	part_fini(&ds->validation);
	part_fini(&ds->test);
	free(ds->scale);
	free(ds->shift);
	*ds = (struct dataset){0};
}

void
dataset_share(uint32_t n, uint32_t rank, uint32_t nranks, uint32_t *begin, uint32_t *end)
{
	*begin = (uint32_t)((uint64_t)n * rank / nranks);
	*end = (uint32_t)((uint64_t)n * (rank + UINT64_C(1)) / nranks);
}
