/*
 * pickle.h - data in Python's pickles, protocol 2: dictionaries, lists, texts, whole numbers,
 * numpy's arrays.
 *
 * A pickle is a program that may call anything. This reader runs nothing. It knows the opcodes for
 * such data, and the calls that make arrays of numpy (_reconstruct, ndarray, dtype) or byte strings
 * of Python 3 (_codecs.encode). It rejects all others. Source: Python's Lib/pickletools.py.
 */
#ifndef NN_PICKLE_H
#define NN_PICKLE_H

#include "nn/ndarray.h"

struct pickle;
struct pickle_value;

/* Return true if bytes begin as a pickle of protocol 2. */
bool pickle_is(const void *bytes, size_t nbytes);

/*
 * pickle_parse - parse a pickle.
 *
 *	bytes	outlive *out, which points into them
 *	name	their name in error messages
 *	out	[out] released with pickle_free; untouched on error
 *
 * Memory is at most 128 bytes for each byte of the pickle, and at most 4194304 values. Errors:
 * RC_BADDATA "NAME: reason".
 * Checked by: tests/unit/nn/t_pickle.c
 */
enum rc pickle_parse(const void *bytes, size_t nbytes, const char *name, struct pickle **out,
		     struct err *err);
void pickle_free(struct pickle *p);

/* The value of a key, a str or bytes, in the pickle's dictionary. NULL: no such key, or not a dictionary. */
const struct pickle_value *pickle_get(const struct pickle *p, const char *key);

/* Return true if a value is an array. */
bool pickle_array(const struct pickle *p, const struct pickle_value *v, struct ndarray *out);

/* The length of a list or tuple, UINT32_MAX for other values; and the iterator over its items, NULL
 * after the last. */
struct pickle_cell;
uint32_t pickle_length(const struct pickle_value *v);
const struct pickle_cell *pickle_first(const struct pickle *p, const struct pickle_value *v);
const struct pickle_cell *pickle_next(const struct pickle *p, const struct pickle_cell *cell);
const struct pickle_value *pickle_item(const struct pickle *p, const struct pickle_cell *cell);

/* Return true if a value is a whole number, or a text: str or bytes, len of them, not terminated. */
bool pickle_number(const struct pickle_value *v, int64_t *out);
bool pickle_text(const struct pickle_value *v, const char **text, size_t *len);

#endif
