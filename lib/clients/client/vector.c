/*
 * The v-variants of NCCL's calls, as MPI has them: a count and an offset for each rank.
 */
#include "client/ops.h"

static struct gpusim_collective
describe(enum gpusim_coll coll, const struct gpusim_parts *parts, enum gpusim_dtype dtype,
	 enum gpusim_redop redop, uint32_t root, struct gpusim_stream stream)
{
	return (struct gpusim_collective){
	    GPUSIM_COLLECTIVE_INIT,  .coll = coll,	     .dtype = dtype,
	    .redop = redop,	     .root = root,	     .stream = stream,
	    .counts = parts->counts, .displs = parts->displs};
}

static enum gpusim_rc
submit(struct gpusim_comm *comm, struct gpusim_collective *c, struct gpusim_addr send,
       struct gpusim_addr recv)
{
	if (!c->counts)
		return client_fail(RC_INVAL, "no counts");
	c->send = &send;
	c->recv = &recv;
	return collective_of_rank(comm, c);
}

static enum gpusim_rc
submit_all(struct gpusim_comm *comm, struct gpusim_collective *c, const struct gpusim_addr *send,
	   const struct gpusim_addr *recv)
{
	if (!c->counts)
		return client_fail(RC_INVAL, "no counts");
	c->send = send;
	c->recv = recv;
	return gpusim_collective(comm, c, GPUSIM_ASYNC);
}

/* A call of one rank, and of all ranks, with an address for each. The rest are parameters. */
#define CALLS(name, coll, parts, op, of, ...)                                              \
	enum gpusim_rc gpusim_##name(struct gpusim_comm *comm, struct gpusim_addr send,    \
				     struct gpusim_addr recv, __VA_ARGS__,                 \
				     struct gpusim_stream stream)                          \
	{                                                                                  \
		struct gpusim_collective c = describe(coll, parts, dtype, op, of, stream); \
                                                                                           \
		return submit(comm, &c, send, recv);                                       \
	}                                                                                  \
	enum gpusim_rc gpusim_##name##_all(                                                \
	    struct gpusim_comm *comm, const struct gpusim_addr *send,                      \
	    const struct gpusim_addr *recv, __VA_ARGS__, struct gpusim_stream stream)      \
	{                                                                                  \
		struct gpusim_collective c = describe(coll, parts, dtype, op, of, stream); \
                                                                                           \
		return submit_all(comm, &c, send, recv);                                   \
	}

CALLS(allgatherv, GPUSIM_ALLGATHER, &parts, GPUSIM_SUM, 0, struct gpusim_parts parts,
      enum gpusim_dtype dtype)
CALLS(gatherv, GPUSIM_GATHER, &parts, GPUSIM_SUM, root, struct gpusim_parts parts,
      enum gpusim_dtype dtype, uint32_t root)
CALLS(scatterv, GPUSIM_SCATTER, &parts, GPUSIM_SUM, root, struct gpusim_parts parts,
      enum gpusim_dtype dtype, uint32_t root)
#define COUNTS (&(struct gpusim_parts){counts, NULL})
CALLS(reduce_scatterv, GPUSIM_REDUCESCATTER, COUNTS, redop, 0, const uint64_t *counts,
      enum gpusim_dtype dtype, enum gpusim_redop redop)

enum gpusim_rc
gpusim_alltoallv(struct gpusim_comm *comm, struct gpusim_addr send, struct gpusim_parts sent,
		 struct gpusim_addr recv, struct gpusim_parts received, enum gpusim_dtype dtype,
		 struct gpusim_stream stream)
{
	struct gpusim_collective c = describe(GPUSIM_ALLTOALL, &sent, dtype, GPUSIM_SUM, 0, stream);

	if (!received.counts)
		return client_fail(RC_INVAL, "no counts");
	c.recv_counts = received.counts;
	c.recv_displs = received.displs;
	return submit(comm, &c, send, recv);
}

enum gpusim_rc
gpusim_alltoallv_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
		     const struct gpusim_addr *recv, const uint64_t *counts, const uint64_t *displs,
		     const uint64_t *recv_displs, enum gpusim_dtype dtype,
		     struct gpusim_stream stream)
{
	struct gpusim_collective c = describe(
	    GPUSIM_ALLTOALL, &(struct gpusim_parts){counts, displs}, dtype, GPUSIM_SUM, 0, stream);

	c.recv_displs = recv_displs;
	return submit_all(comm, &c, send, recv);
}
