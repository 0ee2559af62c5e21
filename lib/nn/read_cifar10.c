/*
 * CIFAR-10's binary version: records of a label and an image of 3 x 32 x 32, plane by plane.
 *
 * Source: https://www.cs.toronto.edu/~kriz/cifar.html, "Binary version".
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "nn/input.h"
#include "nn/read.h"

enum { SIDE = 32, ITEM = 3 * SIDE * SIDE, RECORD = 1 + ITEM, NCLASSES = 10 };

#define INNER "cifar-10-batches-bin"

/* DIR/[INNER/]NAME, raw or with .gz; *path [out] is malloc'ed, or NULL: not there. */
static enum rc
find_file(const char *dir, const char *name, char **path, struct err *err)
{
	static const char *const inner[] = {"", INNER "/"}, *const end[] = {"", ".gz"};
	struct stat st;

	for (int i = 0; i < 4; i++) {
		if (asprintf(path, "%s/%s%s%s", dir, inner[i / 2], name, end[i % 2]) < 0)
			return err_set(err, RC_NOMEM, "%s: out of memory", dir);
		if (stat(*path, &st) == 0)
			return RC_OK;
		free(*path);
	}
	*path = NULL;
	return RC_OK;
}

/* Append a file's records to images and labels. */
static enum rc
add_records(const char *path, struct buf *images, struct buf *labels, struct err *err)
{
	struct buf file = {0};
	enum rc rc = input_file(path, (size_t)(READ_MAX_NBYTES - images->len), &file, err);
	size_t n = file.len / RECORD;

	if (rc == RC_OK && (n == 0 || file.len % RECORD != 0))
		rc = err_set(err, RC_BADDATA, "%s: %zu bytes are no whole number of records of %d",
			     path, file.len, RECORD);
	if (rc == RC_OK && (!buf_reserve(images, n * ITEM) || !buf_reserve(labels, n)))
		rc = err_set(err, RC_NOMEM, "%s: out of memory", path);
	for (size_t i = 0; i < n && rc == RC_OK; i++) {
		const char *record = file.data + i * RECORD;

		if ((uint8_t)record[0] >= NCLASSES)
			rc = err_set(err, RC_BADDATA,
				     "%s: label %u of record %zu, CIFAR-10 has 0 to %d", path,
				     (uint8_t)record[0], i, NCLASSES - 1);
		else if (!buf_add(labels, record, 1) || !buf_add(images, record + 1, ITEM))
			rc = err_set(err, RC_NOMEM, "%s: out of memory", path);
	}
	buf_fini(&file);
	return rc;
}

/* A part of the records there are; `path` is malloc'ed and becomes the part's. */
static void
make_part(struct dataset_part *part, struct buf *images, struct buf *labels, char *path)
{
	*part = (struct dataset_part){.nitems = (uint32_t)labels->len,
				      .items = images->data,
				      .labels = (uint8_t *)labels->data,
				      .labels_path = path};
	*images = (struct buf){0};
	*labels = (struct buf){0};
}

/* The largest N of the files data_batch_N.bin[.gz] in DIR/[INNER/]. */
static uint32_t
last_batch(const char *dir, const char *inner)
{
	uint32_t last = 0, n;
	struct dirent *e;
	char *path;
	DIR *d;
	int at;

	if (asprintf(&path, "%s/%s", dir, inner) < 0)
		return 0;
	d = opendir(path);
	while (d && (e = readdir(d))) {
		at = 0;
		sscanf(e->d_name, "data_batch_%3" SCNu32 ".bin%n", &n, &at);
		if (at > 0 && (!e->d_name[at] || strcmp(e->d_name + at, ".gz") == 0) && n > last)
			last = n;
	}
	if (d)
		closedir(d);
	free(path);
	return last;
}

static enum rc
read_train(const char *dir, struct dataset_part *part, struct err *err)
{
	struct buf images = {0}, labels = {0};
	uint32_t last = last_batch(dir, ""), inner = last_batch(dir, INNER);
	char name[32], *path, *first = NULL;
	enum rc rc = RC_OK;

	last = last > inner ? last : inner;
	for (uint32_t i = 1; (i == 1 || i <= last) && rc == RC_OK; i++) {
		snprintf(name, sizeof name, "data_batch_%" PRIu32 ".bin", i);
		rc = find_file(dir, name, &path, err);
		if (rc == RC_OK && !path)
			rc = err_set(err, RC_FAILED, "%s: no %s here, raw or .gz", dir, name);
		if (rc == RC_OK)
			rc = add_records(path, &images, &labels, err);
		if (!first)
			first = path;
		else
			free(path);
	}
	if (rc == RC_OK) {
		make_part(part, &images, &labels, first);
		first = NULL;
	}
	buf_fini(&images);
	buf_fini(&labels);
	free(first);
	return rc;
}

static enum rc
read_test(const char *dir, struct dataset_part *part, struct err *err)
{
	struct buf images = {0}, labels = {0};
	char *path;
	enum rc rc = find_file(dir, "test_batch.bin", &path, err);

	if (rc == RC_OK && !path)
		rc = err_set(err, RC_FAILED, "%s: no test_batch.bin here, raw or .gz", dir);
	if (rc == RC_OK)
		rc = add_records(path, &images, &labels, err);
	if (rc == RC_OK) {
		make_part(part, &images, &labels, path);
		path = NULL;
	}
	buf_fini(&images);
	buf_fini(&labels);
	free(path);
	return rc;
}

/* The names in `text`, one a line; it is cut up. */
static enum rc
take_names(const char *path, char *text, char **name, struct err *err)
{
	uint32_t n = 0;
	char *line;

	while ((line = strsep(&text, "\n"))) {
		size_t len = strcspn(line, "\r");

		line[len] = '\0';
		if (len == 0)
			continue;
		for (size_t i = 0; i < len; i++)
			if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
				return err_set(err, RC_BADDATA, "%s: name %" PRIu32 " is not text",
					       path, n);
		if (n < NCLASSES) {
			name[n] = strdup(line);
			if (!name[n])
				return err_set(err, RC_NOMEM, "%s: out of memory", path);
		}
		n++;
	}
	if (n != NCLASSES)
		return err_set(err, RC_BADDATA, "%s: %" PRIu32 " names of classes, not %d", path, n,
			       NCLASSES);
	return RC_OK;
}

/* From batches.meta.txt, where it is there. */
static enum rc
read_names(const char *dir, struct dataset *ds, struct err *err)
{
	struct buf text = {0};
	char *path;
	enum rc rc = find_file(dir, "batches.meta.txt", &path, err);

	if (rc != RC_OK || !path)
		return rc;
	rc = input_file(path, 4096, &text, err);
	if (rc == RC_OK && memchr(text.data, 0, text.len))
		rc = err_set(err, RC_BADDATA, "%s: not text", path);
	if (rc == RC_OK) {
		ds->class_name = alloc_zeroed(NCLASSES, sizeof *ds->class_name);
		if (!ds->class_name || !buf_add(&text, "", 1))
			rc = err_set(err, RC_NOMEM, "%s: out of memory", path);
	}
	if (rc == RC_OK)
		rc = take_names(path, text.data, ds->class_name, err);
	buf_fini(&text);
	free(path);
	return rc;
}

bool
cifar10_is_here(const char *dir)
{
	char *path = NULL;
	bool here;

	if (last_batch(dir, "") > 0 || last_batch(dir, INNER) > 0)
		return true;
	if (find_file(dir, "test_batch.bin", &path, NULL) != RC_OK)
		return false;
	here = path;
	free(path);
	return here;
}

enum rc
read_cifar10(const char *dir, const struct dataset_options *o, struct dataset *ds, struct err *err)
{
	enum rc rc;

	(void)o;
	ds->channels = 3;
	ds->rows = ds->cols = SIDE;
	ds->dtype = GPUSIM_U8;
	ds->nclasses = NCLASSES;
	rc = read_train(dir, &ds->train, err);
	if (rc == RC_OK)
		rc = read_test(dir, &ds->test, err);
	if (rc == RC_OK)
		rc = read_names(dir, ds, err);
	return rc;
}
