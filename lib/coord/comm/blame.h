/*
 * blame.h - who is to blame when an operation of a communicator does not go on.
 */
#ifndef COORD_BLAME_H
#define COORD_BLAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"

enum blame {
	BLAME_NOT,   /* it goes on, has ended, or waits for another */
	BLAME_LOST,  /* its device is */
	BLAME_STUCK, /* it lives and waits for nobody, and others wait for it */
	BLAME_APART, /* it and another that is APART wait for each other: what one sends, the other
		      * does not get */
};

/* What is known of one rank. */
struct blame_rank {
	bool lost;
	bool ended;	    /* it has answered its run */
	uint64_t op;	    /* how far it is */
	uint32_t step;	    /* the same */
	uint32_t waits_for; /* rank + 1; 0: nobody, or it is in no operation */
};

/*
 * blame_find - follow who waits for whom to those that wait for nobody.
 *
 *	nranks	at least 1
 *	why	[out] by rank
 *
 * A chain of ranks that wait ends at the culprit. Ranks that wait in a ring are all in wait of the
 * one that is least far: the link to it is broken, so both its ends are APART. Returns how many
 * ranks are not BLAME_NOT; RC_NOMEM.
 */
enum rc blame_find(const struct blame_rank *rank, uint32_t nranks, enum blame *why, uint32_t *n,
		   struct err *err);

#endif
