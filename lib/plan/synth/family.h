/*
 * family.h - the kinds of algorithms that the search tries, with their parameters. Pure.
 */
#ifndef SYNTH_FAMILY_H
#define SYNTH_FAMILY_H

#include "synth/draft.h"

/* Ways of exchanging the chunks of a group's ranks. */
enum exchange {
	EXCHANGE_RING,	 /* to the next, m - 1 rounds */
	EXCHANGE_DIRECT, /* each to each, at once */
	EXCHANGE_BRUCK,	 /* doubling distances, with everything that a rank has */
	EXCHANGE_NKINDS
};

const char *exchange_name(enum exchange kind);

/*
 * family_gather - passes that bring every rank's chunks to all.
 *
 *	d	nranks is set; nchunks becomes nranks * parts, and chunk r * parts + j is rank r's
 *	group	ranks of a host, a divisor of nranks: first between the ranks of one number on all hosts, then inside
 *		the hosts. nranks: one step
 *	outer, inner	the two steps
 *	parts	each goes its own way: rings in both directions, and from one host to the next over different ranks
 */
void family_gather(struct draft *d, uint32_t group, enum exchange outer, enum exchange inner,
		   uint32_t parts);

/*
 * family_tree - passes that bring a root's chunks to all, down a tree of `fan` children a node.
 *
 *	order	of ranks along the tree, root first
 *	first, n	its chunks, one after the other
 */
void family_tree(struct draft *d, const uint32_t *order, uint32_t fan, uint32_t first, uint32_t n);

/* As family_tree, down a binomial tree, all chunks in one message. */
void family_binomial(struct draft *d, const uint32_t *order, uint32_t first, uint32_t n);

/* All-reduces of the whole vector in one step each, through scratch. Doubling: nranks is a power of two. */
void family_oneshot(struct draft *d);
void family_doubling(struct draft *d);

/* All-to-all: each to each; or by the rank of the own host that has the receiver's number. */
void family_alltoall(struct draft *d, uint32_t group);

#endif
