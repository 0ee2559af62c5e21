/* play_impl.h - what the files that play a recording share. */
#ifndef REPLAY_PLAY_IMPL_H
#define REPLAY_PLAY_IMPL_H

#include "base/api.h"
#include "client/cmdq.h"
#include "replay/replay.h"

#define PLAY_ALIGN 256

/* A communicator of the story as it is now. */
struct play_comm {
	struct gpusim_comm *all;   /* of one whose operations came by runs */
	struct gpusim_comm **rank; /* of a queued one, */
	struct cmdq_bind **bind;   /* by rank */
	uint32_t left;		   /* operations */
	bool busy;		   /* something may be under way */
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
	size_t next_comm;	  /* those before have been made */
	size_t live;		  /* communicators */
	struct gpusim_addr *base; /* by process: its room */
	uint64_t *used;		  /* bytes of it */
	uint32_t *played;	  /* operations */
	bool *dead;		  /* it has been told to end */
	size_t next_fault;
	bool *fault_done;
};

/* ---- play_algo.c */

#define PLAY_ALGO_NAME 32

/* Give the coordinator those that operations ran. RC_BADDATA: the recording lacks one's file. */
enum rc play_add_algos(const struct play *p, struct err *err);
/* What one is called there. */
const char *play_algo_name(uint64_t schedule, char room[static PLAY_ALGO_NAME]);

/* ---- play_comm.c */

/* Make the communicators up to this one, and more as far as there is room. */
enum rc play_make_comms(struct play *p, uint32_t upto, struct err *err);

/* Forget one whose operations are over; all of them. */
void play_drop_comm(struct play *p, uint32_t comm);
void play_drop_all(struct play *p);

/* The queue that stands for one of the story. */
enum rc play_queue_of(struct play *p, uint32_t proc, uint64_t then, struct cmdq **out,
		      struct err *err);

/* Wait until nothing is under way. wait_ms not 0: abort what takes longer. */
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

/* Bytes of a device that it takes. */
uint64_t play_bytes(const struct story *s, const struct story_op *o);

#endif
