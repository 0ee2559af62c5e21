/*
 * ops.h - lists of operations, inside the client.
 */
#ifndef CLIENT_OPS_H
#define CLIENT_OPS_H

#include <stdbool.h>

#include "base/buf.h"
#include "client/client_impl.h"

/* The operations of a rank, as bytes: a repeated field of the message that carries them. */
struct rank_list {
	struct buf packed;
	GpuSim__RankOps msg; /* made by ops_ranks */
	ProtobufCMessageUnknownField ops;
};

#define OPS_STREAMS  64 /* numbered streams of a device */
#define OPS_OF_RANKS 2	/* the field's number in RankOps, */
#define OPS_OF_RUN   6	/* in RunRequest */

struct gpusim_ops {
	uint32_t nranks;
	struct rank_list *rank;
	GpuSim__RankOps **ranks; /* those that have operations; made by ops_ranks */
	uint32_t field;		 /* number of the field */
	bool untimed;		 /* for operations added from now on */
	struct {
		char label[GPUSIM_LABEL];
		uint32_t phase; /* 0: none */
	} named[OPS_STREAMS];	/* by stream, for operations added from now on */
	uint32_t nphases;
	bool deterministic; /* all collectives, as GPUSIM_DETERMINISTIC says */
	bool meets;	    /* it has a collective, which needs the other ranks' */
	struct err err;	    /* the first error while adding */
};

/* Append a collective, send or recv for one rank: buffers are send[0] and recv[0]. */
void ops_collective_of(struct gpusim_ops *o, uint32_t rank, const struct gpusim_collective *c);

/* Submit it for the handle's rank (buffers send[0], recv[0]), or add it to its open group. */
enum gpusim_rc collective_of_rank(struct gpusim_comm *comm, const struct gpusim_collective *c);

/* A list of another message's field than OPS_OF_RANKS. */
struct gpusim_ops *ops_new(uint32_t nranks, uint32_t field);
/* Put a rank's operations, if it has any, into the message that carries them. */
void ops_carry(struct rank_list *l, uint32_t field, ProtobufCMessage *m);
/* The messages for the ranks that have any; NULL list: the error is in client_err. */
enum rc ops_ranks(const struct gpusim_ops *o, GpuSim__RankOps ***out, size_t *n);

#endif
