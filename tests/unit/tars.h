/*
 * tars.h - tar archives, made in memory.
 */
#ifndef TARS_H
#define TARS_H

#include <stdio.h>
#include <string.h>

#include "base/buf.h"

/* Set a header's sum. */
static inline void
tar_sum(char *h)
{
	unsigned sum = 0;

	memset(h + 148, ' ', 8);
	for (int i = 0; i < 512; i++)
		sum += (unsigned char)h[i];
	snprintf(h + 148, 8, "%06o", sum);
}

static inline void
tar_add(struct buf *b, const char *name, char type, const void *bytes, size_t n)
{
	static const char zeros[512];
	char h[512] = "";

	snprintf(h, 100, "%s", name);
	memcpy(h + 100, "0000644\0000000000\0000000000", 24);
	snprintf(h + 124, 12, "%011zo", n);
	memcpy(h + 136, "00000000000", 12);
	h[156] = type;
	memcpy(h + 257, "ustar\00000", 8);
	tar_sum(h);
	(void)buf_add(b, h, sizeof h);
	(void)buf_add(b, bytes, n);
	(void)buf_add(b, zeros, (512 - n % 512) % 512);
}

/* Two blocks of zeros. */
static inline void
tar_end(struct buf *b)
{
	static const char zeros[1024];

	(void)buf_add(b, zeros, sizeof zeros);
}

#endif
