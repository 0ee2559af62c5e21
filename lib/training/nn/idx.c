#include "nn/idx.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "nn/input.h"

enum { FIRST_NBYTES = 65536, HEADER_MAX = 4 + 4 * IDX_MAX_DIMS, TYPE_U8 = 0x08 };

/* The header's dimensions as "60000x28x28", for messages. */
static const char *
shape_text(const struct idx *idx, char text[64])
{
	size_t n = 0;

	for (uint32_t i = 0; i < idx->ndim; i++)
		n += (size_t)snprintf(text + n, 64 - n, "%s%" PRIu32, i ? "x" : "", idx->dim[i]);
	return text;
}

/* Read the header into ndim, dim and nbytes. */
static enum rc
read_header(struct input *in, struct idx *idx, struct err *err)
{
	uint8_t h[HEADER_MAX];
	char shape[64];
	uint64_t nbytes = 1;
	size_t got, ndims_nbytes;
	enum rc rc;

	rc = input_get(in, h, 4, &got, err);
	if (rc != RC_OK)
		return rc;
	if (got < 4)
		return err_set(err, RC_BADDATA, "%s: %zu bytes are too few for an IDX header",
			       in->name, got);
	if (h[0] != 0 || h[1] != 0)
		return err_set(err, RC_BADDATA, "%s: not an IDX file: magic 0x%02x%02x%02x%02x",
			       in->name, h[0], h[1], h[2], h[3]);
	if (h[2] != TYPE_U8)
		return err_set(err, RC_BADDATA,
			       "%s: IDX element type 0x%02x; only 0x08 (u8) is supported", in->name,
			       h[2]);
	if (h[3] < 1 || h[3] > IDX_MAX_DIMS)
		return err_set(err, RC_BADDATA,
			       "%s: IDX file of %u dimensions; supported are 1 to %d", in->name,
			       h[3], IDX_MAX_DIMS);
	idx->ndim = h[3];
	ndims_nbytes = 4 * (size_t)idx->ndim;
	rc = input_get(in, h + 4, ndims_nbytes, &got, err);
	if (rc != RC_OK)
		return rc;
	if (got < ndims_nbytes)
		return err_set(err, RC_BADDATA, "%s: header ends after %zu of %zu bytes", in->name,
			       4 + got, 4 + ndims_nbytes);
	for (uint32_t i = 0; i < idx->ndim; i++) {
		const uint8_t *b = h + 4 + 4 * i;

		idx->dim[i] =
		    (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
	}
	for (uint32_t i = 0; i < idx->ndim; i++) {
		if (idx->dim[i] == 0)
			return err_set(err, RC_BADDATA, "%s: dimensions %s hold no items", in->name,
				       shape_text(idx, shape));
		if (__builtin_mul_overflow(nbytes, (uint64_t)idx->dim[i], &nbytes) ||
		    nbytes > IDX_MAX_NBYTES)
			return err_set(err, RC_BADDATA,
				       "%s: dimensions %s are more than the limit of %" PRIu64
				       " bytes",
				       in->name, shape_text(idx, shape), IDX_MAX_NBYTES);
	}
	idx->nbytes = (size_t)nbytes;
	return RC_OK;
}

/* Could the stored bytes hold what the header claims? Checked before any memory is taken. */
static enum rc
check_claim(const struct input *in, const struct idx *idx, struct err *err)
{
	uint64_t header = 4 + 4 * (uint64_t)idx->ndim, total = header + idx->nbytes;
	char shape[64];

	if (!in->gzip && in->nstored != total)
		return err_set(err, RC_BADDATA,
			       "%s: %s: dimensions %s need %" PRIu64
			       " bytes; the file has %" PRIu64,
			       in->name, in->nstored < total ? "truncated" : "trailing bytes",
			       shape_text(idx, shape), total, in->nstored);
	if (in->gzip && total / DEFLATE_MAX_RATIO > in->nstored)
		return err_set(err, RC_BADDATA,
			       "%s: truncated: dimensions %s need %" PRIu64 " bytes, %" PRIu64
			       " gzipped bytes cannot hold them",
			       in->name, shape_text(idx, shape), total, in->nstored);
	return RC_OK;
}

/* The elements, and nothing after them. The buffer doubles as bytes arrive. */
static enum rc
read_data(struct input *in, struct idx *idx, struct err *err)
{
	size_t cap = in->gzip && idx->nbytes > FIRST_NBYTES ? FIRST_NBYTES : idx->nbytes, len = 0,
	       got;
	char shape[64];
	uint8_t *p, extra;
	enum rc rc;

	for (;;) {
		p = alloc_resize(idx->data, cap, 1);
		if (!p)
			return err_set(err, RC_NOMEM, "%s: out of memory for %zu bytes", in->name,
				       cap);
		idx->data = p;
		rc = input_get(in, p + len, cap - len, &got, err);
		if (rc != RC_OK)
			return rc;
		len += got;
		if (len < cap)
			return err_set(err, RC_BADDATA,
				       "%s: truncated: dimensions %s need %zu bytes of data, "
				       "there are %zu",
				       in->name, shape_text(idx, shape), idx->nbytes, len);
		if (cap == idx->nbytes)
			break;
		cap = cap > idx->nbytes / 2 ? idx->nbytes : cap * 2;
	}
	rc = input_get(in, &extra, 1, &got, err);
	if (rc == RC_OK && got > 0)
		rc = err_set(err, RC_BADDATA,
			     "%s: trailing bytes after the %zu that dimensions %s need", in->name,
			     idx->nbytes, shape_text(idx, shape));
	return rc;
}

static enum rc
read_input(struct input *in, struct idx *idx, struct err *err)
{
	struct idx tmp = {0};
	enum rc rc;

	rc = input_begin(in, err);
	if (rc != RC_OK)
		return rc;
	rc = read_header(in, &tmp, err);
	if (rc == RC_OK)
		rc = check_claim(in, &tmp, err);
	if (rc == RC_OK)
		rc = read_data(in, &tmp, err);
	input_end(in);
	if (rc != RC_OK)
		idx_fini(&tmp);
	else
		*idx = tmp;
	return rc;
}

enum rc
idx_parse(const void *bytes, size_t nbytes, const char *name, struct idx *idx, struct err *err)
{
	struct input in = {
	    .name = name, .fd = -1, .nstored = nbytes, .next = bytes, .avail = nbytes};

	return read_input(&in, idx, err);
}

enum rc
idx_read(const char *path, struct idx *idx, struct err *err)
{
	struct input in;
	enum rc rc = input_open(&in, path, err);

	if (rc != RC_OK)
		return rc;
	rc = read_input(&in, idx, err);
	input_close(&in);
	return rc;
}

void
idx_fini(struct idx *idx)
{
	free(idx->data);
	*idx = (struct idx){0};
}
