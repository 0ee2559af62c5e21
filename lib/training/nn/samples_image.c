/*
 * samples_image.c - images one after another: PNG, JPEG, PGM and PPM.
 *
 * The chunks and segments of a PNG or JPEG show where it ends, so that another may follow.
 */
#include <stdio.h>
#include <string.h>

#include "base/must.h"
#include "nn/image.h"
#include "nn/samples_impl.h"

enum { MAX_SIDE = 32768 };

/* A PGM or PPM while it is read. */
struct pnm {
	bool ascii;
	uint32_t maxval;
};

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
		rc = samples_peek(s, c, err);
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
		return samples_refuse(s, "truncated", err);
	while (rc == RC_OK && c >= '0' && c <= '9') {
		v = v * 10 + (uint32_t)(c - '0');
		if (v > hi)
			return samples_refuse(s, reason, err);
		digits++;
		s->pos++;
		rc = samples_peek(s, &c, err);
	}
	if (rc != RC_OK)
		return rc;
	*out = v;
	return digits && v >= lo && (c < 0 || is_space(c) || c == '#')
		   ? RC_OK
		   : samples_refuse(s, reason, err);
}

static enum rc
pnm_header(struct samples *s, struct pnm *p, struct err *err)
{
	uint8_t kind[2] = {0};
	uint32_t rows = 0, cols = 0;
	size_t got;
	int c;
	enum rc rc = samples_take(s, kind, 2, &got, err);

	if (rc == RC_OK && (got < 2 || kind[0] != 'P' || !memchr("2356", kind[1], 4)))
		rc = samples_refuse(s, "neither PNG, JPEG, PGM nor PPM", err);
	p->ascii = kind[1] < '5';
	if (rc == RC_OK)
		rc = number(s, 1, MAX_SIDE, &cols, "its width is not 1 to 32768", err);
	if (rc == RC_OK)
		rc = number(s, 1, MAX_SIDE, &rows, "its height is not 1 to 32768", err);
	if (rc == RC_OK)
		rc = number(s, 1, 255, &p->maxval, "its largest value is not 1 to 255", err);
	if (rc == RC_OK)
		rc = samples_check_shape(s, kind[1] == '2' || kind[1] == '5' ? 1 : 3, rows, cols,
					 err);
	if (rc == RC_OK)
		rc = samples_peek(s, &c, err);
	if (rc == RC_OK && !is_space(c))
		rc =
		    samples_refuse(s, c < 0 ? "truncated" : "no white space after the header", err);
	s->pos++;
	return rc;
}

/* The next value. */
static enum rc
pnm_value(struct samples *s, const struct pnm *p, uint32_t *v, struct err *err)
{
	static const char beyond[] = "a value exceeds the largest value of the header";
	int c;
	enum rc rc;

	if (p->ascii)
		return number(s, 0, p->maxval, v, beyond, err);
	rc = samples_peek(s, &c, err);
	if (rc != RC_OK)
		return rc;
	if (c < 0)
		return samples_refuse(s, "truncated", err);
	s->pos++;
	*v = (uint32_t)c;
	return *v <= p->maxval ? RC_OK : samples_refuse(s, beyond, err);
}

static enum rc
read_pnm(struct samples *s, uint8_t *item, struct err *err)
{
	size_t channels = s->want.shape.channels, n = (size_t)net_shape_size(s->want.shape);
	struct pnm p;
	uint32_t v;
	enum rc rc = pnm_header(s, &p, err);

	for (size_t i = 0; i < n && rc == RC_OK; i++) {
		rc = pnm_value(s, &p, &v, err);
		if (rc == RC_OK) /* pixel by pixel into planes */
			item[i % channels * (n / channels) + i / channels] =
			    (uint8_t)((v * 255 + p.maxval / 2) / p.maxval);
	}
	return rc;
}

/* ---- PNG and JPEG */

/* Append n more bytes to the file. */
static enum rc
collect(struct samples *s, size_t n, struct buf *file, struct err *err)
{
	size_t got;
	enum rc rc;

	if (n > IMAGE_MAX_NBYTES - file->len)
		return samples_refuse(s, "more than the limit of 64 MiB", err);
	while (n) {
		size_t want = n < INPUT_CHUNK ? n : INPUT_CHUNK;

		must_reserve(file, want);
		rc = samples_take(s, (uint8_t *)file->data + file->len, want, &got, err);
		if (rc != RC_OK)
			return rc;
		file->len += got;
		if (got < want)
			return samples_refuse(s, "truncated", err);
		n -= want;
	}
	return RC_OK;
}

/* The last n bytes as a big-endian number. */
static uint32_t
number_at_end(const struct buf *file, size_t n)
{
	const uint8_t *p = (const uint8_t *)file->data + file->len - n;
	uint32_t v = 0;

	while (n--)
		v = v << 8 | *p++;
	return v;
}

/* Chunks of a length, a type, data and a checksum, to IEND. */
static enum rc
collect_png(struct samples *s, struct buf *file, struct err *err)
{
	enum rc rc = collect(s, 8, file, err);
	bool last = false;

	while (rc == RC_OK && !last) {
		uint32_t len;

		rc = collect(s, 4, file, err);
		if (rc != RC_OK)
			break;
		len = number_at_end(file, 4);
		rc = collect(s, 4, file, err);
		last = rc == RC_OK && number_at_end(file, 4) == 0x49454e44;
		if (rc == RC_OK)
			rc = collect(s, (size_t)len + 4, file, err);
	}
	return rc;
}

/* The data after a scan's header, up to the next marker, whose 0xff is taken. In the data, 0xff
 * comes only before 0 or a restart marker. */
static enum rc
collect_scan(struct samples *s, struct buf *file, uint8_t *marker, struct err *err)
{
	enum rc rc = RC_OK;

	for (;;) {
		rc = collect(s, 1, file, err);
		while (rc == RC_OK && (uint8_t)file->data[file->len - 1] == 0xff) {
			rc = collect(s, 1, file, err);
			*marker = rc == RC_OK ? (uint8_t)file->data[file->len - 1] : 0;
			if (rc != RC_OK ||
			    (*marker && *marker != 0xff && (*marker < 0xd0 || *marker > 0xd7)))
				return rc;
		}
		if (rc != RC_OK)
			return rc;
	}
}

/* Markers, with their segments if any, to the end of the image. */
static enum rc
collect_jpeg(struct samples *s, struct buf *file, struct err *err)
{
	enum rc rc = collect(s, 2, file, err);
	uint8_t marker = 0;

	while (rc == RC_OK && marker != 0xd9) {
		uint32_t len = 0;

		if (marker == 0) {
			rc = collect(s, 2, file, err);
			if (rc == RC_OK && (uint8_t)file->data[file->len - 2] != 0xff)
				return samples_refuse(s, "damaged JPEG", err);
			marker = rc == RC_OK ? (uint8_t)file->data[file->len - 1] : 0;
		}
		while (rc == RC_OK && marker == 0xff) { /* fill bytes */
			rc = collect(s, 1, file, err);
			marker = rc == RC_OK ? (uint8_t)file->data[file->len - 1] : 0;
		}
		if (rc != RC_OK || marker == 0xd9)
			break;
		rc = collect(s, 2, file, err);
		len = rc == RC_OK ? number_at_end(file, 2) : 2;
		if (len < 2)
			return samples_refuse(s, "damaged JPEG", err);
		if (rc == RC_OK)
			rc = collect(s, len - 2, file, err);
		if (rc == RC_OK && marker == 0xda)
			rc = collect_scan(s, file, &marker, err);
		else
			marker = 0;
	}
	return rc;
}

/* Resize as training does with the images of a folder. */
static enum rc
read_encoded(struct samples *s, bool png, uint8_t *item, struct err *err)
{
	const struct net_shape *shape = &s->want.shape;
	char name[96];
	struct buf file = {0};
	struct image im = {0};
	enum rc rc;

	if ((shape->channels != 1 && shape->channels != 3) || shape->rows * shape->cols == 1 ||
	    shape->rows > IMAGE_MAX_SIDE || shape->cols > IMAGE_MAX_SIDE)
		return err_set(err, RC_BADDATA, "%s: an image; the model takes %s", s->in.name,
			       s->want.text);
	if (s->single)
		rc = samples_take_all(s, IMAGE_MAX_NBYTES, &file, err);
	else
		rc = (png ? collect_png : collect_jpeg)(s, &file, err);
	snprintf(name, sizeof name, "%.64s: image %llu", s->in.name, (unsigned long long)s->n);
	if (rc == RC_OK)
		rc = image_decode(file.data, file.len, s->single ? s->in.name : name, &im, err);
	buf_fini(&file);
	if (rc == RC_OK)
		image_resize(&im, shape->rows, shape->cols, shape->channels, item);
	image_fini(&im);
	return rc;
}

/* ---- the next image of any kind */

static enum rc
next_image(struct samples *s, void *item, bool *more, struct err *err)
{
	int c;
	enum rc rc = skip_space(s, &c, err);

	*more = rc == RC_OK && c >= 0;
	if (!*more)
		return rc;
	return c == 0x89 || c == 0xff ? read_encoded(s, c == 0x89, item, err)
				      : read_pnm(s, item, err);
}

void
samples_begin_images(struct samples *s)
{
	s->dtype = GPUSIM_U8;
	s->next = next_image;
}
