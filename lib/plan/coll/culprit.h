/*
 * culprit.h - the ranks that block an operation of a communicator.
 */
#ifndef COLL_CULPRIT_H
#define COLL_CULPRIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"

enum culprit {
	CULPRIT_NOT,   /* it makes progress, has ended, or waits for another rank */
	CULPRIT_LOST,  /* its device is lost */
	CULPRIT_STUCK, /* it is alive and waits for no rank, and others wait for it */
	CULPRIT_APART, /* one end of a broken link: two ranks wait for each other's messages */
};

/* A rank's state. */
struct culprit_rank {
	bool lost;
	bool ended;	    /* it has answered its run */
	uint64_t seq;	    /* its operation */
	uint32_t step;	    /* its step in the operation */
	uint32_t waits_for; /* rank + 1; 0: none, or it is in no operation */
};

/*
 * culprits_find - follow the chain of waiting ranks to its ends.
 *
 *	nranks	at least 1
 *	why	[out] by rank
 *
 * A chain of ranks that wait ends at the culprit. Ranks that wait in a ring all wait for the one with
 * the least progress: the link to it is broken, so both its ends are APART. *n is the number of ranks
 * that are not CULPRIT_NOT. RC_NOMEM.
 */
enum rc culprits_find(const struct culprit_rank *rank, uint32_t nranks, enum culprit *why,
		      uint32_t *n, struct err *err);

#endif
