/*
 * pool.h - the parameter server's bookkeeping: the claim and the fate of each minibatch.
 *
 * Pure: no socket, thread, clock or chance inside. An item is a minibatch: images
 * [first, first + rows) of the epoch's order. It is pending, then claimed by a learner, then its
 * gradient is held, then it is applied with others in one update, which makes the next version of
 * the weights. Whatever a learner does, each item is applied once an epoch.
 *
 *	staleness 0	a gradient counts in the version that it was computed at, so `aggregate`
 *			items are one global batch, as in all-reduce: item i of a group is rank i's
 *			part, also in the last, smaller one. `aggregate` must not exceed the batch's
 *			number of leaves, or of images if there are no leaves
 *	staleness s	a gradient is at most s versions old when it is applied
 *	POOL_ASYNC	of any age
 *
 * A learner is not given an item if that could make another's gradient too old: a learner that runs
 * ahead waits. So a gradient is too old only if its learner was given up.
 *
 * Each claim has its own slot for the gradient. The slot of a silent learner, which may still be
 * alive, is not reused until the learner is known to have ended.
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
	/* with staleness 0: images that stay in one item; losses are then summed by update. 0: none */
	uint32_t leaf;
	uint32_t aggregate; /* gradients of an update, 1..POOL_MAX_AGGREGATE */
	uint32_t staleness;
};

struct pool;

/* RC_INVAL. NULL may be freed. */
enum rc pool_new(const struct pool_config *c, struct pool **out, struct err *err);
void pool_free(struct pool *p);

uint32_t pool_items(const struct pool *p);   /* of an epoch */
uint32_t pool_updates(const struct pool *p); /* of an epoch, if every gradient is used */

/* The images of an item of the epoch. False: no such item. */
bool pool_item(const struct pool *p, uint32_t item, uint32_t *first, uint32_t *rows);

/* The number of slots that the current learners need; slots are numbered below it. pool_allow: sets
 * the number of existing slots, which never shrinks; claims wait if there are too few. */
uint32_t pool_slots(const struct pool *p);
void pool_allow(struct pool *p, uint32_t nslots);

/* Updates so far, of all epochs. pool_restore: continue from that number, before anything else. */
uint64_t pool_version(const struct pool *p);
void pool_restore(struct pool *p, uint64_t version);

/* Begin an epoch, after the one before is done. */
void pool_begin(struct pool *p, uint32_t epoch);

/* All items are applied. */
bool pool_done(const struct pool *p);

/* Images whose gradients are applied in this epoch, and the sum of their losses. */
uint64_t pool_rows(const struct pool *p);
double pool_loss(const struct pool *p);

/* RC_BUSY: too many learners, or it has already joined. Ids are not 0. */
enum rc pool_join(struct pool *p, uint64_t learner, struct err *err);

/* Its claims are pending again. POOL_SILENT: it may still write to its slots. POOL_GONE: it has
 * ended; also after POOL_SILENT. An unknown learner is ignored. */
enum pool_leave { POOL_SILENT, POOL_GONE };
void pool_leave(struct pool *p, uint64_t learner, enum pool_leave how);

uint32_t pool_learners(const struct pool *p); /* silent ones do not count */

/* For the queue of items: the next pending item that is not in the queue, if the queue is too short
 * for the current learners. pool_unqueue: the item is not in the queue after all; POOL_NO_ITEM: no
 * item is, as the queue's content may be lost. */
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
 *	hint POOL_NO_ITEM: the learner took none; any number is legal
 *
 * POOL_WAIT: not now; ask again when something has changed. POOL_STRANGER: the learner is not a
 * member, or already has an item.
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
 * pool_gradient - a learner reports that a gradient is in its slot.
 *
 * POOL_TAKEN: it will be applied. POOL_STALE: it is too old, and its item is pending again.
 * POOL_REFUSED: the learner has no such claim (any more): another learner has the item, or it is
 * already applied. Nothing changes.
 */
enum pool_verdict { POOL_TAKEN, POOL_STALE, POOL_REFUSED };
enum pool_verdict pool_gradient(struct pool *p, const struct pool_gradient *g);

/* Gradients of one update: their slots, in the order of their items. */
struct pool_update {
	uint32_t nslots, slot[POOL_MAX_AGGREGATE], rows_of[POOL_MAX_AGGREGATE];
	uint64_t age[POOL_MAX_AGGREGATE]; /* versions between its weights and these */
	uint64_t rows;			  /* of all of them */
	uint64_t version;		  /* before the update */
};

/* Return true if an update is due. It is in progress until pool_applied, and the next one waits for that. */
bool pool_due(struct pool *p, struct pool_update *out);
void pool_applied(struct pool *p);

#endif
