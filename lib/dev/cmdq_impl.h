/*
 * cmdq_impl.h - what the files of the command queues share.
 *
 * Design notes. Each queue has a thread (cmdq_serve.c), which alone reads its ring and writes its page, and
 * which owns all that it needs for running: collectives of the shapes it has met (cmdq_coll.c), scratch, a
 * recorder. A command takes no lock. One lock guards the tables of queues, of bound communicators and of
 * clients, and the counts in them. A queue's thread is asked to look up (`attention`): to end, or to let go
 * of communicators that are over. Threads are detached and counted; cmdqs_stop waits for the count.
 *
 * One more thread waits for the ends of clients' processes (cmdq_client.c). A client that has ended has no
 * queues and no communicators any more.
 *
 * The pages lie in memory that clients write to. A command is copied before it is looked at, an index from
 * there is bounded, an address is checked where it is used.
 *
 * A bound communicator is in the table until its client lets it go, for the client reads its record. The
 * transport's communicator is held until it is over and no queue uses it.
 */
#ifndef DEV_CMDQ_IMPL_H
#define DEV_CMDQ_IMPL_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "coll/tune.h"
#include "dev/cmdq.h"
#include "dev/cmdq_algos.h"
#include "dev/collective.h"

#define SHAPE_BUCKETS 64

/* A process with queues or communicators here. */
struct cmdq_client {
	struct cmdq_client *next;
	uint32_t pid;
	int fd;			   /* of the process */
	unsigned nqueues, nbounds; /* it goes with the last */
};

/* A communicator that processes may drive, from its attach on. */
struct drivable {
	struct drivable *next;
	uint64_t comm;
	uint32_t epoch;
	bool by_memory; /* all its ranks reach each other so */
	char *algos, *rules;
	struct cmdq_algos *files; /* NULL: none */
};

/* A communicator that a client drives. */
struct bound {
	struct bound *next;
	unsigned users;		    /* queues that hold it */
	struct cmdq_client *client; /* NULL once it is out of the table */
	char program[64];
	uint64_t comm;
	uint32_t epoch, rank, nranks;
	struct xport_tickets tickets;
	struct tuner tuner;
	struct cmdq_algos *files; /* NULL: none */
	bool by_memory;
	struct cmdq_comm *record;
	uint64_t
	    *waited_ns;	  /* by rank: how long this one waited for it; atomic, of all its queues */
	uint32_t grouped; /* operations of its client's open group that the recorder was told of */
	atomic_bool over; /* its reason is in `why` */
	struct err why;
};

/* A collective, send or receive of one shape, as it can run again and again. */
struct shaped {
	struct shaped *next;
	uint8_t coll, dtype, redop, algo;
	uint16_t mark;
	bool deterministic;
	uint32_t root;
	uint64_t count;
	struct shape shape;
	struct inst_coll c;
	uint32_t *after[2]; /* see hoist.h; buffers apart, in place */
	size_t nbytes;	    /* that it is charged for */
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
	unsigned refs; /* the table's, the thread's, of those that wait for it */
	_Atomic uint32_t attention;
	_Atomic(_Atomic uint64_t *) waits_on; /* the counter that its thread may sleep on */
	atomic_bool over;		      /* its thread has ended */
	struct stream_turns turns;	      /* with the runs of a numbered stream */
	/* The thread's own: */
	uint64_t n; /* the command at hand */
	uint64_t errors;
	bool failed; /* the last error is not forgiven */
	struct queue_comm *comms;
	struct recorder recorder;
	void *scratch;
	uint64_t scratch_bytes;
	cpu_set_t cores;   /* that the thread may use */
	int home;	   /* the one that it should be on when it idles, or -1 */
	uint64_t moved_ns; /* when it went there last */
	struct pair *pair;
	struct inst_coll *inst;
	struct cmdq_command *set;
	size_t nset; /* room in the three */
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
	pthread_cond_t ended; /* a thread has */
	unsigned threads, nqueues;
	bool stop;
	uint64_t last_id;
	struct queue *queues;
	struct drivable *drivables;
	struct bound *bounds;
	struct cmdq_client *clients;
	struct report *reports, **reports_tail;
	int epoll, stop_fd; /* of the thread that waits for clients' ends */
	pthread_t watcher;
	bool watching;
};

/* ---- cmdq.c: lock held */

struct queue *queue_find(struct cmdqs *s, uint64_t id);
void queue_drop(struct queue *q); /* a reference; the last one frees the page */

/* Have the queue's thread look up. */
void queue_attend(struct queue *q, uint32_t why);

/* Take it out of the table, and have it end. */
void queue_close(struct queue *q);

/* ---- cmdq_serve.c */

void *queue_main(void *arg);

/* On the queue's thread. False: the queue ends. */
bool queue_look_up(struct queue *q);

enum rc queue_copy(struct queue *q, const struct cmdq_bytes *b, struct err *err);

/* ---- cmdq_coll.c: on the queue's thread */

enum rc queue_coll(struct queue *q, const struct cmdq_command *c, struct err *err);

/* The set of sends and receives that begins with the command; *n of them have been taken. */
enum rc queue_set(struct queue *q, const struct cmdq_command *c, size_t *n, struct err *err);

/* A command of a communicator is passed over: its rank cannot go on. */
void queue_skip(struct queue *q, const struct cmdq_command *c, const char *why);

/* One of a communicator has failed. */
void queue_coll_failed(struct queue *q, const struct cmdq_command *c, const struct err *why);

/* Let go of communicators that are over; of all. */
void queue_forget_comms(struct queue *q, bool all);

/* ---- cmdq_place.c: on the queue's thread */

/* Its collectives are this communicator's from now on. */
void queue_settle_near(struct queue *q, const struct queue_comm *k);

/* It idles on another core than `home`. */
void queue_move_home(struct queue *q);

/* ---- cmdq_comm.c */

/* Hold the communicator that the client has bound; NULL with the reason. */
struct bound *bound_hold(struct cmdqs *s, uint64_t comm, uint32_t pid, struct err *err);
void bound_drop(struct cmdqs *s, struct bound *b);

/* The rank is lost: its peers, the client and, with tell, the coordinator hear the reason. */
void bound_give_up(struct cmdqs *s, struct bound *b, enum rc rc, const char *reason, bool tell);

/* Lock held. All of a client that has ended. */
void bounds_lose(struct cmdqs *s, const struct cmdq_client *c);

/* Lock held. Of all clients: the device ends. */
void bounds_stop(struct cmdqs *s);
void comms_free(struct cmdqs *s);

/* ---- cmdq_client.c: lock held but for the first two */

enum rc clients_watch(struct cmdqs *s, struct err *err);
void clients_unwatch(struct cmdqs *s);

/* The process's entry, made when it is new. RC_NOTFOUND, RC_BUSY, RC_NOMEM. */
enum rc client_get(struct cmdqs *s, uint32_t pid, struct cmdq_client **out, struct err *err);

/* Forget it unless it has queues or communicators. */
void client_settle(struct cmdqs *s, struct cmdq_client *c);

#endif
