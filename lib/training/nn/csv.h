/*
 * csv.h - records of a comma-separated file, one after another.
 *
 * As RFC 4180: a field may be in double quotes, where separators and line ends are text and two
 * quotes are one. It also reads lines that end with LF, CR LF or CR, blank lines (skipped), a byte
 * order mark, blanks around a field, and semicolons or tabs for commas, by the first line.
 */
#ifndef NN_CSV_H
#define NN_CSV_H

#include <stdint.h>

#include "nn/input.h"

#define CSV_MAX_RECORD (4u << 20) /* bytes of a record's fields */
#define CSV_MAX_FIELDS (1u << 18) /* of a record */
#define CSV_SHOW       48	  /* for csv_show */

struct csv_field {
	const char *text; /* not terminated; until the next csv_next */
	size_t len;
};

struct csv {
	struct input *in; /* borrowed */
	char sep;
	uint64_t line;		  /* where the reader is, from 1 */
	uint64_t record_line;	  /* where the record begins */
	struct csv_field *fields; /* of the record */
	uint32_t nfields;
	/* The reader's own. */
	struct buf text; /* of the record's fields, one after another */
	uint32_t cap_fields;
	size_t pos, len;
	uint8_t chunk[INPUT_CHUNK];
};

/*
 * csv_begin - look at the first line. csv_end must follow, also after an error.
 *
 *	in	after input_begin; borrowed until csv_end
 *
 * Errors, here and in csv_next: RC_BADDATA "NAME:LINE: reason", and the errors of input_get; RC_FAILED.
 */
enum rc csv_begin(struct csv *csv, struct input *in, struct err *err);

/* csv_begin after the caller has read the first n bytes: at most INPUT_CHUNK, and a whole line if
 * there is one. */
enum rc csv_begin_with(struct csv *csv, struct input *in, const void *bytes, size_t n,
		       struct err *err);

/* The next record; *more false: no record is left. A record has at least one field. */
enum rc csv_next(struct csv *csv, bool *more, struct err *err);

void csv_end(struct csv *csv);

/* A field for a message: terminated, shortened, and without control characters. Returns out. */
const char *csv_show(const struct csv_field *field, char out[CSV_SHOW]);

#endif
