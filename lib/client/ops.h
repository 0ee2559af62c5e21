/*
 * ops.h - lists of operations, inside the client.
 */
#ifndef CLIENT_OPS_H
#define CLIENT_OPS_H

#include <stdbool.h>

#include "client/client_impl.h"

struct rank_list {
	GpuSim__RankOps msg; /* msg.ops grows */
	size_t cap;
};

struct gpusim_ops {
	uint32_t nranks;
	struct rank_list *rank;
	GpuSim__RankOps **ranks; /* those that have operations; made by ops_ranks */
	bool untimed;		 /* what is added now */
	struct err err;		 /* the first thing that went wrong while adding */
};

/* Append a collective, send or recv for one rank: buffers are send[0] and recv[0]. */
void ops_collective_of(struct gpusim_ops *o, uint32_t rank, const struct gpusim_collective *c);

/* The messages for the ranks that have any; NULL list: the error is in client_err. */
enum rc ops_ranks(const struct gpusim_ops *o, GpuSim__RankOps ***out, size_t *n);

#endif
