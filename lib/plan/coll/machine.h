/*
 * machine.h - the exact machine that check.c runs plans on. Only for lib/plan/coll.
 *
 * An element holds its history instead of a number: the input element that it stands for, the ranks whose
 * inputs are in it, and whether it was finished. So a wrong schedule cannot give a right result by chance.
 */
#ifndef COLL_MACHINE_H
#define COLL_MACHINE_H

#include <stdbool.h>

#include "coll/check.h"

#define MACHINE_ALL    UINT32_MAX	/* every rank */
#define MACHINE_NOBODY (UINT32_MAX - 1) /* the element is in a gap: nothing wrote it */

/* A buffer as a range of the rank's memory; in place, IN and OUT overlap. */
struct machine_span {
	uint64_t base, len;
};

/* One rank before the run, as check.c lays it out. */
struct machine_rank {
	const struct plan *plan;
	struct machine_span buf[PLAN_NBUFS]; /* by enum plan_buf */
	uint64_t first;			     /* the input element in IN[0] */
};

#define MACHINE_UNDEFINED UINT64_MAX /* W_ELEM of an element that nothing wrote */

/* The words of an element's history. W_TREE: the order of its reduction, see trees_join; in canonical
 * plans. */
enum { W_ELEM, W_FINISHED, W_TREE, W_RANKS };

/* Trees over ranks by number. A tree is never forgotten. */
struct trees;
struct trees *trees_new(uint32_t nranks); /* NULL: out of memory */
void trees_free(struct trees *t);

/* The number of the tree with these halves; equal trees have the same. UINT64_MAX: out of memory. */
uint64_t trees_join(struct trees *t, uint64_t left, uint64_t right);

/* The canonical tree over ranks first .. first+n-1. */
uint64_t trees_canonical(struct trees *t, uint32_t first, uint32_t n);

/* A posted chunk. In the channel until received, in the sender's `post` until the sender knows that it
 * was. */
struct message {
	struct message *next;
	uint32_t peer;
	size_t step;	 /* the sender's step */
	size_t received; /* the peer's steps done once it had this; 0: not received */
	uint64_t lo, count;
	bool wide;	 /* of f32 */
	uint64_t *value; /* count elements */
	uint32_t *clock;
};

/* The messages from one rank to another. */
struct channel {
	struct message *head, *tail;
	uint32_t n;
};

/* A rank's offer to the others in its last two one-sided steps, by their number modulo 2. */
struct arrival {
	uint32_t *clock; /* the rank's clock at its arrival */
	uint64_t *value; /* of STEP_SHARE, or NULL */
	uint64_t count;
};

/* An access to a rank's memory, by it or by another. Kept if there are one-sided steps. */
struct touch {
	uint32_t rank; /* the rank that made it */
	uint32_t step; /* its steps done once it was over */
	bool write;
	uint64_t lo, count;
};

struct touches {
	struct touch *v;
	size_t n, cap;
};

/* One rank as it runs. */
struct runner {
	size_t pc;	 /* the step it is at */
	uint64_t *mem;	 /* by rank memory index, machine->words each */
	uint32_t *clock; /* by rank: how many of its steps are known to be done */
	struct message **post;
	size_t npost, cap;
	uint32_t syncs; /* one-sided steps that it has reached */
	bool waiting;	/* in the last of them */
	struct arrival arrival[2];
	struct touches touched; /* accesses to its memory */
};

struct machine {
	const struct plan_args *a;
	const struct machine_rank *info;
	bool reduces, mapped; /* mapped: some plan has one-sided steps */
	size_t words;	      /* of one element */
	struct trees *trees;  /* NULL: the order of sums is not checked */
	struct runner *run;
	struct channel *channel; /* [from * nranks + to] */
};

enum progress { MOVED, BLOCKED, FAILED };

/*
 * machine_new - memory with every IN element holding its own rank's contribution, the rest
 * undefined.
 *
 *	a	borrowed until machine_free
 *	rank	nranks of them, borrowed until machine_free
 *	reduces	the collective reduces, so STEP_FINISH is legal
 *
 * NULL: out of memory. The caller has bounded the sizes.
 */
struct machine *machine_new(const struct plan_args *a, const struct machine_rank *rank,
			    bool reduces);
void machine_free(struct machine *m);

/* The approximate number of bytes that machine_new would allocate. */
double machine_bytes(const struct plan_args *a, const struct machine_rank *rank);

/* Run every rank to its end. RC_FAILED with a sentence, RC_NOMEM. */
enum rc machine_run(struct machine *m, struct err *err);

/* After a run, check that OUT[i] of a rank is input element `elem` of rank `from` (or of MACHINE_ALL
 * ranks, finished), each exactly once. RC_FAILED with a sentence. */
enum rc machine_expect(const struct machine *m, uint32_t rank, uint64_t i, uint64_t elem,
		       uint32_t from, struct err *err);

/* After a run, check that every rank knows that every rank has entered. RC_FAILED with a sentence. */
enum rc machine_expect_barrier(const struct machine *m, struct err *err);

/* Do the rank's step at its pc; the caller advances pc and the clock's own entry. */
enum progress machine_step(struct machine *m, uint32_t r, struct err *err);

/* Fill *err with a sentence that names the rank and its step; returns FAILED. */
enum progress machine_bad(const struct machine *m, uint32_t r, struct err *err, const char *fmt,
			  ...) __attribute__((format(printf, 4, 5)));

/* Rank q has ended: it must know that no rank will access its memory again. RC_FAILED with a sentence. */
enum rc machine_left(const struct machine *m, uint32_t q, struct err *err);

/* Element i of a rank's memory, and whether rank q's input is in an element. */
uint64_t *machine_at(const struct machine *m, uint32_t r, uint64_t i);
bool machine_has(const uint64_t *v, uint32_t q);
void machine_message_free(struct message *msg);

#endif
