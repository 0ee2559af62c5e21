#include "nn/csv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/must.h"

enum { END = -1 };

/* More bytes into the chunk; at the end len is 0. */
static enum rc
refill(struct csv *csv, struct err *err)
{
	csv->pos = 0;
	csv->len = 0;
	return input_some(csv->in, csv->chunk, sizeof csv->chunk, &csv->len, err);
}

/* The next byte, or END; a CR LF is one LF, and so is a CR by itself unless `raw`. */
static enum rc
next_byte(struct csv *csv, bool raw, int *c, struct err *err)
{
	enum rc rc;

	if (csv->pos == csv->len) {
		rc = refill(csv, err);
		if (rc != RC_OK)
			return rc;
	}
	if (csv->len == 0) {
		*c = END;
		return RC_OK;
	}
	*c = csv->chunk[csv->pos++];
	if (*c == '\r' && !raw) {
		*c = '\n';
		rc = csv->pos < csv->len ? RC_OK : refill(csv, err);
		if (rc != RC_OK)
			return rc;
		if (csv->pos < csv->len && csv->chunk[csv->pos] == '\n')
			csv->pos++;
	}
	if (*c == '\n')
		csv->line++;
	return *c ? RC_OK
		  : err_set(err, RC_BADDATA, "%s:%" PRIu64 ": a NUL byte: the file is not text",
			    csv->in->name, csv->line);
}

/* The most frequent separator of the first line that is not blank; a comma when it has none. */
static char
guess_separator(const struct csv *csv)
{
	static const char seps[] = ",;\t";
	uint32_t count[3] = {0};
	bool quoted = false, blank = true;
	size_t best = 0;

	for (size_t i = csv->pos; i < csv->len; i++) {
		char c = (char)csv->chunk[i];

		if (!quoted && !blank && (c == '\n' || c == '\r'))
			break;
		blank &= c == '\n' || c == '\r' || c == ' ';
		quoted ^= c == '"';
		for (int s = 0; s < 3 && !quoted; s++)
			count[s] += c == seps[s];
	}
	for (size_t s = 1; s < 3; s++)
		best = count[s] > count[best] ? s : best;
	return seps[best];
}

enum rc
csv_begin(struct csv *csv, struct input *in, struct err *err)
{
	return csv_begin_with(csv, in, NULL, 0, err);
}

enum rc
csv_begin_with(struct csv *csv, struct input *in, const void *bytes, size_t n, struct err *err)
{
	const char *odd;
	enum rc rc = RC_OK;

	csv->in = in;
	csv->line = 1;
	csv->fields = NULL;
	csv->nfields = csv->cap_fields = 0;
	csv->text = (struct buf){0};
	csv->pos = 0;
	csv->len = n;
	if (n)
		memcpy(csv->chunk, bytes, n);
	else
		rc = refill(csv, err);
	if (rc != RC_OK)
		return rc;
	odd = file_odd_text((const char *)csv->chunk, csv->len);
	if (odd && strcmp(odd, "UTF-16") == 0)
		return err_set(err, RC_BADDATA, "%s: the text is UTF-16; convert it to UTF-8",
			       in->name);
	csv->pos = odd ? 3 : 0;
	csv->sep = guess_separator(csv);
	return RC_OK;
}

void
csv_end(struct csv *csv)
{
	buf_fini(&csv->text);
	free(csv->fields);
	csv->fields = NULL;
	csv->nfields = csv->cap_fields = 0;
}

static enum rc
refuse(const struct csv *csv, const char *reason, struct err *err)
{
	return err_set(err, RC_BADDATA, "%s:%" PRIu64 ": %s", csv->in->name, csv->record_line,
		       reason);
}

static enum rc
put(struct csv *csv, int c, struct err *err)
{
	if (csv->text.len == CSV_MAX_RECORD)
		return refuse(csv, "the line is longer than 4 MiB", err);
	if (csv->text.len == csv->text.cap)
		must_reserve(&csv->text, 1);
	csv->text.data[csv->text.len++] = (char)c;
	return RC_OK;
}

static bool
is_blank(const struct csv *csv, int c)
{
	return (c == ' ' || c == '\t') && c != csv->sep;
}

/* Text between quotes; the first quote has been read, and this reads the last. */
static enum rc
read_quoted(struct csv *csv, struct err *err)
{
	uint64_t opened = csv->line;
	enum rc rc;
	int c;

	for (;;) {
		rc = next_byte(csv, true, &c, err);
		if (rc != RC_OK)
			return rc;
		if (c == END || csv->text.len == CSV_MAX_RECORD)
			return err_set(err, RC_BADDATA, "%s:%" PRIu64 ": a quote is not closed",
				       csv->in->name, opened);
		if (c == '"') {
			rc = next_byte(csv, true, &c, err);
			if (rc != RC_OK)
				return rc;
			if (c != '"') {
				csv->pos -=
				    c != END; /* the byte that ends the field is read again */
				csv->line -= c == '\n';
				return RC_OK;
			}
		}
		rc = put(csv, c, err);
		if (rc != RC_OK)
			return rc;
	}
}

/* One field to the end of text; *c is what ended it: the separator, LF or END. */
static enum rc
read_field(struct csv *csv, int *c, struct err *err)
{
	size_t begin = csv->text.len;
	bool quoted = false;
	enum rc rc;

	do
		rc = next_byte(csv, false, c, err);
	while (rc == RC_OK && is_blank(csv, *c));
	if (rc == RC_OK && *c == '"') {
		quoted = true;
		rc = read_quoted(csv, err);
		if (rc == RC_OK)
			rc = next_byte(csv, false, c, err);
	}
	while (rc == RC_OK && *c != csv->sep && *c != '\n' && *c != END) {
		if (quoted && !is_blank(csv, *c))
			return refuse(csv, "text after a closing quote", err);
		if (*c == '"')
			return refuse(csv, "a quote in an unquoted field", err);
		if (!quoted)
			rc = put(csv, *c, err);
		if (rc == RC_OK)
			rc = next_byte(csv, false, c, err);
	}
	while (!quoted && csv->text.len > begin && is_blank(csv, csv->text.data[csv->text.len - 1]))
		csv->text.len--;
	return rc;
}

/* The field whose text was added since `begin`; it is an offset until the record is complete. */
static enum rc
add_field(struct csv *csv, size_t begin, struct err *err)
{
	if (csv->nfields == csv->cap_fields) {
		if (csv->nfields == CSV_MAX_FIELDS)
			return refuse(csv, "the line has more than 262144 fields", err);
		csv->cap_fields = csv->cap_fields ? csv->cap_fields * 2 : 16;
		csv->fields = must_resize(csv->fields, csv->cap_fields, sizeof *csv->fields);
	}
	csv->fields[csv->nfields++].len = csv->text.len - begin;
	return RC_OK;
}

/* A record, perhaps a blank one; *end: it is the last. */
static enum rc
read_record(struct csv *csv, bool *end, struct err *err)
{
	const char *at;
	size_t begin;
	enum rc rc;
	int c;

	csv->text.len = 0;
	csv->nfields = 0;
	csv->record_line = csv->line;
	do {
		begin = csv->text.len;
		rc = read_field(csv, &c, err);
		if (rc == RC_OK)
			rc = add_field(csv, begin, err);
	} while (rc == RC_OK && c == csv->sep);
	if (rc != RC_OK)
		return rc;
	at = csv->text.data ? csv->text.data : "";
	for (uint32_t i = 0; i < csv->nfields; i++) {
		csv->fields[i].text = at;
		at += csv->fields[i].len;
	}
	*end = c == END;
	return RC_OK;
}

enum rc
csv_next(struct csv *csv, bool *more, struct err *err)
{
	bool end = false;
	enum rc rc;

	do
		rc = read_record(csv, &end, err);
	while (rc == RC_OK && !end && csv->nfields == 1 && csv->fields[0].len == 0);
	if (rc == RC_OK)
		*more = !(end && csv->nfields == 1 && csv->fields[0].len == 0);
	return rc;
}

const char *
csv_show(const struct csv_field *field, char out[CSV_SHOW])
{
	size_t n = field->len < CSV_SHOW - 1 ? field->len : CSV_SHOW - 1;

	/* Do not cut a UTF-8 character. */
	while (n < field->len && n > 0 && ((unsigned char)field->text[n] & 0xc0) == 0x80)
		n--;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)field->text[i];

		out[i] = c < 0x20 || c == 0x7f ? '?' : (char)c;
	}
	out[n] = '\0';
	return out;
}
