/*
 * The end of a program that has not destroyed its communicators: ranks that have nothing left to do
 * leave them, so that a program may simply return from main. For a rank with pending work, the
 * device notifies the other ranks that the process has ended.
 */
#include <stdlib.h>
#include <unistd.h>

#include "nccl/nccl_impl.h"

static pid_t owner;

static void
leave(struct ncclComm *comm, void *arg)
{
	int ready = NCCL_USE_READY;

	(void)arg;
	if (comm->busy || !comm->bind || !cmdq_bind_idle(comm->bind) ||
	    cmdq_bind_error(comm->bind) != GPUSIM_OK)
		return;
	atomic_compare_exchange_strong(&comm->use, &ready, NCCL_USE_FINALIZED);
	cmdq_unbind(comm->bind);
	comm->bind = NULL;
	gpusim_comm_destroy(comm->handle);
	comm->handle = NULL;
}

/* A child of fork has the parent's memory, but none of its communicators. */
static void
at_end(void)
{
	if (getpid() == owner)
		nccl_comms_each(leave, NULL);
}

static void
begin(void)
{
	owner = getpid();
	atexit(at_end);
}

void
nccl_leave_at_exit(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, begin);
}
