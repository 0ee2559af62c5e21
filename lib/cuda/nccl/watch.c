/*
 * The watcher: a thread that checks once a second whether an operation has waited long for another
 * rank, and logs it.
 *
 * Design notes. It begins with the first communicator and never ends. It reads records that devices
 * write, under the registry's lock, so a communicator is not released meanwhile.
 */
#include <inttypes.h>
#include <unistd.h>

#include "nccl/nccl_impl.h"

#define FIRST_MS 10000
#define AGAIN_MS 60000

static void
look(struct ncclComm *comm, void *arg)
{
	uint64_t ms;
	int rank;

	(void)arg;
	if (atomic_load(&comm->use) != NCCL_USE_READY)
		return;
	rank = cmdq_bind_waits(comm->bind, &ms);
	if (rank < 0 || ms < comm->told_ms)
		comm->told_ms = 0;
	if (rank < 0 || ms < (comm->told_ms ? comm->told_ms + AGAIN_MS : FIRST_MS))
		return;
	comm->told_ms = ms;
	nccl_log_waiting(comm->ordinal,
			 "comm 0x%016" PRIx64 ": rank %" PRIu32 " of %" PRIu32
			 " has waited for rank %d for %" PRIu64 " s",
			 comm->id, comm->rank, comm->nranks, rank, ms / 1000);
}

static void *
watch(void *arg)
{
	(void)arg;
	for (;;) {
		sleep(1);
		nccl_comms_each(look, NULL);
	}
	return NULL;
}

static void
begin(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, watch, NULL) == 0)
		pthread_detach(thread);
}

void
nccl_watch(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, begin);
}
