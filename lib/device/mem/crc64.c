#include "mem/crc64.h"

#include <endian.h>
#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0xc96c5795d7870f42u

/* Sixteen bytes a step: table[k][b] is what byte b becomes k bytes later. */
#define STRIDE 16

static uint64_t table[STRIDE][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
make_table(void)
{
	for (unsigned b = 0; b < 256; b++) {
		uint64_t crc = b;

		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ POLYNOMIAL : crc >> 1;
		table[0][b] = crc;
	}
	for (unsigned k = 1; k < STRIDE; k++)
		for (unsigned b = 0; b < 256; b++)
			table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xff];
}

/* Eight bytes, `later` bytes before the end of the step. */
static inline uint64_t
advance(uint64_t x, unsigned later)
{
	uint64_t crc = 0;

	for (unsigned k = 0; k < 8; k++)
		crc ^= table[later + 7 - k][x >> 8 * k & 0xff];
	return crc;
}

uint64_t
crc64(uint64_t before, const void *data, size_t n)
{
	const unsigned char *p = data;
	uint64_t crc = ~before;

	pthread_once(&once, make_table);
	for (; n >= STRIDE; n -= STRIDE, p += STRIDE) {
		uint64_t x[2];

		memcpy(x, p, sizeof x);
		crc = advance(le64toh(x[0]) ^ crc, 8) ^ advance(le64toh(x[1]), 0);
	}
	for (; n; n--, p++)
		crc = crc >> 8 ^ table[0][(crc ^ *p) & 0xff];
	return ~crc;
}
