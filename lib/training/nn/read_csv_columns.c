/*
 * The meaning of a table's columns: the label, the features, the row's number.
 *
 * Design notes. The first two lines of a file decide as much as they can. The label is the column
 * that the option names; else the one that the header names; else the only one with text; else the
 * one before the pixels of a square; else the last. Text in several columns is rejected.
 */
#include "nn/read_csv_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/must.h"
#include "nn/decimal.h"

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

uint32_t
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

bool
csv_is_header(const struct csv_table *t, const char *option)
{
	const struct csv *csv = &t->csv;

	return csv_named_label(csv, NULL) != CSV_NONE || csv_named_label(csv, option) != CSV_NONE ||
	       count_texts(t) > 1;
}

void
csv_take_names(struct csv_table *t)
{
	t->layout.ncols = t->csv.nfields;
	t->names = must_alloc(t->csv.nfields, sizeof *t->names);
	for (uint32_t i = 0; t->names && i < t->csv.nfields; i++) {
		t->names[i] = must_strndup(t->csv.fields[i].text, t->csv.fields[i].len);
	}
}

const char *
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

uint32_t
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

enum rc
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

enum rc
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
