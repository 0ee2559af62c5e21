/*
 * replycache.h - the requests seen and their answers, so that each runs once.
 *
 * Pure bookkeeping, no lock. Memory is bounded: REPLYCACHE_CLIENTS clients, each with its running
 * requests and its last answers, REPLYCACHE_WINDOW at most of either; answers up to REPLYCACHE_ANSWER
 * bytes, REPLYCACHE_BYTES in all. The client that has been silent longest is forgotten first. A running
 * request keeps its entry however many follow.
 */
#ifndef NET_REPLYCACHE_H
#define NET_REPLYCACHE_H

#include <stddef.h>
#include <stdint.h>

#define REPLYCACHE_CLIENTS 4096
#define REPLYCACHE_WINDOW  1024
#define REPLYCACHE_ANSWER  (64u << 10)
#define REPLYCACHE_BYTES   (32u << 20)

struct replycache;

enum replycache_verdict {
	REPLYCACHE_NEW,	    /* never seen: run it; the entry is now running with `call` */
	REPLYCACHE_RUNNING, /* running: *call is from when it was new */
	REPLYCACHE_DONE,    /* answered: *answer, *nbytes, valid until the next change */
	REPLYCACHE_STALE,   /* older than the window: may have run, the answer is forgotten */
	REPLYCACHE_FULL,    /* too many unanswered, of this client or in all; or out of memory */
};

/* NULL: out of memory. */
struct replycache *replycache_new(void);
void replycache_free(struct replycache *c);

/* Look up the request; if new, add it as running. call is in and out. */
enum replycache_verdict replycache_ask(struct replycache *c, uint64_t client_id, uint64_t seq,
				       void **call, const void **answer, size_t *nbytes);

/* The running request has been answered. If the answer is too large to keep (only reads of memory), a
 * repetition counts as new. */
void replycache_done(struct replycache *c, uint64_t client_id, uint64_t seq, const void *answer,
		     size_t nbytes);

#endif
