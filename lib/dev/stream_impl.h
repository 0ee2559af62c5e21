/*
 * stream_impl.h - what the files of the streams share.
 *
 * Design notes. Each stream has one thread, started with the stream's first work; a transfer's
 * thread ends with it (transfer.c). One lock guards all queues, runs and counts; instructions run
 * without it. A run is shared by its segments, one a stream (run.c); the thread that ends the last
 * segment tells the result. Waiters are told by the thread that emptied the stream, or by the
 * ticker (waiting.c), without the lock. Threads are detached and counted; streams_stop waits for
 * the count.
 */
#ifndef DEV_STREAM_IMPL_H
#define DEV_STREAM_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "dev/stream.h"

#define FINISHED_TRANSFERS 1024 /* whose status is remembered */

/* The first segment that gets to run restores and takes snapshots; the others wait for that. */
enum run_start { RUN_NEW, RUN_STARTING, RUN_STARTED };

struct run {
	struct run_spec spec;
	struct run_result result;
	struct event_number *event;   /* by instruction */
	struct xport_tickets tickets; /* of its collectives */
	uint64_t *waited_ns;	      /* by rank, of all segments; or NULL */
	uint64_t queued;	      /* when, in ticks */
	unsigned segments;	      /* not yet ended */
	atomic_bool over;	      /* a segment has failed: the others need not go on */
	enum run_start start;
};

/* The instructions of a run on one stream. */
struct segment {
	struct segment *next;
	struct run *run;
	uint32_t *at;
	size_t n;
	struct {
		struct stream_turns *of; /* NULL: it has gone */
		uint64_t tail;		 /* its commands that come before */
	} * turn;
	size_t nturns;
	struct pair *pair;   /* room for those that run together, or NULL */
	uint64_t *waited_ns; /* by rank, or NULL */
	bool failed;	     /* it did not get to its end */
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
	unsigned queued; /* segments, with the one that runs */
	bool started, transfer;
	struct transfer_receive receive; /* nbytes 0: it is none */
	struct err why;			 /* the failure nobody was told of */
	struct recorder recorder;
	struct pending *pending;
	struct stream_turns *turns; /* queues on it */
	struct segment *running;
	const struct stream_turns *waits_for; /* before it runs; the thread is not to lose it */
};

/* A transfer that has ended. */
struct finished {
	uint64_t id;
	struct err why;
	struct transfer_receive receive; /* nbytes 0: it was none, or is nobody's any more */
};

struct streams {
	struct program_env env;
	pthread_mutex_t lock;
	pthread_cond_t ended;	/* a thread has ended */
	pthread_cond_t started; /* a run has */
	unsigned threads, ntransfers, npending;
	atomic_bool stop;
	struct stream numbered[STREAM_MAX];
	struct stream *transfers;
	struct finished finished[FINISHED_TRANSFERS];
	unsigned nfinished;
};

/* ---- run.c: neither wants the lock but where it is said */

/* A run and its segments by stream; NULL: out of memory. */
struct run *run_new(const struct run_spec *spec, struct segment *by_stream[STREAM_MAX]);

/* Of a run that was never queued, or has ended. */
void run_free(struct run *r);
void segment_free(struct segment *g);

/* Lock held. Number the recordings and what waits are for. False: out of memory, nothing is
 * numbered. */
bool run_number_events(struct run *r);

/* Lock held; given up while instructions run, on the stream's thread. */
void segment_run(struct stream *st, struct segment *g);

/* ---- stream.c */

void stream_init(struct stream *st, struct streams *all, uint64_t id);

/* Lock held. See that the stream has its thread; RC_ABORTED when the streams are stopped. */
enum rc stream_start(struct stream *st, struct err *err);

/* Lock held. */
void stream_enqueue(struct stream *st, struct segment *g);

/* ---- transfer.c: lock held */

/* By number or transfer; NULL: no transfer of that id is at work. */
struct stream *transfer_find(struct streams *s, uint64_t id);
const struct finished *transfer_find_finished(const struct streams *s, uint64_t id);

/* A transfer is over: remember how, forget and free the rest. */
void transfer_retire(struct stream *st, const struct err *why);

/* ---- turns.c: lock held; turns_await gives it up meanwhile */

/* Make room for what a segment waits for; false: out of memory. Then note it. */
bool turns_note(const struct stream *st, struct segment *g);
void turns_close(struct segment *g);

/* On the stream's thread: a segment's turn comes; it has ended. */
void turns_await(struct stream *st, struct segment *g);
void turns_open(struct stream *st);

/* ---- waiting.c */

/* Lock held. Take the pending requests of a stream that has nothing more to do. */
struct pending *pending_take(struct stream *st);

/* Without the lock. */
void pending_tell(struct pending *w);

#endif
