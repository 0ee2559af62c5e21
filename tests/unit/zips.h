/*
 * zips.h - zip archives, made in memory as other programs write them: with extra fields, dates, deflated.
 */
#ifndef ZIPS_H
#define ZIPS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/le.h"

static struct buf zips_directory;
static unsigned zips_n;

static inline void
zip_begin(struct buf *b)
{
	b->len = zips_directory.len = 0;
	zips_n = 0;
}

/* Bytes 4 and on of a local header, 6 and on of the directory's. */
static inline void
zips_common(unsigned char *p, const char *name, uint32_t crc, size_t stored, size_t n,
	    bool deflated)
{
	memcpy(p, "\x2d\0\0\0\0\0\x21\x43\x21\x54", 10);
	p[4] = deflated ? 8 : 0;
	put32(p + 10, crc);
	put32(p + 14, (uint32_t)stored);
	put32(p + 18, (uint32_t)n);
	p[22] = (unsigned char)strlen(name);
}

static inline void
zip_put(struct buf *b, const char *name, const void *bytes, size_t n, bool deflated)
{
	static const char extra[20] = "\1\0\x10\0"; /* zip64, as in numpy */
	uint32_t at = (uint32_t)b->len, crc = (uint32_t)crc32(0, bytes, (uInt)n);
	unsigned char local[30] = "PK\3\4", central[46] = "PK\1\2\x14\3";
	size_t stored = n;
	Bytef *packed = malloc(n + n / 100 + 100);
	z_stream z = {.next_in = (Bytef *)(uintptr_t)bytes,
		      .avail_in = (uInt)n,
		      .next_out = packed,
		      .avail_out = (uInt)(n + n / 100 + 100)};

	memcpy(packed, bytes, n);
	if (deflated) {
		deflateInit2(&z, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
		deflate(&z, Z_FINISH);
		stored = z.total_out;
		deflateEnd(&z);
	}
	zips_common(local + 4, name, crc, stored, n, deflated);
	local[28] = sizeof extra;
	(void)buf_add(b, local, sizeof local);
	(void)buf_add(b, name, strlen(name));
	(void)buf_add(b, extra, sizeof extra);
	(void)buf_add(b, packed, stored);
	free(packed);
	zips_common(central + 6, name, crc, stored, n, deflated);
	put32(central + 42, at);
	(void)buf_add(&zips_directory, central, sizeof central);
	(void)buf_add(&zips_directory, name, strlen(name));
	zips_n++;
}

static inline void
zip_end_all(struct buf *b, const char *comment)
{
	unsigned char end[22] = "PK\5\6";
	uint32_t at = (uint32_t)b->len;

	(void)buf_add(b, zips_directory.data, zips_directory.len);
	end[8] = end[10] = (unsigned char)zips_n;
	put32(end + 12, (uint32_t)zips_directory.len);
	put32(end + 16, at);
	end[20] = (unsigned char)strlen(comment);
	(void)buf_add(b, end, sizeof end);
	(void)buf_add(b, comment, strlen(comment));
	buf_fini(&zips_directory);
}

#endif
