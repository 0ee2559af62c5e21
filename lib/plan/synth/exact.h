/*
 * exact.h - passes in the fewest possible rounds, for few ranks, by exhaustive search. Pure.
 */
#ifndef SYNTH_EXACT_H
#define SYNTH_EXACT_H

#include "cluster/links.h"
#include "synth/draft.h"

#define EXACT_MAX_CELLS 16u /* ranks times chunks */

/*
 * exact_passes - append passes that bring every chunk to all ranks.
 *
 *	d	nranks x nchunks <= EXACT_MAX_CELLS
 *	owner	by chunk: the rank that has it
 *	most	chunks that a link carries in a round
 *
 * No schedule with at most `most` chunks per link and round has fewer rounds. False: nothing was appended,
 * because the search would be too large.
 */
bool exact_passes(struct draft *d, const struct links *links, const uint32_t *owner, uint32_t most);

#endif
