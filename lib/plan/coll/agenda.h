/*
 * agenda.h - a queue in virtual time: each of n things is due at most once, and the soonest is first. Pure.
 */
#ifndef COLL_AGENDA_H
#define COLL_AGENDA_H

#include <stdbool.h>
#include <stdint.h>

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
