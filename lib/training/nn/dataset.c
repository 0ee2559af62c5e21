#include "nn/dataset.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/parse.h"
#include "nn/input.h"
#include "nn/read.h"
#include "nn/tar.h"

/* A file that matches no other format is a table. */
static bool
any_file(const void *head, size_t nbytes)
{
	(void)head;
	(void)nbytes;
	return true;
}

/* In the order in which the readers are tried. */
static const struct {
	const char *name;
	reader_fn *read;
	bool (*is_here)(const char *path);
	bool (*is_file)(const void *head, size_t nbytes); /* NULL: a single file is never one */
} readers[] = {
    [DATASET_AUTO] = {"auto", NULL, NULL, NULL},
    [DATASET_IDX] = {"idx", read_idx, idx_is_here, NULL},
    [DATASET_CSV] = {"csv", read_csv, csv_is_here, any_file},
    [DATASET_CIFAR10] = {"cifar10", read_cifar10, cifar10_is_here, tar_is},
    [DATASET_NPZ] = {"npz", read_npz, npz_is_here, npz_is_file},
    [DATASET_FOLDER] = {"folder", read_folder, folder_is_here, NULL},
};

static const char *const normalize_names[] = {
    [DATASET_UNIT] = "unit", [DATASET_STANDARD] = "standard", [DATASET_RAW] = "raw"};

enum {
	NFORMATS = sizeof readers / sizeof readers[0],
	NNORMALIZES = sizeof normalize_names / sizeof normalize_names[0]
};

/* The first bytes of a file, unpacked; 0 if it cannot be read: its reader then reports why. */
static size_t
read_head(const char *path, uint8_t head[READ_HEAD_NBYTES])
{
	struct input in;
	size_t n = 0;

	if (input_open(&in, path, NULL) != RC_OK)
		return 0;
	if (input_begin(&in, NULL) == RC_OK) {
		if (input_get(&in, head, READ_HEAD_NBYTES, &n, NULL) != RC_OK)
			n = 0;
		input_end(&in);
	}
	input_close(&in);
	return n;
}

/* The format of a folder, by its files; DATASET_AUTO: unknown. */
static enum dataset_format
tell_folder(const char *path)
{
	for (int i = 1; i < NFORMATS; i++)
		if (readers[i].is_here(path))
			return (enum dataset_format)i;
	return DATASET_AUTO;
}

static enum dataset_format
tell_file(const char *path)
{
	uint8_t head[READ_HEAD_NBYTES];
	size_t n = read_head(path, head);

	for (int i = 1; i < NFORMATS; i++)
		if (i != DATASET_CSV && readers[i].is_file && readers[i].is_file(head, n))
			return (enum dataset_format)i;
	return DATASET_CSV;
}

/* The reader that the options name, or else the one whose files are present. */
static enum rc
find_reader(const char *path, enum dataset_format asked, enum dataset_format *format,
	    struct err *err)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
	*format = asked ? asked : S_ISDIR(st.st_mode) ? tell_folder(path) : tell_file(path);
	if (*format == DATASET_AUTO)
		return err_set(err, RC_FAILED,
			       "%s: not a data set: it has no train-images-idx3-ubyte, train.csv, "
			       "data_batch_1.bin, x_train.npy, or folders of images",
			       path);
	if (!S_ISDIR(st.st_mode) && !readers[*format].is_file)
		return err_set(err, RC_FAILED, "%s: %s", path, strerror(ENOTDIR));
	return RC_OK;
}

enum rc
dataset_open(const char *path, const struct dataset_options *o, struct dataset *ds, struct err *err)
{
	static const struct dataset_options none;
	struct dataset tmp = {0};
	enum dataset_format format = DATASET_AUTO;
	enum rc rc;

	o = o ? o : &none;
	rc = find_reader(path, o->format, &format, err);
	if (rc == RC_OK)
		rc = readers[format].read(path, o, &tmp, err);
	if (rc == RC_OK)
		rc = dataset_split(&tmp, path, o, err);
	if (rc == RC_OK)
		dataset_scale(&tmp, o->normalize);
	if (rc != RC_OK) {
		dataset_fini(&tmp);
		return rc;
	}
	*ds = tmp;
	return RC_OK;
}

const char *
dataset_format_name(enum dataset_format format)
{
	return (unsigned)format < NFORMATS ? readers[format].name : "?";
}

const char *
dataset_normalize_name(enum dataset_normalize how)
{
	return (unsigned)how < NNORMALIZES ? normalize_names[how] : "?";
}

enum rc
dataset_split_parse(const char *text, struct dataset_options *out, struct err *err)
{
	char copy[128], *next = copy, *field;
	double f[3];
	int n = 0;

	if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy)
		return err_set(err, RC_INVAL, "'%.64s' is too long for a list of fractions", text);
	while ((field = strsep(&next, ","))) {
		if (n == 3 || parse_double(field, 0, 1, &f[n], err) != RC_OK)
			return err_set(err, RC_INVAL,
				       "'%.64s' is not a list of fractions to train, validate and "
				       "test with (such as 0.8,0.1,0.1)",
				       text);
		n++;
	}
	if (n < 2)
		return err_set(
		    err, RC_INVAL,
		    "'%.64s' is one fraction; a split needs two or three (such as 0.8,0.2)", text);
	if (n == 2) {
		f[2] = f[1];
		f[1] = 0;
	}
	if (f[0] + f[1] + f[2] > 1 + 1e-9)
		return err_set(err, RC_INVAL, "'%.64s' sums to more than 1", text);
	out->train = f[0];
	out->validation = f[1];
	out->test = f[2];
	return RC_OK;
}

uint64_t
dataset_item_size(const struct dataset *ds)
{
	return (uint64_t)ds->channels * ds->rows * ds->cols;
}

size_t
dataset_item_bytes(const struct dataset *ds)
{
	return (size_t)dataset_item_size(ds) * (ds->dtype == GPUSIM_F32 ? 4 : 1);
}

enum rc
dataset_check_labels(const struct dataset *ds, uint32_t nclasses, struct err *err)
{
	const struct dataset_part *parts[] = {&ds->train, &ds->validation, &ds->test};

	for (int p = 0; p < 3; p++)
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
	const struct dataset_part *parts[] = {&ds->train, &ds->validation, &ds->test};
	uLong crc = crc32(0, NULL, 0);

	for (int p = 0; p < 3; p++) {
		if (parts[p]->nitems == 0) /* without bytes, crc32_z would start again */
			continue;
		crc = crc32_z(crc, parts[p]->items, parts[p]->nitems * dataset_item_bytes(ds));
		crc = crc32_z(crc, parts[p]->labels, parts[p]->nitems);
	}
	crc = crc32_z(crc, (const Bytef *)ds->scale, ds->channels * sizeof *ds->scale);
	return (uint32_t)crc32_z(crc, (const Bytef *)ds->shift, ds->channels * sizeof *ds->shift);
}

void
dataset_part_fini(struct dataset_part *part)
{
	free(part->items);
	free(part->labels);
	free(part->labels_path);
	*part = (struct dataset_part){0};
}

void
dataset_fini(struct dataset *ds)
{
	dataset_part_fini(&ds->train);
	dataset_part_fini(&ds->validation);
	dataset_part_fini(&ds->test);
	for (uint32_t i = 0; ds->class_name && i < ds->nclasses; i++)
		free(ds->class_name[i]);
	free(ds->class_name);
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
