#include "store/journal.h"

#include <inttypes.h>
#include <string.h>

#include "base/le.h"
#include "wire/crc32c.h"

#define MAGIC	    "gpusim-J"
#define BATCH_MAGIC "gBat"

enum kind { PUT = 1, DELETE = 2 };

/* Of a header: all but the checksum itself. */
static uint32_t
header_crc(const unsigned char *h)
{
	unsigned char v[28];

	memcpy(v, h, 12);
	memcpy(v + 12, h + 16, 16);
	return crc32c(v, sizeof v);
}

/* Of a batch's head. The nonce keeps a stored value from passing for a batch. */
static uint32_t
batch_crc(uint64_t nonce, const unsigned char *head)
{
	unsigned char v[32];

	put64(v, nonce);
	memcpy(v + 8, head, 24);
	return crc32c(v, sizeof v);
}

void
journal_header(const struct journal *j, unsigned char out[JOURNAL_HEADER])
{
	memcpy(out, MAGIC, 8);
	put32(out + 8, JOURNAL_VERSION);
	put64(out + 16, j->nonce);
	put64(out + 24, j->base);
	put32(out + 12, header_crc(out));
}

/* Bytes of the changes; 0: one of them, or all together, are too large. */
static size_t
measure(const struct store_change *change, size_t n, struct err *err)
{
	size_t nbytes = 0;

	for (size_t i = 0; i < n; i++) {
		size_t key = strlen(change[i].key), value = change[i].value ? change[i].nbytes : 0;

		if (key == 0 || key > STORE_KEY_MAX || value > STORE_VALUE_MAX) {
			err_set(err, RC_INVAL,
				"record too large: %zu bytes, with a key of %zu bytes", value, key);
			return 0;
		}
		nbytes += JOURNAL_CHANGE + key + value;
		if (nbytes > STORE_BATCH_MAX) {
			err_set(err, RC_INVAL, "commit too large: more than %u MiB",
				STORE_BATCH_MAX >> 20);
			return 0;
		}
	}
	return nbytes;
}

static unsigned char *
put_change(unsigned char *p, const struct store_change *c)
{
	size_t key = strlen(c->key), value = c->value ? c->nbytes : 0;

	memset(p, 0, JOURNAL_CHANGE);
	p[0] = c->value ? PUT : DELETE;
	p[1] = (unsigned char)key;
	put32(p + 4, (uint32_t)value);
	memcpy(p + JOURNAL_CHANGE, c->key, key);
	p += JOURNAL_CHANGE + key;
	if (value)
		memcpy(p, c->value, value);
	return p + value;
}

enum rc
journal_batch(struct journal *j, const struct store_change *change, size_t n, struct buf *out,
	      struct err *err)
{
	size_t nbytes = measure(change, n, err);
	unsigned char *head, *p;

	if (nbytes == 0)
		return n ? err->rc : err_set(err, RC_INVAL, "nothing to store");
	if (!buf_reserve(out, JOURNAL_BATCH + nbytes))
		return err_set(err, RC_NOMEM, "out of memory");
	head = (unsigned char *)out->data + out->len;
	p = head + JOURNAL_BATCH;
	for (size_t i = 0; i < n; i++)
		p = put_change(p, &change[i]);
	memset(head, 0, JOURNAL_BATCH);
	memcpy(head, BATCH_MAGIC, 4);
	put32(head + 4, (uint32_t)n);
	put64(head + 8, ++j->seq);
	put32(head + 16, (uint32_t)nbytes);
	put32(head + 20, crc32c(head + JOURNAL_BATCH, nbytes));
	put32(head + 24, batch_crc(j->nonce, head));
	out->len += JOURNAL_BATCH + nbytes;
	return RC_OK;
}

/* ---- reading */

struct reader {
	const unsigned char *data;
	size_t nbytes;
	const char *name;
	journal_fn *fn;
	void *arg;
	struct journal *j;
};

static enum rc
read_header(struct reader *r, struct err *err)
{
	const unsigned char *h = r->data;

	if (r->nbytes < JOURNAL_HEADER || memcmp(h, MAGIC, 8) != 0)
		return err_set(err, RC_BADDATA, "%s: not a journal of gpusim", r->name);
	if (get32(h + 8) != JOURNAL_VERSION)
		return err_set(err, RC_BADDATA, "%s: journal of version %u, expected %u", r->name,
			       get32(h + 8), JOURNAL_VERSION);
	r->j->nonce = get64(h + 16);
	r->j->base = get64(h + 24);
	if (get32(h + 12) != header_crc(h) || r->j->base < JOURNAL_HEADER)
		return err_set(err, RC_BADDATA, "%s: damaged at byte 0, in its header", r->name);
	if (r->j->base > r->nbytes)
		return err_set(err, RC_BADDATA, "%s: truncated at byte %zu, in its snapshot",
			       r->name, r->nbytes);
	return RC_OK;
}

/* The head of a batch of this file is here. */
static bool
is_head(const struct reader *r, size_t at)
{
	const unsigned char *h = r->data + at;

	return r->nbytes - at >= JOURNAL_BATCH && memcmp(h, BATCH_MAGIC, 4) == 0 &&
	       get32(h + 24) == batch_crc(r->j->nonce, h) && get32(h + 28) == 0;
}

/* The batch expected here is complete. *next: its end. */
static bool
is_whole(const struct reader *r, size_t at, size_t *next)
{
	const unsigned char *h = r->data + at;
	size_t nbytes;

	if (!is_head(r, at) || get64(h + 8) != r->j->seq + 1)
		return false;
	nbytes = get32(h + 16);
	if (nbytes > r->nbytes - at - JOURNAL_BATCH ||
	    get32(h + 20) != crc32c(h + JOURNAL_BATCH, nbytes))
		return false;
	*next = at + JOURNAL_BATCH + nbytes;
	return true;
}

/* One change at p of nbytes: its size; 0: malformed. */
static size_t
get_change(const unsigned char *p, size_t nbytes, char key[STORE_KEY_MAX + 1],
	   struct store_change *out)
{
	size_t nkey, nvalue;

	if (nbytes < JOURNAL_CHANGE)
		return 0;
	nkey = p[1];
	nvalue = get32(p + 4);
	if ((p[0] != PUT && p[0] != DELETE) || p[2] || p[3] || nkey == 0 ||
	    nvalue > STORE_VALUE_MAX || (p[0] == DELETE && nvalue) ||
	    nbytes - JOURNAL_CHANGE < nkey + nvalue || memchr(p + JOURNAL_CHANGE, 0, nkey))
		return 0;
	memcpy(key, p + JOURNAL_CHANGE, nkey);
	key[nkey] = '\0';
	*out = (struct store_change){key, p[0] == PUT ? p + JOURNAL_CHANGE + nkey : NULL, nvalue};
	return JOURNAL_CHANGE + nkey + nvalue;
}

static enum rc
read_batch(struct reader *r, size_t at, size_t end, struct err *err)
{
	uint32_t left = get32(r->data + at + 4);
	size_t p = at + JOURNAL_BATCH, n;

	for (; p < end && left > 0; p += n, left--) {
		char key[STORE_KEY_MAX + 1];
		struct store_change c;

		n = get_change(r->data + p, end - p, key, &c);
		if (n == 0)
			break;
		if (!r->fn(r->arg, &c))
			return err_set(err, RC_NOMEM, "%s: out of memory", r->name);
	}
	if (p != end || left)
		return err_set(err, RC_BADDATA, "%s: malformed at byte %zu", r->name, p);
	return RC_OK;
}

/* The batch at `at` is incomplete: a crash if it is the last one, else damage. */
static enum rc
judge(const struct reader *r, size_t at, struct err *err)
{
	if (at < r->j->base)
		return err_set(err, RC_BADDATA, "%s: damaged at byte %zu, in its snapshot", r->name,
			       at);
	for (size_t next = at + 1; next < r->nbytes; next++)
		if (is_head(r, next))
			return err_set(err, RC_BADDATA,
				       "%s: damaged at byte %zu, with valid data at byte %zu",
				       r->name, at, next);
	return RC_OK;
}

enum rc
journal_read(const void *data, size_t nbytes, const char *name, journal_fn *fn, void *arg,
	     struct journal *out, size_t *good, struct err *err)
{
	struct journal j = {0};
	struct reader r = {data, nbytes, name, fn, arg, &j};
	enum rc rc = read_header(&r, err);
	size_t at = JOURNAL_HEADER, next;

	while (rc == RC_OK && at < nbytes && is_whole(&r, at, &next)) {
		rc = read_batch(&r, at, next, err);
		j.seq++;
		at = next;
	}
	if (rc == RC_OK && at < nbytes)
		rc = judge(&r, at, err);
	if (rc != RC_OK)
		return rc;
	*out = j;
	*good = at;
	return RC_OK;
}
