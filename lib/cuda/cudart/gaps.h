/* gaps.h - free parts of a range of addresses or offsets: first fit, neighbours joined. Pure, and without a lock. */
#ifndef CUDART_GAPS_H
#define CUDART_GAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gap {
	uint64_t off, nbytes;
};

/* Sorted by offset, and never adjacent. Initialise with {0}. */
struct gaps {
	struct gap *v;
	size_t n, room;
};

/* Take the first gap that is large enough; UINT64_MAX: none. */
uint64_t gaps_take(struct gaps *g, uint64_t nbytes);

/* Add a part that is not free yet. False: out of memory, and it stays unused. */
bool gaps_give(struct gaps *g, uint64_t off, uint64_t nbytes);

/* Take out a part, which is all of one gap or inside. False: it is not free. */
bool gaps_cut(struct gaps *g, uint64_t off, uint64_t nbytes);

#endif
