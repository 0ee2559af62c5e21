/*
 * pool.h - the parameter server's bookkeeping: the claim and the fate of each minibatch.
 *
 * Pure: no socket, thread, clock or chance inside. An item is a minibatch: images
 * [first, first + rows) of the epoch's order. It is pending, then claimed by a learner, then its
 * gradient is held, then it is applied with others in one update, which makes the next version of
 * the weights. Whatever a learner does or says, each item is applied once an epoch.
 *
 *	staleness 0	a gradient counts in the version that it was computed at, so `aggregate`
 *			items are one global batch, as all-reduce has them: item i of a group is
 *			rank i's part, also in the last, smaller one. No more than `aggregate` may there
 *			be leaves in it, or else images
 *	staleness s	a gradient is at most s versions old when it is applied
 *	POOL_ASYNC	of any age
 *
 * A learner is not given an item if that could make another's gradient too old: who runs ahead
 * waits. So a gradient is too old only if its learner had been given up.
 *
 * Each claim has a slot, where its gradient goes, and nobody else's does: a slot of a learner that is
 * silent, but may still be there, stays its own until it is gone.
 */
#ifndef PS_POOL_H
#define PS_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"

#define POOL_ASYNC	   UINT32_MAX
#define POOL_MAX_LEARNERS  64
#define POOL_MAX_AGGREGATE 1024
#define POOL_NO_ITEM	   UINT32_MAX

struct pool_config {
	uint32_t images; /* of an epoch; at least 1 */
	uint32_t batch;	 /* of an item, at most; at least 1 */
	uint64_t global; /* with staleness 0: of an update; 0: batch * aggregate */
	uint32_t leaf; /* with staleness 0: images that are in one item; the sums of losses are then
			     * those of updates. 0: each by itself */
	uint32_t aggregate; /* gradients of an update, 1..POOL_MAX_AGGREGATE */
	uint32_t staleness;
};

struct pool;

/* RC_INVAL, RC_NOMEM. NULL may be freed. */
enum rc pool_new(const struct pool_config *c, struct pool **out, struct err *err);
void pool_free(struct pool *p);

uint32_t pool_items(const struct pool *p);   /* of an epoch */
uint32_t pool_updates(const struct pool *p); /* of an epoch, if no gradient waits in vain */

/* Which images an item of the epoch is. False: there is no such item. */
bool pool_item(const struct pool *p, uint32_t item, uint32_t *first, uint32_t *rows);

/* How many slots there should be for the learners there are; numbers of slots are below. pool_allow: so
 * many are there, which never get fewer; without enough, claims wait. */
uint32_t pool_slots(const struct pool *p);
void pool_allow(struct pool *p, uint32_t nslots);

/* Updates so far, of all epochs. pool_restore: go on from that many, before anything else. */
uint64_t pool_version(const struct pool *p);
void pool_restore(struct pool *p, uint64_t version);

/* Begin an epoch, when the one before is done. */
void pool_begin(struct pool *p, uint32_t epoch);

/* All items are applied. */
bool pool_done(const struct pool *p);

/* Images whose gradients are applied in this epoch, and the sum of their losses. */
uint64_t pool_rows(const struct pool *p);
double pool_loss(const struct pool *p);

/* RC_BUSY: too many, or there already. Ids are not 0. */
enum rc pool_join(struct pool *p, uint64_t learner, struct err *err);

/* Its claims are pending again. POOL_SILENT: it may still write to its slots. POOL_GONE: it does
 * nothing any more; also after POOL_SILENT. An unknown learner does not matter. */
enum pool_leave { POOL_SILENT, POOL_GONE };
void pool_leave(struct pool *p, uint64_t learner, enum pool_leave how);

uint32_t pool_learners(const struct pool *p); /* silent ones do not count */

/* For the queue of items: the next one that is pending and not in the queue, if the queue is not
 * long enough for the learners there are. pool_unqueue: it is not in it after all; POOL_NO_ITEM: all
 * that was, for it may be lost. */
bool pool_queue(struct pool *p, uint32_t *item);
void pool_unqueue(struct pool *p, uint32_t item);

struct pool_claim {
	uint32_t epoch, item;
	uint32_t first, rows;
	uint32_t slot;
	uint64_t version; /* the weights are at least that new */
};

/*
 * pool_claim - give the learner an item: the one it took from the queue, or another.
 *
 *	hint	POOL_NO_ITEM: it took none; any number is legal
 *
 * POOL_WAIT: not now; ask again when something has changed. POOL_STRANGER: it is no member, or has
 * one already.
 */
enum pool_answer { POOL_WORK, POOL_WAIT, POOL_STRANGER };
enum pool_answer pool_claim(struct pool *p, uint64_t learner, uint32_t hint,
			    struct pool_claim *out);

struct pool_gradient {
	uint64_t learner;
	uint32_t epoch, item, slot, rows;
	uint64_t version; /* of the weights it was computed at */
	double loss;	  /* sum over the rows */
};

/*
 * pool_gradient - a learner says that a gradient is in its slot.
 *
 * POOL_TAKEN: it will be applied. POOL_STALE: it is too old, and its item is pending again.
 * POOL_REFUSED: the learner has no such claim (any more): another has it, or it is applied
 * already; nothing has changed.
 */
enum pool_verdict { POOL_TAKEN, POOL_STALE, POOL_REFUSED };
enum pool_verdict pool_gradient(struct pool *p, const struct pool_gradient *g);

/* Gradients of one update: their slots, in the order of their items. */
struct pool_update {
	uint32_t nslots, slot[POOL_MAX_AGGREGATE], rows_of[POOL_MAX_AGGREGATE];
	uint64_t age[POOL_MAX_AGGREGATE]; /* versions between its weights and these */
	uint64_t rows;			  /* of all of them */
	uint64_t version;		  /* before it */
};

/* Is an update due? Then it is under way until pool_applied, and the next one waits for that. */
bool pool_due(struct pool *p, struct pool_update *out);
void pool_applied(struct pool *p);

#endif
