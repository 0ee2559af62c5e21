#include "nn/images.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "nn/idx.h"
#include "nn/input.h"

enum { MAX_SIDE = 32768 };

/* Where in the bytes the reader is. */
struct pnm {
	const char *name;
	const uint8_t *at, *end;
	uint32_t n; /* images read */
	/* Of the image that is read. */
	bool ascii;
	uint32_t channels, cols, rows, maxval;
};

static enum rc
refuse(const struct pnm *p, const char *reason, struct err *err)
{
	return err_set(err, RC_BADDATA, "%s: image %" PRIu32 ": %s", p->name, p->n, reason);
}

static bool
is_space(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* White space, and comments from # to the end of the line. */
static void
skip_space(struct pnm *p)
{
	bool comment = false;

	for (; p->at < p->end; p->at++) {
		comment |= *p->at == '#';
		if (!comment && !is_space(*p->at))
			return;
		comment &= *p->at != '\n' && *p->at != '\r';
	}
}

/* A whole number up to `most`, white space before it. False: there is none. */
static bool
number(struct pnm *p, uint32_t most, uint32_t *out)
{
	const uint8_t *first;
	uint32_t v = 0;

	skip_space(p);
	first = p->at;
	for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) {
		v = v * 10 + (*p->at - '0');
		if (v > most)
			return false;
	}
	*out = v;
	return p->at > first && (p->at == p->end || is_space(*p->at) || *p->at == '#');
}

static enum rc
read_header(struct pnm *p, struct err *err)
{
	uint8_t kind = p->end - p->at >= 2 && p->at[0] == 'P' ? p->at[1] : 0;

	if (kind != '2' && kind != '3' && kind != '5' && kind != '6')
		return refuse(p, "neither IDX, PGM nor PPM", err);
	p->at += 2;
	p->ascii = kind < '5';
	p->channels = kind == '2' || kind == '5' ? 1 : 3;
	if (!number(p, MAX_SIDE, &p->cols) || !number(p, MAX_SIDE, &p->rows) || p->cols == 0 ||
	    p->rows == 0)
		return refuse(p, "width and height are not 1 to 32768", err);
	if (!number(p, 255, &p->maxval) || p->maxval == 0)
		return refuse(p, "the largest value is not 1 to 255", err);
	if (p->at == p->end || !is_space(*p->at))
		return refuse(p, "cut short after the header", err);
	p->at++;
	return RC_OK;
}

/* The next value, 0 to maxval. */
static enum rc
read_value(struct pnm *p, uint32_t *v, struct err *err)
{
	if (!p->ascii) {
		if (p->at == p->end)
			return refuse(p, "cut short", err);
		*v = *p->at++;
	} else if (!number(p, 255, v)) {
		return refuse(p, p->at == p->end ? "cut short" : "a value is no number up to 255",
			      err);
	}
	return *v <= p->maxval ? RC_OK : refuse(p, "a value beyond its largest", err);
}

/* The pixels as planes, behind those of the images before. */
static enum rc
read_pixels(struct pnm *p, struct buf *items, struct err *err)
{
	size_t plane = (size_t)p->rows * p->cols, n = plane * p->channels;
	/* A value takes a byte, in text a digit and, but for the last, a space. */
	size_t least = p->ascii ? 2 * n - 1 : n;
	char *dst;
	uint32_t v;
	enum rc rc;

	if ((size_t)(p->end - p->at) < least)
		return refuse(p, "cut short", err);
	if (!buf_reserve(items, n))
		return err_set(err, RC_NOMEM, "%s: out of memory", p->name);
	dst = items->data + items->len;
	for (size_t i = 0; i < n; i++) {
		rc = read_value(p, &v, err);
		if (rc != RC_OK)
			return rc;
		dst[i % p->channels * plane + i / p->channels] =
		    (char)((v * 255 + p->maxval / 2) / p->maxval);
	}
	items->len += n;
	return RC_OK;
}

/* All images, each as large as the first. */
static enum rc
parse_pnm(struct pnm *p, struct images *im, struct buf *items, struct err *err)
{
	enum rc rc = RC_OK;

	for (skip_space(p); rc == RC_OK && (p->n == 0 || p->at < p->end); skip_space(p)) {
		rc = read_header(p, err);
		if (rc == RC_OK && p->n == 0)
			*im = (struct images){0, p->channels, p->rows, p->cols, NULL};
		if (rc == RC_OK &&
		    (p->channels != im->channels || p->rows != im->rows || p->cols != im->cols))
			rc = err_set(err, RC_BADDATA,
				     "%s: image %" PRIu32 " is %" PRIu32 "x%" PRIu32 "x%" PRIu32
				     ", the first %" PRIu32 "x%" PRIu32 "x%" PRIu32,
				     p->name, p->n, p->channels, p->rows, p->cols, im->channels,
				     im->rows, im->cols);
		if (rc == RC_OK)
			rc = read_pixels(p, items, err);
		p->n++;
	}
	im->nitems = p->n;
	im->items = (uint8_t *)items->data;
	return rc;
}

static enum rc
parse_idx(const void *bytes, size_t nbytes, const char *name, struct images *im, struct err *err)
{
	struct idx idx = {0};
	enum rc rc = idx_parse(bytes, nbytes, name, &idx, err);

	if (rc != RC_OK)
		return rc;
	if (idx.ndim != 3) {
		rc = err_set(err, RC_BADDATA, "%s: %" PRIu32 " dimensions, images have 3", name,
			     idx.ndim);
		idx_fini(&idx);
		return rc;
	}
	*im = (struct images){idx.dim[0], 1, idx.dim[1], idx.dim[2], idx.data};
	return RC_OK;
}

/* Bytes that are not gzipped. */
static enum rc
parse(const uint8_t *bytes, size_t nbytes, const char *name, struct images *im, struct err *err)
{
	struct pnm p = {.name = name, .at = bytes, .end = bytes + nbytes};
	struct images tmp = {0};
	struct buf items = {0};
	enum rc rc;

	if (nbytes == 0)
		return err_set(err, RC_BADDATA, "%s: no images", name);
	if (bytes[0] == 0)
		return parse_idx(bytes, nbytes, name, im, err);
	rc = parse_pnm(&p, &tmp, &items, err);
	if (rc == RC_OK)
		*im = tmp;
	else
		buf_fini(&items);
	return rc;
}

static enum rc
read_input(struct input *in, struct images *im, struct err *err)
{
	struct buf bytes = {0};
	enum rc rc = input_all(in, IMAGES_MAX_NBYTES, &bytes, err);

	if (rc == RC_OK)
		rc = parse((const uint8_t *)bytes.data, bytes.len, in->name, im, err);
	buf_fini(&bytes);
	return rc;
}

enum rc
images_read(int fd, const char *name, struct images *im, struct err *err)
{
	struct input in = {.name = name, .fd = fd};

	return read_input(&in, im, err);
}

enum rc
images_parse(const void *bytes, size_t nbytes, const char *name, struct images *im, struct err *err)
{
	struct input in = {
	    .name = name, .fd = -1, .nstored = nbytes, .next = bytes, .avail = nbytes};

	return read_input(&in, im, err);
}

void
images_fini(struct images *im)
{
	free(im->items);
	*im = (struct images){0};
}
