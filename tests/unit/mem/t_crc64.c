/* CRC-64/XZ: its check value, and tables against single bits for every length and cut. */
#include "mem/crc64.h"

#include "chance.h"
#include "tap.h"

static uint64_t
bitwise(const unsigned char *p, size_t n)
{
	uint64_t crc = ~UINT64_C(0);

	for (; n; n--, p++) {
		crc ^= *p;
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ UINT64_C(0xc96c5795d7870f42) : crc >> 1;
	}
	return ~crc;
}

int
main(void)
{
	static unsigned char data[300];
	uint64_t seed = 3;
	bool same = true, cut = true;

	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (unsigned char)xorshift(&seed);
	ok(crc64(0, "123456789", 9) == UINT64_C(0x995dc9bbdf1939fa), "the check value");
	ok(crc64(0, "", 0) == 0, "nothing");
	for (size_t n = 0; n < sizeof data - 7; n++) {
		uint64_t want = bitwise(data + n % 7, n);

		same = same && crc64(0, data + n % 7, n) == want;
		for (size_t k = 0; k <= n; k += 5)
			cut = cut &&
			      crc64(crc64(0, data + n % 7, k), data + n % 7 + k, n - k) == want;
	}
	ok(same, "all lengths as bit by bit");
	ok(cut, "in two pieces as in one");
	return tap_done();
}
