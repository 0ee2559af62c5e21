/*
 * Memory and events of other processes.
 *
 * Design notes. What a process exports is in a table in the memory that it shares with its helpers (space.h), a
 * memfd that an importer opens through /proc. An entry counts its users: memory that is freed before they close it
 * stays allocated until they have, so that no other allocation gets it; but its entry is gone, and every later
 * use is an error. The device frees all memory of a process that ends; importers see that by its pidfd, at each
 * call and launch. An event is two counters: records that were called, and that streams have reached.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "cudart/cuda_impl.h"
#include "cudart/ipc.h"

#define IPC_MAGIC 0x6770757369706331ull
#define LOOK_NS	  (100 * NS_PER_MS)

struct handle {
	uint64_t magic, process, id;
	int32_t pid, fd;
	uint32_t index;
};
_Static_assert(sizeof(struct handle) <= CUDA_IPC_HANDLE_SIZE, "it fits");

struct ipc_event {
	struct ipc_process *process;
	struct space_event *event;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ipc_process *processes, own = {.pidfd = -1};
static struct ipc_memory *memories;
static _Atomic unsigned nmemories;
static struct memory kept[SPACE_EXPORTS]; /* freed, and still used by others */
static unsigned nkept;

static struct handle
make_handle(uint64_t id, uint32_t index)
{
	return (struct handle){.magic = IPC_MAGIC,
			       .process = space_shared()->process,
			       .id = id,
			       .pid = (int32_t)getpid(),
			       .fd = space_shared()->fd,
			       .index = index};
}

/* Lock held. NULL: it has ended, or is not the one that made the handle. */
static struct ipc_process *
process_of(const struct handle *h)
{
	struct ipc_process *p = processes;
	struct space_shared *s;
	char path[64];
	int fd;

	while (p && p->shared->process != h->process)
		p = p->next;
	if (p || h->process == space_shared()->process)
		return p;
	snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)h->pid, (int)h->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	s = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	p = s == MAP_FAILED ? NULL : calloc(1, sizeof *p);
	if (p && s->process == h->process) {
		*p = (struct ipc_process){processes, s, (int)syscall(SYS_pidfd_open, h->pid, 0)};
		(void)!madvise(s, sizeof *s, MADV_DONTFORK);
		return processes = p;
	}
	free(p);
	if (s != MAP_FAILED)
		munmap(s, sizeof *s);
	return NULL;
}

/* ------------------------------------------------------------------ memory */

cudaError_t
cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *ptr)
{
	struct memory m;
	struct space_export *x;
	struct handle h;
	uint32_t i = 0;
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess && (!handle || !ptr))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = memory_find(ptr, 1, &m, NULL);
	if (e == cudaSuccess && (m.kind != MEMORY_DEVICE || m.base != ptr || m.ipc || m.pool))
		e = cudaErrorInvalidValue;
	if (e != cudaSuccess)
		return cuda_done(e);
	pthread_mutex_lock(&lock);
	if (m.export)
		i = m.export - 1;
	while (!m.export && i < SPACE_EXPORTS &&
	       (space_shared()->export[i].id || space_shared()->export[i].users))
		i++;
	x = i < SPACE_EXPORTS ? &space_shared()->export[i] : NULL;
	if (x && !m.export) {
		x->device = cuda_device_at(m.ordinal)->space->device.id;
		x->addr = m.addr;
		x->nbytes = m.nbytes;
		x->asked = m.asked;
		atomic_store(&x->id, ++space_shared()->last_id);
		memory_export(ptr, i + 1);
	}
	pthread_mutex_unlock(&lock);
	if (!x)
		return cuda_done(cudaErrorMemoryAllocation);
	h = make_handle(x->id, i);
	memset(handle, 0, sizeof *handle);
	memcpy(handle, &h, sizeof h);
	return cudaSuccess;
}

bool
ipc_keep(const struct memory *m)
{
	struct space_export *x = &space_shared()->export[m->export - 1];
	bool keep;

	pthread_mutex_lock(&lock);
	atomic_store(&x->id, 0);
	keep = atomic_load(&x->users) > 0;
	if (keep && nkept < SPACE_EXPORTS)
		kept[nkept++] = *m;
	pthread_mutex_unlock(&lock);
	return keep;
}

void
ipc_collect(void)
{
	struct memory m;

	for (bool more = nkept > 0; more;) {
		more = false;
		pthread_mutex_lock(&lock);
		for (unsigned i = 0; i < nkept && !more; i++)
			if (!space_shared()->export[kept[i].export - 1].users) {
				m = kept[i];
				kept[i] = kept[--nkept];
				more = true;
			}
		pthread_mutex_unlock(&lock);
		if (more)
			pages_give(&m);
	}
}

static int
ordinal_of(uint64_t id)
{
	for (int i = 0; i < cuda_device_count(); i++)
		if (cuda_device_at(i)->space->device.id == id)
			return i;
	return -1;
}

void
ipc_check(void)
{
	if (!atomic_load(&nmemories))
		return;
	pthread_mutex_lock(&lock);
	for (struct ipc_memory *m = memories; m; m = m->next)
		if (m->nbytes && !ipc_lives(m)) {
			memory_end(m->base);
			space_forget(m->first, m->nbytes, m->nbytes);
		}
	pthread_mutex_unlock(&lock);
}

/* Lock held. Map an export at addresses of this process, and enter it into the table. */
static cudaError_t
place(struct ipc_memory *m)
{
	const struct space_export *x = m->export;
	uint64_t into = x->addr % SPACE_PAGE;
	struct memory entry = {.nbytes = x->nbytes,
			       .asked = x->asked,
			       .kind = MEMORY_DEVICE,
			       .ordinal = m->ordinal,
			       .addr = x->addr,
			       .open = UINT64_MAX,
			       .ipc = m};

	m->nbytes = space_pages(into + x->nbytes);
	m->first = space_place(cuda_device_at(m->ordinal)->space, m->nbytes);
	if (!m->first)
		return cudaErrorMemoryAllocation;
	entry.base = m->base = m->first + into;
	return memory_enter(&entry);
}

static cudaError_t
open_memory(const struct handle *h, struct ipc_memory **out)
{
	struct ipc_process *p = process_of(h);
	struct space_export *x = p ? &p->shared->export[h->index] : NULL;
	struct ipc_memory *m = memories;
	cudaError_t e;

	if (!x || atomic_load(&x->id) != h->id || !ipc_process_lives(p))
		return h->process == space_shared()->process ? cudaErrorDeviceUninitialized
							     : cudaErrorInvalidValue;
	while (m && (m->export != x || m->id != h->id))
		m = m->next;
	*out = m;
	if (m)
		return cudaSuccess;
	if (ordinal_of(x->device) < 0)
		return cudaErrorInvalidDevice;
	m = calloc(1, sizeof *m);
	if (!m)
		return cudaErrorMemoryAllocation;
	*m = (struct ipc_memory){.next = memories,
				 .process = p,
				 .export = x,
				 .id = h->id,
				 .ordinal = ordinal_of(x->device)};
	atomic_fetch_add(&x->users, 1);
	e = atomic_load(&x->id) == h->id ? place(m) : cudaErrorInvalidValue;
	if (e != cudaSuccess) {
		atomic_fetch_sub(&x->users, 1);
		free(m);
		return e;
	}
	atomic_fetch_add(&nmemories, 1);
	*out = memories = m;
	return cudaSuccess;
}

/* The handle's fields; false: it is none. */
static bool
read_handle(const void *handle, uint32_t most, struct handle *out)
{
	memcpy(out, handle, sizeof *out);
	return out->magic == IPC_MAGIC && out->index < most;
}

cudaError_t
cudaIpcOpenMemHandle(void **ptr, cudaIpcMemHandle_t handle, unsigned int flags)
{
	struct ipc_memory *m = NULL;
	struct handle h;
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess && (!ptr || flags & ~(unsigned)cudaIpcMemLazyEnablePeerAccess ||
				 !read_handle(&handle, SPACE_EXPORTS, &h)))
		e = cudaErrorInvalidValue;
	if (e != cudaSuccess)
		return cuda_done(e);
	pthread_mutex_lock(&lock);
	e = open_memory(&h, &m);
	if (e == cudaSuccess) {
		m->opened++;
		*ptr = m->base;
	}
	pthread_mutex_unlock(&lock);
	return cuda_done(e);
}

void
ipc_close(struct ipc_memory *m)
{
	struct ipc_memory **at = &memories;

	pthread_mutex_lock(&lock);
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	pthread_mutex_unlock(&lock);
	atomic_fetch_sub(&nmemories, 1);
	space_forget(m->first, m->nbytes, m->nbytes);
	space_unplace(cuda_device_at(m->ordinal)->space, m->first, m->nbytes);
	atomic_fetch_sub(&m->export->users, 1);
	free(m);
}

cudaError_t
cudaIpcCloseMemHandle(void *ptr)
{
	struct memory m;
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess)
		memory_find_late(ptr, 0, &m, NULL); /* also if the exporter has freed it */
	if (e == cudaSuccess && (!m.ipc || m.base != ptr))
		e = cudaErrorInvalidValue;
	if (e != cudaSuccess || --m.ipc->opened)
		return cuda_done(e);
	for (int i = 0; i < cuda_device_count(); i++)
		order_drain_device(cuda_device_at(i));
	memory_remove(ptr);
	ipc_close(m.ipc);
	return cudaSuccess;
}

/* ------------------------------------------------------------------ events */

struct ipc_event *
ipc_event_new(cudaIpcEventHandle_t *out)
{
	struct ipc_event *v = calloc(1, sizeof *v);
	uint32_t i = atomic_fetch_add(&space_shared()->nevents, 1);
	struct handle h = make_handle(i, i);

	if (!v || i >= SPACE_EVENTS) {
		free(v);
		return NULL;
	}
	*v = (struct ipc_event){&own, &space_shared()->event[i]};
	memset(out, 0, sizeof *out);
	memcpy(out, &h, sizeof h);
	return v;
}

struct ipc_event *
ipc_event_open(const cudaIpcEventHandle_t *handle)
{
	struct ipc_event *v = calloc(1, sizeof *v);
	struct handle h;

	if (v && read_handle(handle, SPACE_EVENTS, &h)) {
		pthread_mutex_lock(&lock);
		v->process = process_of(&h);
		pthread_mutex_unlock(&lock);
		if (v->process && h.index < atomic_load(&v->process->shared->nevents)) {
			v->event = &v->process->shared->event[h.index];
			return v;
		}
	}
	free(v);
	return NULL;
}

struct step {
	const struct ipc_event *on;
	uint64_t n;
};

static enum rc
run_record(void *arg, struct err *err)
{
	struct step *s = arg;

	(void)err;
	work_does(CMDQ_DOES_HOST, NULL);
	if (atomic_load(&s->on->event->done) < s->n)
		cmdq_publish(&s->on->event->done, &s->on->event->sleeps, s->n);
	return RC_OK;
}

static enum rc
await(const struct ipc_event *v, uint64_t n, struct err *err)
{
	uint32_t ms = cuda_timeout_ms();
	uint64_t until = ms ? clock_now_ns() + ms * NS_PER_MS : UINT64_MAX;

	while (!cmdq_await(&v->event->done, &v->event->sleeps, n, NULL, clock_now_ns() + LOOK_NS)) {
		if (v->process != &own && !ipc_process_lives(v->process))
			return err_set(err, RC_FAILED, "the process of an event has ended");
		if (clock_now_ns() > until)
			return err_set(err, RC_TIMEOUT, "an event of another process: no progress");
	}
	return RC_OK;
}

static enum rc
run_wait(void *arg, struct err *err)
{
	struct step *s = arg;

	work_does(CMDQ_DOES_WAIT, NULL);
	return await(s->on, s->n, err);
}

static cudaError_t
enqueue(struct CUstream_st *s, work_fn *run, const struct ipc_event *v, uint64_t n)
{
	struct step *step = malloc(sizeof *step);

	if (!step)
		return cudaErrorMemoryAllocation;
	*step = (struct step){v, n};
	return work_enqueue(s, run, work_free, step);
}

cudaError_t
ipc_event_record(const struct ipc_event *v, struct CUstream_st *s)
{
	return enqueue(s, run_record, v, atomic_fetch_add(&v->event->recorded, 1) + 1);
}

cudaError_t
ipc_event_wait(const struct ipc_event *v, struct CUstream_st *s)
{
	uint64_t n = atomic_load(&v->event->recorded);

	return atomic_load(&v->event->done) >= n ? cudaSuccess : enqueue(s, run_wait, v, n);
}

cudaError_t
ipc_event_query(const struct ipc_event *v, bool wait)
{
	uint64_t n = atomic_load(&v->event->recorded);
	struct err err = {0};

	if (atomic_load(&v->event->done) >= n)
		return cudaSuccess;
	if (!wait)
		return cudaErrorNotReady;
	if (await(v, n, &err) == RC_OK)
		return cudaSuccess;
	cuda_tell(err.text);
	return err.rc == RC_TIMEOUT ? cudaErrorLaunchTimeout : cudaErrorLaunchFailure;
}
