/*
 * http_server.h - answer GET and HEAD over HTTP/1.1: bounded in connections, bytes and time.
 */
#ifndef NET_HTTP_SERVER_H
#define NET_HTTP_SERVER_H

#include <stddef.h>

#include "base/rc.h"
#include "net/net.h"

#define HTTP_SERVER_MAX_CONNS 128
#define HTTP_SERVER_HEAD_MAX  8192 /* bytes of a request's head */

struct http_server;

/* The answer to a path; at first a 404 with a line. */
struct http_answer {
	unsigned status;   /* 200, 404 or 503 */
	const char *type;  /* Content-Type */
	char headers[256]; /* more of them, each ending in "\r\n" */
	const void *body;  /* borrowed until release */
	size_t nbytes;
	void (*release)(void *arg); /* or NULL; called once, on the server's thread */
	void *arg;
};

/* Runs on the server's one thread: do not block. The path begins with a slash and is of printable ASCII, as
 * it came but without its query. */
typedef void (*http_server_fn)(void *arg, const char *path, struct http_answer *out);

/*
 * http_server_start - listen on "host:port", port 0: any free one.
 *
 * Beyond loopback only with NET_ANY_HOST. Errors: RC_INVAL, RC_BUSY the address is taken, RC_FAILED.
 */
enum rc http_server_start(const char *host, enum net_reach reach, http_server_fn fn, void *arg,
			  struct http_server **out, struct err *err);

/* "http://host:port", with the real port; lives as long as the server. */
const char *http_server_address(const struct http_server *s);

/* Drop all connections. NULL is legal. */
void http_server_stop(struct http_server *s);

#endif
