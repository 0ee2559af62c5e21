/*
 * stream_impl.h - shared by the files of the streams.
 *
 * Design notes. Each stream has one thread, started with its first work; a transfer's thread ends with it.
 * One lock guards all queues, runs and counts; instructions run without it. A run is shared by its
 * segments, one per stream (run.c); the thread that ends the last segment reports the result. Waiters are
 * notified by the thread that emptied the stream, or by the ticker, without the lock. Threads are detached
 * and counted; streams_stop waits for the count.
 */
#ifndef DEV_STREAM_IMPL_H
#define DEV_STREAM_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "dev/stream.h"

#define FINISHED_TRANSFERS 1024 /* whose status is remembered */

/* The first segment to run restores and takes snapshots; the others wait for it. */
enum run_start { RUN_NEW, RUN_STARTING, RUN_STARTED };

/* The recording that a record or wait is about, in iteration i: first + i * step. */
struct event_number {
	uint64_t first, step;
};

struct run {
	struct run_spec spec;
	struct run_result result;
	struct event_number *event;   /* by instruction */
	struct xport_tickets tickets; /* of its collectives */
	uint64_t *waited_ns;	      /* by rank, of all segments; or NULL */
	uint64_t queued;	      /* time of queueing, in ticks */
	unsigned segments;	      /* not yet ended */
	atomic_bool over;	      /* a segment has failed: the others need not continue */
	enum run_start start;
};

/* The instructions of a run on one stream. */
struct segment {
	struct segment *next;
	struct run *run;
	uint32_t *at;
	size_t n;
	struct {
		struct stream_turns *of; /* NULL: detached */
		uint64_t tail;		 /* number of its commands that precede the run */
	} * turn;
	size_t nturns;
	struct pair *pair;   /* room for those that run together, or NULL */
	uint64_t *waited_ns; /* by rank, or NULL */
	bool failed;	     /* it did not reach its end */
};

struct pending {
	struct pending *next;
	stream_idle_fn fn;
	void *arg;
	uint64_t deadline_ns;
};

struct stream {
	struct streams *all;
	struct stream *next; /* transfers */
	uint64_t id;
	pthread_cond_t work;
	struct segment *head, **tail;
	unsigned queued; /* segments, the running one included */
	bool started, transfer;
	struct transfer_receive receive; /* nbytes 0: not a receive */
	struct err why;			 /* the unreported failure */
	struct recorder recorder;
	struct pending *pending;
	struct stream_turns *turns; /* command queues on it */
	struct segment *running;
	/* Queue to wait for before running; must not be freed meanwhile */
	const struct stream_turns *waits_for;
};

/* A transfer that has ended. */
struct finished {
	uint64_t id;
	struct err why;
	struct transfer_receive receive; /* nbytes 0: not a receive, or claimed */
};

struct streams {
	struct program_env env;
	pthread_mutex_t lock;
	pthread_cond_t ended;	/* a thread has ended */
	pthread_cond_t started; /* a run has started */
	unsigned threads, ntransfers, npending;
	atomic_bool stop;
	struct stream numbered[STREAM_MAX];
	struct stream *transfers;
	struct finished finished[FINISHED_TRANSFERS];
	unsigned nfinished;
};

/* ---- run.c: without the lock unless stated */

/* A run and its segments by stream; NULL: out of memory. */
struct run *run_new(const struct run_spec *spec, struct segment *by_stream[STREAM_MAX]);

/* Free a run that was never queued, or has ended. */
void run_free(struct run *r);
void segment_free(struct segment *g);

/* Lock held. Number the recordings, and what waits are for. False: out of memory, nothing is numbered. */
bool run_number_events(struct run *r);

/* Lock held, released while instructions run, on the stream's thread. */
void segment_run(struct stream *st, struct segment *g);

/* ---- execute.c: on the stream's thread, without the lock */

/* The number of a collective, send or receive in an iteration. */
uint64_t run_op(const struct run *r, const struct inst_coll *c, uint64_t iteration);

/*
 * Do the segment's instruction number `from` in an iteration, or, where sends and receives follow each other,
 * all of them; *ndone is their number. The error says which operation failed.
 */
enum rc execute(struct stream *st, const struct segment *g, uint64_t iteration, size_t from,
		size_t *ndone, struct err *err);

/* ---- turns.c: lock held; turns_await releases it meanwhile */

/* Note what a segment waits for. False: out of memory. */
bool turns_note(const struct stream *st, struct segment *g);
void turns_close(struct segment *g);

/* On the stream's thread: a segment's turn comes; it has ended. */
void turns_await(struct stream *st, struct segment *g);
void turns_open(struct stream *st);

#endif
