#include "mem/vectext.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "mem/dtype.h"
#include "mem/num.h"

#define QUOTED_CHARS 40 /* of an element in a message */

/* The rest of one line. more: another element follows, even an empty one after a comma. */
struct line {
	const char *p, *end;
	bool more;
};

/* The number of the current line, and of the first. */
struct at {
	size_t line, first;
};

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static void
skip_blanks(struct line *l)
{
	while (l->p < l->end && is_blank(*l->p))
		l->p++;
}

/* Cut the line that starts at text; returns the start of the next. */
static const char *
line_cut(const char *text, const char *end, struct line *l)
{
	const char *nl = memchr(text, '\n', (size_t)(end - text));

	l->p = text;
	l->end = nl ? nl : end;
	if (l->end > l->p && l->end[-1] == '\r')
		l->end--;
	skip_blanks(l);
	l->more = l->p < l->end;
	return nl ? nl + 1 : end;
}

static bool
line_next(struct line *l, const char **elem, size_t *len)
{
	if (!l->more)
		return false;
	*elem = l->p;
	while (l->p < l->end && !is_blank(*l->p) && *l->p != ',')
		l->p++;
	*len = (size_t)(l->p - *elem);
	skip_blanks(l);
	l->more = l->p < l->end;
	if (l->more && *l->p == ',') {
		l->p++;
		skip_blanks(l);
	}
	return true;
}

static size_t
line_count(struct line l)
{
	const char *elem;
	size_t len, n = 0;

	while (line_next(&l, &elem, &len))
		n++;
	return n;
}

static size_t
count_lines(const char *text, const char *end)
{
	size_t n = 0;

	for (; text < end; n++) {
		text = memchr(text, '\n', (size_t)(end - text));
		text = text ? text + 1 : end;
	}
	return n;
}

/* The message for an element that num_parse rejected. */
static enum rc
refuse(enum num_status st, enum gpusim_dtype t, size_t line, size_t ielem, const char *elem,
       size_t len, struct err *err)
{
	char quoted[QUOTED_CHARS + 1];
	size_t i, n = len < QUOTED_CHARS ? len : QUOTED_CHARS;
	const char *dots = len > n ? "..." : "";

	if (st == NUM_NOMEM)
		return err_set(err, RC_NOMEM, "out of memory");
	for (i = 0; i < n; i++)
		quoted[i] = elem[i] >= ' ' && elem[i] <= '~' ? elem[i] : '?';
	quoted[n] = '\0';
	if (st == NUM_RANGE)
		return err_set(err, RC_BADDATA,
			       "line %zu, element %zu: '%s%s' is out of range for %s (%s)", line,
			       ielem + 1, quoted, dots, dtype_name(t), num_range(t));
	return err_set(err, RC_BADDATA, "line %zu, element %zu: '%s%s' is not a number of type %s",
		       line, ielem + 1, quoted, dots, dtype_name(t));
}

static enum rc
ragged(struct at at, size_t n, size_t nelem, struct err *err)
{
	return err_set(err, RC_BADDATA, "line %zu has %zu element%s, line %zu has %zu", at.line, n,
		       n == 1 ? "" : "s", at.first, nelem);
}

/* One line into nelem elements at data. */
static enum rc
parse_line(enum gpusim_dtype t, struct line l, struct at at, size_t nelem, char *data,
	   struct err *err)
{
	const struct line whole = l;
	const size_t size = dtype_size(t);
	enum num_status st;
	const char *elem;
	size_t len, n = 0;

	for (; line_next(&l, &elem, &len); n++) {
		if (n == nelem)
			return ragged(at, line_count(whole), nelem, err);
		st = num_parse(t, elem, len, data + n * size);
		if (st)
			return refuse(st, t, at.line, n, elem, len, err);
	}
	return n == nelem ? RC_OK : ragged(at, n, nelem, err);
}

enum rc
vectext_parse(enum gpusim_dtype t, const char *text, size_t nbytes, size_t first,
	      struct vectext *out, struct err *err)
{
	const size_t size = dtype_size(t);
	const char *p = text, *end = text + nbytes;
	size_t nvec, nelem, most, i;
	struct line l;
	char *data;
	enum rc rc;

	if (size == 0)
		return err_set(err, RC_INVAL, "%d is not an element type", (int)t);
	if (nbytes == 0)
		return err_set(err, RC_BADDATA, "no vectors on standard input");
	if (first == 1 && file_odd_text(text, nbytes))
		return err_set(err, RC_BADDATA, "the text begins as %s: plain UTF-8 is read",
			       file_odd_text(text, nbytes));
	nvec = count_lines(p, end);
	line_cut(p, end, &l);
	nelem = line_count(l);
	/*
	 * An element takes a byte and a separator, so more than this is a ragged input, found
	 * before the room runs out: each line is given room for nelem only when all lines before it
	 * were full.
	 */
	most = nbytes / 2 + 1;
	if (nelem && nvec > most / nelem)
		nvec = most / nelem + 1;
	data = alloc_zeroed(nvec * nelem, size);
	if (!data)
		return err_set(err, RC_NOMEM, "no memory for %zu vectors of %zu elements", nvec,
			       nelem);
	for (i = 0; p < end; i++) {
		p = line_cut(p, end, &l);
		rc = parse_line(t, l, (struct at){first + i, first}, nelem, data + i * nelem * size,
				err);
		if (rc) {
			free(data);
			return rc;
		}
	}
	*out = (struct vectext){data, nvec, nelem};
	return RC_OK;
}

void
vectext_fini(struct vectext *v)
{
	free(v->data);
	*v = (struct vectext){0};
}

enum rc
vectext_format(enum gpusim_dtype t, const void *data, size_t nelem, struct buf *out,
	       struct err *err)
{
	const size_t size = dtype_size(t), len = out->len;
	const char *src = data;
	size_t i;

	if (size == 0)
		return err_set(err, RC_INVAL, "%d is not an element type", (int)t);
	for (i = 0; i < nelem; i++) {
		if (!buf_reserve(out, NUM_MAX_CHARS + 1))
			goto nomem;
		if (i)
			out->data[out->len++] = ' ';
		out->len += num_format(t, src + i * size, out->data + out->len);
	}
	if (buf_add(out, "\n", 1))
		return RC_OK;
nomem:
	out->len = len;
	return err_set(err, RC_NOMEM, "out of memory");
}
