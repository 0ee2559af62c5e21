#include "nn/samples.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "nn/csv.h"
#include "nn/decimal.h"

enum { MAX_SIDE = 32768, IDX_HEADER = 16 };

enum kind { KIND_IDX, KIND_PNM, KIND_TABLE };

struct samples {
	struct input in;
	struct net_shape shape;
	enum kind kind;
	bool open;  /* input_begin succeeded */
	uint64_t n; /* samples read */
	/* Bytes of images that have been unpacked. */
	size_t pos, len;
	uint8_t chunk[INPUT_CHUNK];
	uint32_t total; /* IDX: images there are to be */
	struct csv csv; /* table */
	bool has_csv;
	locale_t c;
};

/* An image that is read. */
struct pnm {
	bool ascii;
	uint32_t maxval;
};

static enum rc
refuse(const struct samples *s, const char *reason, struct err *err)
{
	return err_set(err, RC_BADDATA, "%s: image %" PRIu64 ": %s", s->in.name, s->n, reason);
}

/* ---- bytes of images */

/* At least one byte in the chunk, unless the end is there. */
static enum rc
fill(struct samples *s, struct err *err)
{
	if (s->pos < s->len)
		return RC_OK;
	s->pos = s->len = 0;
	return input_some(&s->in, s->chunk, sizeof s->chunk, &s->len, err);
}

/* The next byte without taking it, or -1 at the end. */
static enum rc
peek(struct samples *s, int *c, struct err *err)
{
	enum rc rc = fill(s, err);

	*c = rc == RC_OK && s->pos < s->len ? s->chunk[s->pos] : -1;
	return rc;
}

/* n bytes, or fewer at the end. */
static enum rc
take(struct samples *s, uint8_t *dst, size_t n, size_t *got, struct err *err)
{
	enum rc rc = RC_OK;
	size_t k;

	for (*got = 0; rc == RC_OK && *got < n; *got += k) {
		rc = fill(s, err);
		k = s->len - s->pos < n - *got ? s->len - s->pos : n - *got;
		if (rc != RC_OK || k == 0)
			break;
		memcpy(dst + *got, s->chunk + s->pos, k);
		s->pos += k;
	}
	return rc;
}

static enum rc
check_shape(const struct samples *s, uint32_t channels, uint32_t rows, uint32_t cols,
	    struct err *err)
{
	const struct net_shape *want = &s->shape;

	if (channels == want->channels && rows == want->rows && cols == want->cols)
		return RC_OK;
	return err_set(err, RC_BADDATA,
		       "%s: image %" PRIu64 " is %" PRIu32 "x%" PRIu32 "x%" PRIu32
		       ", the model takes %" PRIu32 "x%" PRIu32 "x%" PRIu32,
		       s->in.name, s->n, channels, rows, cols, want->channels, want->rows,
		       want->cols);
}

/* ---- IDX */

static uint32_t
big_endian(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static enum rc
idx_header(struct samples *s, struct err *err)
{
	static const uint8_t magic[4] = {0, 0, 8, 3};
	uint8_t h[IDX_HEADER];
	size_t got;
	enum rc rc = take(s, h, sizeof h, &got, err);

	if (rc != RC_OK)
		return rc;
	if (memcmp(h, magic, got < 4 ? got : 4) != 0)
		return err_set(err, RC_BADDATA, "%s: not an IDX file of images of bytes",
			       s->in.name);
	if (got < sizeof h)
		return err_set(err, RC_BADDATA, "%s: cut short in the header", s->in.name);
	s->total = big_endian(h + 4);
	if (s->total == 0)
		return err_set(err, RC_BADDATA, "%s: no images", s->in.name);
	return check_shape(s, 1, big_endian(h + 8), big_endian(h + 12), err);
}

static enum rc
idx_next(struct samples *s, uint8_t *item, bool *more, struct err *err)
{
	size_t n = (size_t)net_shape_size(s->shape), got;
	enum rc rc;
	int c;

	*more = s->n < s->total;
	if (!*more) {
		rc = peek(s, &c, err);
		if (rc == RC_OK && c >= 0)
			rc =
			    err_set(err, RC_BADDATA, "%s: bytes behind the last image", s->in.name);
		return rc;
	}
	rc = take(s, item, n, &got, err);
	return rc == RC_OK && got < n ? refuse(s, "cut short", err) : rc;
}

/* ---- PGM and PPM */

static bool
is_space(int c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* White space, and comments from # to the end of the line. *c: what follows, or -1. */
static enum rc
skip_space(struct samples *s, int *c, struct err *err)
{
	bool comment = false;
	enum rc rc;

	for (;; s->pos++) {
		rc = peek(s, c, err);
		if (rc != RC_OK || *c < 0)
			return rc;
		comment |= *c == '#';
		if (!comment && !is_space(*c))
			return RC_OK;
		comment &= *c != '\n' && *c != '\r';
	}
}

/* A whole number from lo to hi, white space before it; what follows it is not taken. */
static enum rc
number(struct samples *s, uint32_t lo, uint32_t hi, uint32_t *out, const char *reason,
       struct err *err)
{
	uint32_t v = 0, digits = 0;
	int c;
	enum rc rc = skip_space(s, &c, err);

	if (rc == RC_OK && c < 0)
		return refuse(s, "cut short", err);
	while (rc == RC_OK && c >= '0' && c <= '9') {
		v = v * 10 + (uint32_t)(c - '0');
		if (v > hi)
			return refuse(s, reason, err);
		digits++;
		s->pos++;
		rc = peek(s, &c, err);
	}
	if (rc != RC_OK)
		return rc;
	*out = v;
	return digits && v >= lo && (c < 0 || is_space(c) || c == '#') ? RC_OK
								       : refuse(s, reason, err);
}

static enum rc
pnm_header(struct samples *s, struct pnm *p, struct err *err)
{
	uint8_t kind[2] = {0};
	uint32_t rows = 0, cols = 0;
	size_t got;
	int c;
	enum rc rc = take(s, kind, 2, &got, err);

	if (rc == RC_OK && (got < 2 || kind[0] != 'P' || !memchr("2356", kind[1], 4)))
		rc = refuse(s, "neither PGM nor PPM", err);
	p->ascii = kind[1] < '5';
	if (rc == RC_OK)
		rc = number(s, 1, MAX_SIDE, &cols, "its width is not 1 to 32768", err);
	if (rc == RC_OK)
		rc = number(s, 1, MAX_SIDE, &rows, "its height is not 1 to 32768", err);
	if (rc == RC_OK)
		rc = number(s, 1, 255, &p->maxval, "its largest value is not 1 to 255", err);
	if (rc == RC_OK)
		rc = check_shape(s, kind[1] == '2' || kind[1] == '5' ? 1 : 3, rows, cols, err);
	if (rc == RC_OK)
		rc = peek(s, &c, err);
	if (rc == RC_OK && !is_space(c))
		rc = refuse(s, c < 0 ? "cut short" : "no white space behind the header", err);
	s->pos++;
	return rc;
}

/* The next value. */
static enum rc
pnm_value(struct samples *s, const struct pnm *p, uint32_t *v, struct err *err)
{
	static const char beyond[] = "a value is not 0 to its largest";
	int c;
	enum rc rc;

	if (p->ascii)
		return number(s, 0, p->maxval, v, beyond, err);
	rc = peek(s, &c, err);
	if (rc != RC_OK)
		return rc;
	if (c < 0)
		return refuse(s, "cut short", err);
	s->pos++;
	*v = (uint32_t)c;
	return *v <= p->maxval ? RC_OK : refuse(s, beyond, err);
}

static enum rc
pnm_next(struct samples *s, uint8_t *item, bool *more, struct err *err)
{
	size_t channels = s->shape.channels, n = (size_t)net_shape_size(s->shape);
	struct pnm p;
	uint32_t v;
	int c;
	enum rc rc = skip_space(s, &c, err);

	*more = c >= 0;
	if (rc != RC_OK || !*more)
		return rc;
	rc = pnm_header(s, &p, err);
	for (size_t i = 0; i < n && rc == RC_OK; i++) {
		rc = pnm_value(s, &p, &v, err);
		if (rc == RC_OK) /* pixel by pixel into planes */
			item[i % channels * (n / channels) + i / channels] =
			    (uint8_t)((v * 255 + p.maxval / 2) / p.maxval);
	}
	return rc;
}

/* ---- tables */

static enum rc
value(const struct samples *s, const struct csv_field *f, float *out, struct err *err)
{
	char shown[CSV_SHOW];
	enum decimal d = decimal_f32(f->text, f->len, s->c, out);

	if (d == DECIMAL_OK)
		return RC_OK;
	if (d == DECIMAL_NOMEM)
		return err_set(err, RC_NOMEM, "%s: out of memory", s->in.name);
	return err_set(err, RC_BADDATA, "%s:%" PRIu64 ": '%s' is %s", s->in.name,
		       s->csv.record_line, csv_show(f, shown),
		       d == DECIMAL_SYNTAX ? "no number" : "not finite");
}

/* Whether the first record names its columns. */
static bool
is_header(const struct samples *s)
{
	float v;

	return decimal_f32(s->csv.fields[0].text, s->csv.fields[0].len, s->c, &v) == DECIMAL_SYNTAX;
}

static enum rc
table_next(struct samples *s, float *item, bool *more, struct err *err)
{
	uint64_t n = net_shape_size(s->shape);
	enum rc rc = csv_next(&s->csv, more, err);

	if (rc == RC_OK && *more && s->n == 0 && is_header(s))
		rc = csv_next(&s->csv, more, err);
	if (rc != RC_OK || !*more)
		return rc;
	if (s->csv.nfields != n)
		return err_set(err, RC_BADDATA,
			       "%s:%" PRIu64 ": %" PRIu32 " value%s, the model takes %" PRIu64,
			       s->in.name, s->csv.record_line, s->csv.nfields,
			       s->csv.nfields == 1 ? "" : "s", n);
	for (uint64_t i = 0; i < n && rc == RC_OK; i++)
		rc = value(s, &s->csv.fields[i], &item[i], err);
	return rc;
}

/* ---- all of them */

/* The first two bytes, so that what they begin can be told; a pipe may bring one at a time. */
static enum rc
read_first(struct samples *s, struct err *err)
{
	struct input *in = &s->in;
	ssize_t n = 1;

	in->next = in->chunk;
	while (in->avail < 2 && n != 0) {
		n = read(in->fd, in->chunk + in->avail, sizeof in->chunk - in->avail);
		if (n < 0 && errno != EINTR)
			return err_set(err, RC_FAILED, "%s: %s", in->name, strerror(errno));
		in->avail += n > 0 ? (size_t)n : 0;
	}
	return in->avail ? RC_OK : err_set(err, RC_BADDATA, "%s: no samples", in->name);
}

static enum kind
tell(const uint8_t *first, size_t n)
{
	if (first[0] == 0)
		return KIND_IDX;
	return n > 1 && first[0] == 'P' && first[1] >= '0' && first[1] <= '9' ? KIND_PNM
									      : KIND_TABLE;
}

/* What the bytes are, and their header. */
static enum rc
begin(struct samples *s, struct err *err)
{
	enum rc rc = input_begin(&s->in, err);

	if (rc != RC_OK)
		return rc;
	s->open = true;
	if (s->in.gzip) {
		rc = fill(s, err);
		if (rc != RC_OK)
			return rc;
		s->kind = s->len ? tell(s->chunk, s->len) : KIND_TABLE;
		if (s->kind == KIND_TABLE)
			return err_set(err, RC_BADDATA, "%s: gzip, but not of IDX, PGM or PPM",
				       s->in.name);
	} else {
		s->kind = tell(s->in.next, s->in.avail);
	}
	if (s->kind == KIND_TABLE) {
		s->has_csv = true;
		rc = csv_begin(&s->csv, &s->in, err);
	} else if (s->kind == KIND_IDX) {
		rc = idx_header(s, err);
	}
	return rc;
}

enum rc
samples_open(int fd, const char *name, struct net_shape shape, struct samples **out,
	     struct err *err)
{
	struct samples *s = alloc_zeroed(1, sizeof *s);
	enum rc rc;

	if (!s)
		return err_set(err, RC_NOMEM, "%s: out of memory", name);
	s->in.name = name;
	s->in.fd = fd;
	s->shape = shape;
	s->c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	rc = s->c ? read_first(s, err) : err_set(err, RC_NOMEM, "%s: out of memory", name);
	if (rc == RC_OK)
		rc = begin(s, err);
	if (rc == RC_OK)
		*out = s;
	else
		samples_close(s);
	return rc;
}

void
samples_close(struct samples *s)
{
	if (!s)
		return;
	if (s->has_csv)
		csv_end(&s->csv);
	if (s->open)
		input_end(&s->in);
	if (s->c)
		freelocale(s->c);
	free(s);
}

enum gpusim_dtype
samples_dtype(const struct samples *s)
{
	return s->kind == KIND_TABLE ? GPUSIM_F32 : GPUSIM_U8;
}

enum rc
samples_next(struct samples *s, void *item, bool *more, struct err *err)
{
	enum rc rc;

	*more = false;
	if (s->kind == KIND_TABLE)
		rc = table_next(s, item, more, err);
	else
		rc = s->kind == KIND_IDX ? idx_next(s, item, more, err)
					 : pnm_next(s, item, more, err);
	if (rc == RC_OK && *more)
		s->n++;
	else if (rc == RC_OK && s->n == 0)
		rc = err_set(err, RC_BADDATA, "%s: no samples", s->in.name);
	return rc;
}

bool
samples_ready(const struct samples *s)
{
	struct pollfd p = {.fd = s->in.fd, .events = POLLIN};

	if (s->pos < s->len || s->in.avail > 0 || (s->has_csv && s->csv.pos < s->csv.len))
		return true;
	return poll(&p, 1, 0) > 0;
}
