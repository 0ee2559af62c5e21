/*
 * collective_impl.h - what collectives and pairs share: running one step of a plan.
 */
#ifndef DEV_COLLECTIVE_IMPL_H
#define DEV_COLLECTIVE_IMPL_H

#include "dev/collective.h"

/* How an operation reaches its peers: those that the lane reaches by it, the others by sockets. */
struct route {
	struct peermem_op *pm; /* or NULL */
	struct xport_op *net;  /* or NULL: the lane reaches all */
};

/* Do one step of a plan, waiting for the peer if need be. */
enum rc collective_step(const struct route *route, const struct inst_coll *c,
			const struct plan_step *s, uint32_t nranks, struct err *err);

/* The operation begins. m may be NULL. */
void collective_meter(struct recorder *m, const struct program *p, const struct inst_coll *c,
		      uint64_t op);

/* Those whom the steps from number `from` on would meet shall hear that it is given up. */
void collective_involve(struct xport_op *o, const struct inst_coll *c, size_t from);

#endif
