/*
 * Memory of devices: allocating and freeing.
 *
 * Design notes. An allocation is a lease of the connection, so it ends with the process.
 * Managed memory, and with GPUSIM_UNIFIED=1 all memory, is opened for the program's own access, in whole pages.
 */
#include "base/env.h"
#include "cudart/cuda_impl.h"
#include "cudart/ipc.h"
#include "cudart/memcheck.h"

static bool
is_unified(void)
{
	static atomic_int known; /* 1: no, 2: yes */

	if (!atomic_load(&known))
		atomic_store(&known, env_is_set("GPUSIM_UNIFIED") ? 2 : 1);
	return atomic_load(&known) == 2;
}

cudaError_t
memory_own(struct device *d, size_t nbytes, uint64_t *addr)
{
	struct gpusim_addr a;
	enum gpusim_rc rc = gpusim_malloc(cuda_connection(), d->space->device, space_pages(nbytes),
					  GPUSIM_LEASE, &a);

	if (rc == GPUSIM_OK)
		*addr = a.addr;
	return cuda_error_of(rc);
}

static cudaError_t
open_pages(const struct device *d, const struct memory *m)
{
	struct err err = {0};

	if (space_open(d->space, m->base, m->addr, m->nbytes, &err) == RC_OK)
		return cudaSuccess;
	cuda_tell(err.text);
	return cudaErrorMemoryAllocation;
}

/* Close and free memory that is not in the table. */
static void
give(const struct memory *m)
{
	if (m->ipc) {
		ipc_close(m->ipc);
		return;
	}
	if (m->export && ipc_keep(m)) {
		if (!m->chunk)
			space_forget(m->base, m->nbytes, m->asked);
		return;
	}
	if (m->kind == MEMORY_MANAGED || is_unified())
		space_close(m->base, m->nbytes);
	pages_give(m);
}

cudaError_t
memory_allocate(struct device *d, struct memory m, void **out)
{
	bool opened = m.kind == MEMORY_MANAGED || is_unified();
	enum pages pages = opened || m.own || memcheck_on() ? PAGES_OWN : PAGES_SHARED;
	cudaError_t e;

	m.ordinal = d->ordinal;
	m.site = memcheck_site();
	ipc_collect();
	while (pages_take(d, pages, &m) != GPUSIM_OK)
		if (m.asked > d->space->nbytes || !memcheck_flush(d->ordinal))
			return cudaErrorMemoryAllocation;
	e = opened ? open_pages(d, &m) : cudaSuccess;
	if (e == cudaSuccess) {
		memcheck_fill(&m);
		e = memory_enter(&m);
	}
	if (e == cudaSuccess)
		*out = m.base;
	else
		give(&m);
	return e;
}

void
memory_release(const struct memory *m)
{
	memory_remove(m->base);
	if (memcheck_keep(m))
		space_forget(m->base, m->nbytes, m->asked);
	else
		give(m);
}

void
memory_forget_all(struct device *d)
{
	struct memory m;

	while (memory_take_any(d->ordinal, &m))
		give(&m);
	memcheck_flush(d->ordinal);
}
