#include "nn/dataset.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/must.h"
#include "base/parse.h"
#include "nn/input.h"
#include "nn/read.h"
#include "nn/rng.h"
#include "nn/tar.h"

#define NPARTS	   3
#define SPLIT_SALT UINT64_C(0x73706c6974) /* so that no epoch has the order of the split */

struct fractions {
	double part[NPARTS]; /* train, validation, test */
};

/* The samples to deal, those of npools parts one after another, and the number of parts to deal them to. */
struct deal {
	const struct dataset_part *pool[NPARTS];
	uint32_t npools, n;
	uint32_t *order;		       /* [n] */
	uint32_t begin[NPARTS], count[NPARTS]; /* in order */
};

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

/* Release a part and make it {0}. */
static void
dataset_part_fini(struct dataset_part *part)
{
	free(part->items);
	free(part->labels);
	free(part->labels_path);
	*part = (struct dataset_part){0};
}

/* ---- the parts that train, validate and test, by a seeded permutation */

static enum rc
check_fractions(const struct dataset_options *o, struct err *err)
{
	const double f[] = {o->train, o->validation, o->test};
	double sum = 0;

	for (int i = 0; i < NPARTS; i++) {
		if (!(f[i] >= 0 && f[i] <= 1))
			return err_set(err, RC_INVAL, "split: %g is not a fraction from 0 to 1",
				       f[i]);
		sum += f[i];
	}
	if (sum > 1 + 1e-9)
		return err_set(err, RC_INVAL, "split: %g, %g and %g sum to more than 1", f[0], f[1],
			       f[2]);
	return RC_OK;
}

/* The fractions that the options mean, for files with or without a test part. *keep: the files'
 * test part stays. */
static struct fractions
choose(const struct dataset_options *o, bool has_test, bool *keep)
{
	double v = o->validation;

	*keep = has_test && o->test == 0;
	if (o->train == 0 && o->test == 0 && *keep)
		return (struct fractions){{1 - v, v, 0}};
	if (o->train == 0 && o->test == 0)
		return (struct fractions){{0.8 - v, v, 0.2}};
	return (struct fractions){{o->train, v, o->test}};
}

/* Cumulated and rounded down, so that fractions that sum to 1 leave no sample out. */
static void
count_parts(struct deal *d, const struct fractions *f)
{
	double sum = 0;
	uint32_t at = 0, end;

	for (int i = 0; i < NPARTS; i++) {
		sum += f->part[i];
		/* 0.7 + 0.2 + 0.1 is less than 1 by a rounding */
		end = sum <= 0 ? 0 : (uint32_t)floor(fmin(sum * d->n + 1e-6, d->n));
		d->begin[i] = at;
		d->count[i] = end > at ? end - at : 0;
		at += d->count[i];
	}
}

/* Sample i of all pools. */
static const struct dataset_part *
find(const struct deal *d, uint32_t *i)
{
	uint32_t p = 0;

	while (p + 1 < d->npools && *i >= d->pool[p]->nitems)
		*i -= d->pool[p++]->nitems;
	return d->pool[p];
}

/* Part k of the deal, in memory of its own. */
static struct dataset_part
take(const struct deal *d, int k, size_t item, const char *path)
{
	uint32_t n = d->count[k];
	uint8_t *items = must_resize(NULL, n, item);
	struct dataset_part out = {.nitems = n,
				   .items = items,
				   .labels = must_alloc(n + 1, 1),
				   .labels_path = must_strdup(path)};

	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = d->order[d->begin[k] + i];
		const struct dataset_part *from = find(d, &at);

		memcpy(items + (size_t)i * item, (const uint8_t *)from->items + (size_t)at * item,
		       item);
		out.labels[i] = from->labels[at];
	}
	return out;
}

/* The path that stands for all the dealt samples. */
static const char *
path_of(const struct deal *d, const char *path)
{
	for (uint32_t p = 1; p < d->npools; p++)
		if (strcmp(d->pool[p]->labels_path, d->pool[0]->labels_path) != 0)
			return path;
	return d->pool[0]->labels_path;
}

/* Make the order. */
static void
shuffle(struct deal *d, uint64_t seed)
{
	struct rng rng;

	d->order = must_resize(NULL, d->n, sizeof *d->order);
	rng_init(&rng, seed ^ SPLIT_SALT);
	rng_permutation(&rng, d->n, d->order);
}

/* Replace the first nparts of ds's parts. d is counted and has no order yet. */
static void
deal_out(struct dataset *ds, struct deal *d, int nparts, uint64_t seed, const char *path)
{
	struct dataset_part *own[NPARTS] = {&ds->train, &ds->validation, &ds->test};
	struct dataset_part part[NPARTS] = {{0}};

	shuffle(d, seed);
	for (int k = 0; k < nparts; k++)
		if (d->count[k] > 0)
			part[k] = take(d, k, dataset_item_bytes(ds), path_of(d, path));
	free(d->order);
	for (int k = 0; k < nparts; k++) {
		dataset_part_fini(own[k]);
		*own[k] = part[k];
	}
}

/* Choose the parts of ds to deal. RC_BADDATA: more samples than can be counted. */
static enum rc
pool(const struct dataset *ds, int nparts, const char *path, struct deal *d, struct err *err)
{
	const struct dataset_part *part[NPARTS] = {&ds->train, &ds->validation, &ds->test};
	uint64_t n = 0;

	for (int k = 0; k < nparts; k++)
		if (part[k]->nitems > 0) {
			d->pool[d->npools++] = part[k];
			n += part[k]->nitems;
		}
	if (n > UINT32_MAX)
		return err_set(err, RC_BADDATA, "%s: more than %u samples", path, UINT32_MAX);
	d->n = (uint32_t)n;
	return RC_OK;
}

/* Limit the number of samples of a part. */
static void
thin(struct dataset_part *part, uint32_t n, size_t item, uint64_t seed)
{
	struct deal d = {.pool = {part}, .npools = 1, .n = part->nitems, .count = {n}};
	struct dataset_part fewer;

	shuffle(&d, seed);
	fewer = take(&d, 0, item, part->labels_path);
	free(d.order);
	dataset_part_fini(part);
	*part = fewer;
}

/* The parts, before their items are limited, except for those that train. */
static enum rc
make_parts(struct dataset *ds, const char *path, const struct dataset_options *o, struct err *err)
{
	bool keep, as_is;
	struct deal d = {0};
	struct fractions f;
	int nparts;
	enum rc rc = check_fractions(o, err);

	if (rc != RC_OK)
		return rc;
	f = choose(o, ds->test.nitems > 0, &keep);
	as_is = keep && o->train == 0 && o->validation == 0;
	nparts = as_is ? 1 : keep ? 2 : 3;
	rc = pool(ds, nparts, path, &d, err);
	if (rc != RC_OK)
		return rc;
	count_parts(&d, &f);
	if ((d.count[0] == 0 && !o->tests_only) || (!keep && d.count[2] == 0))
		return err_set(err, RC_BADDATA,
			       "%s: the split %g,%g,%g of %" PRIu32 " samples leaves none to %s",
			       path, f.part[0], f.part[1], f.part[2], d.n,
			       d.count[0] == 0 && !o->tests_only ? "train on" : "test with");
	if (as_is && (o->train_items == 0 || o->train_items >= d.n))
		return RC_OK;
	if (o->train_items > 0 && d.count[0] > o->train_items)
		d.count[0] = o->train_items;
	deal_out(ds, &d, nparts, o->seed, path);
	return RC_OK;
}

/* Split the samples as the options say. RC_INVAL; RC_BADDATA: a part is empty. */
static enum rc
dataset_split(struct dataset *ds, const char *path, const struct dataset_options *o,
	      struct err *err)
{
	enum rc rc = make_parts(ds, path, o, err);

	if (rc == RC_OK && o->test_items > 0 && ds->test.nitems > o->test_items)
		thin(&ds->test, o->test_items, dataset_item_bytes(ds), o->seed);
	return rc;
}

/* ---- a net's input is item * scale + shift, channel by channel */

struct moments {
	double mean, deviation;
};

/* The moments of bytes: exact, by counting. */
static struct moments
moments_u8(const struct dataset *ds, uint32_t channel)
{
	size_t plane = (size_t)ds->rows * ds->cols, item = dataset_item_size(ds);
	const uint8_t *first = (const uint8_t *)ds->train.items + channel * plane;
	uint64_t count[256] = {0};
	double n = (double)ds->train.nitems * (double)plane, sum = 0, square = 0;

	for (uint32_t i = 0; i < ds->train.nitems; i++)
		for (size_t k = 0; k < plane; k++)
			count[first[i * item + k]]++;
	for (int v = 0; v < 256; v++)
		sum += (double)count[v] * v;
	for (int v = 0; v < 256; v++)
		square += (double)count[v] * (v - sum / n) * (v - sum / n);
	return (struct moments){sum / n, sqrt(square / n)};
}

/* The moments of f32, in two passes. */
static struct moments
moments_f32(const struct dataset *ds, uint32_t channel)
{
	size_t plane = (size_t)ds->rows * ds->cols, item = dataset_item_size(ds);
	const float *first = (const float *)ds->train.items + channel * plane;
	double n = (double)ds->train.nitems * (double)plane, sum = 0, square = 0, off;

	for (uint32_t i = 0; i < ds->train.nitems; i++)
		for (size_t k = 0; k < plane; k++)
			sum += (double)first[i * item + k];
	for (uint32_t i = 0; i < ds->train.nitems; i++)
		for (size_t k = 0; k < plane; k++) {
			off = (double)first[i * item + k] - sum / n;
			square += off * off;
		}
	return (struct moments){sum / n, sqrt(square / n)};
}

/* Mean 0 and deviation 1; a constant channel becomes 0. */
static void
standardise(struct dataset *ds, uint32_t c)
{
	struct moments m = ds->dtype == GPUSIM_F32 ? moments_f32(ds, c) : moments_u8(ds, c);
	/* A sum of equal numbers may leave a deviation of a few roundings. */
	bool constant = m.deviation <= 1e-12 * fabs(m.mean) || m.deviation < 0x1p-126;
	double scale = constant ? 1 : 1 / m.deviation;

	ds->scale[c] = (float)scale;
	ds->shift[c] = (float)(-m.mean * scale);
}

/* Make scale and shift. */
static void
dataset_scale(struct dataset *ds, enum dataset_normalize how)
{
	ds->scale = must_alloc(ds->channels, sizeof *ds->scale);
	ds->shift = must_alloc(ds->channels, sizeof *ds->shift);
	for (uint32_t c = 0; c < ds->channels; c++) {
		ds->scale[c] = how == DATASET_UNIT && ds->dtype == GPUSIM_U8 ? 1.0f / 255 : 1;
		if (how == DATASET_STANDARD)
			standardise(ds, c);
	}
}

/* ---- formats */

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
