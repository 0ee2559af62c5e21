/*
 * One-sided: put, signal, wait for signals.
 *
 * Each is a host function in the stream's order, on the stream's own thread: a copy to the peer's
 * device, then the new count of this rank's signals into the peer's table. Each slot of the table
 * has one writer. A wait reads its own rank's table. This also works across hosts, and a rank whose
 * copy fails aborts the communicator, so no rank waits forever.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "nccl/nccl_impl.h"

#define LOOK_US 20

struct put {
	struct ncclComm *comm;
	struct gpusim_device own, peer;
	uint64_t src, dst, nbytes, slot, count;
};

struct await {
	struct ncclComm *comm;
	struct gpusim_device own;
	int n;
	struct slot {
		uint64_t addr, count;
	} slot[];
};

/* CUDA's host functions return nothing, so a failure becomes the communicator's. */
static void
abort_all(struct ncclComm *comm, const char *what)
{
	char reason[NCCL_TEXT];

	snprintf(reason, sizeof reason, "rank %" PRIu32 ": %s: %s", comm->rank, what,
		 gpusim_error());
	gpusim_comm_abort(comm->handle, reason);
}

static void
run_put(void *arg)
{
	struct put *p = arg;
	struct gpusim *g = p->comm->g;
	enum gpusim_rc rc = GPUSIM_OK;

	if (p->nbytes)
		rc = gpusim_memcpy_d2d(g, p->peer, (struct gpusim_addr){p->dst}, p->own,
				       (struct gpusim_addr){p->src}, p->nbytes);
	atomic_thread_fence(memory_order_seq_cst);
	if (rc == GPUSIM_OK)
		rc = gpusim_memcpy_h2d(g, p->peer, (struct gpusim_addr){p->slot}, &p->count,
				       sizeof p->count);
	if (rc != GPUSIM_OK)
		abort_all(p->comm, "put");
	atomic_fetch_sub(&p->comm->hosted, 1);
	free(p);
}

static void
run_wait(void *arg)
{
	struct await *a = arg;
	int i = 0;

	while (i < a->n && cmdq_bind_error(a->comm->bind) == GPUSIM_OK) {
		uint64_t have = 0;

		if (gpusim_memcpy_d2h(a->comm->g, &have, a->own,
				      (struct gpusim_addr){a->slot[i].addr},
				      sizeof have) != GPUSIM_OK) {
			abort_all(a->comm, "wait for a signal");
			break;
		}
		if (have >= a->slot[i].count)
			i++;
		else
			usleep(LOOK_US);
	}
	atomic_thread_fence(memory_order_seq_cst);
	atomic_fetch_sub(&a->comm->hosted, 1);
	free(a);
}

static ncclResult_t
check(const struct ncclComm *comm, const char *call, int sigIdx, int ctx, unsigned flags,
      cudaStream_t stream)
{
	ncclResult_t r = nccl_comm_check(comm, call);

	if (r == ncclSuccess && atomic_load(&comm->use) != NCCL_USE_READY)
		r = nccl_comm_refuse(comm, call);
	if (r != ncclSuccess)
		return r;
	if (sigIdx != 0 || ctx != 0 || flags != 0)
		return nccl_fail(ncclInvalidArgument,
				 "%s : sigIdx %d, ctx %d, flags 0x%x: all must be 0", call, sigIdx,
				 ctx, flags);
	if (!comm->windows)
		return nccl_fail(
		    ncclInvalidUsage,
		    "%s : the communicator has no window: call ncclCommWindowRegister first", call);
	if (gpusim_cuda_is_capturing(stream))
		return nccl_fail(ncclInvalidUsage, "%s : capture in a graph is not supported",
				 call);
	return ncclSuccess;
}

static ncclResult_t
check_peer(const struct ncclComm *comm, const char *call, int peer)
{
	if (peer >= 0 && (uint32_t)peer < comm->nranks)
		return ncclSuccess;
	return nccl_fail(ncclInvalidArgument,
			 "%s : invalid peer %d (it should be in the 0..%" PRIu32 " range)", call,
			 peer, comm->nranks - 1);
}

static ncclResult_t
launch(struct ncclComm *comm, const char *call, cudaStream_t stream, cudaHostFn_t fn, void *arg)
{
	int device = 0;
	cudaError_t e;

	cudaGetDevice(&device);
	cudaSetDevice(comm->ordinal);
	atomic_fetch_add(&comm->hosted, 1);
	e = cudaLaunchHostFunc(stream, fn, arg);
	cudaSetDevice(device);
	if (e == cudaSuccess)
		return ncclSuccess;
	atomic_fetch_sub(&comm->hosted, 1);
	free(arg);
	return nccl_fail_cuda(e, call);
}

static ncclResult_t
put(struct ncclComm *comm, const char *call, int peer, struct put what, cudaStream_t stream)
{
	struct put *p = malloc(sizeof *p);

	if (!p)
		return nccl_fail(ncclSystemError, "%s : out of memory", call);
	*p = what;
	p->comm = comm;
	p->own = gpusim_comm_device(comm->handle, comm->rank);
	p->peer = gpusim_comm_device(comm->handle, (uint32_t)peer);
	p->slot = comm->peer_signals[peer] + comm->rank * sizeof(uint64_t);
	p->count = ++comm->put[peer];
	return launch(comm, call, stream, run_put, p);
}

ncclResult_t
ncclPutSignal(const void *localbuff, size_t count, ncclDataType_t datatype, int peer,
	      ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags,
	      ncclComm_t comm, cudaStream_t stream)
{
	static const char call[] = "ncclPutSignal";
	struct gpusim_cuda_place at = {0};
	const struct ncclWindow *w = NULL;
	struct put what = {0};
	ncclResult_t r = check(comm, call, sigIdx, ctx, flags, stream);

	if (r == ncclSuccess)
		r = check_peer(comm, call, peer);
	for (w = r == ncclSuccess ? comm->windows : NULL; w && w != peerWin;)
		w = w->next;
	if (r == ncclSuccess && !w)
		r = nccl_fail(ncclInvalidArgument,
			      "%s : win %p is not a window of this communicator", call,
			      (void *)peerWin);
	if (r == ncclSuccess &&
	    (nccl_dtype_size(datatype) == 0 ||
	     __builtin_mul_overflow(count, nccl_dtype_size(datatype), &what.nbytes)))
		r = nccl_fail(ncclInvalidArgument, "%s : invalid type %d, or count %zu", call,
			      (int)datatype, count);
	if (r == ncclSuccess && (peerWinOffset > w->peer_size[peer] ||
				 what.nbytes > w->peer_size[peer] - peerWinOffset))
		r = nccl_fail(ncclInvalidArgument,
			      "%s : %" PRIu64 " bytes at %zu exceed rank %d's window of %" PRIu64
			      " bytes",
			      call, what.nbytes, peerWinOffset, peer, w->peer_size[peer]);
	if (r == ncclSuccess && what.nbytes &&
	    (!gpusim_cuda_find(localbuff, what.nbytes, &at) || at.ordinal != comm->ordinal))
		r = nccl_fail(ncclInvalidArgument,
			      "%s : localbuff %p is not a valid pointer to %" PRIu64
			      " bytes of device %d",
			      call, localbuff, what.nbytes, comm->ordinal);
	if (r != ncclSuccess)
		return nccl_group_note(r);
	what.src = at.addr;
	what.dst = w->peer[peer] + peerWinOffset;
	return nccl_group_note(put(comm, call, peer, what, stream));
}
NCCL_ALIAS(ncclPutSignal);

ncclResult_t
ncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream)
{
	static const char call[] = "ncclSignal";
	ncclResult_t r = check(comm, call, sigIdx, ctx, flags, stream);

	if (r == ncclSuccess)
		r = check_peer(comm, call, peer);
	if (r == ncclSuccess)
		r = put(comm, call, peer, (struct put){0}, stream);
	return nccl_group_note(r);
}
NCCL_ALIAS(ncclSignal);

ncclResult_t
ncclWaitSignal(int nDesc, ncclWaitSignalDesc_t *signalDescs, ncclComm_t comm, cudaStream_t stream)
{
	static const char call[] = "ncclWaitSignal";
	ncclResult_t r = check(comm, call, 0, 0, 0, stream);
	struct gpusim_cuda_place at = {0};
	struct await *a;

	if (r == ncclSuccess && (nDesc < 0 || (nDesc && !signalDescs)))
		r = nccl_fail(ncclInvalidArgument, "%s : invalid descriptors", call);
	for (int i = 0; i < nDesc && r == ncclSuccess; i++) {
		r = check(comm, call, signalDescs[i].sigIdx, signalDescs[i].ctx, 0, stream);
		if (r == ncclSuccess)
			r = check_peer(comm, call, signalDescs[i].peer);
		if (r == ncclSuccess && signalDescs[i].opCnt < 0)
			r = nccl_fail(ncclInvalidArgument, "%s : invalid opCnt %d", call,
				      signalDescs[i].opCnt);
	}
	if (r != ncclSuccess)
		return nccl_group_note(r);
	a = malloc(sizeof *a + (size_t)nDesc * sizeof *a->slot);
	if (!a)
		return nccl_group_note(nccl_fail(ncclSystemError, "%s : out of memory", call));
	gpusim_cuda_find(comm->signals, comm->nranks * sizeof(uint64_t), &at);
	*a = (struct await){comm, gpusim_comm_device(comm->handle, comm->rank), nDesc};
	for (int i = 0; i < nDesc; i++) {
		int peer = signalDescs[i].peer;

		comm->waited[peer] += (uint64_t)signalDescs[i].opCnt;
		a->slot[i] =
		    (struct slot){at.addr + (uint64_t)peer * sizeof(uint64_t), comm->waited[peer]};
	}
	return nccl_group_note(launch(comm, call, stream, run_wait, a));
}
NCCL_ALIAS(ncclWaitSignal);
