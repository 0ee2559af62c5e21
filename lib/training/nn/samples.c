/*
 * samples.c - finds the kind of samples from their first bytes; reads all kinds but images.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/must.h"
#include "nn/cifar10.h"
#include "nn/decimal.h"
#include "nn/npy.h"
#include "nn/pickle.h"
#include "nn/read.h"
#include "nn/samples_impl.h"
#include "nn/tar.h"
#include "nn/zip.h"

#define MAX_NBYTES (UINT64_C(4) << 30) /* of formats that are read whole */

enum { IDX_HEADER = 16, HEAD_MAX = 4096, TAR_HEAD = 512 };

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

/* ---- arrays and batches of CIFAR-10, which are read whole */

/* Images of CIFAR-10 in `whole` as an array of [n, 3, 32, 32]. */
static void
take_images(struct samples *s, struct buf *images)
{
	buf_fini(&s->whole);
	s->whole = *images;
	*images = (struct buf){0};
	s->array =
	    (struct ndarray){.kind = 'u',
			     .size = 1,
			     .ndim = 4,
			     .dim = {s->whole.len / CIFAR10_ITEM, 3, CIFAR10_SIDE, CIFAR10_SIDE},
			     .data = (const uint8_t *)s->whole.data};
}

/* Find the array in the bytes. */
static enum rc
find_array(struct samples *s, struct err *err)
{
	const char *name = s->in.name;
	struct buf file = {0};
	struct cifar10_batch batch = {{0}, {0}};
	enum rc rc = samples_take_all(s, MAX_NBYTES, &file, err);

	if (rc != RC_OK) {
		buf_fini(&file);
		return rc;
	}
	if (zip_is(file.data, file.len)) {
		rc = npz_samples(file.data, file.len, name, &s->whole, &s->array, err);
	} else if (npy_is(file.data, file.len)) {
		s->whole = file;
		file = (struct buf){0};
		rc = npy_parse(s->whole.data, s->whole.len, s->whole.len, name, &s->array, err);
	} else {
		rc = pickle_is(file.data, file.len) ? cifar10_pickle(name, &file, &batch, err)
						    : cifar10_archive(&file, name, &batch, err);
		if (rc == RC_OK)
			take_images(s, &batch.images);
	}
	buf_fini(&file);
	buf_fini(&batch.images);
	buf_fini(&batch.labels);
	return rc;
}

/* Return true if samples of an array fit the model: the same shape, or rows with as many values. */
static bool
fits(const struct samples *s, const struct ndarray *a, struct ndarray_items *items, struct err *err)
{
	const struct net_shape *want = &s->want.shape;

	if (ndarray_items(a, s->in.name, items, err) != RC_OK)
		return false;
	return (items->channels == want->channels && items->rows == want->rows &&
		items->cols == want->cols) ||
	       (a->ndim <= 2 &&
		(uint64_t)items->channels * items->rows * items->cols == net_shape_size(*want));
}

/* One sample, without the dimension of the count. */
static bool
fits_alone(struct samples *s)
{
	struct ndarray one = s->array;
	struct ndarray_items items;
	struct err unused;

	if (one.ndim == 0 || one.ndim == NDARRAY_MAX_DIMS)
		return false;
	memmove(one.dim + 1, one.dim, one.ndim * sizeof *one.dim);
	one.dim[0] = 1;
	one.ndim++;
	if (!fits(s, &one, &items, &unused))
		return false;
	s->array = one;
	s->items = items;
	return true;
}

static enum rc
next_row(struct samples *s, void *item, bool *more, struct err *err)
{
	*more = s->n < s->array.dim[0];
	return *more ? ndarray_copy(&s->array, s->in.name, &s->items, s->n, 1, item, err) : RC_OK;
}

/* samples.c has found the kind from the first bytes: read up to the first sample. */
static enum rc
samples_begin_array(struct samples *s, struct err *err)
{
	struct err why = {0};
	enum rc rc = find_array(s, err);

	if (rc != RC_OK)
		return rc;
	if (!fits(s, &s->array, &s->items, &why) && !fits_alone(s))
		return why.rc != RC_OK ? err_set(err, why.rc, "%s", why.text)
				       : err_set(err, RC_BADDATA,
						 "%s: samples are %" PRIu32 "x%" PRIu32 "x%" PRIu32
						 "; the model takes %s",
						 s->in.name, s->items.channels, s->items.rows,
						 s->items.cols, s->want.text);
	/* A model of numbers also takes numbers that happen to be whole and from 0 to 255. */
	if (s->want.values == SAMPLES_NUMBERS && s->array.size > 1)
		s->items.dtype = GPUSIM_F32;
	s->dtype = s->items.dtype;
	s->next = next_row;
	return RC_OK;
}

/* ---- records of CIFAR-10 */

static enum rc
next_record(struct samples *s, void *item, bool *more, struct err *err)
{
	uint8_t label;
	size_t got;
	enum rc rc = samples_take(s, &label, 1, &got, err);

	*more = rc == RC_OK && got;
	if (!*more)
		return rc;
	if (label >= CIFAR10_CLASSES)
		return samples_refuse(
		    s, "neither a record of CIFAR-10 nor another format that is supported", err);
	rc = samples_check_shape(s, 3, CIFAR10_SIDE, CIFAR10_SIDE, err);
	if (rc == RC_OK)
		rc = samples_take(s, item, CIFAR10_ITEM, &got, err);
	return rc == RC_OK && got < CIFAR10_ITEM ? samples_refuse(s, "truncated", err) : rc;
}

static void
samples_begin_cifar10(struct samples *s)
{
	s->dtype = GPUSIM_U8;
	s->next = next_record;
}

/* ---- files one after another; their names are given, or come line by line */

/* Return true if the first line, which is in the chunk, names a file. */
static bool
samples_is_name(const struct samples *s)
{
	static const char *const ends[] = {".png", ".jpg", ".jpeg", ".pgm", ".ppm"};
	const char *text = (const char *)s->chunk, *nl = memchr(text, '\n', s->len);
	size_t len = nl ? (size_t)(nl - text) : s->len;
	char path[PATH_MAX];
	struct stat st;

	if (len && text[len - 1] == '\r')
		len--;
	if (!len || len >= sizeof path || memchr(text, '\0', len))
		return false;
	memcpy(path, text, len);
	path[len] = '\0';
	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
		if (len > strlen(ends[i]) && strcasecmp(path + len - strlen(ends[i]), ends[i]) == 0)
			return true;
	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Release the file that is open, if any. */
static void
samples_close_file(struct samples *s)
{
	samples_close(s->inner);
	s->inner = NULL;
	if (s->fd > STDIN_FILENO)
		close(s->fd);
	s->fd = -1;
	free(s->name);
	s->name = NULL;
}

/* The next line that is not blank; *name NULL: no line is left. */
static enum rc
next_line(struct samples *s, char **name, struct err *err)
{
	struct buf line = {0};
	enum rc rc;
	int c;

	*name = NULL;
	while ((rc = samples_peek(s, &c, err)) == RC_OK && c >= 0) {
		char byte = (char)c;

		s->pos++;
		if (c == '\n' && line.len && line.data[line.len - 1] == '\r')
			line.len--;
		if (c == '\n' && line.len)
			break;
		if (c == '\n')
			continue;
		if (c == '\0' || line.len == PATH_MAX)
			rc = err_set(err, RC_BADDATA, "%s: the line is not a file's name",
				     s->in.name);
		if (rc != RC_OK)
			break;
		must_add(&line, &byte, 1);
	}
	if (rc == RC_OK && line.len)
		*name = must_strndup(line.data, line.len);
	buf_fini(&line);
	return rc;
}

static enum rc
next_name(struct samples *s, char **name, struct err *err)
{
	*name = NULL;
	if (s->in.fd >= 0)
		return next_line(s, name, err);
	if (!s->nnames)
		return RC_OK;
	*name = must_strdup(*s->names++);
	s->nnames--;
	return RC_OK;
}

/* Open the next file; *more false: no file is left. */
static enum rc
open_next(struct samples *s, bool *more, struct err *err)
{
	bool standard;
	enum rc rc = next_name(s, &s->name, err);

	*more = rc == RC_OK && s->name;
	if (!*more)
		return rc;
	standard = s->in.fd < 0 && strcmp(s->name, "-") == 0;
	s->fd = standard ? STDIN_FILENO : open(s->name, O_RDONLY | O_CLOEXEC);
	if (s->fd < 0)
		return err_set(err, RC_FAILED, "%s: %s", s->name, strerror(errno));
	return samples_open(s->fd, standard ? "standard input" : s->name,
			    standard ? SAMPLES_STREAM : SAMPLES_FILE, &s->want, &s->inner, err);
}

/* The next sample of the file that is open, as 32-bit numbers. */
static enum rc
next_of_file(struct samples *s, float *values, bool *more, struct err *err)
{
	uint64_t n = net_shape_size(s->want.shape);
	bool bytes = samples_dtype(s->inner) == GPUSIM_U8;
	enum rc rc = samples_next(s->inner, bytes ? (void *)s->item : values, more, err);

	for (uint64_t i = 0; rc == RC_OK && *more && bytes && i < n; i++)
		values[i] = s->item[i];
	return rc;
}

static enum rc
next_sample(struct samples *s, void *item, bool *more, struct err *err)
{
	enum rc rc = RC_OK;

	for (*more = true; rc == RC_OK && *more;) {
		if (s->inner) {
			rc = next_of_file(s, item, more, err);
			if (rc != RC_OK || *more)
				return rc;
			samples_close_file(s);
		}
		rc = open_next(s, more, err);
	}
	return rc;
}

static void
samples_begin_files(struct samples *s)
{
	s->dtype = GPUSIM_F32;
	s->next = next_sample;
	s->item = must_alloc((size_t)net_shape_size(s->want.shape), 1);
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
