#include "nn/npy.h"

#include <inttypes.h>
#include <string.h>

#include "base/le.h"

enum { PREFIX = 8, MAX_HEADER = 65536 };

/* The rest of the header's text. */
struct cursor {
	const char *p, *end;
};

bool
npy_is(const void *bytes, size_t nbytes)
{
	return nbytes >= 6 && memcmp(bytes, "\x93NUMPY", 6) == 0;
}

static void
skip_blanks(struct cursor *c)
{
	while (c->p < c->end && strchr(" \t\r\n", *c->p) && *c->p)
		c->p++;
}

/* Take a text, with blanks before it. */
static bool
take(struct cursor *c, const char *text)
{
	size_t len = strlen(text);

	skip_blanks(c);
	if ((size_t)(c->end - c->p) < len || memcmp(c->p, text, len) != 0)
		return false;
	c->p += len;
	return true;
}

/* A quoted string, without quotes in it. */
static bool
take_string(struct cursor *c, const char **text, size_t *len)
{
	const char *close;

	skip_blanks(c);
	if (c->p == c->end || (*c->p != '\'' && *c->p != '"'))
		return false;
	close = memchr(c->p + 1, *c->p, (size_t)(c->end - c->p) - 1);
	if (!close)
		return false;
	*text = c->p + 1;
	*len = (size_t)(close - *text);
	c->p = close + 1;
	return true;
}

static bool
take_number(struct cursor *c, uint64_t *out)
{
	uint64_t v = 0;
	const char *first;

	skip_blanks(c);
	for (first = c->p; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*c->p - '0'), &v))
			return false;
	*out = v;
	(void)take(c, "L"); /* of Python 2 */
	return c->p > first;
}

static bool
take_shape(struct cursor *c, struct ndarray *a)
{
	if (!take(c, "("))
		return false;
	for (a->ndim = 0; !take(c, ")"); a->ndim++) {
		if (a->ndim == NDARRAY_MAX_DIMS || !take_number(c, &a->dim[a->ndim]))
			return false;
		if (!take(c, ",")) {
			a->ndim++;
			return take(c, ")") && a->ndim > 1;
		}
	}
	return true;
}

/* The dictionary, in any order of its keys, each once. *type: its text. */
static bool
take_header(struct cursor *c, struct ndarray *a, const char **type, size_t *type_len)
{
	unsigned seen = 0, bit;
	const char *key;
	size_t len;
	bool good = take(c, "{");

	while (good && !take(c, "}")) {
		good = take_string(c, &key, &len) && take(c, ":");
		if (good && len == 5 && memcmp(key, "descr", 5) == 0) {
			bit = 1;
			good = take_string(c, type, type_len);
		} else if (good && len == 13 && memcmp(key, "fortran_order", 13) == 0) {
			bit = 2;
			a->fortran = take(c, "True");
			good = a->fortran || take(c, "False");
		} else if (good && len == 5 && memcmp(key, "shape", 5) == 0) {
			bit = 4;
			good = take_shape(c, a);
		} else {
			return false;
		}
		if (seen & bit)
			return false;
		seen |= bit;
		if (good && !take(c, ","))
			return take(c, "}") && seen == 7;
	}
	return good && seen == 7;
}

enum rc
npy_parse(const void *bytes, size_t nbytes, uint64_t total, const char *name, struct ndarray *out,
	  struct err *err)
{
	const uint8_t *p = bytes;
	struct ndarray a = {0};
	struct cursor c;
	const char *type = NULL;
	size_t type_len = 0, header, at;
	uint64_t want;

	if (!npy_is(bytes, nbytes))
		return err_set(err, RC_BADDATA, "%s: not a .npy file", name);
	if (nbytes < PREFIX + 4)
		return err_set(err, RC_BADDATA, "%s: truncated in its header", name);
	if (p[6] < 1 || p[6] > 3)
		return err_set(err, RC_BADDATA, "%s: version %u of .npy, 1 to 3 are read", name,
			       p[6]);
	header = p[6] == 1 ? (size_t)p[8] | (size_t)p[9] << 8 : get32(p + PREFIX);
	at = PREFIX + (p[6] == 1 ? 2 : 4);
	if (header > MAX_HEADER || header > nbytes - at)
		return err_set(err, RC_BADDATA, "%s: truncated in its header", name);
	c = (struct cursor){(const char *)p + at, (const char *)p + at + header};
	if (!take_header(&c, &a, &type, &type_len))
		return err_set(
		    err, RC_BADDATA,
		    "%s: its header does not describe an array of numbers with at most %d "
		    "dimensions",
		    name, NDARRAY_MAX_DIMS);
	if (!ndarray_type(&a, type, type_len))
		return err_set(err, RC_BADDATA,
			       "%s: its type must be bool, u1 to u8, i1 to i8, f4 or f8", name);
	at += header;
	if (!ndarray_nbytes(&a, &want) || want != total - at)
		return err_set(err, RC_BADDATA,
			       "%s: its shape does not match its size of %" PRIu64 " bytes", name,
			       total - at);
	a.data = p + at;
	*out = a;
	return RC_OK;
}
