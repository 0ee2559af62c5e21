/*
 * cmdq.h - command queues of clients: rings of commands in the memory file (mem/cmdq.h), each with a thread
 * that carries them out, and the communicators that client processes drive through them.
 *
 * Everything ends with its client's process. Thread-safe.
 */
#ifndef DEV_CMDQ_H
#define DEV_CMDQ_H

#include "dev/program.h"
#include "dev/stream.h"
#include "mem/cmdq.h"

#define CMDQS_MAX	 512 /* queues of a device */
#define CMDQS_CLIENT_MAX 256 /* of one process */
#define CMDQS_SHAPES	 512 /* collectives that a queue remembers how to run, of one communicator */

struct cmdqs;

/* A rank that this device gives up: the coordinator is to hear it. */
struct cmdq_report {
	uint64_t comm;
	uint32_t epoch;
	enum rc rc;
	char reason[CMDQ_TEXT];
};

/* env, what it names, and the streams outlive them. wake(arg): there is a report, on any thread, or NULL. */
enum rc cmdqs_new(const struct program_env *env, struct streams *streams, void (*wake)(void *),
		  void *arg, struct cmdqs **out, struct err *err);

/* End all queues (abort the communicators first) and take nothing new. */
void cmdqs_stop(struct cmdqs *s);

/* Stops too. NULL is legal. */
void cmdqs_free(struct cmdqs *s);

/* To be called every 100 ms or so: records are brought up to date. */
struct device_recorder;
void cmdqs_tick(struct cmdqs *s, struct device_recorder *r);

/*
 * Open a queue for a process of this host.
 *
 *	stream	a numbered one, or CMDQS_OWN: one of its own
 *	page	[out] in the memory file
 *
 * RC_INVAL: no such stream; RC_NOTFOUND: no such process; RC_BUSY: too many; RC_NOMEM; RC_ABORTED: stopped.
 */
#define CMDQS_OWN UINT32_MAX
enum rc cmdqs_open(struct cmdqs *s, uint32_t pid, uint32_t stream, const struct cmdq_page **page,
		   struct err *err);

/* What it has not carried out is passed over; it ends when its command under way has. RC_NOTFOUND. */
enum rc cmdqs_close(struct cmdqs *s, uint64_t id, struct err *err);

/*
 * A communicator that processes drive is attached here: how its ranks choose algorithms, as tuner_configure takes
 * it (text, not ended by 0). And it is joined. Others cannot be bound.
 *
 * RC_NOMEM, RC_BADDATA: no such algorithms or rules.
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
 * A process drives this device's rank from now on. The record lives until cmdqs_unbind, or the process's end.
 *
 * RC_NOTFOUND: no such communicator, epoch or process; RC_INVAL: it is none that processes drive; RC_BUSY:
 * it is bound already; RC_ABORTED: it has failed; RC_NOMEM.
 */
enum rc cmdqs_bind(struct cmdqs *s, uint64_t comm, uint32_t epoch, uint32_t pid,
		   const char *program, const struct cmdq_comm **record, struct err *err);

/* RC_NOTFOUND: it is not bound. */
enum rc cmdqs_unbind(struct cmdqs *s, uint64_t comm, struct err *err);

/* A communicator has failed here, at this epoch or before, with a reason. And it is not here any more. */
void cmdqs_comm_over(struct cmdqs *s, uint64_t comm, uint32_t epoch, enum rc rc,
		     const char *reason);
void cmdqs_comm_gone(struct cmdqs *s, uint64_t comm);

/* What each bound communicator has done; at most max, how many. */
struct cmdq_count {
	uint64_t comm, operations;
	uint64_t *waited_ns; /* by rank, the caller's to free; NULL: it waited for nobody */
	uint32_t nranks;
};
size_t cmdqs_counts(struct cmdqs *s, struct cmdq_count *out, size_t max);

/* Take the next report. False: there is none. */
bool cmdqs_report(struct cmdqs *s, struct cmdq_report *out);

/* Of all queues that are in an operation, at most max; how many. */
size_t cmdqs_progress(struct cmdqs *s, struct progress *out, size_t max);

#endif
