/*
 * http_stream.h - private to the HTTP server: the last events, in order, and their readers.
 *
 * An event is kept until its slot is needed or all of them have too many bytes; a reader that lags behind
 * the oldest has lost one. Thread-safe.
 */
#ifndef NET_HTTP_STREAM_H
#define NET_HTTP_STREAM_H

#include <pthread.h>
#include <sys/types.h>

#include "net/http_server.h"

struct http_message; /* never changes; lives while it is held */

struct http_feed {
	pthread_mutex_t lock;
	struct http_message *message[HTTP_SERVER_BACKLOG]; /* number n at n modulo this */
	uint64_t first, next; /* numbers of the oldest, and of the next one */
	size_t nbytes;
};

/* Initialise; zeroes are not enough. */
void http_feed_init(struct http_feed *f);
void http_feed_fini(struct http_feed *f);

/* Append the bytes of b, and take them over. RC_NOMEM: b is released, too. */
enum rc http_feed_put(struct http_feed *f, struct buf *b);

uint64_t http_feed_next(struct http_feed *f);

/* A reader: zeroed, except `at`. */
struct http_reader {
	uint64_t at; /* number of the next message */
	struct http_message *held;
	size_t off;
};

/* Read at most max bytes. Returns their number; 0: none now; -1: some were lost. */
ssize_t http_feed_read(struct http_feed *f, struct http_reader *r, char *out, size_t max);
void http_reader_fini(struct http_feed *f, struct http_reader *r);

#endif
