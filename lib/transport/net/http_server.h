/*
 * http_server.h - answer GET and HEAD over HTTP/1.1, and send events to listeners; bounded in
 * connections, bytes and time. Uses libmicrohttpd.
 */
#ifndef NET_HTTP_SERVER_H
#define NET_HTTP_SERVER_H

#include <stdint.h>

#include "base/buf.h"
#include "net/net.h"

#define HTTP_SERVER_MAX_CONNS	  128
#define HTTP_SERVER_MAX_PEER	  96   /* of them from one address */
#define HTTP_SERVER_MAX_STREAMS	  16   /* of them that listen to events */
#define HTTP_SERVER_HEAD_MAX	  8192 /* bytes of a request's head */
#define HTTP_SERVER_BACKLOG	  64   /* events by which a slow listener may lag */
#define HTTP_SERVER_BACKLOG_BYTES (8u << 20)

struct http_server;
struct http_ask; /* a request */

/* The answer to a request; at first a 404 with a line. */
struct http_answer {
	unsigned status;   /* 200, 400, 404, 503, or HTTP_LATER, or HTTP_STREAM */
	const char *type;  /* Content-Type; NULL: text/plain */
	char headers[768]; /* more of them, each ending in "\r\n" */
	const void *body;  /* borrowed until release */
	size_t nbytes;
	void (*release)(void *arg); /* or NULL; called once, on the server's thread */
	void *arg;
};

enum {
	HTTP_LATER = 1, /* http_reply will answer; ignore the other fields */
	HTTP_STREAM =
	    2 /* 200, text/event-stream: the body, then all later events of http_publish */
};

/* Runs on the server's one thread: do not block. */
typedef void (*http_server_fn)(void *arg, struct http_ask *ask, struct http_answer *out);

struct http_config {
	const char *host;     /* "host:port", port 0: any free one */
	enum net_reach reach; /* beyond loopback only with NET_ANY_HOST */
	/* more hosts that browsers may name, with commas between them; or NULL */
	const char *names;
	http_server_fn fn;
	void *arg;
};

/* RC_INVAL, RC_BUSY the address is taken, RC_FAILED, RC_NOMEM. */
enum rc http_server_start(const struct http_config *cfg, struct http_server **out, struct err *err);

/* "http://host:port", with the real port; lives as long as the server. */
const char *http_server_address(const struct http_server *s);

/* Drop all connections, those that wait for http_reply too; after the last http_reply. NULL is legal. */
void http_server_stop(struct http_server *s);

/* ---- in fn */

/* The raw path without its query; begins with a slash, printable ASCII. */
const char *http_ask_path(const struct http_ask *ask);

/* An argument of the query (raw); a header. NULL: not found. */
const char *http_ask_argument(const struct http_ask *ask, const char *name);
const char *http_ask_header(const struct http_ask *ask, const char *name);

/* ---- on any thread */

/*
 * http_answer_text - an answer whose body is all of *text, which is empty then.
 *
 *	type	NULL: plain text
 *
 * The answer releases it. Out of memory: 503 without a body.
 */
void http_answer_text(struct http_answer *out, unsigned status, const char *type, struct buf *text);

/* The same with a message, and a newline appended. */
void http_answer_error(struct http_answer *out, unsigned status, const char *sentence);

/* Answer a deferred request, exactly once, with any HTTP status. */
void http_reply(struct http_ask *ask, const struct http_answer *answer);

/*
 * http_publish - send a server-sent event to all that listen.
 *
 * Never waits: a listener that lags by HTTP_SERVER_BACKLOG events is dropped.
 * RC_NOMEM: no listener gets it.
 */
enum rc http_publish(struct http_server *s, const char *event, uint64_t id, const char *data,
		     size_t n);

/* Send a comment, by which both ends see that the other is alive. */
enum rc http_heartbeat(struct http_server *s);

/* The number of listeners. */
unsigned http_listeners(struct http_server *s);

/* Append an event as it is sent, for the body of a stream. False: out of memory. */
bool http_event(struct buf *out, const char *event, uint64_t id, const char *data, size_t n);

#endif
