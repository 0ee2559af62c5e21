/*
 * greedy.h - passes found link by link: the next message is the one that can begin first and brings a new
 * chunk. Pure.
 */
#ifndef SYNTH_GREEDY_H
#define SYNTH_GREEDY_H

#include "cluster/links.h"
#include "synth/draft.h"

/*
 * greedy_passes - append passes that bring every chunk to all ranks.
 *
 *	d	nranks, nchunks <= 64 x nranks
 *	owner	by chunk: the rank that has it
 *	nbytes	of a chunk
 *	seed	equal messages are chosen by it
 *
 * Messages share no link at the same time. The chunk that fewest ranks have goes first.
 */
void greedy_passes(struct draft *d, const struct links *links, const uint32_t *owner, double nbytes,
		   uint64_t seed);

#endif
