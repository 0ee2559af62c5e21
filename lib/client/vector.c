/*
 * The v-variants of NCCL's calls, as MPI has them: a count for each rank, and where parts begin.
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
		return client_rc(err_set(client_err(), RC_INVAL, "no counts"));
	c->send = &send;
	c->recv = &recv;
	return collective_of_rank(comm, c);
}

static enum gpusim_rc
submit_all(struct gpusim_comm *comm, struct gpusim_collective *c, const struct gpusim_addr *send,
	   const struct gpusim_addr *recv)
{
	if (!c->counts)
		return client_rc(err_set(client_err(), RC_INVAL, "no counts"));
	c->send = send;
	c->recv = recv;
	return gpusim_collective(comm, c, GPUSIM_ASYNC);
}

enum gpusim_rc
gpusim_allgatherv(struct gpusim_comm *comm, struct gpusim_addr send, struct gpusim_addr recv,
		  struct gpusim_parts parts, enum gpusim_dtype dtype, struct gpusim_stream stream)
{
	struct gpusim_collective c =
	    describe(GPUSIM_ALLGATHER, &parts, dtype, GPUSIM_SUM, 0, stream);

	return submit(comm, &c, send, recv);
}

enum gpusim_rc
gpusim_allgatherv_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
		      const struct gpusim_addr *recv, struct gpusim_parts parts,
		      enum gpusim_dtype dtype, struct gpusim_stream stream)
{
	struct gpusim_collective c =
	    describe(GPUSIM_ALLGATHER, &parts, dtype, GPUSIM_SUM, 0, stream);

	return submit_all(comm, &c, send, recv);
}

enum gpusim_rc
gpusim_gatherv(struct gpusim_comm *comm, struct gpusim_addr send, struct gpusim_addr recv,
	       struct gpusim_parts parts, enum gpusim_dtype dtype, uint32_t root,
	       struct gpusim_stream stream)
{
	struct gpusim_collective c =
	    describe(GPUSIM_GATHER, &parts, dtype, GPUSIM_SUM, root, stream);

	return submit(comm, &c, send, recv);
}

enum gpusim_rc
gpusim_gatherv_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
		   const struct gpusim_addr *recv, struct gpusim_parts parts,
		   enum gpusim_dtype dtype, uint32_t root, struct gpusim_stream stream)
{
	struct gpusim_collective c =
	    describe(GPUSIM_GATHER, &parts, dtype, GPUSIM_SUM, root, stream);

	return submit_all(comm, &c, send, recv);
}

enum gpusim_rc
gpusim_scatterv(struct gpusim_comm *comm, struct gpusim_addr send, struct gpusim_addr recv,
		struct gpusim_parts parts, enum gpusim_dtype dtype, uint32_t root,
		struct gpusim_stream stream)
{
	struct gpusim_collective c =
	    describe(GPUSIM_SCATTER, &parts, dtype, GPUSIM_SUM, root, stream);

	return submit(comm, &c, send, recv);
}

enum gpusim_rc
gpusim_scatterv_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
		    const struct gpusim_addr *recv, struct gpusim_parts parts,
		    enum gpusim_dtype dtype, uint32_t root, struct gpusim_stream stream)
{
	struct gpusim_collective c =
	    describe(GPUSIM_SCATTER, &parts, dtype, GPUSIM_SUM, root, stream);

	return submit_all(comm, &c, send, recv);
}

enum gpusim_rc
gpusim_reduce_scatterv(struct gpusim_comm *comm, struct gpusim_addr send, struct gpusim_addr recv,
		       const uint64_t *counts, enum gpusim_dtype dtype, enum gpusim_redop redop,
		       struct gpusim_stream stream)
{
	struct gpusim_collective c = describe(
	    GPUSIM_REDUCESCATTER, &(struct gpusim_parts){counts, NULL}, dtype, redop, 0, stream);

	return submit(comm, &c, send, recv);
}

enum gpusim_rc
gpusim_reduce_scatterv_all(struct gpusim_comm *comm, const struct gpusim_addr *send,
			   const struct gpusim_addr *recv, const uint64_t *counts,
			   enum gpusim_dtype dtype, enum gpusim_redop redop,
			   struct gpusim_stream stream)
{
	struct gpusim_collective c = describe(
	    GPUSIM_REDUCESCATTER, &(struct gpusim_parts){counts, NULL}, dtype, redop, 0, stream);

	return submit_all(comm, &c, send, recv);
}

enum gpusim_rc
gpusim_alltoallv(struct gpusim_comm *comm, struct gpusim_addr send, struct gpusim_parts sent,
		 struct gpusim_addr recv, struct gpusim_parts received, enum gpusim_dtype dtype,
		 struct gpusim_stream stream)
{
	struct gpusim_collective c = describe(GPUSIM_ALLTOALL, &sent, dtype, GPUSIM_SUM, 0, stream);

	if (!received.counts)
		return client_rc(err_set(client_err(), RC_INVAL, "no counts"));
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
