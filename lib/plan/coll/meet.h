/*
 * meet.h - match the sends of plans with their receives. Pure.
 *
 * A connection has all messages from one rank to another: the k-th send matches the k-th receive. If plans
 * are the same for ranks a shift apart (see meet_make), a connection represents all its shifted copies.
 */
#ifndef COLL_MEET_H
#define COLL_MEET_H

#include <stdbool.h>
#include <stdint.h>

#include "coll/plan.h"

struct meet_conn {
	uint64_t key;
	uint32_t from, to; /* ranks; from is one of the plans' */
	uint32_t total;	   /* messages */
	size_t first;	   /* the number of its first message among all */
};

struct meet {
	size_t *first;	   /* by plan: the number of its first step among all */
	size_t nstep;	   /* of all plans */
	uint32_t *conn_of; /* by step: of a send or a receive, its connection */
	struct meet_conn *conn;
	uint32_t nconn, cap;
	uint32_t *bucket; /* 2 * cap, connections by key */
	size_t nmessages;
};

static inline bool
meet_receives(const struct plan_step *s)
{
	return s->kind == STEP_RECV || s->kind == STEP_RECV_REDUCE;
}

/*
 * meet_make - find all connections.
 *
 *	plans, nplans	of ranks 0 .. nplans-1; rank r of nranks does what r % nplans does, with peers as far
 *			away modulo nranks; nplans divides nranks
 *	out		[out] released with meet_fini, also after an error
 *
 * Errors: RC_FAILED sends do not meet receives; RC_INVAL one-sided steps; RC_NOMEM.
 */
enum rc meet_make(const struct plan *plans, uint32_t nplans, uint32_t nranks, struct meet *out,
		  struct err *err);
void meet_fini(struct meet *m);

/* ---- a queue in virtual time: each of n things is due at most once, and the soonest is first */

#define AGENDA_NONE UINT32_MAX

/* Of things that are due at the same time, the one with the lowest number is first. */
struct agenda {
	double *due;	 /* by thing: its time, also when it no longer is due */
	uint32_t *heap;	 /* things */
	uint32_t *place; /* by thing: in the heap; AGENDA_NONE: it is not due */
	uint32_t n;	 /* things that are due */
};

/* Nothing is due. False: out of memory; agenda_fini may still be called. */
bool agenda_init(struct agenda *a, uint32_t nthings);
void agenda_fini(struct agenda *a);

/* The thing becomes due at this time, whether it was due at another time or not at all. */
void agenda_due(struct agenda *a, uint32_t thing, double at);
void agenda_not_due(struct agenda *a, uint32_t thing);

/* The number of the first thing; n > 0. */
static inline uint32_t
agenda_first(const struct agenda *a)
{
	return a->heap[0];
}

#endif
