/*
 * NCCL's calls, a function each: of one rank, and of all. Both describe a gpusim_collective and submit it.
 *
 * One rank's operation uses a command queue of its device where the communicator allows it. Else its
 * submission waits at the coordinator for the other ranks' (SubmitRequest.meet), which then run as one. A
 * send or recv matches its other half at the devices, so it does not wait.
 */
#include <inttypes.h>

#include "client/enqueue.h"
#include "client/ops.h"
#include "coll/shape.h"

static const struct gpusim_addr nowhere = {0};

/* The operation's elements are of all parts together, NCCL's count is of one. */
static struct gpusim_collective
describe(const struct gpusim_comm *comm, enum gpusim_coll coll, uint64_t count,
	 enum gpusim_dtype dtype, enum gpusim_redop redop, uint32_t root,
	 struct gpusim_stream stream)
{
	struct gpusim_collective c = {GPUSIM_COLLECTIVE_INIT, .coll = coll,   .dtype = dtype,
				      .redop = redop,	      .nelem = count, .root = root,
				      .stream = stream};

	/* The coordinator refuses a product that is too large: the range is outside. */
	if (coll_has_parts(coll) && __builtin_mul_overflow(count, comm->nranks, &c.nelem))
		c.nelem = UINT64_MAX / comm->nranks * comm->nranks;
	return c;
}

enum gpusim_rc
collective_of_rank(struct gpusim_comm *comm, const struct gpusim_collective *c)
{
	struct gpusim_ops *o = comm->group;
	enum gpusim_rc rc;

	if (comm->rank < 0)
		return client_fail(RC_INVAL,
				   "comm %" PRIu64
				   ": the handle is for all ranks, but this call is for one rank",
				   comm->id);
	if (c->nmembers)
		return client_fail(RC_INVAL,
				   "comm %" PRIu64
				   ": a collective of some members needs a handle of all ranks",
				   comm->id);
	if (comm->queued)
		return enqueue(comm, c);
	if (!o)
		o = gpusim_ops_new(comm->nranks);
	ops_collective_of(o, (uint32_t)comm->rank, c);
	if (comm->group)
		return GPUSIM_OK;
	rc = client_submit_rank(comm, o);
	gpusim_ops_free(o);
	return rc;
}

static enum gpusim_rc
of_one_rank(struct gpusim_comm *comm, const struct gpusim_collective *given, enum gpusim_wait wait)
{
	struct gpusim_collective c;
	enum gpusim_rc rc = client_rc(client_take("gpusim_collective", given, &c, sizeof c));

	c.send = c.send ? c.send : &nowhere;
	c.recv = c.recv ? c.recv : &nowhere;
	if (rc == GPUSIM_OK)
		rc = collective_of_rank(comm, &c);
	if (rc != GPUSIM_OK || wait == GPUSIM_ASYNC)
		return rc;
	return gpusim_stream_sync(comm->g, comm->device[comm->rank].device, c.stream);
}

enum gpusim_rc
gpusim_collective(struct gpusim_comm *comm, const struct gpusim_collective *c,
		  enum gpusim_wait wait)
{
	struct gpusim_ops *o;
	enum gpusim_rc rc;

	if (comm->rank >= 0)
		return of_one_rank(comm, c, wait);
	o = gpusim_ops_new(comm->nranks);
	gpusim_ops_collective(o, c);
	rc = gpusim_submit(comm, o, wait, NULL);
	gpusim_ops_free(o);
	return rc;
}

static enum gpusim_rc
all(struct gpusim_comm *comm, enum gpusim_coll coll, const struct gpusim_addr *send,
    const struct gpusim_addr *recv, uint64_t count, enum gpusim_dtype dtype,
    enum gpusim_redop redop, uint32_t root, struct gpusim_stream stream)
{
	struct gpusim_collective c = describe(comm, coll, count, dtype, redop, root, stream);

	c.send = send;
	c.recv = recv;
	return gpusim_collective(comm, &c, GPUSIM_ASYNC);
}

static enum gpusim_rc
one(struct gpusim_comm *comm, enum gpusim_coll coll, struct gpusim_addr send,
    struct gpusim_addr recv, uint64_t count, enum gpusim_dtype dtype, enum gpusim_redop redop,
    uint32_t root, struct gpusim_stream stream)
{
	struct gpusim_collective c = describe(comm, coll, count, dtype, redop, root, stream);

	c.send = &send;
	c.recv = &recv;
	return collective_of_rank(comm, &c);
}

/* A call of one rank, and of all ranks, with an address for each. The rest are parameters. */
#define CALLS(name, coll, op, of, ...)                                                     \
	enum gpusim_rc gpusim_##name(struct gpusim_comm *comm, struct gpusim_addr send,    \
				     struct gpusim_addr recv, uint64_t count, __VA_ARGS__, \
				     struct gpusim_stream stream)                          \
	{                                                                                  \
		return one(comm, coll, send, recv, count, dtype, op, of, stream);          \
	}                                                                                  \
	enum gpusim_rc gpusim_##name##_all(struct gpusim_comm *comm,                       \
					   const struct gpusim_addr *send,                 \
					   const struct gpusim_addr *recv, uint64_t count, \
					   __VA_ARGS__, struct gpusim_stream stream)       \
	{                                                                                  \
		return all(comm, coll, send, recv, count, dtype, op, of, stream);          \
	}

CALLS(allreduce, GPUSIM_ALLREDUCE, redop, 0, enum gpusim_dtype dtype, enum gpusim_redop redop)
CALLS(broadcast, GPUSIM_BROADCAST, GPUSIM_SUM, root, enum gpusim_dtype dtype, uint32_t root)
CALLS(reduce, GPUSIM_REDUCE, redop, root, enum gpusim_dtype dtype, enum gpusim_redop redop,
      uint32_t root)
CALLS(allgather, GPUSIM_ALLGATHER, GPUSIM_SUM, 0, enum gpusim_dtype dtype)
CALLS(reduce_scatter, GPUSIM_REDUCESCATTER, redop, 0, enum gpusim_dtype dtype,
      enum gpusim_redop redop)
CALLS(alltoall, GPUSIM_ALLTOALL, GPUSIM_SUM, 0, enum gpusim_dtype dtype)
CALLS(gather, GPUSIM_GATHER, GPUSIM_SUM, root, enum gpusim_dtype dtype, uint32_t root)
CALLS(scatter, GPUSIM_SCATTER, GPUSIM_SUM, root, enum gpusim_dtype dtype, uint32_t root)

enum gpusim_rc
gpusim_barrier(struct gpusim_comm *comm, struct gpusim_stream stream)
{
	return one(comm, GPUSIM_BARRIER, nowhere, nowhere, 0, GPUSIM_F64, GPUSIM_SUM, 0, stream);
}

enum gpusim_rc
gpusim_barrier_all(struct gpusim_comm *comm, struct gpusim_stream stream)
{
	return all(comm, GPUSIM_BARRIER, NULL, NULL, 0, GPUSIM_F64, GPUSIM_SUM, 0, stream);
}

enum gpusim_rc
gpusim_send(struct gpusim_comm *comm, struct gpusim_addr send, uint64_t count,
	    enum gpusim_dtype dtype, uint32_t peer, struct gpusim_stream stream)
{
	return one(comm, GPUSIM_SEND, send, nowhere, count, dtype, GPUSIM_SUM, peer, stream);
}

enum gpusim_rc
gpusim_recv(struct gpusim_comm *comm, struct gpusim_addr recv, uint64_t count,
	    enum gpusim_dtype dtype, uint32_t peer, struct gpusim_stream stream)
{
	return one(comm, GPUSIM_RECV, nowhere, recv, count, dtype, GPUSIM_SUM, peer, stream);
}
