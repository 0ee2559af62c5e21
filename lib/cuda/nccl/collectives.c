/*
 * Collectives, sends and receives: their checks, then a command.
 *
 * The checks need no lock and no call: a pointer's device follows from its address range.
 */
#include <inttypes.h>
#include <string.h>

#include "coll/shape.h"
#include "mem/dtype.h"
#include "nccl/nccl_impl.h"

/* A call; count is NCCL's, of one part where ranks have parts. */
struct call {
	const char *name;
	enum gpusim_coll coll;
	const void *send;
	void *recv;
	size_t count;
	ncclDataType_t dtype;
	int op, root;
	struct ncclComm *comm;
	cudaStream_t stream;
};

/* A buffer of the call on the device. */
struct range {
	uint64_t addr, nbytes;
};

static ncclResult_t
check_arguments(const struct call *a)
{
	const struct ncclComm *comm = a->comm;

	if (__builtin_expect(!comm || comm->magic != NCCL_COMM_MAGIC, 0))
		return nccl_comm_check(comm, a->name);
	if (__builtin_expect(atomic_load_explicit(&comm->use, memory_order_acquire), 0))
		return nccl_comm_refuse(comm, a->name);
	if (nccl_dtype_size(a->dtype) == 0)
		return nccl_fail(ncclInvalidArgument, "%s : invalid type %d", a->name,
				 (int)a->dtype);
	if ((coll_has_root(a->coll) || coll_is_sendrecv(a->coll)) &&
	    (a->root < 0 || (uint32_t)a->root >= comm->nranks))
		return nccl_fail(ncclInvalidArgument,
				 "%s : invalid %s %d (it should be in the 0..%" PRIu32 " range)",
				 a->name, coll_is_sendrecv(a->coll) ? "peer" : "root", a->root,
				 comm->nranks - 1);
	return ncclSuccess;
}

/* The operator, and its scalar. */
static ncclResult_t
set_redop(const struct call *a, struct cmdq_command *c)
{
	size_t n = (size_t)a->op - ncclNumOps;
	struct nccl_redop *op;

	if (a->op >= 0 && a->op < ncclNumOps) {
		c->redop = (uint8_t)nccl_redop((ncclRedOp_t)a->op);
		return ncclSuccess;
	}
	if (a->op < 0 || n >= a->comm->nredops || !a->comm->redop[n].used)
		return nccl_fail(ncclInvalidArgument, "%s : invalid reduction operation %d",
				 a->name, a->op);
	op = &a->comm->redop[n];
	if (op->dtype != a->dtype)
		return nccl_fail(ncclInvalidArgument,
				 "%s : Data type supplied to user-created ncclRedOp_t does not "
				 "match type given to reduction operation",
				 a->name);
	if (op->owned) {
		cudaError_t e = cudaMemcpyAsync(op->owned, op->host, nccl_dtype_size(op->dtype),
						cudaMemcpyHostToDevice, a->stream);

		if (e != cudaSuccess)
			return nccl_fail_cuda(e, a->name);
	}
	c->redop = GPUSIM_PREMULSUM;
	c->flags |= op->flag;
	c->u.coll.scalar = op->scalar;
	return ncclSuccess;
}

static ncclResult_t
find(const struct call *a, const char *which, const void *p, uint64_t nelem, struct range *out)
{
	uint64_t nbytes = nelem * nccl_dtype_size(a->dtype);
	struct gpusim_cuda_place at = {0};
	bool found;

	if (nelem == 0)
		return ncclSuccess;
	gpusim_cuda_memcheck(a->name, which, p, nbytes, a->stream, which[0] == 's');
	found = gpusim_cuda_find(p, nbytes, &at);
	if (__builtin_expect(!found || at.ordinal != a->comm->ordinal, 0)) {
		if (found)
			return nccl_fail(
			    ncclInvalidArgument,
			    "%s : %s allocated on device %d mismatches with NCCL device %d",
			    a->name, which, at.ordinal, a->comm->ordinal);
		if (!p)
			return nccl_fail(ncclInvalidArgument, "%s : %s argument is NULL", a->name,
					 which);
		if (at.host)
			return nccl_fail(ncclInvalidArgument,
					 "%s : %s %p is host memory, but gpusim's devices reach "
					 "only their own memory",
					 a->name, which, p);
		return nccl_fail(ncclInvalidArgument,
				 "%s : %s %p is not a valid pointer to %" PRIu64
				 " bytes of device memory",
				 a->name, which, p, nbytes);
	}
	*out = (struct range){at.addr, nbytes};
	return ncclSuccess;
}

/* One buffer in two roles: the same, or a rank's part of the whole, as NCCL defines in place for
 * each collective. */
static ncclResult_t
check_overlap(const struct call *a, const struct range *send, const struct range *recv)
{
	uint64_t part = a->comm->rank * a->count * nccl_dtype_size(a->dtype);

	if (send->addr + send->nbytes <= recv->addr || recv->addr + recv->nbytes <= send->addr)
		return ncclSuccess;
	if (send->nbytes < recv->nbytes	  ? send->addr == recv->addr + part
	    : send->nbytes > recv->nbytes ? recv->addr == send->addr + part
	    : a->coll != GPUSIM_ALLTOALL  ? send->addr == recv->addr
					  : false)
		return ncclSuccess;
	if (a->comm->nranks == 1 && send->addr == recv->addr)
		return ncclSuccess;
	return nccl_fail(
	    ncclInvalidArgument,
	    "%s : sendbuff and recvbuff overlap, but not in the way of an in-place call", a->name);
}

/* The number of elements of the whole vector, as commands count. */
static ncclResult_t
set_count(const struct call *a, struct nccl_op *op)
{
	uint64_t n = a->count, nbytes;

	if ((coll_has_parts(a->coll) && __builtin_mul_overflow(n, a->comm->nranks, &n)) ||
	    __builtin_mul_overflow(n, nccl_dtype_size(a->dtype), &nbytes) || nbytes > INT64_MAX)
		return nccl_fail(ncclInvalidArgument,
				 "%s : count %zu of %" PRIu32 " ranks is too large", a->name,
				 a->count, a->comm->nranks);
	op->c.u.coll.count = n;
	if (a->comm->algos && !coll_is_sendrecv(a->coll))
		op->c.algo = nccl_algo(a->comm->algos, nccl_comm_transport(a->comm),
				       a->comm->nranks, a->coll, op->c.u.coll.root, nbytes,
				       op->c.flags & CMDQ_DETERMINISTIC, &op->c.mark);
	return ncclSuccess;
}

static ncclResult_t
perform(const struct call *a)
{
	bool pair = coll_is_sendrecv(a->coll);
	struct nccl_op op;
	ncclResult_t r = check_arguments(a);

	op.c = (struct cmdq_command){.kind = pair ? CMDQ_SENDRECV : CMDQ_COLL,
				     .coll = (uint8_t)a->coll,
				     .u.coll.root = (uint32_t)a->root};
	/* The order of sums matters, and must be canonical. */
	if (r == ncclSuccess && a->comm->config.deterministic && coll_reduces(a->coll) &&
	    dtype_is_float(nccl_dtype(a->dtype)))
		op.c.flags = CMDQ_DETERMINISTIC;
	if (r == ncclSuccess)
		r = set_count(a, &op);
	if (r == ncclSuccess && coll_reduces(a->coll))
		r = set_redop(a, &op.c);
	if (r == ncclSuccess) {
		struct shape s = shape_of(a->coll, op.c.u.coll.count, a->comm->nranks,
					  (uint32_t)a->root, a->comm->rank);
		struct range send = {0}, recv = {0};

		r = find(a, "sendbuff", a->send, s.in, &send);
		if (r == ncclSuccess)
			r = find(a, "recvbuff", a->recv, s.out, &recv);
		if (r == ncclSuccess && send.nbytes && recv.nbytes)
			r = check_overlap(a, &send, &recv);
		op.c.u.coll.send = send.addr;
		op.c.u.coll.recv = recv.addr;
		op.nbytes = send.nbytes + recv.nbytes;
	}
	if (r == ncclSuccess) /* as NCCL does */
		nccl_log(LOG_INFO, LOG_COLL, a->comm->ordinal,
			 "%s: sendbuff %p recvbuff %p count %zu datatype %d op %d root %d comm %p "
			 "[nranks=%" PRIu32 "] stream %p",
			 a->name, a->send, a->recv, a->count, (int)a->dtype, a->op, a->root,
			 (void *)a->comm, a->comm->nranks, (void *)a->stream);
	if (r != ncclSuccess || (a->count == 0 && !pair))
		return nccl_group_note(r);
	op.c.dtype = (uint8_t)nccl_dtype(a->dtype);
	op.comm = a->comm;
	op.stream = a->stream;
	op.ordinal = a->comm->ordinal;
	op.rank = a->comm->rank;
	op.comm_id = a->comm->id;
	return nccl_submit(&op);
}

/* Define a call of NCCL's, with the parameters before its communicator. */
#define CALL(name, coll, send, recv, count, op, root, ...)                                      \
	ncclResult_t name(__VA_ARGS__, ncclComm_t comm, cudaStream_t stream)                    \
	{                                                                                       \
		return perform(&(struct call){&#name[4], coll, send, recv, count, datatype, op, \
					      root, comm, stream});                             \
	}                                                                                       \
	NCCL_ALIAS(name)

CALL(ncclAllReduce, GPUSIM_ALLREDUCE, sendbuff, recvbuff, count, (int)op, 0, const void *sendbuff,
     void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op);
CALL(ncclReduce, GPUSIM_REDUCE, sendbuff, recvbuff, count, (int)op, root, const void *sendbuff,
     void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root);
CALL(ncclBroadcast, GPUSIM_BROADCAST, sendbuff, recvbuff, count, 0, root, const void *sendbuff,
     void *recvbuff, size_t count, ncclDataType_t datatype, int root);
CALL(ncclReduceScatter, GPUSIM_REDUCESCATTER, sendbuff, recvbuff, recvcount, (int)op, 0,
     const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype,
     ncclRedOp_t op);
CALL(ncclAllGather, GPUSIM_ALLGATHER, sendbuff, recvbuff, sendcount, 0, 0, const void *sendbuff,
     void *recvbuff, size_t sendcount, ncclDataType_t datatype);
CALL(ncclAlltoAll, GPUSIM_ALLTOALL, sendbuff, recvbuff, count, 0, 0, const void *sendbuff,
     void *recvbuff, size_t count, ncclDataType_t datatype);
CALL(ncclGather, GPUSIM_GATHER, sendbuff, recvbuff, count, 0, root, const void *sendbuff,
     void *recvbuff, size_t count, ncclDataType_t datatype, int root);
CALL(ncclScatter, GPUSIM_SCATTER, sendbuff, recvbuff, count, 0, root, const void *sendbuff,
     void *recvbuff, size_t count, ncclDataType_t datatype, int root);
CALL(ncclSend, GPUSIM_SEND, sendbuff, NULL, count, 0, peer, const void *sendbuff, size_t count,
     ncclDataType_t datatype, int peer);
CALL(ncclRecv, GPUSIM_RECV, NULL, recvbuff, count, 0, peer, void *recvbuff, size_t count,
     ncclDataType_t datatype, int peer);

ncclResult_t
ncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
	  cudaStream_t stream)
{
	return ncclBroadcast(buff, buff, count, datatype, root, comm, stream);
}
NCCL_ALIAS(ncclBcast);
