/*
 * exact.h - passes in the fewest rounds that there are, for few ranks: all ways are tried. Pure.
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
 * No schedule in rounds with so many chunks a link has fewer rounds. False: nothing was appended, for there would be too
 * many ways to try, or d->rc is RC_NOMEM.
 */
bool exact_passes(struct draft *d, const struct links *links, const uint32_t *owner, uint32_t most);

#endif
