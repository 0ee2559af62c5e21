/* Communicators: the process's registry of them, and functions for the other files. */
#include <stdlib.h>

#include "base/env.h"
#include "base/parse.h"
#include "coll/tune.h"
#include "nccl/nccl_impl.h"

pthread_mutex_t nccl_registry = PTHREAD_MUTEX_INITIALIZER;
static struct ncclComm *all;

void
nccl_comms_each(void (*fn)(struct ncclComm *comm, void *arg), void *arg)
{
	pthread_mutex_lock(&nccl_registry);
	for (struct ncclComm *c = all; c; c = c->next)
		fn(c, arg);
	pthread_mutex_unlock(&nccl_registry);
}

ncclResult_t
nccl_comm_check(const struct ncclComm *comm, const char *call)
{
	if (!comm)
		return nccl_fail(ncclInvalidArgument, "%s : comm argument is NULL", call);
	if (comm->magic != NCCL_COMM_MAGIC)
		return nccl_fail(
		    ncclInvalidArgument,
		    "%s : comm is not a communicator: it was destroyed, or never created", call);
	return ncclSuccess;
}

ncclResult_t
nccl_comm_refuse(const struct ncclComm *comm, const char *call)
{
	switch ((enum nccl_use)atomic_load(&comm->use)) {
	case NCCL_USE_READY:
		break;
	case NCCL_USE_STARTING:
		return nccl_fail(ncclInvalidArgument,
				 "%s : Attempt to use communicator before the previous operation "
				 "returned ncclSuccess",
				 call);
	case NCCL_USE_FAILED:
		return nccl_fail(ncclInvalidArgument,
				 "%s : the communicator could not be created: %s", call,
				 comm->failure.text);
	case NCCL_USE_FINALIZED:
		return nccl_fail(ncclInvalidArgument, "%s : the communicator is finalized", call);
	case NCCL_USE_REVOKED:
		return nccl_fail(ncclInvalidUsage, "%s : the communicator was revoked", call);
	case NCCL_USE_SUSPENDED:
		return nccl_fail(ncclInvalidUsage,
				 "%s : the communicator is suspended; call ncclCommResume first",
				 call);
	}
	return ncclSuccess;
}

ncclResult_t
nccl_comm_new(int ordinal, const struct nccl_config *config, struct ncclComm **out)
{
	struct ncclComm *c = calloc(1, sizeof *c);

	if (!c)
		return nccl_fail(ncclSystemError, "out of memory");
	c->magic = NCCL_COMM_MAGIC;
	c->ordinal = ordinal;
	c->transport = -1;
	c->config = *config;
	c->config.deterministic |= env_is_set("GPUSIM_DETERMINISTIC");
	atomic_store(&c->use, NCCL_USE_STARTING);
	pthread_mutex_lock(&nccl_registry);
	c->next = all;
	if (all)
		all->prev = c;
	all = c;
	pthread_mutex_unlock(&nccl_registry);
	*out = c;
	return ncclSuccess;
}

void
nccl_window_free(struct ncclWindow *w)
{
	free(w->peer);
	free(w->peer_size);
	free(w);
}

/* Free the windows and their memory. */
static void
release_memory(struct ncclComm *comm)
{
	for (struct ncclWindow *w = comm->windows, *next; w; w = next) {
		next = w->next;
		nccl_window_free(w);
	}
	if (comm->signals)
		cudaFree(comm->signals);
	free(comm->peer_signals);
	free(comm->put);
	free(comm->waited);
}

void
nccl_comm_free(struct ncclComm *comm)
{
	if (!comm)
		return;
	pthread_mutex_lock(&nccl_registry);
	if (comm->prev)
		comm->prev->next = comm->next;
	else
		all = comm->next;
	if (comm->next)
		comm->next->prev = comm->prev;
	pthread_mutex_unlock(&nccl_registry);
	release_memory(comm);
	if (comm->bind)
		gpusim_cuda_forgive(comm->ordinal, comm->id);
	cmdq_unbind(comm->bind);
	gpusim_comm_destroy(comm->handle);
	for (size_t i = 0; i < comm->nredops; i++)
		if (comm->redop[i].owned)
			cudaFree(comm->redop[i].owned);
	free(comm->redop);
	comm->magic = 0;
	free(comm);
}

int
nccl_comm_transport(struct ncclComm *comm)
{
	size_t n = (size_t)comm->nranks * comm->nranks;
	int transport = TUNE_P2P;
	uint8_t *path;

	if (comm->transport >= 0)
		return comm->transport;
	path = malloc(n + 1);
	if (!path || gpusim_comm_paths(comm->handle, path) != GPUSIM_OK)
		transport = TUNE_NET;
	for (size_t i = 0; i < n && transport == TUNE_P2P; i++)
		if (path[i] != GPUSIM_PATH_P2P)
			transport = TUNE_NET;
	free(path);
	comm->transport = transport;
	return transport;
}

/* ---- the connection */

ncclResult_t
nccl_connect(const char *address, struct gpusim **out)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct gpusim *connection;
	uint32_t limit_ms = nccl_timeout_ms();
	enum gpusim_rc rc = GPUSIM_OK;
	struct gpusim *cuda;

	pthread_mutex_lock(&lock);
	if (!connection) {
		/* Most programs call CUDA first, which then has already found the coordinator. */
		rc = gpusim_cuda_connect(&cuda);
		if (rc != GPUSIM_OK && *address && !getenv("GPUSIM_COORD")) {
			setenv("GPUSIM_COORD", address, 0);
			rc = gpusim_cuda_connect(&cuda);
		}
		if (rc == GPUSIM_OK)
			rc = gpusim_open_within(
			    NULL, limit_ms < NCCL_CALL_MS ? limit_ms : NCCL_CALL_MS, &connection);
		if (rc == GPUSIM_OK)
			nccl_algos_load(connection);
	}
	*out = connection;
	pthread_mutex_unlock(&lock);
	return rc == GPUSIM_OK ? ncclSuccess : nccl_fail_rc(rc, "Init");
}

uint32_t
nccl_timeout_ms(void)
{
	const char *text = getenv("GPUSIM_TIMEOUT");
	struct err err = {0};
	uint32_t ms = UINT32_MAX;

	if (text && *text && parse_ms(text, &ms, &err) != RC_OK) {
		nccl_log_waiting(-1, "GPUSIM_TIMEOUT : %s; operations wait without limit",
				 err.text);
		ms = UINT32_MAX;
	}
	return ms;
}

/* ---- properties of communicators */

/* Return one of a communicator's constant numbers. */
static ncclResult_t
ask(const struct ncclComm *comm, const char *call, const void *out)
{
	ncclResult_t r = nccl_comm_check(comm, call);
	int use = r == ncclSuccess ? atomic_load(&comm->use) : NCCL_USE_READY;

	if (r == ncclSuccess && !out)
		r = nccl_fail(ncclInvalidArgument, "%s : result argument is NULL", call);
	if (r == ncclSuccess && (use == NCCL_USE_STARTING || use == NCCL_USE_FAILED))
		r = nccl_comm_refuse(comm, call);
	return r;
}

#define NUMBER(name, call, value)                          \
	ncclResult_t name(const ncclComm_t comm, int *out) \
	{                                                  \
		ncclResult_t r = ask(comm, call, out);     \
                                                           \
		if (r == ncclSuccess)                      \
			*out = (int)comm->value;           \
		return r;                                  \
	}                                                  \
	NCCL_ALIAS(name)

NUMBER(ncclCommCount, "CommCount", nranks);
NUMBER(ncclCommCuDevice, "CommCuDevice", ordinal);
NUMBER(ncclCommUserRank, "CommUserRank", rank);
