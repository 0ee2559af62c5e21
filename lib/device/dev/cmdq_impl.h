/*
 * cmdq_impl.h - what the files of the command queues share.
 *
 * Design notes. Each queue has a thread (cmdq_serve.c), which alone reads its ring and writes its page,
 * and owns all that it needs to run: planned collectives (cmdq_coll.c), scratch, a recorder. A command
 * takes no lock. One lock guards the tables of queues, bound communicators and clients, and their counts.
 * `attention` asks a queue's thread to end, or to release ended communicators. Threads are detached and
 * counted; cmdqs_stop waits for the count.
 *
 * One more thread waits for clients' processes to end (cmdq_client.c), and then frees their queues and
 * communicators.
 *
 * The pages are in memory that clients write to. A command is copied before it is checked, an index from
 * there is bounded, an address is checked where it is used.
 *
 * A bound communicator stays in the table until its client unbinds it, for the client reads its record. The
 * transport's communicator is held until it has ended and no queue uses it.
 */
#ifndef DEV_CMDQ_IMPL_H
#define DEV_CMDQ_IMPL_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "coll/tune.h"
#include "dev/cmdq.h"
#include "coll/schedule.h"
#include "dev/collective.h"

#define SHAPE_BUCKETS 64

/* A process with queues or communicators here. */
struct cmdq_client {
	struct cmdq_client *next;
	uint32_t pid;
	int fd;			   /* pidfd */
	unsigned nqueues, nbounds; /* freed with the last */
};

/* A communicator that processes may drive, from its attach on. */
struct drivable {
	struct drivable *next;
	uint64_t comm;
	uint32_t epoch;
	bool by_memory; /* all its ranks use peer memory */
	char *algos, *rules;
	struct cmdq_algos *files; /* NULL: none */
};

/* A communicator that a client drives. */
struct bound {
	struct bound *next;
	unsigned users;		    /* queues that hold it */
	struct cmdq_client *client; /* NULL once removed from the table */
	char program[64];
	uint64_t comm;
	uint32_t epoch, rank, nranks;
	struct xport_tickets tickets;
	struct tuner tuner;
	struct cmdq_algos *files; /* NULL: none */
	bool by_memory;
	struct cmdq_comm *record;
	/* by rank: how long this rank waited for it; atomic, of all its queues */
	uint64_t *waited_ns;
	uint32_t grouped; /* operations of its client's open group, as the recorder shows */
	atomic_bool over; /* ended because of `why` */
	struct err why;
};

/* A planned collective, send or receive of one shape. */
struct shaped {
	struct shaped *next;
	struct cmdq_command command; /* the first of this shape */
	struct inst_coll c;
	uint32_t *after[2]; /* see hoist.h; buffers apart, in place */
	size_t nbytes;	    /* charged to the device */
};

/* A communicator as one queue uses it. */
struct queue_comm {
	struct queue_comm *next;
	struct bound *bound;
	struct program program; /* without instructions */
	struct shaped *bucket[SHAPE_BUCKETS];
	unsigned nshaped;
};

enum { QUEUE_END = 1, QUEUE_LOOK = 2 }; /* attention */

struct queue {
	struct queue *next;
	struct cmdqs *all;
	struct cmdq_client *client;
	uint64_t id;
	uint32_t pid, stream;
	struct cmdq_page *page;
	/* Guarded by the lock: */
	unsigned refs; /* of the table, the thread, and those that wait for it */
	_Atomic uint32_t attention;
	_Atomic(_Atomic uint64_t *) waits_on; /* the counter that its thread may sleep on */
	atomic_bool over;		      /* its thread has ended */
	struct stream_turns turns;	      /* with the runs of a numbered stream */
	/* The thread's own: */
	uint64_t n; /* the current command */
	uint64_t errors;
	bool failed; /* the last error is not cleared */
	struct queue_comm *comms;
	struct recorder recorder;
	void *scratch;
	uint64_t scratch_bytes;
	cpu_set_t cores;   /* that the thread may use */
	int home;	   /* the core on which it should idle, or -1 */
	uint64_t moved_ns; /* last move to it */
	struct pair *pair;
	struct inst_coll *inst;
	struct cmdq_command *set;
	size_t nset; /* room in the three arrays */
};

struct report {
	struct report *next;
	struct cmdq_report r;
};

struct cmdqs {
	struct program_env env;
	struct streams *streams;
	void (*wake)(void *);
	void *wake_arg;
	pthread_mutex_t lock;
	pthread_cond_t ended; /* a thread has ended */
	unsigned threads, nqueues;
	bool stop;
	uint64_t last_id;
	struct queue *queues;
	struct drivable *drivables;
	struct bound *bounds;
	struct cmdq_client *clients;
	struct report *reports, **reports_tail;
	int epoll, stop_fd; /* of the thread that watches clients */
	pthread_t watcher;
	bool watching;
};

/* ---- cmdq_client.c: lock held */

/* The process's entry, created if new. RC_NOTFOUND, RC_BUSY, RC_NOMEM. */
enum rc client_get(struct cmdqs *s, uint32_t pid, struct cmdq_client **out, struct err *err);

/* Free the entry unless it has queues or communicators. */
void client_settle(struct cmdqs *s, struct cmdq_client *c);

struct queue *queue_find(struct cmdqs *s, uint64_t id);
void queue_drop(struct queue *q); /* a reference; the last one frees the page */

/* Ask the queue's thread for attention. */
void queue_attend(struct queue *q, uint32_t why);

/* Remove it from the table and end it. */
void queue_close(struct queue *q);

/* Lose all: the device ends. */
void bounds_stop(struct cmdqs *s);
void comms_free(struct cmdqs *s);

/* ---- the same file, without the lock */

/* Hold the communicator that the client has bound; NULL with the reason. */
struct bound *bound_hold(struct cmdqs *s, uint64_t comm, uint32_t pid, struct err *err);
void bound_drop(struct cmdqs *s, struct bound *b);

/* The rank is lost: give the reason to its peers, the client and, with tell, the coordinator. */
void bound_give_up(struct cmdqs *s, struct bound *b, enum rc rc, const char *reason, bool tell);

/* The thread that watches clients ends. */
void clients_unwatch(struct cmdqs *s);

/* ---- cmdq_serve.c */

void *queue_main(void *arg);

/* ---- cmdq_coll.c: on the queue's thread */

enum rc queue_coll(struct queue *q, const struct cmdq_command *c, struct err *err);

/* Run the set of sends and receives that begins with the command; *n is its length. */
enum rc queue_set(struct queue *q, const struct cmdq_command *c, size_t *n, struct err *err);

/* Skip a command of a communicator: its rank cannot continue. */
void queue_skip(struct queue *q, const struct cmdq_command *c, const char *why);

/* A command of a communicator has failed. */
void queue_coll_failed(struct queue *q, const struct cmdq_command *c, const struct err *why);

/* Release ended communicators, or all. */
void queue_forget_comms(struct queue *q, bool all);

/* Heed `attention`. False: the queue ends. */
bool queue_look_up(struct queue *q);

enum rc queue_copy(struct queue *q, const struct cmdq_bytes *b, struct err *err);

/* ---- cmdq_place.c: on the queue's thread */

/* Its collectives belong to this communicator from now on. */
void queue_settle_near(struct queue *q, const struct queue_comm *k);

/* Move the thread to `home`, as it idles elsewhere. */
void queue_move_home(struct queue *q);

/* ---- cmdq_algos.c: the algorithms from files in the attach of a queued communicator */

/* Shared by the attach and the processes that have bound the communicator; the last one frees it. */
struct cmdq_algos {
	atomic_uint users;
	struct tune_files files; /* of: struct schedule */
};

/* NULL when there are none. RC_BADDATA malformed or for another rank; RC_NOMEM. */
enum rc cmdq_algos_new(GpuSim__RankAlgo *const *v, size_t n, uint32_t rank, uint32_t nranks,
		       struct cmdq_algos **out, struct err *err);
void cmdq_algos_drop(struct cmdq_algos *a); /* NULL is legal */

#endif
