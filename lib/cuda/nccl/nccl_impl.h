/*
 * nccl_impl.h - shared by the files of libnccl.
 *
 * Design notes. A communicator belongs to its program: NCCL lets one thread at a time call with it. Data
 * that its job (an initialisation in the background) or the watcher also uses is atomic, or under the
 * registry's lock. `use` shows whether operations may begin: the hot path reads only that.
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

/* A call's second name; placed after the call. */
#define NCCL_ALIAS(name) \
	extern __typeof__(name) p##name __attribute__((alias(#name), visibility("default")))

#define NCCL_COMM_MAGIC 0x6770756e63636c31ull

/* The states that decide whether operations may begin. */
enum nccl_use {
	NCCL_USE_READY,
	NCCL_USE_STARTING,  /* its job is running */
	NCCL_USE_FAILED,    /* its job failed */
	NCCL_USE_FINALIZED, /* or about to be */
	NCCL_USE_REVOKED,
	NCCL_USE_SUSPENDED,
};

#define NCCL_TEXT 512

/* A failure and its number among all failures of this process. */
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
	void *owned;	  /* device memory for a copy of a scalar in pinned host memory; or NULL */
	const void *host; /* that scalar */
};

struct nccl_algos;

/* Memory that all ranks have registered. */
struct ncclWindow {
	struct ncclWindow *next;
	struct ncclComm *comm;
	void *own; /* this rank's pointer */
	size_t size;
	uint64_t *peer;	     /* by rank: the address on the rank's device */
	uint64_t *peer_size; /* by rank */
};

struct ncclComm {
	uint64_t magic;
	_Atomic int use; /* enum nccl_use */
	uint32_t rank, nranks;
	int ordinal;
	uint64_t id;
	struct cmdq_bind *bind;
	const struct nccl_algos *algos; /* NULL: the devices choose */
	int transport;			/* enum tune_transport; -1: not known yet */
	struct nccl_config config;
	struct gpusim *g;
	struct gpusim_comm *handle;
	struct nccl_redop *redop; /* nredops of them */
	size_t nredops;
	struct ncclWindow *windows; /* newest first */
	void *signals;		    /* device memory, of windows */
	_Atomic int hosted;	    /* puts and waits for signals that have not ended */
	uint64_t *peer_signals;	    /* by rank: address of the peer's; NULL without a window */
	uint64_t *put, *waited;	    /* by rank: signals sent and waited for */
	/* Guarded by the registry's lock: */
	struct ncclComm *next, *prev; /* of all communicators of the process */
	bool busy;		      /* a job is running */
	bool orphan;		      /* aborted meanwhile: its job releases it */
	ncclResult_t result;	      /* of its last job */
	struct nccl_failure failure;
	uint64_t told_ms; /* length of the wait that the watcher last logged */
	ncclUniqueId grow_id;
	bool growing;	   /* grow_id was returned to the program */
	bool told_failure; /* its loss was logged */
};

/* ---- errors (error.c) */

/* Keep the message for ncclGetLastError, log it, and return the result. */
ncclResult_t nccl_fail(ncclResult_t result, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* As nccl_fail, for a failure of the client, whose message is in gpusim_error(); what: the call,
 * begins the message. */
ncclResult_t nccl_fail_rc(enum gpusim_rc rc, const char *what);
ncclResult_t nccl_fail_err(const struct err *err, const char *what);
ncclResult_t nccl_fail_cuda(cudaError_t e, const char *what);

/* NCCL's result for a result of gpusim. */
ncclResult_t nccl_result(enum gpusim_rc rc);

/* This thread's latest failure. */
const struct nccl_failure *nccl_last_failure(void);

/* ---- communicators (comm.c) */

/* Check that a call may use the communicator: not NULL, released or foreign. */
ncclResult_t nccl_comm_check(const struct ncclComm *comm, const char *call);

/* Fail with the reason why operations may not begin on a communicator. */
ncclResult_t nccl_comm_refuse(const struct ncclComm *comm, const char *call);

/* Create a communicator that is starting, in the registry. */
ncclResult_t nccl_comm_new(int ordinal, const struct nccl_config *config, struct ncclComm **out);

/* The communicator's enum tune_transport: have all ranks mapped each other's memory? */
int nccl_comm_transport(struct ncclComm *comm);

/* Release this process's part. A window alone. */
void nccl_comm_free(struct ncclComm *comm);
void nccl_window_free(struct ncclWindow *w);

/* The connection for communicators, and the longest of its calls: after it a wait logs the missing ranks and repeats
 * the call. */
#define NCCL_CALL_MS 10000
ncclResult_t nccl_connect(const char *address, struct gpusim **out);

/* GPUSIM_TIMEOUT in ms, UINT32_MAX: no limit. */
uint32_t nccl_timeout_ms(void);

/* Call fn for all communicators of the process, with the registry's lock held. */
void nccl_comms_each(void (*fn)(struct ncclComm *comm, void *arg), void *arg);
extern pthread_mutex_t nccl_registry;

/* ---- jobs (group.c): work that waits for other ranks */

struct nccl_try;
struct nccl_job {
	ncclResult_t (*run)(struct nccl_job *job);
	/* of nccl_make (wait.h) */
	enum gpusim_rc (*attempt)(const struct nccl_try *t, struct gpusim_comm **out);
	bool starts;		/* log that it starts */
	struct ncclComm *comm;	/* the job's subject, or its result */
	struct ncclComm *other; /* the parent; or NULL */
	bool blocking, makes;	/* makes: comm is unusable if it fails */
	bool discard;		/* comm exists only for the job */
	int ordinal;
	const char *call;
	struct ncclComm **out; /* set to NULL if a blocking job fails; or NULL */
	struct gpusim_unique_id id;
	char address[128];
	bool has_id;
	int rank, nranks, color, key;
	uint32_t *ranks; /* of shrink; owned by the job */
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

/* Run a job now, in the background, or at the end of the group. The job is copied. */
ncclResult_t nccl_job_start(const struct nccl_job *job);

/* Wait until the communicator's job has ended. */
void nccl_job_wait(struct ncclComm *comm);

/* ---- groups (group.c) */

/* Enqueue an operation, or add it to the open group. */
ncclResult_t nccl_submit(const struct nccl_op *op);

/* Note the result as the failure of the thread's open group; returns it unchanged. */
ncclResult_t nccl_group_note(ncclResult_t result);

/* ---- simulate.c */

/* The predicted time of operations, in us. */
float nccl_simulate(const struct nccl_op *op, size_t n);

/* ---- algorithms (algos.c) */

/* The values of NCCL_ALGO and NCCL_TUNER_CONFIG_FILE; NULL: neither is set. */
const struct nccl_algos *nccl_algos(void);

/* Load MSCCL_XML_FILES, and the names of NCCL_ALGO from files; once, before communicators are created. */
void nccl_algos_load(struct gpusim *g);

/* The value for struct cmdq_command.algo, and *mark if the algorithm is from a file; transport: of
 * nccl_comm_transport. */
uint8_t nccl_algo(const struct nccl_algos *a, int transport, uint32_t nranks, enum gpusim_coll coll,
		  uint32_t root, uint64_t nbytes, bool canonical, uint16_t *mark);

/* ---- types (types.c) */

size_t nccl_dtype_size(ncclDataType_t t); /* 0: no such type */
enum gpusim_dtype nccl_dtype(ncclDataType_t t);
enum gpusim_redop nccl_redop(ncclRedOp_t op); /* of the built-in ones */

/* ---- watch.c, exit.c: once a communicator exists */

/* Start the watcher. */
void nccl_watch(void);

/* Leave communicators when the program ends; before the client's own exit handler, because it makes calls. */
void nccl_leave_at_exit(void);

#endif
