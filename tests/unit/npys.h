/*
 * npys.h - .npy files, made in memory.
 */
#ifndef NPYS_H
#define NPYS_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

/* Append a file with that dictionary as its header, and n bytes of elements. */
static inline void
npy_put_raw(struct buf *b, unsigned version, const char *dictionary, const void *data, size_t n)
{
	uint32_t len = (uint32_t)strlen(dictionary);
	char head[8] = "\x93NUMPY";

	head[6] = (char)version;
	(void)buf_add(b, head, 8);
	(void)buf_add(b, &len, version == 1 ? 2 : 4);
	(void)buf_add(b, dictionary, len);
	(void)buf_add(b, data, n);
}

/* ... of an array. */
static inline void
npy_put(struct buf *b, const char *type, const char *shape, const void *data, size_t n)
{
	char text[160];

	snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n",
		 type, shape);
	npy_put_raw(b, 1, text, data, n);
}

#endif
