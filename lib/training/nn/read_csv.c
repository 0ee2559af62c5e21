/*
 * Tables: a sample a line, its features and its class.
 *
 * Design notes. A file is read once, line by line. All features become f32 at first; at the end
 * they become bytes if they are pixels. Classes are numbered by arrival, and in order at the end.
 * read_csv_columns.c finds the columns' meaning.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/must.h"
#include "nn/decimal.h"
#include "nn/read.h"
#include "nn/read_csv_impl.h"

/* Room for one more row. */
static enum rc
make_room(struct csv_table *t, struct err *err)
{
	uint64_t row = 4 * (uint64_t)t->layout.nfeatures;

	if (t->nrows < t->cap)
		return RC_OK;
	if ((t->nrows + UINT64_C(1)) * row > READ_MAX_NBYTES)
		return err_set(err, RC_BADDATA,
			       "%s:%" PRIu64 ": more than the limit of %" PRIu64 " bytes", t->path,
			       t->csv.record_line, READ_MAX_NBYTES);
	t->cap = t->cap ? t->cap * 2 : 64;
	t->values = must_resize(t->values, t->cap, row);
	t->ids = must_resize(t->ids, t->cap, 1);
	return RC_OK;
}

/* Set err for a field of the row that was read last. */
static enum rc
refuse_field(const struct csv_table *t, uint32_t col, const char *what, struct err *err)
{
	char shown[CSV_SHOW], name[CSV_COLUMN];

	if (t->csv.fields[col].len == 0)
		return err_set(err, RC_BADDATA, "%s:%" PRIu64 ": %s is empty", t->path,
			       t->csv.record_line, csv_column(t, col, name));
	return err_set(err, RC_BADDATA, "%s:%" PRIu64 ": %s: '%s' is %s", t->path,
		       t->csv.record_line, csv_column(t, col, name),
		       csv_show(&t->csv.fields[col], shown), what);
}

static enum rc
add_label(struct csv_table *t, struct err *err)
{
	const struct csv_field *f = &t->csv.fields[t->layout.label];
	char name[CSV_COLUMN];

	if (f->len == 0)
		return refuse_field(t, t->layout.label, "", err);
	for (size_t i = 0; i < f->len; i++)
		if ((unsigned char)f->text[i] < 0x20 || f->text[i] == 0x7f)
			return refuse_field(t, t->layout.label, "not the name of a class", err);
	switch (classes_id(t->classes, f->text, f->len, &t->ids[t->nrows])) {
	case CLASSES_OK:
		return RC_OK;
	case CLASSES_LONG:
		return refuse_field(t, t->layout.label, "too long for a class", err);
	default:
		return err_set(err, RC_BADDATA,
			       "%s:%" PRIu64 ": %s has more than %d classes: is another column "
			       "the label?",
			       t->path, t->csv.record_line, csv_column(t, t->layout.label, name),
			       CLASSES_MAX);
	}
}

/* A row that csv has read. */
static enum rc
add_row(struct csv_table *t, struct err *err)
{
	const struct csv_layout *l = &t->layout;
	float *v;
	enum rc rc;

	if (t->csv.nfields != l->ncols)
		return err_set(err, RC_BADDATA,
			       "%s:%" PRIu64 ": %" PRIu32 " fields; the lines before have %" PRIu32,
			       t->path, t->csv.record_line, t->csv.nfields, l->ncols);
	rc = make_room(t, err);
	if (rc == RC_OK)
		rc = add_label(t, err);
	if (rc != RC_OK)
		return rc;
	v = t->values + (size_t)t->nrows * l->nfeatures;
	for (uint32_t i = l->skip_first; i < l->ncols; i++) {
		const struct csv_field *f = &t->csv.fields[i];

		if (i == l->label)
			continue;
		switch (decimal_f32(f->text, f->len, v)) {
		case DECIMAL_OK:
			break;
		case DECIMAL_SYNTAX:
			return refuse_field(t, i, "not a number", err);
		case DECIMAL_NOT_FINITE:
			return refuse_field(t, i, "not finite", err);
		case DECIMAL_RANGE:
			return refuse_field(t, i, "too large for f32", err);
		}
		t->bytes &= *v >= 0 && *v <= 255 && (float)(uint8_t)*v == *v;
		v++;
	}
	t->nrows++;
	return RC_OK;
}

/* Read all of csv, from its first record. */
static enum rc
read_rows(struct csv_table *t, const char *option, const struct csv_table *first, struct err *err)
{
	bool more = false;
	enum rc rc = csv_next(&t->csv, &more, err);

	t->named = CSV_NONE;
	if (rc == RC_OK && more && csv_is_header(t, option)) {
		t->named = csv_named_label(&t->csv, option);
		csv_take_names(t);
		if (rc == RC_OK)
			rc = csv_next(&t->csv, &more, err);
		if (rc == RC_OK && more && t->csv.nfields != t->layout.ncols)
			return add_row(t, err);
	}
	if (rc == RC_OK && !more)
		return err_set(err, RC_BADDATA, "%s: no samples", t->path);
	if (rc == RC_OK)
		rc = first ? csv_same_layout(t, first, err) : csv_lay_out(t, option, err);
	while (rc == RC_OK && more) {
		rc = add_row(t, err);
		if (rc == RC_OK)
			rc = csv_next(&t->csv, &more, err);
	}
	return rc;
}

/* The table in a file. first: the table whose columns it must have, or NULL. table_fini follows in
 * any case. */
static enum rc
read_table(struct csv_table *t, const char *path, const char *option, const struct csv_table *first,
	   struct classes *classes, struct err *err)
{
	struct input in;
	enum rc rc;

	*t = (struct csv_table){.path = path, .classes = classes, .bytes = true};
	rc = input_open(&in, path, err);
	if (rc != RC_OK)
		return rc;
	rc = input_begin(&in, err);
	if (rc == RC_OK) {
		rc = csv_begin(&t->csv, &in, err);
		if (rc == RC_OK)
			rc = read_rows(t, option, first, err);
		input_end(&in);
	}
	input_close(&in);
	return rc;
}

static void
table_fini(struct csv_table *t)
{
	for (uint32_t i = 0; t->names && i < t->layout.ncols; i++)
		free(t->names[i]);
	free(t->names);
	free(t->values);
	free(t->ids);
	csv_end(&t->csv);
}

/* Are the features called pixel...? */
static bool
named_pixels(const struct csv_table *t)
{
	for (uint32_t i = t->layout.skip_first; t->names && i < t->layout.ncols; i++)
		if (i != t->layout.label && strncasecmp(t->names[i], "pixel", 5) != 0)
			return false;
	return t->names;
}

/* Items of bytes where the features are pixels of square images; else features. */
static void
shape_items(struct dataset *ds, const struct csv_table *t, bool bytes)
{
	uint32_t channels, side = csv_image_side(t->layout.nfeatures, &channels);

	if (bytes && side > 0 && (side >= 8 || named_pixels(t))) {
		ds->dtype = GPUSIM_U8;
		ds->channels = channels;
		ds->rows = ds->cols = side;
	} else {
		ds->dtype = GPUSIM_F32;
		ds->channels = t->layout.nfeatures;
		ds->rows = ds->cols = 1;
	}
}

/* The table's values as items: interleaved pixels become planes. */
static void *
take_items(const struct dataset *ds, struct csv_table *t)
{
	size_t plane = (size_t)ds->rows * ds->cols, item = (size_t)dataset_item_size(ds);
	float *values = t->values;
	uint8_t *bytes;

	if (ds->dtype == GPUSIM_F32) {
		t->values = NULL;
		return values;
	}
	bytes = must_resize(NULL, t->nrows, item);
	for (size_t i = 0; bytes && i < t->nrows; i++)
		for (uint32_t c = 0; c < ds->channels; c++)
			for (size_t k = 0; k < plane; k++)
				bytes[i * item + c * plane + k] =
				    (uint8_t)values[i * item + k * ds->channels + c];
	return bytes;
}

static void
make_part(const struct dataset *ds, struct csv_table *t, struct dataset_part *part)
{
	part->items = take_items(ds, t);
	part->labels_path = must_strdup(t->path);
	part->nitems = t->nrows;
	part->labels = t->ids;
	t->ids = NULL;
	for (uint32_t i = 0; i < t->nrows; i++)
		part->labels[i] = t->classes->label[part->labels[i]];
}

/* Was the label guessed by its place alone, and is it a measure rather than a class? */
static bool
looks_wrong(const struct csv_table *t, const char *option)
{
	uint32_t n = t->classes->nlabels;

	return !option && t->named == CSV_NONE && !t->classes->name_is_text && n > 16 &&
	       n > t->nrows / 4;
}

static enum rc
sort_classes(const struct csv_table *t, const char *option, struct dataset *ds, struct err *err)
{
	char name[CSV_COLUMN];

	if (classes_sort(t->classes) == CLASSES_UNCOUNTABLE)
		return err_set(err, RC_BADDATA,
			       "%s: the numbers in %s are not whole, so they are not classes: is "
			       "another column the label?",
			       t->path, csv_column(t, t->layout.label, name));
	if (looks_wrong(t, option))
		return err_set(err, RC_BADDATA,
			       "%s: %s has %" PRIu32 " classes in %" PRIu32
			       " samples: is another column the label?",
			       t->path, csv_column(t, t->layout.label, name), t->classes->nlabels,
			       t->nrows);
	if (t->classes->nlabels < 2)
		return err_set(err, RC_BADDATA,
			       "%s: %s has only one class: is another column the label?", t->path,
			       csv_column(t, t->layout.label, name));
	ds->nclasses = t->classes->nlabels;
	ds->class_name = t->classes->name;
	t->classes->name = NULL;
	return RC_OK;
}

/* Was the first column wrongly taken for the label? */
static bool
guessed_wrong(const struct csv_table *t, const char *option)
{
	return !option && !t->names && t->layout.label == 0 && t->classes->n == 1;
}

static enum rc
read_first(struct csv_table *t, const char *path, const char *option, struct classes *classes,
	   struct err *err)
{
	enum rc rc = read_table(t, path, option, NULL, classes, err);

	if (rc != RC_OK || !guessed_wrong(t, option))
		return rc;
	table_fini(t);
	classes_fini(classes);
	return read_table(t, path, "last", NULL, classes, err);
}

/* One file, or the second as the test part. */
static enum rc
read_tables(const char *train_path, const char *test_path, const char *option, struct dataset *ds,
	    struct err *err)
{
	struct csv_table *t = must_alloc(2, sizeof *t); /* each contains its chunk of the file */
	struct classes classes = {0};
	enum rc rc;

	rc = read_first(&t[0], train_path, option, &classes, err);
	if (rc == RC_OK && test_path)
		rc = read_table(&t[1], test_path, option, &t[0], &classes, err);
	if (rc == RC_OK)
		rc = sort_classes(&t[0], option, ds, err);
	if (rc == RC_OK) {
		shape_items(ds, &t[0], t[0].bytes && (!test_path || t[1].bytes));
		make_part(ds, &t[0], &ds->train);
	}
	if (rc == RC_OK && test_path)
		make_part(ds, &t[1], &ds->test);
	table_fini(&t[0]);
	table_fini(&t[1]);
	free(t);
	classes_fini(&classes);
	return rc;
}

/* DIR/NAME or DIR/NAME.gz, malloc'ed; NULL: not found. */
static char *
find_table(const char *dir, const char *name)
{
	static const char *const ends[] = {"", ".gz"};
	struct stat st;
	char *path;

	for (int i = 0; i < 2; i++) {
		path = must_printf("%s/%s%s", dir, name, ends[i]);
		if (stat(path, &st) == 0 || errno != ENOENT)
			return path;
		free(path);
	}
	return NULL;
}

bool
csv_is_here(const char *dir)
{
	char *train = find_table(dir, "train.csv");
	bool here = train;

	free(train);
	return here;
}

enum rc
read_csv(const char *path, const struct dataset_options *o, struct dataset *ds, struct err *err)
{
	char *train = NULL, *test = NULL;
	struct stat st;
	enum rc rc;

	if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
		return read_tables(path, NULL, o->label_column, ds, err);
	train = find_table(path, "train.csv");
	test = find_table(path, "test.csv");
	if (!train)
		rc = err_set(err, RC_FAILED, "%s: train.csv not found, plain or .gz", path);
	else
		rc = read_tables(train, test, o->label_column, ds, err);
	free(train);
	free(test);
	return rc;
}
