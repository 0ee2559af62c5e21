/* ipc.h - memory and events of other processes, for the other files of libcudart. */
#ifndef CUDART_IPC_H
#define CUDART_IPC_H

#include <poll.h>
#include <stdbool.h>

#include "cuda_runtime_api.h"
#include "cudart/space.h"

struct CUstream_st;
struct ipc_event;

/* A process that exports; stays open, because a late call may use it. */
struct ipc_process {
	struct ipc_process *next;
	struct space_shared *shared;
	int pidfd; /* -1: none, as of this process */
};

/* Opened memory. */
struct ipc_memory {
	struct ipc_memory *next;
	struct ipc_process *process;
	struct space_export *export;
	uint64_t id;
	unsigned opened;
	unsigned char *base;
	unsigned char *first; /* page */
	uint64_t nbytes;      /* of pages */
	int ordinal;
};

/* Return true if another process lives. */
static inline bool
ipc_process_lives(const struct ipc_process *p)
{
	struct pollfd f = {.fd = p->pidfd, .events = POLLIN};

	return p->pidfd >= 0 && poll(&f, 1, 0) == 0;
}

/* Return true if memory of another process is still allocated there, and the process lives. */
static inline bool
ipc_lives(const struct ipc_memory *m)
{
	return atomic_load(&m->export->id) == m->id && ipc_process_lives(m->process);
}

/* Before a launch: make helpers unmap memory of which that is not so. */
void ipc_check(void);
/* Close opened memory that is out of the table. */
void ipc_close(struct ipc_memory *m);

/* Exported memory is being freed. True: others have it open, and its pages stay until ipc_collect finds that
 * they have not. */
bool ipc_keep(const struct memory *m);
void ipc_collect(void);

/* An event's part that processes share; lives as long as the process. NULL: no more of them, or not a handle. */
struct ipc_event *ipc_event_new(cudaIpcEventHandle_t *out);
struct ipc_event *ipc_event_open(const cudaIpcEventHandle_t *handle);
/* As the calls of events; wait: cudaEventSynchronize. */
cudaError_t ipc_event_record(const struct ipc_event *v, struct CUstream_st *s);
cudaError_t ipc_event_wait(const struct ipc_event *v, struct CUstream_st *s);
cudaError_t ipc_event_query(const struct ipc_event *v, bool wait);

#endif
