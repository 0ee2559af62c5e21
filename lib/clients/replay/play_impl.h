/* play_impl.h - shared by the files that play a recording. */
#ifndef REPLAY_PLAY_IMPL_H
#define REPLAY_PLAY_IMPL_H

#include "base/api.h"
#include "client/cmdq.h"
#include "replay/replay.h"

#define PLAY_ALIGN 256

/* A communicator of the story, as created in the replay. */
struct play_comm {
	struct gpusim_comm *all;   /* if its operations were runs */
	struct gpusim_comm **rank; /* if it is queued, */
	struct cmdq_bind **bind;   /* by rank */
	uint32_t left;		   /* operations */
	bool busy;		   /* operations may be pending */
};

struct play_queue {
	struct cmdq *q;
};

struct play {
	const struct replay_config *cfg;
	const struct story *s;
	struct replay_map *map;
	struct play_comm *comm;
	struct play_queue *queue; /* as map->queue */
	size_t next_comm;	  /* those before have been created */
	size_t live;		  /* communicators */
	struct gpusim_addr *base; /* by process: its buffers */
	uint64_t *used;		  /* bytes of it */
	uint32_t *played;	  /* operations */
	bool *dead;		  /* an end was requested */
	size_t next_fault;
	bool *fault_done;
};

/* ---- play_algo.c */

#define PLAY_ALGO_NAME 32

/* Pass the algorithms that operations ran to the coordinator. RC_BADDATA: the recording lacks a file. */
enum rc play_add_algos(const struct play *p, struct err *err);
/* The name of an algorithm in the replay. */
const char *play_algo_name(uint64_t schedule, char room[static PLAY_ALGO_NAME]);

/* ---- play_comm.c */

/* Create the communicators up to this one, and more as far as there is room. */
enum rc play_make_comms(struct play *p, uint32_t upto, struct err *err);

/* Release a communicator whose operations have ended; release all. */
void play_drop_comm(struct play *p, uint32_t comm);
void play_drop_all(struct play *p);

/* The replay's queue for a queue of the story. */
enum rc play_queue_of(struct play *p, uint32_t proc, uint64_t then, struct cmdq **out,
		      struct err *err);

/* Wait until all operations have ended. wait_ms not 0: abort the ones that take longer. */
void play_drain(struct play *p, uint32_t wait_ms);

/* ---- play_op.c */

/* Give the operation its buffers and inputs, and describe it. RC_BADDATA. */
struct play_op {
	struct gpusim_collective c;
	struct gpusim_addr send, recv;
	uint64_t scalar;
	char algo[PLAY_ALGO_NAME];
};
enum rc play_prepare(struct play *p, const struct story_op *o, struct play_op *out,
		     struct err *err);

/* The device memory that an operation needs, in bytes. */
uint64_t play_bytes(const struct story *s, const struct story_op *o);

#endif
