/* cmdq_impl.h - shared by the files of the client's command queues. */
#ifndef CLIENT_CMDQ_IMPL_H
#define CLIENT_CMDQ_IMPL_H

#include <pthread.h>

#include "client/client_impl.h"
#include "client/cmdq.h"
#include "mem/cmdq.h"

/* A part of a device's memory file, mapped. */
struct cmdq_area {
	void *at;
	uint64_t offset, nbytes; /* in the file */
	struct memfile *file;	 /* the connection's */
};

struct cmdq {
	struct gpusim *g;
	struct gpusim_device device;
	uint64_t id;
	struct cmdq_area area;
	struct cmdq_page *page;
	pthread_mutex_t lock; /* of what follows */
	uint64_t tail, head_seen;
	uint64_t externs[CMDQ_EXTERNS]; /* works so far */
};

/* Map a part of a device's memory file. RC_UNREACHABLE: not of this host. */
enum rc cmdq_map(struct gpusim *g, struct gpusim_device device, uint64_t offset, uint64_t nbytes,
		 struct cmdq_area *out);
void cmdq_unmap(struct cmdq_area *a);

#endif
