/*
 * persist_impl.h - what the files of this room share. Nobody else includes it.
 */
#ifndef COORD_PERSIST_IMPL_H
#define COORD_PERSIST_IMPL_H

#include "coord/persist/persist.h"

#define PERSIST_BUCKETS 256

/* Which answers of a client are stored. The answers themselves are in the server's reply cache. */
struct persist_client {
	struct persist_client *next;
	uint64_t id, gone_ms;
	bool gone;
	uint64_t newest; /* of the requests whose answers were restored */
	uint32_t n;	 /* answers so far: the next one takes slot n % COORD_CLIENT_REPLIES */
	uint32_t used;	 /* bits: slots that have a record */
};

struct persist {
	struct persist_client *client[PERSIST_BUCKETS];
	uint64_t meta;	  /* mark of what is stored; 0: nothing */
	bool resumes;	  /* it was restored, and the first step is to come */
	struct buf stale; /* keys to be dropped in that step, each ends with NUL */
};

/* A stored answer: where it is, and an action for the shell that remembers it. */
restore_record reply_restore;
/* Clients have been away since now. */
void replies_resume(struct coord *c);

#endif
