/*
 * blocks.h - an algorithm's thread blocks as concurrent plans of a rank, for simulation. Pure.
 */
#ifndef ALGO_BLOCKS_H
#define ALGO_BLOCKS_H

#include "algo/algo.h"

#define BLOCKS_MAX_STEPS (1u << 20) /* of all ranks */

/*
 * algo_blocks - every rank's thread blocks.
 *
 *	a		proven (prove.h), custom or not
 *	chunk		elements of a chunk
 *	plans, blocks	[out] plan r * blocks + b is block b of rank r, and so are peers; released with plan_free_all(plans,
 *			nranks * blocks)
 *
 * A dependency on another block is a message of no elements between them.
 * Errors: RC_INVAL more than BLOCKS_MAX_STEPS; RC_NOMEM.
 */
enum rc algo_blocks(const struct algo *a, uint64_t chunk, struct plan **plans, uint32_t *blocks,
		    struct err *err);

#endif
