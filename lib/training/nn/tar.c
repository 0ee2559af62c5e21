#include "nn/tar.h"
#include "base/must.h"

#include <string.h>

enum {
	BLOCK = 512,
	NAME_NBYTES = 100,
	SIZE_AT = 124,
	SIZE_NBYTES = 12,
	SUM_AT = 148,
	SUM_NBYTES = 8,
	TYPE_AT = 156,
	MAGIC_AT = 257
};

bool
tar_is(const void *bytes, size_t nbytes)
{
	return nbytes >= BLOCK && memcmp((const uint8_t *)bytes + MAGIC_AT, "ustar", 5) == 0;
}

static enum rc
refuse(const struct tar *t, const char *reason, struct err *err)
{
	return err_set(err, RC_BADDATA, "%s: %s", t->in->name, reason);
}

/* An octal number, with blanks or a NUL after it. */
static bool
octal(const uint8_t *p, size_t n, uint64_t *out)
{
	uint64_t v = 0;
	size_t i = 0;

	while (i < n && p[i] == ' ')
		i++;
	if (i == n || p[i] < '0' || p[i] > '7')
		return false;
	for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
		v = v << 3 | (uint64_t)(p[i] - '0');
	*out = v;
	return i == n || p[i] == ' ' || p[i] == '\0';
}

/* The sum of a header's bytes, with the sum itself counted as blanks. */
static bool
sum_is_right(const uint8_t *h)
{
	uint64_t want, sum = 0;

	for (size_t i = 0; i < BLOCK; i++)
		sum += i >= SUM_AT && i < SUM_AT + SUM_NBYTES ? ' ' : h[i];
	return octal(h + SUM_AT, SUM_NBYTES, &want) && want == sum;
}

static bool
is_zero(const uint8_t *h)
{
	for (size_t i = 0; i < BLOCK; i++)
		if (h[i])
			return false;
	return true;
}

/* Skip n bytes; UINT64_MAX: all to the end. */
static enum rc
skip(struct tar *t, uint64_t n, struct err *err)
{
	uint8_t bytes[8192];
	size_t want, got = 1;
	enum rc rc = RC_OK;

	for (uint64_t left = n; rc == RC_OK && left && got; left -= got) {
		want = left < sizeof bytes ? (size_t)left : sizeof bytes;
		rc = input_get(t->in, bytes, want, &got, err);
		if (rc == RC_OK && got < want && n != UINT64_MAX)
			rc = refuse(t, "the tar archive is truncated", err);
	}
	return rc;
}

enum rc
tar_next(struct tar *t, struct tar_file *file, bool *more, struct err *err)
{
	uint8_t h[BLOCK];
	uint64_t nbytes;
	size_t got;
	enum rc rc;

	for (;;) {
		rc = skip(t, t->left + t->pad, err);
		t->left = t->pad = 0;
		if (rc == RC_OK)
			rc = input_get(t->in, h, sizeof h, &got, err);
		if (rc != RC_OK)
			return rc;
		if (got == 0 || (got == BLOCK && is_zero(h))) {
			*more = false;
			return skip(t, UINT64_MAX, err);
		}
		if (got < BLOCK)
			return refuse(t, "the tar archive is truncated", err);
		if (!tar_is(h, got) || !sum_is_right(h) ||
		    !octal(h + SIZE_AT, SIZE_NBYTES, &nbytes))
			return refuse(t, "the tar archive is damaged", err);
		t->left = nbytes;
		t->pad = (BLOCK - nbytes % BLOCK) % BLOCK;
		if (h[TYPE_AT] == '0' || h[TYPE_AT] == '\0')
			break;
	}
	memcpy(file->name, h, NAME_NBYTES);
	file->name[NAME_NBYTES] = '\0';
	file->nbytes = nbytes;
	*more = true;
	return RC_OK;
}

enum rc
tar_take(struct tar *t, uint64_t limit, struct buf *out, struct err *err)
{
	enum rc rc = RC_OK;
	size_t want, got;

	if (t->left > limit)
		return refuse(t, "a file in the archive is larger than the limit", err);
	while (rc == RC_OK && t->left) {
		want = t->left < INPUT_CHUNK ? (size_t)t->left : INPUT_CHUNK;
		must_reserve(out, want);
		rc = input_get(t->in, (uint8_t *)out->data + out->len, want, &got, err);
		if (rc == RC_OK && got < want)
			rc = refuse(t, "the tar archive is truncated", err);
		out->len += rc == RC_OK ? want : 0;
		t->left -= want;
	}
	return rc;
}
