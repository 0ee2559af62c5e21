/*
 * samples.c - finds the kind of samples from their first bytes; reads IDX files and tables.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/must.h"
#include "nn/cifar10.h"
#include "nn/decimal.h"
#include "nn/npy.h"
#include "nn/pickle.h"
#include "nn/samples_impl.h"
#include "nn/tar.h"
#include "nn/zip.h"

enum { IDX_HEADER = 16, HEAD_MAX = 4096, TAR_HEAD = 512 };

enum rc
samples_refuse(const struct samples *s, const char *reason, struct err *err)
{
	return err_set(err, RC_BADDATA, "%s: image %" PRIu64 ": %s", s->in.name, s->n, reason);
}

/* ---- bytes */

/* Read at least one byte into the chunk, unless the end is reached. */
static enum rc
fill(struct samples *s, struct err *err)
{
	if (s->pos < s->len)
		return RC_OK;
	s->pos = s->len = 0;
	return input_some(&s->in, s->chunk, sizeof s->chunk, &s->len, err);
}

enum rc
samples_peek(struct samples *s, int *c, struct err *err)
{
	enum rc rc = fill(s, err);

	*c = rc == RC_OK && s->pos < s->len ? s->chunk[s->pos] : -1;
	return rc;
}

enum rc
samples_take(struct samples *s, uint8_t *dst, size_t n, size_t *got, struct err *err)
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

enum rc
samples_take_all(struct samples *s, uint64_t limit, struct buf *out, struct err *err)
{
	size_t first = out->len, got = 1;
	enum rc rc = RC_OK;

	while (rc == RC_OK && got) {
		if (out->len - first > limit)
			return err_set(err, RC_BADDATA,
				       "%s: more than the limit of %" PRIu64 " bytes", s->in.name,
				       limit);
		must_reserve(out, INPUT_CHUNK);
		rc = samples_take(s, (uint8_t *)out->data + out->len, INPUT_CHUNK, &got, err);
		out->len += rc == RC_OK ? got : 0;
	}
	return rc;
}

enum rc
samples_check_shape(const struct samples *s, uint32_t channels, uint32_t rows, uint32_t cols,
		    struct err *err)
{
	const struct net_shape *want = &s->want.shape;

	if (channels == want->channels && rows == want->rows && cols == want->cols)
		return RC_OK;
	return err_set(err, RC_BADDATA,
		       "%s: image %" PRIu64 " is %" PRIu32 "x%" PRIu32 "x%" PRIu32
		       "; the model takes %" PRIu32 "x%" PRIu32 "x%" PRIu32,
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
	enum rc rc = samples_take(s, h, sizeof h, &got, err);

	if (rc != RC_OK)
		return rc;
	if (memcmp(h, magic, got < 4 ? got : 4) != 0)
		return err_set(err, RC_BADDATA, "%s: not an IDX file of images of bytes",
			       s->in.name);
	if (got < sizeof h)
		return err_set(err, RC_BADDATA, "%s: truncated in the header", s->in.name);
	s->total = big_endian(h + 4);
	if (s->total == 0)
		return err_set(err, RC_BADDATA, "%s: no images", s->in.name);
	return samples_check_shape(s, 1, big_endian(h + 8), big_endian(h + 12), err);
}

static enum rc
idx_next(struct samples *s, void *item, bool *more, struct err *err)
{
	size_t n = (size_t)net_shape_size(s->want.shape), got;
	enum rc rc;
	int c;

	*more = s->n < s->total;
	if (!*more) {
		rc = samples_peek(s, &c, err);
		if (rc == RC_OK && c >= 0)
			rc = err_set(err, RC_BADDATA, "%s: trailing bytes after the last image",
				     s->in.name);
		return rc;
	}
	rc = samples_take(s, item, n, &got, err);
	return rc == RC_OK && got < n ? samples_refuse(s, "truncated", err) : rc;
}

/* ---- tables */

static enum rc
value(const struct samples *s, const struct csv_field *f, float *out, struct err *err)
{
	char shown[CSV_SHOW];
	enum decimal d = decimal_f32(f->text, f->len, out);

	if (d == DECIMAL_OK)
		return RC_OK;
	return err_set(err, RC_BADDATA, "%s:%" PRIu64 ": '%s' is %s", s->in.name,
		       s->csv.record_line, csv_show(f, shown),
		       d == DECIMAL_SYNTAX ? "not a number" : "not finite");
}

/* Return true if the first record names its columns. */
static bool
is_header(const struct samples *s)
{
	float v;

	return decimal_f32(s->csv.fields[0].text, s->csv.fields[0].len, &v) == DECIMAL_SYNTAX;
}

/* A header line, or a line of some other kind of file. */
static enum rc
skip_header(struct samples *s, bool *more, struct err *err)
{
	char shown[CSV_SHOW];
	enum rc rc;

	csv_show(&s->csv.fields[0], shown);
	rc = csv_next(&s->csv, more, err);
	if (rc == RC_OK && !*more)
		rc = err_set(
		    err, RC_BADDATA,
		    "%s:1: '%s' is neither a number nor a file, and nothing follows; the model "
		    "takes %s",
		    s->in.name, shown, s->want.text);
	return rc;
}

static enum rc
table_next(struct samples *s, void *item, bool *more, struct err *err)
{
	float *values = item;
	uint64_t n = net_shape_size(s->want.shape);
	enum rc rc = csv_next(&s->csv, more, err);

	if (rc == RC_OK && *more && s->n == 0 && is_header(s))
		rc = skip_header(s, more, err);
	if (rc != RC_OK || !*more)
		return rc;
	if (s->csv.nfields != n)
		return err_set(err, RC_BADDATA,
			       "%s:%" PRIu64 ": %" PRIu32 " value%s; the model takes %s",
			       s->in.name, s->csv.record_line, s->csv.nfields,
			       s->csv.nfields == 1 ? "" : "s", s->want.text);
	for (uint64_t i = 0; i < n && rc == RC_OK; i++)
		rc = value(s, &s->csv.fields[i], &values[i], err);
	return rc;
}

/* ---- all kinds */

/* Read the first two bytes, which decide the kind; a pipe may bring one at a time. */
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

/* Append bytes to the chunk; *more false: the end. */
static enum rc
gather(struct samples *s, bool *more, struct err *err)
{
	size_t got;
	enum rc rc = input_some(&s->in, s->chunk + s->len, sizeof s->chunk - s->len, &got, err);

	s->len += rc == RC_OK ? got : 0;
	*more = rc == RC_OK && got;
	return rc;
}

static bool
begins(const struct samples *s, const char *magic, size_t n)
{
	return s->len >= n && memcmp(s->chunk, magic, n) == 0;
}

/*
 * Read enough bytes to find the kind: four; for text a whole line, which may come in parts from a
 * pipe or a terminal; for an archive, which begins with a name and a NUL, its header.
 */
static enum rc
gather_head(struct samples *s, struct err *err)
{
	bool more = true;
	enum rc rc = RC_OK;

	while (rc == RC_OK && more && s->len < 4)
		rc = gather(s, &more, err);
	if (rc == RC_OK && s->len == 0)
		return err_set(err, RC_BADDATA, "%s: no samples", s->in.name);
	while (rc == RC_OK && more && s->chunk[0] >= ' ' && s->chunk[0] < 0x7f &&
	       s->len < HEAD_MAX && !memchr(s->chunk, '\n', s->len) &&
	       !(memchr(s->chunk, '\0', s->len) && s->len >= TAR_HEAD) &&
	       !(s->chunk[0] == 'P' && s->chunk[1] >= '0' && s->chunk[1] <= '9'))
		rc = gather(s, &more, err);
	return rc;
}

/* A record begins with a label, which no text does; but an IDX file may begin the same way. */
static bool
is_cifar10(const struct samples *s)
{
	const uint8_t *c = s->chunk;
	bool idx = c[0] == 0 && c[1] == 0 && c[2] >= 8 && c[2] <= 14 && c[3] >= 1 && c[3] <= 4;

	return s->want.shape.channels == 3 && s->want.shape.rows == CIFAR10_SIDE &&
	       s->want.shape.cols == CIFAR10_SIDE && c[0] < CIFAR10_CLASSES && !idx;
}

static enum rc
begin_table(struct samples *s, struct err *err)
{
	enum rc rc = csv_begin_with(&s->csv, &s->in, s->chunk, s->len, err);

	s->has_csv = true;
	s->pos = s->len = 0;
	s->dtype = GPUSIM_F32;
	s->next = table_next;
	return rc;
}

/* Find the kind of the bytes, and read up to the first sample. */
static enum rc
begin(struct samples *s, struct err *err)
{
	enum rc rc = input_begin(&s->in, err);

	if (rc != RC_OK)
		return rc;
	s->open = true;
	rc = gather_head(s, err);
	if (rc != RC_OK)
		return rc;
	if (is_cifar10(s)) {
		samples_begin_cifar10(s);
		return RC_OK;
	}
	if (begins(s, "\0\0", 2)) {
		s->dtype = GPUSIM_U8;
		s->next = idx_next;
		return idx_header(s, err);
	}
	if (npy_is(s->chunk, s->len) || zip_is(s->chunk, s->len) || pickle_is(s->chunk, s->len) ||
	    tar_is(s->chunk, s->len))
		return samples_begin_array(s, err);
	if (s->chunk[0] == 0x89 || begins(s, "\xff\xd8", 2) ||
	    (s->len > 1 && s->chunk[0] == 'P' && s->chunk[1] >= '0' && s->chunk[1] <= '9'))
		samples_begin_images(s);
	else if (!s->single && samples_is_name(s)) {
		samples_begin_files(s);
		return RC_OK;
	} else
		return begin_table(s, err);
	return RC_OK;
}

/* Samples of a kind that is not known yet. */
static struct samples *
make(int fd, const char *name, const struct samples_want *want)
{
	struct samples *s = must_alloc(1, sizeof *s);

	s->in.name = name;
	s->in.fd = fd;
	s->fd = -1;
	s->want = *want;
	return s;
}

enum rc
samples_open(int fd, const char *name, enum samples_source source, const struct samples_want *want,
	     struct samples **out, struct err *err)
{
	struct samples *s = make(fd, name, want);
	enum rc rc;

	s->single = source == SAMPLES_FILE;
	rc = read_first(s, err);
	if (rc == RC_OK)
		rc = begin(s, err);
	if (rc == RC_OK && s->dtype == GPUSIM_U8 && want->values == SAMPLES_NUMBERS &&
	    want->shape.rows * want->shape.cols > 1)
		rc = err_set(err, RC_BADDATA, "%s: images of bytes; the model takes %s", name,
			     want->text);
	if (rc == RC_OK)
		*out = s;
	else
		samples_close(s);
	return rc;
}

struct samples *
samples_open_files(char *const *names, size_t n, const struct samples_want *want)
{
	struct samples *s = make(-1, n ? names[0] : "files", want);

	s->names = names;
	s->nnames = n;
	samples_begin_files(s);
	return s;
}

void
samples_close(struct samples *s)
{
	if (!s)
		return;
	samples_close_file(s);
	free(s->item);
	buf_fini(&s->whole);
	if (s->has_csv)
		csv_end(&s->csv);
	if (s->open)
		input_end(&s->in);
	free(s);
}

enum gpusim_dtype
samples_dtype(const struct samples *s)
{
	return s->dtype;
}

bool
samples_is_byte(float v)
{
	return v >= 0 && v <= 255 && v == (float)(int)v;
}

/* Reject values on another scale. */
static enum rc
check_bytes(const struct samples *s, const float *values, struct err *err)
{
	uint64_t n = net_shape_size(s->want.shape);

	for (uint64_t i = 0; i < n; i++)
		if (!samples_is_byte(values[i]))
			return err_set(err, RC_BADDATA,
				       "%s: sample %" PRIu64 ": value %" PRIu64
				       " is %g; the model takes %s",
				       s->in.name, s->n, i, (double)values[i], s->want.text);
	return RC_OK;
}

enum rc
samples_next(struct samples *s, void *item, bool *more, struct err *err)
{
	enum rc rc;

	*more = false;
	rc = s->next(s, item, more, err);
	if (rc == RC_OK && *more && s->dtype == GPUSIM_F32 && s->want.values == SAMPLES_BYTES)
		rc = check_bytes(s, item, err);
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

	if (s->in.fd < 0 || s->whole.len || s->inner || s->pos < s->len || s->in.avail > 0 ||
	    (s->has_csv && s->csv.pos < s->csv.len))
		return true;
	return poll(&p, 1, 0) > 0;
}
