/*
 * persist.h - what outlives the process.
 */
#ifndef COORD_PERSIST_H
#define COORD_PERSIST_H

#include "coord/run/run.h"

/* Answers that are stored, of one client, the newest last. */
struct keep_client {
	struct keep_client *next;
	uint64_t id, gone_ms;
	bool gone;
	uint32_t n;
	struct {
		uint64_t seq;
		struct buf body; /* no data: the server's reply cache has it */
	} reply[COORD_KEEP_REPLIES];
};

#define KEEP_BUCKETS 256

struct persist {
	struct keep_client *client[KEEP_BUCKETS];
	uint64_t meta;		       /* mark of what is stored; 0: nothing */
	uint64_t last_run, last_graph; /* reserved */
	bool resumes;		       /* it was restored, and the first step is to come */
	bool restored;
};

/* ---- keep.c, keep_reply.c: what is stored. A device is new, a run is queued with all its bodies,
 * something goes. Communicators and graphs that change are seen by themselves. */

void keep_comm_gone(struct coord *c, struct comm *comm);
/* What is kept of it has changed. */
void keep_graph(struct coord *c, const struct graph *g);
void keep_graph_gone(struct coord *c, struct graph *g);
void keep_run(struct coord *c, struct run *run);
void keep_run_gone(struct coord *c, struct run *run);
/* The end of a step: store what has changed, before everything else. */
void keep_step(struct coord *c);
/* What a stored record of it says, in short. */
uint64_t keep_comm_mark(const struct comm *comm);
uint64_t keep_graph_mark(const struct graph *g);
GpuSim__KeptState keep_comm_state(const struct comm *comm);
/* The waiter is being answered so: remember it, and note in the action what it tells. */
void keep_reply(struct coord *c, const struct pending *p, GpuSim__Reply *reply,
		struct coord_action *a);
/* What a restart has left of the same request: its answer, or what it waits for. True: done. */
bool keep_asked_before(struct coord *c, struct pending *w);
/* RC_OK: the request may have effects now. */
enum rc keep_check(const struct coord *c, const struct pending *w, struct err *err);
/* The answers of a client; with make, made if there are none. NULL: none, or out of memory. */
struct keep_client *keep_client(struct coord *c, uint64_t id, bool make);
void keep_client_is(struct coord *c, uint64_t client_id, bool gone);
void keep_tick(struct coord *c);
void keep_fini(struct coord *c);

/* The last step's records could not be stored: take them out of *out, fail who was to hear of an effect. */
void persist_uncommitted(struct coord *c, const struct err *why, struct coord_actions *out);

/* ---- restore.c */

/* A record that another coordinator has stored. */
enum rc persist_restore(struct coord *c, const char *key, const void *value, size_t nbytes,
			struct err *err);

/* The first step: go on where the other one was. */
void resume(struct coord *c);

#endif
