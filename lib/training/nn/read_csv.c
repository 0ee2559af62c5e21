/*
 * Tables: a sample a line, its features and its class.
 *
 * Design notes. A file is read once, line by line. All features become f32 at first; at the end
 * they become bytes if they are pixels. Classes are numbered by arrival, and in order at the end.
 *
 * The first two lines of a file decide as much as they can of the columns' meaning. The label is the
 * column that the option names; else the one that the header names; else the only one with text; else the
 * one before the pixels of a square; else the last. Text in several columns is rejected.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/must.h"
#include "nn/classes.h"
#include "nn/csv.h"
#include "nn/decimal.h"
#include "nn/read.h"

#define CSV_NONE   UINT32_MAX
#define CSV_COLUMN (CSV_SHOW + 16) /* for csv_column */

/* The meaning of the columns. */
struct csv_layout {
	uint32_t ncols, label; /* label: a column */
	bool skip_first;       /* column 0 numbers the rows */
	uint32_t nfeatures;
};

struct csv_table {
	const char *path;
	struct csv csv;
	struct classes *classes; /* of all tables together */
	char **names;		 /* [layout.ncols], or NULL: no header */
	uint32_t named;		 /* the column that the header calls the label, or CSV_NONE */
	struct csv_layout layout;
	uint32_t nrows;
	float *values; /* [nrows, nfeatures] */
	uint8_t *ids;  /* [nrows], of classes */
	uint64_t cap;  /* rows there is room for */
	bool bytes;    /* all features are whole and 0 to 255 */
};

/* ---- the columns' meaning: the label, the features, the row's number */

static const char *const label_names[] = {"label", "class", "species", "target", "variety"};

#define NLABEL_NAMES (sizeof label_names / sizeof label_names[0])

static bool
is_called(const struct csv_field *f, const char *name)
{
	return f->len == strlen(name) && strncasecmp(f->text, name, f->len) == 0;
}

/* Does the option give a column's name, and not a place? */
static bool
names_column(const char *option)
{
	return option && strcmp(option, "first") != 0 && strcmp(option, "last") != 0;
}

/* The field of the record that the option, or else convention, calls the label; CSV_NONE: none. */
static uint32_t
csv_named_label(const struct csv *csv, const char *option)
{
	for (uint32_t i = 0; i < csv->nfields && names_column(option); i++)
		if (is_called(&csv->fields[i], option))
			return i;
	for (size_t k = 0; k < NLABEL_NAMES && !option; k++)
		for (uint32_t i = 0; i < csv->nfields; i++)
			if (is_called(&csv->fields[i], label_names[k]))
				return i;
	return CSV_NONE;
}

/* Is it a number, or does it stand for one? */
static bool
is_number(const struct csv_field *f)
{
	float out;

	return decimal_f32(f->text, f->len, &out) != DECIMAL_SYNTAX;
}

static uint32_t
count_texts(const struct csv_table *t)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < t->csv.nfields; i++)
		count += !is_number(&t->csv.fields[i]);
	return count;
}

/* A first line is a header when it names the label, or has text in more than one column. */
static bool
csv_is_header(const struct csv_table *t, const char *option)
{
	const struct csv *csv = &t->csv;

	return csv_named_label(csv, NULL) != CSV_NONE || csv_named_label(csv, option) != CSV_NONE ||
	       count_texts(t) > 1;
}

/* Take t->names and their number from the header, the current record. */
static void
csv_take_names(struct csv_table *t)
{
	t->layout.ncols = t->csv.nfields;
	t->names = must_alloc(t->csv.nfields, sizeof *t->names);
	for (uint32_t i = 0; t->names && i < t->csv.nfields; i++) {
		t->names[i] = must_strndup(t->csv.fields[i].text, t->csv.fields[i].len);
	}
}

/* A column for sentences: its name, else its number from 1. Returns out. */
static const char *
csv_column(const struct csv_table *t, uint32_t col, char out[CSV_COLUMN])
{
	struct csv_field name = {NULL, 0};
	char shown[CSV_SHOW];

	if (t->names)
		name = (struct csv_field){t->names[col], strlen(t->names[col])};
	if (name.len > 0)
		snprintf(out, CSV_COLUMN, "column '%s'", csv_show(&name, shown));
	else
		snprintf(out, CSV_COLUMN, "column %" PRIu32, col + 1);
	return out;
}

/* The side of square images with n features, and *channels; 0: not square images. */
static uint32_t
csv_image_side(uint32_t n, uint32_t *channels)
{
	for (*channels = 1; *channels <= 3; *channels += 2)
		for (uint32_t side = 1; side <= 512; side++)
			if (n == *channels * side * side)
				return side;
	return 0;
}

/* Without a header, the label is before the pixels of a square, as in files of MNIST; or, if the
 * first column is constant, after them. */
static bool
first_is_label(const struct csv_table *t)
{
	const struct csv *csv = &t->csv;
	uint32_t channels;
	int64_t v;

	if (t->names || csv_image_side(csv->nfields - 1, &channels) < 8)
		return false;
	for (uint32_t i = 0; i < csv->nfields; i++)
		if (!decimal_whole(csv->fields[i].text, csv->fields[i].len, &v) || v < 0 || v > 255)
			return false;
	return true;
}

/* The only column of text in the first row, CSV_NONE if there is none. */
static enum rc
text_label(const struct csv_table *t, uint32_t begin, uint32_t *label, struct err *err)
{
	const struct csv *csv = &t->csv;
	char one[CSV_COLUMN], other[CSV_COLUMN];

	*label = CSV_NONE;
	for (uint32_t i = begin; i < csv->nfields; i++) {
		if (is_number(&csv->fields[i]))
			continue;
		if (*label != CSV_NONE)
			return err_set(err, RC_BADDATA,
				       "%s:%" PRIu64 ": %s and %s are text, but only the label may "
				       "be: name it by --label-column",
				       t->path, csv->record_line, csv_column(t, *label, one),
				       csv_column(t, i, other));
		*label = i;
	}
	return RC_OK;
}

/* A first column of one of these names is the row's number. */
static bool
first_is_index(const struct csv_table *t)
{
	static const char *const index_names[] = {"", "id", "index", "unnamed: 0"};

	for (size_t i = 0; t->names && i < sizeof index_names / sizeof index_names[0]; i++)
		if (strcasecmp(t->names[0], index_names[i]) == 0)
			return true;
	return false;
}

/* begin: the first column that may be the label. */
static enum rc
find_label(const struct csv_table *t, const char *option, uint32_t begin, uint32_t *label,
	   struct err *err)
{
	uint32_t last = t->csv.nfields - 1;
	enum rc rc;

	*label = t->named;
	if (*label != CSV_NONE)
		return RC_OK;
	if (names_column(option))
		return err_set(err, RC_BADDATA, "%s: no column has the name '%.64s'%s", t->path,
			       option, t->names ? "" : ": the file has no header");
	if (option) {
		*label = strcmp(option, "first") == 0 ? 0 : last;
		return RC_OK;
	}
	rc = text_label(t, begin, label, err);
	if (rc == RC_OK && *label == CSV_NONE)
		*label = first_is_label(t) ? 0 : last;
	return rc;
}

/* Find the columns' meaning from the header and the first row. RC_BADDATA: the columns are not
 * features and a label. */
static enum rc
csv_lay_out(struct csv_table *t, const char *option, struct err *err)
{
	struct csv_layout *l = &t->layout;
	enum rc rc;

	l->ncols = t->csv.nfields;
	l->skip_first = first_is_index(t) && l->ncols > 2;
	if (l->ncols < 2)
		return err_set(err, RC_BADDATA,
			       "%s:%" PRIu64 ": a table needs two columns: features and a label",
			       t->path, t->csv.record_line);
	rc = find_label(t, option, l->skip_first, &l->label, err);
	if (rc != RC_OK)
		return rc;
	l->skip_first &= l->label != 0;
	l->nfeatures = l->ncols - 1 - l->skip_first;
	return RC_OK;
}

/* RC_BADDATA if the columns of the second table differ from those of the first. */
static enum rc
csv_same_layout(struct csv_table *t, const struct csv_table *first, struct err *err)
{
	char name[CSV_COLUMN], other[CSV_COLUMN];

	if (t->csv.nfields != first->layout.ncols)
		return err_set(
		    err, RC_BADDATA, "%s:%" PRIu64 ": %" PRIu32 " fields, but %s has %" PRIu32,
		    t->path, t->csv.record_line, t->csv.nfields, first->path, first->layout.ncols);
	for (uint32_t i = 0; t->names && first->names && i < first->layout.ncols; i++)
		if (strcmp(t->names[i], first->names[i]) != 0)
			return err_set(err, RC_BADDATA, "%s: has %s where %s has %s", t->path,
				       csv_column(t, i, name), first->path,
				       csv_column(first, i, other));
	t->layout = first->layout;
	return RC_OK;
}

/* ---- rows, and the data set of them */

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
