/* ipc.h - memory and events of other processes, for the other files of libcudart. */
#ifndef CUDART_IPC_H
#define CUDART_IPC_H

#include <stdbool.h>

#include "cuda_runtime_api.h"

struct CUstream_st;
struct ipc_event;
struct ipc_memory;
struct memory;

/* Return true if memory of another process is still allocated there, and the process lives. */
bool ipc_lives(const struct ipc_memory *m);
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
