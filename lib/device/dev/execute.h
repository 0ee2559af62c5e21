/*
 * execute.h - carry out instructions of a program, on the calling thread.
 */
#ifndef DEV_EXECUTE_H
#define DEV_EXECUTE_H

#include "dev/collective.h"

/* The recording that a record or wait is about, in iteration i: first + i * step. */
struct event_number {
	uint64_t first, step;
};

/* How one run uses a program. */
struct execution {
	struct xport *xport;
	const struct xport_tickets *tickets;
	const struct devmem *mem;
	const struct program *program;
	uint64_t first_iteration; /* as kernel arguments with a step count */
	uint64_t first_op, stride;
	const struct event_number *event; /* by instruction */
	struct recorder *recorder;	  /* or NULL */
	struct pair *pair;		  /* room for the longest row of pairs in at[] of execute */
};

/* The number of a collective, send or receive in an iteration. */
uint64_t execution_number(const struct execution *x, const struct inst_coll *c, uint64_t iteration);

/*
 * Do instruction number at[0] in an iteration, or, where sends and receives follow each other, all of them;
 * *ndone is the number done of at[0..n). The error says which operation failed.
 */
enum rc execute(const struct execution *x, uint64_t iteration, const uint32_t *at, size_t n,
		size_t *ndone, struct err *err);

#endif
