/*
 * collective.h - run plans over the transport.
 */
#ifndef DEV_COLLECTIVE_H
#define DEV_COLLECTIVE_H

#include "dev/program.h"

/*
 * Run one collective as operation `op` of the program's communicator, which is turn `turn` of its
 * lane (NULL: it has none). The error names step and peer.
 */
enum rc collective_run(struct xport *x, struct p2p_lane *lane, uint64_t turn,
		       const struct program *p, const struct inst_coll *c, uint64_t op,
		       struct err *err);

/* A send or receive as its own operation. The caller sets the first two. */
struct pair {
	const struct inst_coll *c;
	uint64_t op; /* its number */
	struct xport_op *o;
	size_t next; /* step */
};

/*
 * Run n sends and receives (n >= 1) together: as long as any can move, it does, so their order in
 * the list is no matter. The error names the one that failed.
 */
enum rc pairs_run(struct xport *x, const struct program *p, struct pair *q, size_t n,
		  struct err *err);

#endif
