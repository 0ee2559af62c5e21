/*
 * check.h - run every rank's plan in one process, exactly, and prove that it is right. Pure.
 */
#ifndef COLL_CHECK_H
#define COLL_CHECK_H

#include "coll/plan.h"

enum plan_place { PLAN_OUT_OF_PLACE, PLAN_IN_PLACE };

/* Counts of a run of all ranks' plans. */
struct plan_counts {
	uint64_t max_messages; /* most messages sent by one rank */
	uint64_t max_elements; /* most elements sent by one rank */
	uint64_t max_recv_elements;
	uint64_t total_messages, total_elements;
	uint64_t total_wide; /* of total_elements: sent as f32 */
	uint32_t rounds;     /* largest round of a send or receive, + 1; 0 when nothing moves */
	uint32_t syncs;	     /* of one rank: STEP_SYNC and STEP_SHARE */
	uint64_t max_read, max_written; /* elements by one rank in STEP_SHARE and STEP_REDUCE_ALL */
};

/* Count what the plans of all ranks send, receive and need, without running them. */
void plan_count(const struct plan *plans, uint32_t nranks, struct plan_counts *counts);

#define CHECK_MAX_BYTES (1ull << 30) /* most memory that a check takes for the ranks' elements */

/*
 * plan_check - simulate all ranks with at most PLAN_WINDOW unconsumed chunks between any two ranks.
 *
 * Proves: no deadlock, for any timing and any window of PLAN_WINDOW or more (each rank
 * is sequential and names the peer it waits for, so one interleaving stands for all of them); every send
 * meets a receive of the same count and every message is consumed; no message is larger than the chunk; no
 * access outside a buffer, no read of an element that nothing wrote, no write to PLAN_IN; no write to a
 * posted range that may still be read (vector clocks); every element of every output that the collective
 * defines has exactly the contributions it should, each exactly once, from the right element of the right
 * ranks (a set of ranks per element, so not only sums); inputs are untouched out of place; STEP_FINISH ran
 * exactly once on the path to each reduced element, after the last contribution; rounds never decrease along
 * a rank's plan; no rank leaves a barrier before all have entered it.
 *
 *	a	as for plan_build_all
 *	place	a collective without an in-place form is rejected; barrier, send, recv ignore it
 *	counts	[out] or NULL
 *
 * Errors: RC_FAILED with a sentence that names rank, step and element; RC_INVAL also when the check
 * would take more than CHECK_MAX_BYTES; RC_NOMEM.
 */
enum rc plan_check(const struct plan_args *a, const char *algo, enum plan_place place,
		   struct plan_counts *counts, struct err *err);

/* Check plans made elsewhere: plans[r] is rank r's. They stay the caller's. */
enum rc plan_check_plans(const struct plan_args *a, enum plan_place place, const struct plan *plans,
			 struct plan_counts *counts, struct err *err);

#endif
