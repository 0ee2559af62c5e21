/*
 * value.h - of which contributions a chunk is the sum. Pure.
 *
 * A contribution is what rank r has at first as chunk c. A value is the sum of the same chunk of some ranks, each once; or it
 * is spoilt, because it has a contribution twice or sums different chunks. Nothing takes a contribution away again, so
 * a spoilt value never becomes one that a collective wants, and its first offence is all that is kept of it.
 * Values are counted: value_keep and value_drop.
 */
#ifndef ALGO_VALUE_H
#define ALGO_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#define VALUE_NONE 0 /* nothing was written there */

/* A value: one contribution in the word itself, or the number of an entry. */
typedef uint64_t value;

struct values {
	uint32_t nranks, words; /* of 64 ranks each */
	uint64_t *entry;	/* of `stride` words: see value.c */
	uint32_t stride, nentry, cap, free;
	bool full; /* out of memory, or of what the room allows; values are no longer right */
};

enum value_state { VALUE_GOOD, VALUE_TWICE, VALUE_MIXED };

/*
 * What a value is. Good: its chunk, and the first rank that it has. Twice: the contribution that came again. Mixed: one
 * contribution, and another that is of a different chunk.
 */
struct value_what {
	enum value_state state;
	uint32_t rank, chunk;
	uint32_t other_rank, other_chunk;
};

void values_init(struct values *v, uint32_t nranks);
void values_fini(struct values *v);

value value_one(uint32_t rank, uint32_t chunk);
value value_keep(struct values *v, value x);
void value_drop(struct values *v, value x);

/* The sum as a value of its own; x and y stay. */
value value_sum(struct values *v, value x, value y);

struct value_what value_what(const struct values *v, value x);

/* The first rank whose contribution a good value lacks, or has beside that of `but`; nranks: none. */
uint32_t value_lacks(const struct values *v, value x);
uint32_t value_has_beside(const struct values *v, value x, uint32_t but);

#endif
