/*
 * http.h - one POST over HTTP/1.1: bounded in time and in what it brings.
 */
#ifndef NET_HTTP_H
#define NET_HTTP_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"

/*
 * http_post - send a body of JSON, append the answer's body to *out, which the caller releases in
 * any case.
 *
 *	host	"name:port"
 *	path	"/v3/kv/range"
 *	max	bytes of an answer that are taken
 *	status	[out] of HTTP, 200 and up; set on RC_OK only
 *
 * On a connection of its own; the caller's thread waits, at most until the deadline.
 * Errors, with a sentence that begins with the host: RC_UNREACHABLE, RC_TIMEOUT (it may have been
 * done all the same), RC_BADDATA what came is no HTTP, or more than max, RC_NOMEM.
 */
enum rc http_post(const char *host, const char *path, const void *body, size_t nbytes,
		  uint64_t deadline_ns, size_t max, struct buf *out, unsigned *status,
		  struct err *err);

#endif
