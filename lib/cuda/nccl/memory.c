/*
 * Memory: NCCL's allocation, registered buffers, windows.
 *
 * All ranks register a window, and exchange the addresses of their parts: an all-gather of the
 * communicator, on a separate stream.
 */
#include "nccl/nccl_impl.h"

#include <stdlib.h>

#include "base/buf.h"

ncclResult_t
ncclMemAlloc(void **ptr, size_t size)
{
	cudaError_t e;

	if (!ptr)
		return nccl_fail(ncclInvalidArgument, "ncclMemAlloc : ptr argument is NULL");
	if (size == 0) {
		*ptr = NULL;
		return ncclSuccess;
	}
	e = cudaMalloc(ptr, size);
	return e == cudaSuccess ? ncclSuccess : nccl_fail_cuda(e, "ncclMemAlloc");
}
NCCL_ALIAS(ncclMemAlloc);

ncclResult_t
ncclMemFree(void *ptr)
{
	cudaError_t e = ptr ? cudaFree(ptr) : cudaSuccess;

	return e == cudaSuccess ? ncclSuccess : nccl_fail_cuda(e, "ncclMemFree");
}
NCCL_ALIAS(ncclMemFree);

/* Check that a range is memory of the communicator's device. */
static ncclResult_t
check_range(const struct ncclComm *comm, const char *call, const void *buff, size_t size,
	    const void *out, uint64_t *addr)
{
	ncclResult_t r = nccl_comm_check(comm, call);
	struct gpusim_cuda_place at = {0};

	if (r == ncclSuccess && atomic_load(&comm->use) != NCCL_USE_READY)
		r = nccl_comm_refuse(comm, call);
	if (r == ncclSuccess && (!out || !buff || size == 0))
		r = nccl_fail(ncclInvalidArgument, "%s : %s", call,
			      !out    ? "result argument is NULL"
			      : !buff ? "buff argument is NULL"
				      : "size is 0");
	if (r != ncclSuccess)
		return r;
	if (!gpusim_cuda_find(buff, size, &at))
		return nccl_fail(
		    ncclInvalidArgument,
		    "%s : buff %p is not a valid pointer to %zu bytes of device memory", call, buff,
		    size);
	if (at.ordinal != comm->ordinal)
		return nccl_fail(ncclInvalidArgument,
				 "%s : buff allocated on device %d mismatches with NCCL device %d",
				 call, at.ordinal, comm->ordinal);
	*addr = at.addr;
	return ncclSuccess;
}

/* ---- registered buffers: handles, so that a second release is noticed */

#define REGISTERED_MAGIC 0x6e63636c72656731ull

struct registered {
	uint64_t magic;
	const struct ncclComm *comm;
};

ncclResult_t
ncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **handle)
{
	struct registered *h;
	uint64_t addr;
	ncclResult_t r = check_range(comm, "ncclCommRegister", buff, size, handle, &addr);

	if (r != ncclSuccess)
		return nccl_group_note(r);
	h = malloc(sizeof *h);
	if (!h)
		return nccl_fail(ncclSystemError, "ncclCommRegister : out of memory");
	*h = (struct registered){REGISTERED_MAGIC, comm};
	*handle = h;
	return ncclSuccess;
}
NCCL_ALIAS(ncclCommRegister);

ncclResult_t
ncclCommDeregister(const ncclComm_t comm, void *handle)
{
	ncclResult_t r = nccl_comm_check(comm, "ncclCommDeregister");
	struct registered *h = handle;

	if (r != ncclSuccess)
		return nccl_group_note(r);
	if (!h || h->magic != REGISTERED_MAGIC || h->comm != comm)
		return nccl_group_note(nccl_fail(
		    ncclInvalidUsage,
		    "ncclCommDeregister : handle %p is not a registration of this communicator",
		    handle));
	h->magic = 0;
	free(h);
	return ncclSuccess;
}
NCCL_ALIAS(ncclCommDeregister);

/* ---- windows */

/* A rank's message about its window. */
struct told {
	uint64_t addr, size, signals;
};

/* Exchange the ranks' messages about a window. */
static ncclResult_t
exchange(struct ncclComm *comm, struct told *all, struct told *on_device, cudaStream_t stream)
{
	struct told *own = &on_device[comm->rank];
	size_t n = comm->nranks;
	cudaError_t e =
	    cudaMemcpyAsync(own, &all[comm->rank], sizeof *own, cudaMemcpyHostToDevice, stream);
	ncclResult_t r = e == cudaSuccess
			     ? ncclAllGather(own, on_device, sizeof *own, ncclUint8, comm, stream)
			     : ncclSuccess;

	if (r != ncclSuccess)
		return r;
	if (e == cudaSuccess)
		e = cudaMemcpyAsync(all, on_device, n * sizeof *all, cudaMemcpyDeviceToHost,
				    stream);
	if (e == cudaSuccess)
		e = cudaStreamSynchronize(stream);
	return e == cudaSuccess ? ncclSuccess : nccl_fail_cuda(e, "ncclCommWindowRegister");
}

/* Allocate the counts of signals, with the first window. */
static ncclResult_t
have_signals(struct ncclComm *comm)
{
	size_t n = comm->nranks;
	cudaError_t e;

	if (comm->signals)
		return ncclSuccess;
	comm->peer_signals = alloc_zeroed(n, sizeof *comm->peer_signals);
	comm->put = alloc_zeroed(n, sizeof *comm->put);
	comm->waited = alloc_zeroed(n, sizeof *comm->waited);
	if (!comm->peer_signals || !comm->put || !comm->waited)
		return nccl_fail(ncclSystemError, "ncclCommWindowRegister : out of memory");
	e = cudaMalloc(&comm->signals, n * sizeof(uint64_t));
	if (e == cudaSuccess)
		e = cudaMemset(comm->signals, 0, n * sizeof(uint64_t));
	return e == cudaSuccess ? ncclSuccess : nccl_fail_cuda(e, "ncclCommWindowRegister");
}

static uint64_t
address_of(const void *p, size_t nbytes)
{
	struct gpusim_cuda_place at = {0};

	return gpusim_cuda_find(p, nbytes, &at) ? at.addr : 0;
}

static ncclResult_t
run_register(struct nccl_job *job)
{
	struct ncclComm *comm = job->comm;
	struct ncclWindow *w = job->pointer;
	size_t n = comm->nranks;
	struct told *all = alloc_zeroed(n, sizeof *all), *on_device = NULL;
	cudaStream_t stream = NULL;
	cudaError_t e = cudaSuccess;
	int device = 0;
	ncclResult_t r;

	cudaGetDevice(&device);
	cudaSetDevice(comm->ordinal);
	r = all ? have_signals(comm)
		: nccl_fail(ncclSystemError, "ncclCommWindowRegister : out of memory");
	if (r == ncclSuccess)
		e = cudaMalloc((void **)&on_device, n * sizeof *on_device);
	if (r == ncclSuccess && e == cudaSuccess)
		e = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
	if (e != cudaSuccess)
		r = nccl_fail_cuda(e, "ncclCommWindowRegister");
	if (r == ncclSuccess) {
		all[comm->rank] = (struct told){address_of(w->own, w->size), w->size,
						address_of(comm->signals, n * sizeof(uint64_t))};
		r = exchange(comm, all, on_device, stream);
	}
	for (uint32_t p = 0; r == ncclSuccess && p < n; p++) {
		w->peer[p] = all[p].addr;
		w->peer_size[p] = all[p].size;
		comm->peer_signals[p] = all[p].signals;
	}
	if (stream)
		cudaStreamDestroy(stream);
	if (on_device)
		cudaFree(on_device);
	free(all);
	cudaSetDevice(device);
	return r;
}

ncclResult_t
ncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int winFlags)
{
	static const char call[] = "ncclCommWindowRegister";
	struct nccl_job job = {.run = run_register, .call = call, .comm = comm};
	struct ncclWindow *w;
	uint64_t addr;
	ncclResult_t r = check_range(comm, call, buff, size, win, &addr);

	if (r == ncclSuccess && (winFlags & ~(NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING)))
		r = nccl_fail(ncclInvalidArgument, "%s : invalid flags 0x%x", call,
			      (unsigned)winFlags);
	if (r != ncclSuccess)
		return nccl_group_note(r);
	w = calloc(1, sizeof *w);
	if (w) {
		w->peer = alloc_zeroed(comm->nranks, sizeof *w->peer);
		w->peer_size = alloc_zeroed(comm->nranks, sizeof *w->peer_size);
	}
	if (!w || !w->peer || !w->peer_size) {
		if (w)
			nccl_window_free(w);
		return nccl_group_note(nccl_fail(ncclSystemError, "%s : out of memory", call));
	}
	w->comm = comm;
	w->own = buff;
	w->size = size;
	w->next = comm->windows;
	comm->windows = w;
	*win = w;
	job.pointer = w;
	job.blocking = comm->config.blocking;
	job.ordinal = comm->ordinal;
	return nccl_job_start(&job);
}
NCCL_ALIAS(ncclCommWindowRegister);

/* A window's link in the communicator's list; NULL: not a window of it. */
static struct ncclWindow **
find_window(struct ncclComm *comm, const struct ncclWindow *win)
{
	struct ncclWindow **at = &comm->windows;

	while (*at && *at != win)
		at = &(*at)->next;
	return *at ? at : NULL;
}

ncclResult_t
ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win)
{
	static const char call[] = "ncclCommWindowDeregister";
	ncclResult_t r = nccl_comm_check(comm, call);
	struct ncclWindow **at;

	if (r != ncclSuccess || !win)
		return nccl_group_note(r);
	nccl_job_wait(comm);
	at = find_window(comm, win);
	if (!at)
		return nccl_group_note(nccl_fail(ncclInvalidArgument,
						 "%s : win %p is not a window of this communicator",
						 call, (void *)win));
	*at = win->next;
	nccl_window_free(win);
	return ncclSuccess;
}
NCCL_ALIAS(ncclCommWindowDeregister);

ncclResult_t
ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void **outUserPtr)
{
	static const char call[] = "ncclWinGetUserPtr";
	ncclResult_t r = nccl_comm_check(comm, call);

	if (r == ncclSuccess && !outUserPtr)
		r = nccl_fail(ncclInvalidArgument, "%s : outUserPtr argument is NULL", call);
	if (r == ncclSuccess && !find_window(comm, win))
		r = nccl_fail(ncclInvalidArgument,
			      "%s : win %p is not a window of this communicator", call,
			      (void *)win);
	if (r == ncclSuccess)
		*outUserPtr = win->own;
	return r;
}
NCCL_ALIAS(ncclWinGetUserPtr);
