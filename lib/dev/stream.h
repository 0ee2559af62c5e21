/*
 * stream.h - in-order queues of operations, each with its thread, and the runs that go through
 * them.
 *
 * A run is a program executed a number of times. Its operations are queued on their streams
 * together; the run ends when each of its streams is through, and its result is told once. The
 * first failure ends the run; runs queued behind it go on.
 */
#ifndef DEV_STREAM_H
#define DEV_STREAM_H

#include <stdatomic.h>
#include <stdint.h>

#include "dev/snapshot.h"
#include "dev/collective.h"

#define STREAM_MAX_QUEUED   4096 /* runs waiting on one stream */
#define STREAM_MAX_TRANSFER 64	 /* the lab's transfers at work at a time */
#define RUN_MAX_ITERATIONS  (1ull << 40)

struct streams;

/* A run's result; err.rc is RC_OK on success. */
struct run_result {
	struct err err;
	uint64_t compute_ns;	   /* in kernels, memset, copy */
	uint64_t comm_ns;	   /* in collectives and pairs */
	struct failure failure;	   /* of err, when an operation between ranks failed */
	const uint64_t *waited_ns; /* by rank: how long this one waited for it; while it is told.
				    * NULL: the program has no communicator */
	uint32_t nranks;
};

/* Told once, on a thread of the streams; must not block. */
typedef void (*run_done_fn)(void *arg, const struct run_result *result);

struct run_spec {
	struct program *program; /* a reference is taken until the run has ended */
	uint64_t iterations;	 /* at least 1 */
	uint64_t first_iteration;
	uint64_t first_op, stride;
	struct snapshots *snapshots; /* or NULL: none is taken, nor restored */
	struct snapshot_id snapshot_id;
	bool restore, snapshot; /* before the first instruction, in this order */
	run_done_fn done;	/* or NULL: the streams keep the result */
	void *arg;
};

/* Everything that env names outlives the streams. */
enum rc streams_new(const struct program_env *env, struct streams **out, struct err *err);

/* End all runs (abort the communicators first), tell their callers, take nothing new. */
void streams_stop(struct streams *s);

/* Stops too. NULL is legal. */
void streams_free(struct streams *s);

/* Hold and let go of a program that runs may use. The last one frees it. */
void streams_hold(struct streams *s, struct program *p);
void streams_drop(struct streams *s, struct program *p);

/* Queue a run. RC_INVAL: bad iterations or operation numbers; RC_BUSY: a queue is full; RC_NOMEM,
 * RC_ABORTED when stopped. On an error `done` is not called. */
enum rc streams_run(struct streams *s, const struct run_spec *spec, struct err *err);

/*
 * Queue a one-operation program, of the buffer at addr, on a stream of its own, named by `id` (not
 * below STREAM_MAX), whose status is kept for a while after it has ended. RC_BUSY: too many, or the id is taken.
 */
enum rc streams_transfer(struct streams *s, uint64_t id, struct program *p, uint64_t addr,
			 struct err *err);

/*
 * A command queue (cmdq.h) on a numbered stream: its commands and the runs that are queued there are in one order.
 * A command behind the gate waits until the gate is larger than its number.
 */
struct stream;
struct stream_turns {
	_Atomic uint64_t *tail, *head; /* commands written, carried out */
	atomic_uint *head_sleeps;
	_Atomic uint64_t gate;
	atomic_uint gate_sleeps;
	/* The streams': */
	struct stream *stream;
	struct stream_turns *next;
	atomic_bool over;
};

/* The caller sets the first three. It detaches before they go; no run waits for it any more then. */
void streams_attach(struct streams *s, uint32_t stream, struct stream_turns *t);
void streams_detach(struct streams *s, struct stream_turns *t);

/* A receive that is at work on a stream of its own. */
struct transfer_receive {
	uint64_t stream, comm;
	uint32_t src;
	uint64_t addr;
	uint64_t nbytes; /* at least 1 */
	uint64_t chunk;	 /* bytes of each message; the last one may be shorter */
	bool told;	 /* it has been told before */
	bool over;	 /* it has ended, with what came from the rank */
};

/*
 * streams_receive - that of a stream, or with stream 0 the only one; of a communicator, 0: of any.
 *
 * If none is at work, the last that has ended well and that nobody was told of: its sender's device has sent
 * everything, and chunks for it come too late. RC_FAILED: there is none, or more than one.
 */
enum rc streams_receive(struct streams *s, uint64_t stream, uint64_t comm,
			struct transfer_receive *out, struct err *err);

/* Whether the transfer of a stream has not ended. */
bool streams_at_work(struct streams *s, uint64_t stream);

enum stream_state { STREAM_IDLE, STREAM_WORKING, STREAM_FAILED };

/* Of all streams that are in an operation, at most max; how many. */
size_t streams_progress(struct streams *s, struct progress *out, size_t max);

/*
 * A stream's state. A failure that nobody was told of (run_spec.done NULL, transfers) stays
 * with each stream that did not get to the run's end, the first one, until it is asked for; for
 * numbered streams asking clears it. *why is set when the state is
 * STREAM_FAILED. RC_NOTFOUND: no such stream (numbered ones always are).
 */
enum rc streams_status(struct streams *s, uint64_t id, enum stream_state *state, struct err *why,
		       struct err *err);

/* Call fn(arg) once: when the stream has nothing more to do, or from streams_tick past the
 * deadline. */
typedef void (*stream_idle_fn)(void *arg);
enum rc streams_when_idle(struct streams *s, uint64_t id, uint64_t deadline_ns, stream_idle_fn fn,
			  void *arg, struct err *err);

/* To be called every 100 ms or so. */
void streams_tick(struct streams *s);

#endif
