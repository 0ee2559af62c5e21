/*
 * gzip.h - gzip files in memory, for tests.
 */
#ifndef GZIP_H
#define GZIP_H

#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

/* gzip src into dst (cap bytes); the stored size. */
static inline size_t
gzip(const void *src, size_t nbytes, uint8_t *dst, size_t cap)
{
	z_stream z = {0};

	deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
	z.next_in = (Bytef *)(uintptr_t)src;
	z.avail_in = (uInt)nbytes;
	z.next_out = dst;
	z.avail_out = (uInt)cap;
	deflate(&z, Z_FINISH);
	deflateEnd(&z);
	return z.total_out;
}

#endif
