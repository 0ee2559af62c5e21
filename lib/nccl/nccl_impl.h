/*
 * nccl_impl.h - what the files of libnccl share.
 *
 * Design notes. A communicator belongs to its program: NCCL lets one thread at a time call with it. What its job (an
 * initialisation that goes on in the background) and the watcher touch as well is atomic, or under the registry's
 * lock. `use` says whether operations may begin: the hot path reads that and no more.
 */
#ifndef NCCL_IMPL_H
#define NCCL_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/cmdq.h"
#include "cudart/hooks.h"
#include "nccl.h"
#include "nccl/config.h"
#include "nccl/log.h"
#include "nccl/order.h"

/* A call's second name; it stands behind the call. */
#define NCCL_ALIAS(name) \
	extern __typeof__(name) p##name __attribute__((alias(#name), visibility("default")))

#define NCCL_COMM_MAGIC 0x6770756e63636c31ull

/* Whether operations may begin. */
enum nccl_use {
	NCCL_USE_READY,
	NCCL_USE_STARTING,  /* its job goes on */
	NCCL_USE_FAILED,    /* its job failed */
	NCCL_USE_FINALIZED, /* or is about to be */
	NCCL_USE_REVOKED,
	NCCL_USE_SUSPENDED,
};

#define NCCL_TEXT 512

/* A failure and its place among all of this process. */
struct nccl_failure {
	uint64_t number; /* 0: none */
	char text[NCCL_TEXT];
};

/* An operator of ncclRedOpCreatePreMulSum. */
struct nccl_redop {
	bool used;
	ncclDataType_t dtype;
	uint8_t flag; /* CMDQ_SCALAR, CMDQ_SCALAR_ADDR */
	uint64_t scalar;
	void *owned; /* device memory that a scalar in pinned host memory is copied to; or NULL */
	const void *host; /* that scalar */
};

struct ncclWindow;
struct nccl_algos;

struct ncclComm {
	uint64_t magic;
	_Atomic int use; /* enum nccl_use */
	uint32_t rank, nranks;
	int ordinal;
	uint64_t id;
	struct cmdq_bind *bind;
	const struct nccl_algos *algos; /* NULL: the devices choose */
	int transport;			/* enum tune_transport; -1: not asked yet */
	struct nccl_config config;
	struct gpusim *g;
	struct gpusim_comm *handle;
	struct nccl_redop *redop; /* nredops of them */
	size_t nredops;
	struct ncclWindow *windows; /* newest first */
	void *signals;		    /* device memory, of windows */
	_Atomic int hosted;	    /* puts and waits for signals that have not ended */
	uint64_t *peer_signals;	    /* by rank: address of the peer's; NULL until a window is */
	uint64_t *put, *waited;	    /* by rank: signals sent and waited for */
	/* Registry's lock held: */
	struct ncclComm *next, *prev; /* of all communicators of the process */
	bool busy;		      /* a job goes on */
	bool orphan;		      /* aborted meanwhile: its job releases it */
	ncclResult_t result;	      /* of its latest job */
	struct nccl_failure failure;
	uint64_t told_ms; /* the watcher has told of a wait of so long */
	ncclUniqueId grow_id;
	bool growing;	   /* grow_id was given out */
	bool told_failure; /* its loss was logged */
};

/* ---- errors (error.c) */

/* Keep the sentence for ncclGetLastError, log it, and return the result. */
ncclResult_t nccl_fail(ncclResult_t result, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The same for a failure of the client, whose sentence gpusim_error() has; what: the call, begins the sentence. */
ncclResult_t nccl_fail_rc(enum gpusim_rc rc, const char *what);
ncclResult_t nccl_fail_err(const struct err *err, const char *what);
ncclResult_t nccl_fail_cuda(cudaError_t e, const char *what);

/* What NCCL calls a result of gpusim. */
ncclResult_t nccl_result(enum gpusim_rc rc);

/* This thread's latest failure. */
const struct nccl_failure *nccl_last_failure(void);

/* ---- communicators (comm.c) */

/* Set when a call may use it: NULL, released, foreign. */
ncclResult_t nccl_comm_check(const struct ncclComm *comm, const char *call);

/* The sentence for a communicator that operations may not begin on. */
ncclResult_t nccl_comm_refuse(const struct ncclComm *comm, const char *call);

/* A communicator that is starting, in the registry. */
ncclResult_t nccl_comm_new(int ordinal, const struct nccl_config *config, struct ncclComm **out);

/* Take what the coordinator made: bind, and be ready. The handle is the communicator's in any case. */
ncclResult_t nccl_comm_adopt(struct ncclComm *comm, struct gpusim_comm *handle, const char *call);

/* Whether all ranks have mapped each other's memory: enum tune_transport. */
int nccl_comm_transport(struct ncclComm *comm);

/* Release this process's part. */
void nccl_comm_free(struct ncclComm *comm);

/* The connection for communicators: its calls give up after 10 s, so that a wait can tell who is missing. */
ncclResult_t nccl_connect(const char *address, struct gpusim **out);

/* GPUSIM_TIMEOUT in ms, UINT32_MAX: for ever. */
uint32_t nccl_timeout_ms(void);

/* All communicators of the process, registry's lock held meanwhile. */
void nccl_comms_each(void (*fn)(struct ncclComm *comm, void *arg), void *arg);
extern pthread_mutex_t nccl_registry;

/* ---- jobs (job.c): work that waits for other ranks */

struct nccl_job {
	ncclResult_t (*run)(struct nccl_job *job);
	struct ncclComm *comm;	/* that it is about, or makes */
	struct ncclComm *other; /* that it is made from; or NULL */
	bool blocking, makes;	/* makes: comm is unusable if it fails */
	bool discard;		/* comm is there for the job alone */
	int ordinal;
	const char *call;
	struct ncclComm **out; /* set to NULL if a blocking job fails; or NULL */
	struct gpusim_unique_id id;
	char address[128];
	bool has_id;
	int rank, nranks, color, key;
	uint32_t *ranks; /* the job's, of shrink */
	size_t n_ranks;
	bool abort;
	void *pointer; /* window */
	size_t size;
	ncclResult_t result;
	struct nccl_failure failure;
	struct nccl_job *next;
	bool begun; /* thread runs it */
	pthread_t thread;
};

/* Now, in the background, or at the end of the group. The job is copied. */
ncclResult_t nccl_job_start(const struct nccl_job *job);

/* Run jobs of a group beside each other, and release the list. */
ncclResult_t nccl_jobs_run(struct nccl_job *list);

/* Release jobs that never began, and what they would have made, because the group failed with r. */
void nccl_jobs_drop(struct nccl_job *list, ncclResult_t r);

/* Wait until the communicator's job has ended. */
void nccl_job_wait(struct ncclComm *comm);

/* ---- groups (group.c) */

bool nccl_group_open(void);
ncclResult_t nccl_group_job(const struct nccl_job *job);

/* Enqueue, or add to the open group. */
ncclResult_t nccl_submit(const struct nccl_op *op);

/* The thread's group fails with this result; returned as it is. */
ncclResult_t nccl_group_note(ncclResult_t result);

/* ---- operations (enqueue.c, simulate.c) */

/* Operations of one launch, sorted. */
ncclResult_t nccl_enqueue(const struct nccl_op *op, size_t n);

/* How long operations would take, in us. */
float nccl_simulate(const struct nccl_op *op, size_t n);

/* ---- algorithms (algos.c) */

/* What NCCL_ALGO and NCCL_TUNER_CONFIG_FILE say; NULL: neither is set. */
const struct nccl_algos *nccl_algos(void);

/* Once, before communicators are made: MSCCL_XML_FILES, and the names of NCCL_ALGO that are of files. */
void nccl_algos_load(struct gpusim *g);

/* For struct cmdq_command.algo, and *mark for its mark if that is of a file; transport: of nccl_comm_transport. */
uint8_t nccl_algo(const struct nccl_algos *a, int transport, uint32_t nranks, enum gpusim_coll coll,
		  uint32_t root, uint64_t nbytes, bool canonical, uint16_t *mark);

/* ---- types (types.c) */

size_t nccl_dtype_size(ncclDataType_t t); /* 0: no such type */
enum gpusim_dtype nccl_dtype(ncclDataType_t t);
enum gpusim_redop nccl_redop(ncclRedOp_t op); /* of the built-in ones */

/* ---- watcher (watch.c) */

/* Begin to watch, once a communicator is there. */
void nccl_watch(void);

#endif
