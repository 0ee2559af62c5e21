/*
 * NCCL's calls, a function each: of one rank, and of all. Both fill a gpusim_collective and submit it.
 *
 * One rank's submission waits at the coordinator for those of the other ranks (SubmitRequest.meet), which
 * then run as one. A send or recv meets its other half at the devices, so it waits for nobody.
 */
#include <inttypes.h>

#include "client/ops.h"

/* The operation's nelem is of all parts together, NCCL's count of one. */
static struct gpusim_collective
whole(const struct gpusim_comm *comm, struct gpusim_collective c)
{
	bool parts = c.coll != GPUSIM_ALLREDUCE && c.coll != GPUSIM_BROADCAST &&
		     c.coll != GPUSIM_REDUCE && c.coll != GPUSIM_SEND && c.coll != GPUSIM_RECV;

	c.size = sizeof c;
	/* Of a product that is too large the coordinator says that the range is outside. */
	if (parts && __builtin_mul_overflow(c.nelem, comm->nranks, &c.nelem))
		c.nelem = UINT64_MAX / comm->nranks * comm->nranks;
	return c;
}

static const struct gpusim_addr nowhere = {0};

static enum gpusim_rc
all(struct gpusim_comm *comm, struct gpusim_collective c)
{
	c = whole(comm, c);
	return gpusim_collective(comm, &c, GPUSIM_ASYNC);
}

static enum gpusim_rc
one(struct gpusim_comm *comm, struct gpusim_addr send, struct gpusim_addr recv,
    struct gpusim_collective c)
{
	struct gpusim_ops *o = comm->group;
	enum gpusim_rc rc;

	if (comm->rank < 0)
		return client_rc(err_set(client_err(), RC_INVAL,
					 "comm %" PRIu64
					 ": the handle is for all ranks; this call is one rank's",
					 comm->id));
	if (!o)
		o = gpusim_ops_new(comm->nranks);
	c = whole(comm, c);
	c.send = &send;
	c.recv = &recv;
	ops_collective_of(o, (uint32_t)comm->rank, &c);
	if (o && o == comm->group)
		return GPUSIM_OK;
	rc = client_submit_rank(comm, o);
	gpusim_ops_free(o);
	return rc;
}

enum gpusim_rc
gpusim_allreduce(struct gpusim_comm *comm, struct gpusim_addr send, struct gpusim_addr recv,
		 uint64_t count, enum gpusim_dtype dtype, enum gpusim_redop redop,
		 struct gpusim_stream stream)
{
	return one(comm, send, recv,
		   (struct gpusim_collective){.coll = GPUSIM_ALLREDUCE,
					      .dtype = dtype,
					      .nelem = count,
					      .redop = redop,
					      .stream = stream});
}

enum gpusim_rc
gpusim_allreduce_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
		     const struct gpusim_addr *recv, uint64_t count, enum gpusim_dtype dtype,
		     enum gpusim_redop redop, struct gpusim_stream stream)
{
	return all(comm, (struct gpusim_collective){.coll = GPUSIM_ALLREDUCE,
						    .dtype = dtype,
						    .nelem = count,
						    .redop = redop,
						    .send = send,
						    .recv = recv,
						    .stream = stream});
}

enum gpusim_rc
gpusim_broadcast(struct gpusim_comm *comm, struct gpusim_addr send, struct gpusim_addr recv,
		 uint64_t count, enum gpusim_dtype dtype, uint32_t root,
		 struct gpusim_stream stream)
{
	return one(comm, send, recv,
		   (struct gpusim_collective){.coll = GPUSIM_BROADCAST,
					      .dtype = dtype,
					      .nelem = count,
					      .root = root,
					      .stream = stream});
}

enum gpusim_rc
gpusim_broadcast_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
		     const struct gpusim_addr *recv, uint64_t count, enum gpusim_dtype dtype,
		     uint32_t root, struct gpusim_stream stream)
{
	return all(comm, (struct gpusim_collective){.coll = GPUSIM_BROADCAST,
						    .dtype = dtype,
						    .nelem = count,
						    .root = root,
						    .send = send,
						    .recv = recv,
						    .stream = stream});
}

enum gpusim_rc
gpusim_reduce(struct gpusim_comm *comm, struct gpusim_addr send, struct gpusim_addr recv,
	      uint64_t count, enum gpusim_dtype dtype, enum gpusim_redop redop, uint32_t root,
	      struct gpusim_stream stream)
{
	return one(comm, send, recv,
		   (struct gpusim_collective){.coll = GPUSIM_REDUCE,
					      .dtype = dtype,
					      .nelem = count,
					      .redop = redop,
					      .root = root,
					      .stream = stream});
}

enum gpusim_rc
gpusim_reduce_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
		  const struct gpusim_addr *recv, uint64_t count, enum gpusim_dtype dtype,
		  enum gpusim_redop redop, uint32_t root, struct gpusim_stream stream)
{
	return all(comm, (struct gpusim_collective){.coll = GPUSIM_REDUCE,
						    .dtype = dtype,
						    .nelem = count,
						    .redop = redop,
						    .root = root,
						    .send = send,
						    .recv = recv,
						    .stream = stream});
}

enum gpusim_rc
gpusim_allgather(struct gpusim_comm *comm, struct gpusim_addr send, struct gpusim_addr recv,
		 uint64_t count, enum gpusim_dtype dtype, struct gpusim_stream stream)
{
	return one(comm, send, recv,
		   (struct gpusim_collective){
		       .coll = GPUSIM_ALLGATHER, .dtype = dtype, .nelem = count, .stream = stream});
}

enum gpusim_rc
gpusim_allgather_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
		     const struct gpusim_addr *recv, uint64_t count, enum gpusim_dtype dtype,
		     struct gpusim_stream stream)
{
	return all(comm, (struct gpusim_collective){.coll = GPUSIM_ALLGATHER,
						    .dtype = dtype,
						    .nelem = count,
						    .send = send,
						    .recv = recv,
						    .stream = stream});
}

enum gpusim_rc
gpusim_reduce_scatter(struct gpusim_comm *comm, struct gpusim_addr send, struct gpusim_addr recv,
		      uint64_t count, enum gpusim_dtype dtype, enum gpusim_redop redop,
		      struct gpusim_stream stream)
{
	return one(comm, send, recv,
		   (struct gpusim_collective){.coll = GPUSIM_REDUCESCATTER,
					      .dtype = dtype,
					      .nelem = count,
					      .redop = redop,
					      .stream = stream});
}

enum gpusim_rc
gpusim_reduce_scatter_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
			  const struct gpusim_addr *recv, uint64_t count, enum gpusim_dtype dtype,
			  enum gpusim_redop redop, struct gpusim_stream stream)
{
	return all(comm, (struct gpusim_collective){.coll = GPUSIM_REDUCESCATTER,
						    .dtype = dtype,
						    .nelem = count,
						    .redop = redop,
						    .send = send,
						    .recv = recv,
						    .stream = stream});
}

enum gpusim_rc
gpusim_alltoall(struct gpusim_comm *comm, struct gpusim_addr send, struct gpusim_addr recv,
		uint64_t count, enum gpusim_dtype dtype, struct gpusim_stream stream)
{
	return one(comm, send, recv,
		   (struct gpusim_collective){
		       .coll = GPUSIM_ALLTOALL, .dtype = dtype, .nelem = count, .stream = stream});
}

enum gpusim_rc
gpusim_alltoall_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
		    const struct gpusim_addr *recv, uint64_t count, enum gpusim_dtype dtype,
		    struct gpusim_stream stream)
{
	return all(comm, (struct gpusim_collective){.coll = GPUSIM_ALLTOALL,
						    .dtype = dtype,
						    .nelem = count,
						    .send = send,
						    .recv = recv,
						    .stream = stream});
}

enum gpusim_rc
gpusim_gather(struct gpusim_comm *comm, struct gpusim_addr send, struct gpusim_addr recv,
	      uint64_t count, enum gpusim_dtype dtype, uint32_t root, struct gpusim_stream stream)
{
	return one(comm, send, recv,
		   (struct gpusim_collective){.coll = GPUSIM_GATHER,
					      .dtype = dtype,
					      .nelem = count,
					      .root = root,
					      .stream = stream});
}

enum gpusim_rc
gpusim_gather_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
		  const struct gpusim_addr *recv, uint64_t count, enum gpusim_dtype dtype,
		  uint32_t root, struct gpusim_stream stream)
{
	return all(comm, (struct gpusim_collective){.coll = GPUSIM_GATHER,
						    .dtype = dtype,
						    .nelem = count,
						    .root = root,
						    .send = send,
						    .recv = recv,
						    .stream = stream});
}

enum gpusim_rc
gpusim_scatter(struct gpusim_comm *comm, struct gpusim_addr send, struct gpusim_addr recv,
	       uint64_t count, enum gpusim_dtype dtype, uint32_t root, struct gpusim_stream stream)
{
	return one(comm, send, recv,
		   (struct gpusim_collective){.coll = GPUSIM_SCATTER,
					      .dtype = dtype,
					      .nelem = count,
					      .root = root,
					      .stream = stream});
}

enum gpusim_rc
gpusim_scatter_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
		   const struct gpusim_addr *recv, uint64_t count, enum gpusim_dtype dtype,
		   uint32_t root, struct gpusim_stream stream)
{
	return all(comm, (struct gpusim_collective){.coll = GPUSIM_SCATTER,
						    .dtype = dtype,
						    .nelem = count,
						    .root = root,
						    .send = send,
						    .recv = recv,
						    .stream = stream});
}

enum gpusim_rc
gpusim_barrier(struct gpusim_comm *comm, struct gpusim_stream stream)
{
	return one(comm, nowhere, nowhere,
		   (struct gpusim_collective){.coll = GPUSIM_BARRIER, .stream = stream});
}

enum gpusim_rc
gpusim_barrier_all(struct gpusim_comm *comm, struct gpusim_stream stream)
{
	return all(comm, (struct gpusim_collective){.coll = GPUSIM_BARRIER, .stream = stream});
}

enum gpusim_rc
gpusim_send(struct gpusim_comm *comm, struct gpusim_addr send, uint64_t count,
	    enum gpusim_dtype dtype, uint32_t peer, struct gpusim_stream stream)
{
	return one(comm, send, nowhere,
		   (struct gpusim_collective){.coll = GPUSIM_SEND,
					      .dtype = dtype,
					      .nelem = count,
					      .root = peer,
					      .stream = stream});
}

enum gpusim_rc
gpusim_recv(struct gpusim_comm *comm, struct gpusim_addr recv, uint64_t count,
	    enum gpusim_dtype dtype, uint32_t peer, struct gpusim_stream stream)
{
	return one(comm, nowhere, recv,
		   (struct gpusim_collective){.coll = GPUSIM_RECV,
					      .dtype = dtype,
					      .nelem = count,
					      .root = peer,
					      .stream = stream});
}
