/*
 * collective_impl.h - what collectives and pairs share: running one step of a plan.
 */
#ifndef DEV_COLLECTIVE_IMPL_H
#define DEV_COLLECTIVE_IMPL_H

#include "dev/collective.h"

/* Do one step of a plan, waiting for the peer if necessary. */
enum rc collective_step(struct xport_op *o, const struct inst_coll *c, const struct plan_step *s,
			uint32_t nranks, struct err *err);

/* The same for step k, and record it. */
enum rc collective_step_traced(struct recorder *m, struct xport_op *o, const struct inst_coll *c,
			       size_t k, uint32_t nranks, struct err *err);

/* Set m->op to this operation, which began at these ticks. */
void collective_name(struct recorder *m, const struct program *p, const struct inst_coll *c,
		     uint64_t op, uint64_t begin);

/* The same, and the operation begins now. m may be NULL.
 * ways: of a set of sends and receives: FLIGHT_SENDS, FLIGHT_RECEIVES */
void collective_record_begin(struct recorder *m, const struct program *p, const struct inst_coll *c,
			     uint64_t op, uint64_t begin, uint8_t ways);

/* m->op has ended; o is or was open for it. m may be NULL. */
void collective_record_end(struct recorder *m, const struct inst_coll *c, const struct xport_op *o,
			   enum rc rc);

/* Tell the peers of steps from `from` on that the operation is given up. */
void collective_involve(struct xport_op *o, const struct inst_coll *c, size_t from);

#endif
