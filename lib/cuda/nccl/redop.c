/* A program's own reduction operators: premulsum. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "nccl/nccl_impl.h"

/* A scalar that the device reads when the collective runs: in device memory, or in pinned host
 * memory, which each collective first copies in stream order. */
static ncclResult_t
take_device_scalar(struct ncclComm *comm, const void *scalar, size_t size, struct nccl_redop *op)
{
	static const char call[] = "ncclRedOpCreatePreMulSum";
	struct gpusim_cuda_place at = {0};
	int device = 0;
	cudaError_t e;

	op->flag = CMDQ_SCALAR_ADDR;
	if (gpusim_cuda_find(scalar, size, &at)) {
		op->scalar = at.addr;
		if (at.ordinal == comm->ordinal)
			return ncclSuccess;
		return nccl_fail(
		    ncclInvalidArgument,
		    "%s : scalar allocated on device %d mismatches with NCCL device %d", call,
		    at.ordinal, comm->ordinal);
	}
	if (!at.host)
		return nccl_fail(ncclInvalidArgument,
				 "%s : scalar %p is neither device memory nor pinned host memory",
				 call, scalar);
	e = cudaGetDevice(&device);
	if (e == cudaSuccess)
		e = cudaSetDevice(comm->ordinal);
	if (e == cudaSuccess)
		e = cudaMalloc(&op->owned, size);
	cudaSetDevice(device);
	if (e != cudaSuccess)
		return nccl_fail_cuda(e, call);
	op->host = scalar;
	gpusim_cuda_find(op->owned, size, &at);
	op->scalar = at.addr;
	return ncclSuccess;
}

ncclResult_t
ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
			 ncclScalarResidence_t residence, ncclComm_t comm)
{
	static const char call[] = "ncclRedOpCreatePreMulSum";
	ncclResult_t r = nccl_comm_check(comm, call);
	struct nccl_redop new = {.used = true, .dtype = datatype, .flag = CMDQ_SCALAR};
	size_t size = nccl_dtype_size(datatype), n;
	struct nccl_redop *v;

	if (r == ncclSuccess && atomic_load(&comm->use) != NCCL_USE_READY)
		r = nccl_comm_refuse(comm, call);
	if (r == ncclSuccess && (!op || !scalar))
		r = nccl_fail(ncclInvalidArgument, "%s : %s argument is NULL", call,
			      op ? "scalar" : "op");
	if (r == ncclSuccess && size == 0)
		r = nccl_fail(ncclInvalidArgument, "%s : invalid type %d", call, (int)datatype);
	if (r == ncclSuccess && residence == ncclScalarHostImmediate)
		memcpy(&new.scalar, scalar, size);
	else if (r == ncclSuccess && residence == ncclScalarDevice)
		r = take_device_scalar(comm, scalar, size, &new);
	else if (r == ncclSuccess)
		r = nccl_fail(ncclInvalidArgument, "%s : invalid residence %d", call,
			      (int)residence);
	if (r != ncclSuccess)
		return r;
	for (n = 0; n < comm->nredops && comm->redop[n].used;)
		n++;
	if (n == comm->nredops) {
		v = alloc_resize(comm->redop, n + 1, sizeof *v);
		if (!v)
			return nccl_fail(ncclSystemError, "%s : out of memory", call);
		comm->redop = v;
		comm->nredops++;
	}
	comm->redop[n] = new;
	*op = (ncclRedOp_t)(ncclNumOps + (int)n);
	return ncclSuccess;
}
NCCL_ALIAS(ncclRedOpCreatePreMulSum);

ncclResult_t
ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
	static const char call[] = "ncclRedOpDestroy";
	ncclResult_t r = nccl_comm_check(comm, call);
	int n = (int)op - ncclNumOps;

	if (r != ncclSuccess)
		return r;
	if (n < 0 && (int)op >= 0)
		return nccl_fail(ncclInvalidArgument, "%s : operator is a NCCL builtin", call);
	if (n < 0 || (size_t)n >= comm->nredops || !comm->redop[n].used)
		return nccl_fail(ncclInvalidArgument, "%s : operator unknown to this communicator",
				 call);
	if (comm->redop[n].owned)
		cudaFree(comm->redop[n].owned);
	comm->redop[n] = (struct nccl_redop){0};
	return ncclSuccess;
}
NCCL_ALIAS(ncclRedOpDestroy);
