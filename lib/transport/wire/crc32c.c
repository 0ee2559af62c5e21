#include "wire/crc32c.h"

#include <endian.h>
#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u /* reflected */

/* table[k][b]: what byte b does to the crc when k more bytes follow it in the same 8. */
static uint32_t table[8][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
make_table(void)
{
	for (uint32_t b = 0; b < 256; b++) {
		uint32_t crc = b;

		for (int i = 0; i < 8; i++)
			crc = crc & 1 ? crc >> 1 ^ POLYNOMIAL : crc >> 1;
		table[0][b] = crc;
	}
	for (uint32_t b = 0; b < 256; b++)
		for (int k = 1; k < 8; k++)
			table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xff];
}

uint32_t
crc32c_portable(const void *data, size_t nbytes)
{
	const unsigned char *p = data;
	uint32_t crc = ~0u;

	pthread_once(&once, make_table);
	for (; nbytes >= 8; nbytes -= 8, p += 8) {
		uint64_t v, next = 0;

		memcpy(&v, p, 8);
		v = le64toh(v) ^ crc;
		for (int k = 0; k < 8; k++)
			next ^= table[7 - k][v >> (8 * k) & 0xff];
		crc = (uint32_t)next;
	}
	while (nbytes-- > 0)
		crc = crc >> 8 ^ table[0][(crc ^ *p++) & 0xff];
	return ~crc;
}

#if defined(__x86_64__)

__attribute__((target("sse4.2"))) static uint32_t
crc32c_sse42(const void *data, size_t nbytes)
{
	const unsigned char *p = data;
	uint64_t crc = ~0u, v;

	for (; nbytes >= 8; nbytes -= 8, p += 8) {
		memcpy(&v, p, 8);
		crc = __builtin_ia32_crc32di(crc, v);
	}
	while (nbytes-- > 0)
		crc = __builtin_ia32_crc32qi((uint32_t)crc, *p++);
	return ~(uint32_t)crc;
}

uint32_t
crc32c(const void *data, size_t nbytes)
{
	return __builtin_cpu_supports("sse4.2") ? crc32c_sse42(data, nbytes)
						: crc32c_portable(data, nbytes);
}

#else

uint32_t
crc32c(const void *data, size_t nbytes)
{
	return crc32c_portable(data, nbytes);
}

#endif
