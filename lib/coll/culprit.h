/*
 * culprit.h - the ranks at which an operation of a communicator stands still.
 */
#ifndef COLL_CULPRIT_H
#define COLL_CULPRIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"

enum culprit {
	CULPRIT_NOT,   /* it goes on, has ended, or waits for another */
	CULPRIT_LOST,  /* its device is */
	CULPRIT_STUCK, /* it lives and waits for nobody, and others wait for it */
	CULPRIT_APART, /* it and another that is APART wait for each other: what one sends, the other
		      * does not get */
};

/* A rank's state. */
struct culprit_rank {
	bool lost;
	bool ended;	    /* it has answered its run */
	uint64_t seq;	    /* how far it is */
	uint32_t step;	    /* the same */
	uint32_t waits_for; /* rank + 1; 0: nobody, or it is in no operation */
};

/*
 * culprits_find - follow the chain of waiting ranks to its ends.
 *
 *	nranks	at least 1
 *	why	[out] by rank
 *
 * A chain of ranks that wait ends at the culprit. Ranks that wait in a ring are all in wait of the
 * one that is least far: the link to it is broken, so both its ends are APART. Returns how many
 * ranks are not CULPRIT_NOT; RC_NOMEM.
 */
enum rc culprits_find(const struct culprit_rank *rank, uint32_t nranks, enum culprit *why,
		      uint32_t *n, struct err *err);

#endif
