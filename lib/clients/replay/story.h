/*
 * story.h - a recording in memory: its processes, communicators, operations and faults. Inputs stay
 * in the files.
 */
#ifndef REPLAY_STORY_H
#define REPLAY_STORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

#define STORY_NONE     UINT32_MAX
#define STORY_MAX_OPS  (16u << 20)
#define STORY_MAX_DEVS 1024
#define STORY_MAX_ALGO (4u << 20) /* bytes of an algorithm's file */

/* A process of a device, from its start to its end. */
struct story_proc {
	uint32_t file; /* in story.path */
	uint32_t ordinal;
	uint64_t device;
	bool closed;	     /* it ended normally */
	bool stopped;	     /* its recording ended early, for example on a full disk */
	bool by_memory;	     /* peers could map its memory */
	bool by_tcp;	     /* its data address is a TCP address */
	uint32_t nops, last; /* last: its last operation, or STORY_NONE */
};

/* One epoch of a communicator. */
struct story_comm {
	uint64_t id;
	uint32_t epoch, nranks, op_timeout_ms;
	bool queued;
	uint32_t *proc; /* by rank; or STORY_NONE */
	uint32_t nops;
};

enum story_state {
	STORY_OPEN, /* begun and not ended: the process was killed */
	STORY_GOOD,
	STORY_FAILED,
};

/* An algorithm of a file that operations ran. */
struct story_algo {
	char *name;	   /* as in calls; NULL: no operation ran it */
	uint64_t schedule; /* digest of its ranks' schedules */
	char *text;	   /* of its file: nbytes, of which `have` are read */
	uint64_t nbytes, have;
};

/* One rank's part of an operation. */
struct story_op {
	uint32_t proc, comm, rank, unit; /* unit: set by story_units */
	uint32_t before; /* the operation before it in its stream or queue, or STORY_NONE */
	uint64_t number; /* in its file */
	uint64_t op;	 /* of the communicator, see TapeOp */
	uint64_t lane;	 /* its queue, or below 64 the stream of a run */
	uint64_t set, nelem, chunk_bytes, scalar, in_bytes, out_bytes;
	uint64_t at_ns, end_ns; /* CLOCK_MONOTONIC */
	uint32_t root, steps, in_crc, before_crc, out_crc;
	uint8_t coll, dtype, redop;
	bool by_queue, in_place, gaps, deterministic;
	bool dropped; /* in no unit: a rank's part was not recorded (set by story_units) */
	enum story_state state;
	uint32_t rc;
	const char *algo;  /* static for a built-in one; of a file: the story's */
	uint64_t schedule; /* story_algo.schedule; 0: built-in */
	char *text;	   /* of a failure, or NULL */
	uint64_t *parts;   /* TapeOp's four lists, or NULL */
	bool recv_parts;   /* the last two exist */
	/* offset of its data in the file; their bytes, by kind */
	uint64_t data_at, nin, nbefore;
};

struct story_fault {
	uint32_t proc;
	/* at a step of this operation; STORY_NONE: before the operation `position` of the process */
	uint32_t op;
	uint32_t position, step;
	struct gpusim_fault f;
};

struct story {
	char **path;
	size_t npaths, ndecisions;
	struct story_proc *proc;
	struct story_comm *comm;
	struct story_op *op; /* of a process in the order of their start */
	struct story_fault *fault;
	struct story_algo *algo;
	size_t nprocs, ncomms, nops, nfaults, nalgos;
	bool cut;	 /* a part of the recording is missing */
	bool stopped;	 /* because writing failed, not because a process was killed */
	bool with_data;	 /* inputs were recorded */
	uint32_t *order; /* operations by unit, set by story_units */
	uint32_t *unit;	 /* unit u is order[unit[u] .. unit[u + 1]) */
	size_t nunits;
};

/* Read a folder. *out is released with story_free. RC_BADDATA: damage. RC_FAILED. */
enum rc story_read(const char *dir, struct story **out, struct err *err);
void story_free(struct story *s); /* NULL is legal */

/*
 * story_units - cut the operations into units, in an order in which they can be run one after the other.
 *
 * A unit is a set of operations that can only run together: all ranks' parts of an operation, or
 * the sends and receives of a set. Units keep the order of each stream and queue, unless streams
 * wait for each other in a cycle.
 */
void story_units(struct story *s);

/* Return true if one of the unit's operations did not succeed, or a rank took no part. */
bool story_unit_failed(const struct story *s, size_t unit);

/* Return true if the client or the coordinator aborted a failed unit, and not the loss of a rank. The first
 * end decides: a rank that was stopped at that moment notices only later that the others have gone. */
bool story_unit_aborted(const struct story *s, size_t unit);

/* "allreduce #7 (ring) of communicator 3 epoch 1, rank 2" */
void story_say_op(const struct story *s, const struct story_op *o, char *out, size_t size);

/*
 * story_input - an operation's recorded input; before: its output buffer's contents before it.
 *
 *	to	in_bytes, or out_bytes
 *
 * RC_NOTFOUND: some are missing. RC_BADDATA: wrong checksum.
 */
enum rc story_input(const struct story *s, const struct story_op *o, bool before, void *to,
		    struct err *err);

#endif
