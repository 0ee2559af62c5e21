/*
 * persist.h - what outlives the coordinator's process: each step's records, and answers that a client may ask
 * for again.
 */
#ifndef COORD_PERSIST_H
#define COORD_PERSIST_H

#include "coord/run/run.h"

#define PERSIST_BUCKETS 256

/* Answers that are stored, of one client, the newest last. */
struct persist_client {
	struct persist_client *next;
	uint64_t id, gone_ms;
	bool gone;
	uint32_t n;
	struct {
		uint64_t seq;
		struct buf body; /* no data: the server's reply cache has it */
	} reply[COORD_CLIENT_REPLIES];
};

struct persist {
	struct persist_client *client[PERSIST_BUCKETS];
	uint64_t meta; /* mark of what is stored; 0: nothing */
	bool resumes;  /* it was restored, and the first step is to come */
	bool restored;
};

/* ---- persist.c */

/* The end of a step: store what has changed, before everything else. */
void persist_step(struct coord *c);
/* The last step's records could not be stored: take them out of *out, fail who was to hear of an effect. */
void persist_uncommitted(struct coord *c, const struct err *why, struct coord_actions *out);
/* A record that another coordinator has stored. */
enum rc persist_restore(struct coord *c, const char *key, const void *value, size_t nbytes,
			struct err *err);
/* The first step: go on where the other one was. */
void persist_resume(struct coord *c);

/* ---- reply.c */

/* The request gets this answer: store it, and note in the action what it promises. */
void persist_reply(struct coord *c, const struct pending *p, GpuSim__Reply *reply,
		   struct coord_action *a);
/* A repeated request takes over what a restart has left of it. True: it is answered, or waits. */
bool persist_asked_before(struct coord *c, struct pending *p);
/* RC_OK: the request may have effects now. */
enum rc persist_check(const struct coord *c, const struct pending *p, struct err *err);
/* The answers of a client; with make, made if there are none. NULL: none, or out of memory. */
struct persist_client *persist_client(struct coord *c, uint64_t id, bool make);
void persist_client_is(struct coord *c, uint64_t client_id, bool gone);
void persist_tick(struct coord *c);
void persist_fini(struct coord *c);
restore_record reply_restore;

#endif
