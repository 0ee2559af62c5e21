/*
 * value.h - the contributions of which a chunk is the sum. Pure.
 *
 * A contribution is rank r's initial chunk c. A value is the sum of the same chunk of some ranks, each
 * once; or it is invalid, because it has a contribution twice or sums different chunks. Contributions are
 * never removed, so an invalid value stays invalid, and only its first error is kept. Values are
 * reference-counted: value_keep and value_drop.
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
	bool full; /* out of memory, or over the limit; values are no longer valid */
};

enum value_state { VALUE_GOOD, VALUE_TWICE, VALUE_MIXED };

/*
 * The state of a value. Good: its chunk, and its first rank. Twice: the repeated contribution. Mixed: one
 * contribution, and one of a different chunk.
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

/* The sum as a new value; x and y stay. */
value value_sum(struct values *v, value x, value y);

struct value_what value_what(const struct values *v, value x);

/* The first rank whose contribution a good value lacks, or has besides that of `but`; nranks: none. */
uint32_t value_lacks(const struct values *v, value x);
uint32_t value_has_beside(const struct values *v, value x, uint32_t but);

#endif
