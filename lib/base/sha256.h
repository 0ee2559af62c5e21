/*
 * sha256.h - SHA-256, for digests that people compare.
 *
 * Source: FIPS 180-4
 */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sha256 {
	uint32_t state[8];
	uint64_t nbytes;
	uint8_t block[64]; /* the last nbytes % 64 of them */
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t nbytes);

/* 64 hexadecimal digits and a zero; *s is then of no more use. Checked by: tests/unit/base/t_sha256.c */
#define SHA256_TEXT 65
void sha256_text(struct sha256 *s, char out[SHA256_TEXT]);

#endif
