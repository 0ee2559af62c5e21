/*
 * gateway.h - exchanges with etcd's JSON gateway over HTTP or TLS, bounded in time and size.
 *
 * libcurl is loaded by the first gateway_open: programs without etcd do not need it.
 */
#ifndef STORE_GATEWAY_H
#define STORE_GATEWAY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/rc.h"

#define GATEWAY_MAX_HOSTS 16

/*
 * gateway_open - set endpoints and credentials; nothing is sent.
 *
 *	hosts	"host:port", or several with commas
 *	tls	https and not http
 *	max	bytes of an answer, at most
 *	out	[out] release with gateway_close
 *
 * Reads GPUSIM_ETCD_USER (name, or name:password), GPUSIM_ETCD_PASSWORD, GPUSIM_ETCD_CACERT,
 * GPUSIM_ETCD_CERT, GPUSIM_ETCD_KEY. Errors: RC_INVAL hosts, or the variables contradict each other;
 * RC_FAILED no libcurl, or it lacks an option; RC_NOMEM.
 */
struct gateway;
enum rc gateway_open(const char *hosts, bool tls, size_t max, struct gateway **out,
		     struct err *err);
void gateway_close(struct gateway *g);

/*
 * gateway_post - send a body of JSON; *out is the answer's body.
 *
 *	path		"/v3/kv/range"
 *	repeatable	the request may be carried out twice
 *
 * Tries one endpoint after the other, beginning with the one that answered last, at most for
 * STORE_DEADLINE_MS altogether. A request that is not repeatable goes to a second endpoint only if the
 * first was not reached. Logs in when there is a user and etcd wants a (new) token.
 *
 * Errors, with a message that begins with the endpoint: RC_UNREACHABLE, RC_TIMEOUT (it may have been
 * done), RC_FAILED etcd refuses, or a bad certificate file, RC_BADDATA the answer is not HTTP or too
 * long, RC_NOMEM.
 */
enum rc gateway_post(struct gateway *g, const char *path, const struct buf *body, bool repeatable,
		     struct buf *out, struct err *err);

/* The endpoint of the last exchange, for messages. As long-lived as g. */
const char *gateway_host(const struct gateway *g);

#endif
