/*
 * read_csv_impl.h - shared by read_csv.c (rows, and the data set of them) and read_csv_columns.c
 * (the meaning of columns).
 */
#ifndef NN_READ_CSV_IMPL_H
#define NN_READ_CSV_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "nn/classes.h"
#include "nn/csv.h"

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

/* err: out of memory. */

/* A column for sentences: its name, else its number from 1. Returns out. */
const char *csv_column(const struct csv_table *t, uint32_t col, char out[CSV_COLUMN]);

/* The side of square images with n features, and *channels; 0: not square images. */
uint32_t csv_image_side(uint32_t n, uint32_t *channels);

/* A first line is a header when it names the label, or has text in more than one column. */
bool csv_is_header(const struct csv_table *t, const char *option);

/* The field of the record that the option, or else convention, calls the label; CSV_NONE: none. */
uint32_t csv_named_label(const struct csv *csv, const char *option);

/* Take t->names and their number from the header, the current record. */
void csv_take_names(struct csv_table *t);

/* Find the columns' meaning from the header and the first row. RC_BADDATA: the columns are not
 * features and a label. */
enum rc csv_lay_out(struct csv_table *t, const char *option, struct err *err);

/* RC_BADDATA if the columns of the second table differ from those of the first. */
enum rc csv_same_layout(struct csv_table *t, const struct csv_table *first, struct err *err);

#endif
