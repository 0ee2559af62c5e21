/*
 * prove.h - verify that an algorithm implements its collective, for every interleaving. Pure.
 */
#ifndef ALGO_PROVE_H
#define ALGO_PROVE_H

#include "algo/algo.h"

/* Larger algorithms are rejected. */
#define PROVE_MAX_CELLS (1u << 22) /* chunks of all buffers of all ranks */
#define PROVE_MAX_MOVED (1u << 23) /* chunks of all steps */

struct proof {
	/* Messages that a connection must hold, 1..ALGO_SLOTS; 0: nothing is sent */
	uint32_t min_slots;
	size_t nsteps, nmessages;
};

/*
 * algo_prove - verify an algorithm, exactly.
 *
 * Proves: every message is received, with the count that it was sent with; no deadlock with connections of
 * ALGO_SLOTS messages or more, for every interleaving; no race: of two accesses to a chunk one of which
 * writes, one happens before the other; nothing is read before it was written; every chunk of every output
 * that the collective defines has each contribution that it should have, once, and no other. For custom
 * algorithms all but the last.
 *
 * Errors: RC_BADDATA with the first error, such as "rank 7 chunk 63 ends without the contribution of
 * rank 3", "deadlock: rank 0 block 1 step 4 waits for ...", "rank 2 block 0 step 5 reads scratch 3 before it
 * is written"; RC_INVAL it would need more memory than allowed; RC_NOMEM.
 */
enum rc algo_prove(const struct algo *a, struct proof *out, struct err *err);

#endif
