/*
 * vectext.h - vectors as text: one line per vector, one vector per rank.
 *
 * Elements are separated by blanks (space, tab), by one comma, or by a comma among blanks; blanks around a
 * line are ignored. Lines end in \n or \r\n; the last may lack it. Every line has the same number of
 * elements, so blank lines (vectors of no elements) occur only among blank lines.
 */
#ifndef MEM_VECTEXT_H
#define MEM_VECTEXT_H

#include <stddef.h>

#include "base/buf.h"
#include "base/rc.h"

/* nvec vectors of nelem elements, one after the other. Initialise with {0}; vectext_fini releases.
 */
struct vectext {
	void *data; /* malloc'd, aligned for any type; not NULL after vectext_parse */
	size_t nvec, nelem;
};

/*
 * vectext_parse - all lines of text[0..nbytes).
 *
 *	t	element type; see num.h for the syntax of an element
 *	text	no terminator is read; a NUL is not part of a number
 *	first	the number of the first line, for errors: 1, unless others came before
 *	out	[out] the caller's, to vectext_fini; untouched on failure
 *
 * Takes linear time, and memory only for the elements. Errors: RC_BADDATA with line and element, which
 * counts from 1, RC_NOMEM, RC_INVAL (t is not a type).
 */
enum rc vectext_parse(enum gpusim_dtype t, const char *text, size_t nbytes, size_t first,
		      struct vectext *out, struct err *err);

void vectext_fini(struct vectext *v);

/*
 * vectext_format - append one vector as one line: shortest decimals that read back as the same
 * elements, single spaces between, \n at the end.
 *
 *	data	nelem elements at any alignment
 *
 * Errors: RC_NOMEM (nothing is appended), RC_INVAL (t is not a type).
 */
enum rc vectext_format(enum gpusim_dtype t, const void *data, size_t nelem, struct buf *out,
		       struct err *err);

#endif
