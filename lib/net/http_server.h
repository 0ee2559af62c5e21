/*
 * http_server.h - answer GET and HEAD over HTTP/1.1, and send events to those who listen: bounded in connections, bytes
 * and time. libmicrohttpd speaks the protocol.
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
#define HTTP_SERVER_BACKLOG	  64   /* events that a slow listener may be behind */
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
	HTTP_LATER = 1, /* http_reply will say; the other fields count for nothing */
	HTTP_STREAM =
	    2 /* 200, text/event-stream: the body, then all that http_publish sends from now on */
};

/* Runs on the server's one thread: do not block. */
typedef void (*http_server_fn)(void *arg, struct http_ask *ask, struct http_answer *out);

struct http_config {
	const char *host;     /* "host:port", port 0: any free one */
	enum net_reach reach; /* beyond loopback only with NET_ANY_HOST */
	const char
	    *names; /* hosts that browsers may name besides, with commas between them; or NULL */
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

/* Begins with a slash and is of printable ASCII, as it came but without its query. */
const char *http_ask_path(const struct http_ask *ask);

/* Of the query (as it came), and of the head; NULL: it is not there. */
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

/* The same with a sentence, and a line's end behind it. */
void http_answer_error(struct http_answer *out, unsigned status, const char *sentence);

/* Answer what fn left for later, exactly once, with any status but those two. */
void http_reply(struct http_ask *ask, const struct http_answer *answer);

/*
 * http_publish - send a server-sent event to all that listen.
 *
 * Never waits: a listener that is too far behind (HTTP_SERVER_BACKLOG) is dropped.
 * RC_NOMEM: nobody gets it.
 */
enum rc http_publish(struct http_server *s, const char *event, uint64_t id, const char *data,
		     size_t n);

/* A comment, by which both ends see that the other is there. */
enum rc http_heartbeat(struct http_server *s);

/* How many listen. */
unsigned http_listeners(struct http_server *s);

/* The event as it is sent, appended: for the body of a stream. False: out of memory. */
bool http_event(struct buf *out, const char *event, uint64_t id, const char *data, size_t n);

#endif
