/*
 * samples_bytes.c - the bytes of samples of any kind, one after another.
 */
#include <inttypes.h>
#include <string.h>

#include "base/must.h"
#include "nn/samples_impl.h"

enum rc
samples_refuse(const struct samples *s, const char *reason, struct err *err)
{
	return err_set(err, RC_BADDATA, "%s: image %" PRIu64 ": %s", s->in.name, s->n, reason);
}

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
