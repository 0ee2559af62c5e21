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
	uint64_t newest; /* newest request whose answer was restored */
	uint32_t n;	 /* answers so far: the next takes slot n % COORD_CLIENT_REPLIES */
	uint32_t used;	 /* bits: slots that have a record */
};

struct persist {
	struct persist_client *client[PERSIST_BUCKETS];
	uint64_t meta;	  /* mark of the stored record; 0: none */
	bool resumes;	  /* restored, and the first step has not begun */
	struct buf stale; /* NUL-terminated keys to drop in the first step */
};

/* Restore a stored answer: its slot, and an action for the shell's reply cache. */
restore_record reply_restore;
/* Start the clients' times of absence now. */
void replies_resume(struct coord *c);

#endif
