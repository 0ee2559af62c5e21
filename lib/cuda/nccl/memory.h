/* memory.h - registered memory of communicators. */
#ifndef NCCL_MEMORY_H
#define NCCL_MEMORY_H

#include "nccl/nccl_impl.h"

/* Memory that all ranks have registered. */
struct ncclWindow {
	struct ncclWindow *next;
	struct ncclComm *comm;
	void *own; /* this rank's pointer */
	size_t size;
	uint64_t *peer;	     /* by rank: the address on the rank's device */
	uint64_t *peer_size; /* by rank */
};

/* Free the windows and their memory. */
void nccl_memory_release(struct ncclComm *comm);

#endif
