/*
 * collective_impl.h - what collectives and pairs share: running one step of a plan.
 */
#ifndef DEV_COLLECTIVE_IMPL_H
#define DEV_COLLECTIVE_IMPL_H

#include "dev/collective.h"

/* Do one step of a plan, waiting for the peer if need be. */
enum rc collective_step(struct xport_op *o, const struct inst_coll *c, const struct plan_step *s,
			uint32_t nranks, struct err *err);

/* Record that the operation begins. m may be NULL. */
void collective_record(struct recorder *m, const struct program *p, const struct inst_coll *c,
		       uint64_t op);

/* The peers of the steps from number `from` on hear that the operation is given up. */
void collective_involve(struct xport_op *o, const struct inst_coll *c, size_t from);

#endif
