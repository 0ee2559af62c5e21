/*
 * cmdq.h - command queues of clients: rings of commands in the memory file (mem/cmdq.h), each with a thread
 * that carries them out, and the communicators that client processes drive through them.
 *
 * All of it ends with the client's process. Thread-safe.
 */
#ifndef DEV_CMDQ_H
#define DEV_CMDQ_H

#include "dev/program.h"
#include "dev/stream.h"
#include "mem/cmdq.h"

#define CMDQS_MAX	 512 /* queues of a device */
#define CMDQS_CLIENT_MAX 256 /* of one process */
#define CMDQS_SHAPES	 512 /* collectives that a queue keeps planned, of one communicator */

struct cmdqs;

/* A rank that this device gives up, to be reported to the coordinator. */
struct cmdq_report {
	uint64_t comm;
	uint32_t epoch;
	enum rc rc;
	char reason[CMDQ_TEXT];
};

/* env, what it names, and the streams outlive them. wake(arg), on any thread: a report is available; or
 * NULL. */
enum rc cmdqs_new(const struct program_env *env, struct streams *streams, void (*wake)(void *),
		  void *arg, struct cmdqs **out, struct err *err);

/* End all queues (abort the communicators first) and accept no new ones. */
void cmdqs_stop(struct cmdqs *s);

/* Stops too. NULL is legal. */
void cmdqs_free(struct cmdqs *s);

/* Update the records; call every 100 ms or so. */
struct device_recorder;
void cmdqs_tick(struct cmdqs *s, struct device_recorder *r);

/*
 * Open a queue for a process of this host.
 *
 *	stream	a numbered one, or CMDQS_OWN: one of its own
 *	page	[out] offset in the memory file
 *
 * RC_INVAL: no such stream; RC_NOTFOUND: no such process; RC_BUSY: too many; RC_NOMEM; RC_ABORTED: stopped.
 */
#define CMDQS_OWN UINT32_MAX
enum rc cmdqs_open(struct cmdqs *s, uint32_t pid, uint32_t stream, const struct cmdq_page **page,
		   struct err *err);

/* Close a queue: it ends after its current command, and skips the rest. RC_NOTFOUND. */
enum rc cmdqs_close(struct cmdqs *s, uint64_t id, struct err *err);

/*
 * Attach a communicator that processes drive, with the way its ranks choose algorithms: text for
 * tuner_configure, not NUL-terminated. And join it. Other communicators cannot be bound.
 *
 * RC_NOMEM, RC_BADDATA: bad algorithms or rules.
 */
struct cmdq_choice {
	const void *algos, *rules;
	size_t nalgos, nrules;
	GpuSim__RankAlgo *const *files; /* algorithms from files, of this rank */
	size_t nfiles;
	uint32_t rank, nranks;
};
enum rc cmdqs_attached(struct cmdqs *s, uint64_t comm, uint32_t epoch,
		       const struct cmdq_choice *choice, struct err *err);
void cmdqs_joined(struct cmdqs *s, uint64_t comm, uint32_t epoch, bool by_memory);

/*
 * Bind this device's rank to a process. The record lives until cmdqs_unbind, or the process's end.
 *
 * RC_NOTFOUND: no such communicator, epoch or process; RC_INVAL: processes do not drive it; RC_BUSY: already
 * bound; RC_ABORTED: it has failed; RC_NOMEM.
 */
enum rc cmdqs_bind(struct cmdqs *s, uint64_t comm, uint32_t epoch, uint32_t pid,
		   const char *program, const struct cmdq_comm **record, struct err *err);

/* RC_NOTFOUND: not bound. */
enum rc cmdqs_unbind(struct cmdqs *s, uint64_t comm, struct err *err);

/* A communicator has failed here, at this epoch or before, with a reason. A communicator was detached. */
void cmdqs_comm_over(struct cmdqs *s, uint64_t comm, uint32_t epoch, enum rc rc,
		     const char *reason);
void cmdqs_comm_gone(struct cmdqs *s, uint64_t comm);

/* The counts of bound communicators, at most max. Returns their number. */
struct cmdq_count {
	uint64_t comm, operations;
	uint64_t *waited_ns; /* by rank, the caller frees it; NULL: no waits */
	uint32_t nranks;
};
size_t cmdqs_counts(struct cmdqs *s, struct cmdq_count *out, size_t max);

/* Take the next report. False: none. */
bool cmdqs_report(struct cmdqs *s, struct cmdq_report *out);

/* The progress of all queues that are in an operation, at most max. Returns their number. */
size_t cmdqs_progress(struct cmdqs *s, struct progress *out, size_t max);

#endif
