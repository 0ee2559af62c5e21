/*
 * collective.h - run plans over the transport.
 */
#ifndef DEV_COLLECTIVE_H
#define DEV_COLLECTIVE_H

#include "dev/program.h"

/* The progress of a failed operation, as seen by this rank. */
struct failure {
	const char *coll, *algo; /* static; coll NULL: not a collective, send or receive */
	uint64_t op, idle_ns;	 /* its number; time since it last moved */
	uint32_t step, steps;	 /* of its plan, from 1 */
	uint32_t missing[PROGRESS_MISSING_MAX],
	    nmissing; /* the first few ranks that it waited for */
};

/* The recorder's data of a failed operation, which has ended. Of a run that was aborted between two
 * operations (why: RC_ABORTED): the last one's. */
void collective_failure(struct recorder *m, enum rc why, struct failure *out);

/*
 * Run one collective as operation `op` of the program's communicator, by that ticket (xport_reserve). The
 * error is a message: "allreduce #7 (ring) step 3 of 6: why". The recorder (or NULL) follows its
 * progress; after a failure it has the failed step.
 */
enum rc collective_run(struct xport *x, const struct xport_tickets *tickets, uint64_t ticket,
		       const struct program *p, const struct inst_coll *c, uint64_t op,
		       struct recorder *recorder, struct err *err);

/* Log an operation that took ns. */
void collective_tell(void (*line)(const char *), const struct program *p, const struct inst_coll *c,
		     uint64_t op, uint64_t ns);

/* A copy of the rank's waits for each other rank, which others may add to meanwhile; the caller frees it.
 * NULL: no waits, or out of memory. */
uint64_t *waits_copy(const uint64_t *waited_ns, uint32_t nranks);

/* A send or receive as its own operation. The caller sets the first two. */
struct pair {
	const struct inst_coll *c;
	uint64_t op; /* its number */
	struct xport_op o;
	bool open;
	size_t next;	/* step */
	uint64_t taped; /* its number in the recording */
};

/*
 * Run n sends and receives (n >= 1) together: each moves whenever it can, so their order in the list does not
 * matter. The error names the one that failed.
 */
enum rc pairs_run(struct xport *x, const struct program *p, struct pair *q, size_t n,
		  struct recorder *recorder, struct err *err);

#endif
