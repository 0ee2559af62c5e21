/*
 * The table of allocations.
 *
 * Design notes. It is in memory that helpers read, behind a read-write lock, which is never held while a call
 * waits.
 */
#include "cudart/cuda_impl.h"
#include "cudart/ipc.h"

static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;

cudaError_t
memory_enter(const struct memory *m)
{
	bool added;

	pthread_rwlock_wrlock(&table_lock);
	added = allocs_add(space_table(), m);
	pthread_rwlock_unlock(&table_lock);
	return added ? cudaSuccess : cudaErrorMemoryAllocation;
}

void
memory_remove(const void *base)
{
	struct memory m;

	pthread_rwlock_wrlock(&table_lock);
	allocs_take(space_table(), base, &m);
	pthread_rwlock_unlock(&table_lock);
}

cudaError_t
memory_take(const void *base, enum memory_kind kind, struct memory *out)
{
	const struct memory *f;
	bool taken = false;

	pthread_rwlock_wrlock(&table_lock);
	f = allocs_find(space_table(), base);
	if (f && f->base == base && f->kind == kind)
		taken = allocs_take(space_table(), base, out);
	pthread_rwlock_unlock(&table_lock);
	return taken ? cudaSuccess : cudaErrorInvalidValue;
}

/* The allocation that begins at ptr, to be changed; NULL: none. Lock held. */
static struct memory *
at(const void *ptr)
{
	struct allocs *a = space_table();
	const struct memory *m = allocs_find(a, ptr);

	return m && m->base == ptr ? &a->v[m - a->v] : NULL;
}

cudaError_t
memory_leave(const void *ptr, struct memory *out)
{
	struct memory *m;
	cudaError_t e = cudaErrorInvalidValue;

	pthread_rwlock_wrlock(&table_lock);
	m = at(ptr);
	if (m && (m->kind == MEMORY_DEVICE || m->kind == MEMORY_MANAGED) && !m->leaving &&
	    !m->own && !m->ipc) {
		m->leaving = true;
		*out = *m;
		e = cudaSuccess;
	}
	pthread_rwlock_unlock(&table_lock);
	return e;
}

void
memory_stay(const void *base, uint64_t asked)
{
	struct memory *m;

	pthread_rwlock_wrlock(&table_lock);
	m = at(base);
	m->leaving = false;
	m->asked = asked;
	pthread_rwlock_unlock(&table_lock);
}

void
memory_export(const void *base, uint32_t number)
{
	pthread_rwlock_wrlock(&table_lock);
	at(base)->export = number;
	pthread_rwlock_unlock(&table_lock);
}

void
memory_overrun(const void *base)
{
	pthread_rwlock_wrlock(&table_lock);
	at(base)->overrun = true;
	pthread_rwlock_unlock(&table_lock);
}

void
memory_end(const void *base)
{
	pthread_rwlock_wrlock(&table_lock);
	at(base)->kind = MEMORY_PAGEABLE;
	pthread_rwlock_unlock(&table_lock);
}

void
memory_open_pool(const struct pool *p, uint64_t peers)
{
	struct allocs *a = space_table();

	pthread_rwlock_wrlock(&table_lock);
	for (size_t i = 0; i < a->n; i++)
		if (a->v[i].pool == p)
			a->v[i].open = peers;
	pthread_rwlock_unlock(&table_lock);
	space_forget(NULL, 0, 0); /* what is still open is mapped again */
}

bool
memory_take_any(int ordinal, struct memory *m)
{
	bool taken = false;

	pthread_rwlock_wrlock(&table_lock);
	for (size_t i = 0; i < space_table()->n && !taken; i++)
		if (space_table()->v[i].ordinal == ordinal &&
		    (space_table()->v[i].kind == MEMORY_DEVICE ||
		     space_table()->v[i].kind == MEMORY_MANAGED))
			taken = allocs_take(space_table(), space_table()->v[i].base, m);
	pthread_rwlock_unlock(&table_lock);
	return taken;
}

uint64_t
memory_used(int ordinal)
{
	uint64_t n = 0;

	pthread_rwlock_rdlock(&table_lock);
	for (size_t i = 0; i < space_table()->n; i++)
		if (space_table()->v[i].ordinal == ordinal &&
		    space_table()->v[i].kind <= MEMORY_MANAGED)
			n += space_table()->v[i].nbytes;
	pthread_rwlock_unlock(&table_lock);
	return n;
}

cudaError_t
memory_find_late(const void *p, size_t nbytes, struct memory *out, uint64_t *addr)
{
	const struct memory *m;
	cudaError_t e = cudaSuccess;

	pthread_rwlock_rdlock(&table_lock);
	m = allocs_find(space_table(), p);
	if (m)
		*out = *m;
	pthread_rwlock_unlock(&table_lock);
	if (!m) {
		*out = (struct memory){.kind = MEMORY_PAGEABLE};
		if (space_find(p) || space_is_pinned(p))
			e = cudaErrorInvalidValue;
	} else if (out->ipc && nbytes && !ipc_lives(out->ipc)) {
		e = cudaErrorInvalidValue; /* its process has freed it, or ended */
	} else if ((uint64_t)((const unsigned char *)p - out->base) + nbytes > out->nbytes) {
		/* Host memory of which only a part was registered is still host memory. */
		if (out->kind != MEMORY_REGISTERED)
			e = cudaErrorInvalidValue;
	} else if (addr) {
		*addr = out->addr + (uint64_t)((const unsigned char *)p - out->base);
	}
	return e;
}

cudaError_t
memory_find(const void *p, size_t nbytes, struct memory *out, uint64_t *addr)
{
	cudaError_t e = memory_find_late(p, nbytes, out, addr);

	return e == cudaSuccess && out->leaving ? cudaErrorInvalidValue : e;
}
