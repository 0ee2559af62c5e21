/*
 * persist.h - what outlives the coordinator's process: each step's records, and answers that a client may
 * request again.
 */
#ifndef COORD_PERSIST_H
#define COORD_PERSIST_H

#include "coord/run/run.h"

/* ---- persist.c */

enum rc persist_init(struct coord *c);

/* The end of a step: store what has changed, before all other actions. */
void persist_step(struct coord *c);
/* The last step's records could not be stored: take them out of *out, and answer requests with an effect with
 * the failure. */
void persist_uncommitted(struct coord *c, const struct err *why, struct coord_actions *out);
/* coord_restore */
enum rc persist_restore(struct coord *c, const char *key, const void *value, size_t nbytes,
			struct coord_actions *out, struct err *err);
/* The first step: continue where the other coordinator was. False: nothing was restored. */
bool persist_resume(struct coord *c);

/* ---- reply.c */

/* Store the answer to the request, and mark in the action what it promises. */
void persist_reply(struct coord *c, const struct pending *p, GpuSim__Reply *reply,
		   struct coord_action *a);
/* RC_OK: requests with effects are accepted. */
enum rc persist_check(const struct coord *c, const struct pending *p, struct err *err);
/* The client has disconnected, or connected. */
void persist_client_is(struct coord *c, uint64_t client_id, bool gone);
/* Drop the answers of clients that have long been disconnected. */
void persist_tick(struct coord *c);
void persist_fini(struct coord *c);

#endif
