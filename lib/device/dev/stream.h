/*
 * stream.h - in-order queues of operations, each with its thread, and the runs on them.
 *
 * A run is a program executed a number of times. Its operations are queued on their streams
 * together; the run ends when each of its streams is done, and its result is reported once. The first failure
 * ends the run; runs queued after it continue.
 */
#ifndef DEV_STREAM_H
#define DEV_STREAM_H

#include <stdatomic.h>
#include <stdint.h>

#include "dev/snapshot.h"
#include "dev/collective.h"

#define STREAM_MAX_QUEUED   4096 /* runs waiting on one stream */
#define STREAM_MAX_TRANSFER 64	 /* concurrent transfers of the lab */
#define RUN_MAX_ITERATIONS  (1ull << 40)

struct streams;

/* A run's result; err.rc is RC_OK on success. */
struct run_result {
	struct err err;
	uint64_t compute_ns;	/* in kernels, memset, copy */
	uint64_t comm_ns;	/* in collectives and pairs */
	struct failure failure; /* of err, when an operation between ranks failed */
	/* By rank: how long this rank waited for it; valid during the callback. NULL: no communicator */
	const uint64_t *waited_ns;
	uint32_t nranks;
};

/* Called once, on a thread of the streams; must not block. */
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

/* Everything that env points to must outlive the streams. */
enum rc streams_new(const struct program_env *env, struct streams **out, struct err *err);

/* End all runs (abort the communicators first), notify their callers, accept nothing new. */
void streams_stop(struct streams *s);

/* Stops too. NULL is legal. */
void streams_free(struct streams *s);

/* Take and drop a reference to a program. The last one frees it. */
void streams_hold(struct streams *s, struct program *p);
void streams_drop(struct streams *s, struct program *p);

/* Queue a run. RC_INVAL: bad iterations or operation numbers; RC_BUSY: a queue is full; RC_NOMEM,
 * RC_ABORTED when stopped. On an error `done` is not called. */
enum rc streams_run(struct streams *s, const struct run_spec *spec, struct err *err);

/*
 * Queue a one-operation program, of the buffer at addr, on a new stream named `id` (not below
 * STREAM_MAX), whose status is kept for a while after its end. RC_BUSY: too many, or the id is in use.
 */
enum rc streams_transfer(struct streams *s, uint64_t id, struct program *p, uint64_t addr,
			 struct err *err);

/*
 * A command queue (cmdq.h) on a numbered stream: its commands and the stream's runs are executed in one
 * order. A command at or after the gate waits until the gate is larger than its number.
 */
struct stream;
struct stream_turns {
	_Atomic uint64_t *tail, *head; /* commands written, carried out */
	atomic_uint *head_sleeps;
	_Atomic uint64_t gate;
	atomic_uint gate_sleeps;
	/* Private to the streams: */
	struct stream *stream;
	struct stream_turns *next;
	atomic_bool over;
};

/* The caller sets the first three fields, and detaches before they become invalid. */
void streams_attach(struct streams *s, uint32_t stream, struct stream_turns *t);
void streams_detach(struct streams *s, struct stream_turns *t);

/* A receive in progress on its own stream. */
struct transfer_receive {
	uint64_t stream, comm;
	uint32_t src;
	uint64_t addr;
	uint64_t nbytes; /* at least 1 */
	uint64_t chunk;	 /* bytes of each message; the last one may be shorter */
	bool told;	 /* it has been reported before */
	bool over;	 /* it has ended, with data from the rank */
};

/*
 * streams_receive - find the receive of a stream, or with stream 0 the only one; of a communicator, 0: of
 * any.
 *
 * If none is in progress, the last that succeeded and was not reported: its sender's device has sent
 * everything, and chunks for it come too late. RC_FAILED: none, or more than one.
 */
enum rc streams_receive(struct streams *s, uint64_t stream, uint64_t comm,
			struct transfer_receive *out, struct err *err);

/* The transfer of a stream is in progress. */
bool streams_at_work(struct streams *s, uint64_t stream);

enum stream_state { STREAM_IDLE, STREAM_WORKING, STREAM_FAILED };

/* The progress of all streams that are in an operation, at most max. Returns their number. */
size_t streams_progress(struct streams *s, struct progress *out, size_t max);

/*
 * A stream's state. A failure without a caller (run_spec.done NULL, transfers) stays with each stream
 * that did not reach the run's end, the first one, until it is queried; for numbered streams the query
 * clears it. *why is set when the state is STREAM_FAILED. RC_NOTFOUND: no such stream (numbered ones
 * always exist).
 */
enum rc streams_status(struct streams *s, uint64_t id, enum stream_state *state, struct err *why,
		       struct err *err);

/* Call fn(arg) once: when the stream is idle, or from streams_tick past the deadline. */
typedef void (*stream_idle_fn)(void *arg);
enum rc streams_when_idle(struct streams *s, uint64_t id, uint64_t deadline_ns, stream_idle_fn fn,
			  void *arg, struct err *err);

/* Call every 100 ms or so. */
void streams_tick(struct streams *s);

#endif
