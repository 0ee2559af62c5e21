/* The table of allocations, against a map of every byte. */
#include <string.h>

#include "chance.h"
#include "cudart/allocs.h"
#include "tap.h"

#define BYTES 512

static unsigned char room[BYTES];

int
main(void)
{
	uint64_t seed = 12345;
	struct allocs a = {0};
	int first[BYTES];
	bool good = true;

	memset(first, -1, sizeof first);
	for (int step = 0; step < 20000 && good; step++) {
		size_t at = xorshift_star(&seed) % BYTES;
		size_t n = 1 + xorshift_star(&seed) % 20;
		struct memory m = {.base = room + at, .nbytes = n}, got;
		const struct memory *f = allocs_find(&a, room + at);
		bool free_range = at + n <= BYTES;

		for (size_t i = at; i < at + n && i < BYTES; i++)
			free_range &= first[i] < 0;
		good &= first[at] < 0 ? f == NULL : f && f->base == room + first[at];
		if (at + n > BYTES)
			continue;
		good &= allocs_touches(&a, room + at, n) == !free_range;
		if (xorshift_star(&seed) % 2) {
			good &= allocs_add(&a, &m) == free_range;
			for (size_t i = at; free_range && i < at + n; i++)
				first[i] = (int)at;
		} else {
			bool begins = first[at] == (int)at;

			good &= allocs_take(&a, room + at, &got) == begins;
			for (size_t i = at; begins && i < at + got.nbytes; i++)
				first[i] = -1;
		}
	}
	ok(good, "20000 random additions, removals and searches are as in a map of bytes");
	free(a.v);
	return tap_done();
}
