/*
 * replycache.h - which requests have been seen, and what they were answered: each runs once.
 *
 * Pure bookkeeping, no lock inside. Memory is bounded: REPLYCACHE_CLIENTS clients, of each the
 * running requests and the answers given last, REPLYCACHE_WINDOW at most of either; answers up to
 * REPLYCACHE_ANSWER bytes, REPLYCACHE_BYTES in all. The client that has been quiet longest is
 * forgotten first. A running request holds its place however many others pass it.
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
	REPLYCACHE_RUNNING, /* being run: *call is what was given when it was new */
	REPLYCACHE_DONE,    /* answered: *answer, *nbytes, valid until the next change */
	REPLYCACHE_STALE,   /* older than the window: may have run, the answer is forgotten */
	REPLYCACHE_FULL,    /* too many unanswered: of this client, or of all; or no memory */
};

/* NULL: out of memory. */
struct replycache *replycache_new(void);
void replycache_free(struct replycache *c);

/* Look the request up; when new, enter it as running. call is in and out. */
enum replycache_verdict replycache_ask(struct replycache *c, uint64_t client_id, uint64_t seq,
				       void **call, const void **answer, size_t *nbytes);

/* The running request has been answered. An answer too large to keep makes a repetition new again
 * (only reads of memory have such answers). */
void replycache_done(struct replycache *c, uint64_t client_id, uint64_t seq, const void *answer,
		     size_t nbytes);

#endif
