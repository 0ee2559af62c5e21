/*
 * machine.h - the exact machine that check.c runs plans on. Only for lib/coll.
 *
 * An element holds no number but its history: which element of the input it stands for, which
 * ranks' inputs are in it, and whether it was finished. So a wrong schedule cannot come out right
 * by chance.
 */
#ifndef COLL_MACHINE_H
#define COLL_MACHINE_H

#include <stdbool.h>

#include "coll/check.h"

#define MACHINE_ALL UINT32_MAX /* every rank contributed */

/* A buffer as a range of the rank's memory; in place, IN and OUT overlap. */
struct machine_span {
	uint64_t base, len;
};

/* What check.c says of one rank before the run. */
struct machine_rank {
	const struct plan *plan;
	struct machine_span buf[3]; /* by enum plan_buf */
	uint64_t first;		    /* input element that IN[0] is */
};

#define MACHINE_UNDEFINED UINT64_MAX /* W_ELEM of an element that nothing wrote */

/* The words of an element's history. */
enum { W_ELEM, W_FINISHED, W_RANKS };

/* A chunk posted. In the channel until received, in the sender's `post` until known to be. */
struct message {
	struct message *next;
	uint32_t peer;
	size_t step;	 /* the sender's */
	size_t received; /* the peer's steps done once it had this; 0: not received */
	uint64_t lo, count;
	uint64_t *value; /* count elements */
	uint32_t *clock;
};

/* From one rank to another. */
struct channel {
	struct message *head, *tail;
	uint32_t n;
};

/* One rank as it runs. */
struct runner {
	size_t pc;	 /* the step it is at */
	uint64_t *mem;	 /* by rank memory index, machine->words each */
	uint32_t *clock; /* by rank: how many of its steps are known to be done */
	struct message **post;
	size_t npost, cap;
};

struct machine {
	const struct plan_args *a;
	const struct machine_rank *info;
	bool reduces;
	size_t words; /* of one element */
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

/* Bytes that machine_new would take, about. */
double machine_bytes(const struct plan_args *a, const struct machine_rank *rank);

/* Run every rank to its end. RC_FAILED with a sentence, RC_NOMEM. */
enum rc machine_run(struct machine *m, struct err *err);

/* After a run: OUT[i] of a rank is input element `elem` of rank `from` (or of MACHINE_ALL ranks,
 * finished), each exactly once. RC_FAILED with a sentence. */
enum rc machine_expect(const struct machine *m, uint32_t rank, uint64_t i, uint64_t elem,
		       uint32_t from, struct err *err);

/* After a run: every rank has heard of every rank. RC_FAILED with a sentence. */
enum rc machine_expect_barrier(const struct machine *m, struct err *err);

/* Do the rank's step at its pc; pc and the clock's own entry are the caller's to move on. */
enum progress machine_step(struct machine *m, uint32_t r, struct err *err);

/* Fill *err with a sentence that names the rank and its step; returns FAILED. */
enum progress machine_bad(const struct machine *m, uint32_t r, struct err *err, const char *fmt,
			  ...) __attribute__((format(printf, 4, 5)));

/* Element i of a rank's memory, and whether rank q's input is in an element. */
uint64_t *machine_at(const struct machine *m, uint32_t r, uint64_t i);
bool machine_has(const uint64_t *v, uint32_t q);
void machine_message_free(struct message *msg);

#endif
