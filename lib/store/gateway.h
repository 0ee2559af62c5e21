/*
 * gateway.h - exchanges with etcd's JSON gateway over HTTP or TLS, bounded in time and size.
 *
 * libcurl is loaded by the first gateway_open: a program that does without etcd does without it.
 */
#ifndef STORE_GATEWAY_H
#define STORE_GATEWAY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/rc.h"

#define GATEWAY_MAX_HOSTS 16

/*
 * gateway_open - remember where etcd is and who we are; nothing is sent.
 *
 *	hosts	"host:port", or several with commas
 *	tls	https and not http
 *	max	bytes of an answer, at most
 *	out	[out] release with gateway_close
 *
 * Reads GPUSIM_ETCD_USER (name, or name:password), GPUSIM_ETCD_PASSWORD, GPUSIM_ETCD_CACERT,
 * GPUSIM_ETCD_CERT, GPUSIM_ETCD_KEY. Errors: RC_INVAL hosts, or the variables contradict each other;
 * RC_FAILED there is no libcurl, or it does not know an option; RC_NOMEM.
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
 * Errors, with a sentence that begins with the endpoint: RC_UNREACHABLE, RC_TIMEOUT (it may have been
 * done all the same), RC_FAILED etcd refuses, or a file of the certificates is no good, RC_BADDATA the
 * answer is no HTTP or too long, RC_NOMEM.
 */
enum rc gateway_post(struct gateway *g, const char *path, const struct buf *body, bool repeatable,
		     struct buf *out, struct err *err);

/* The endpoint of the last exchange, for sentences. As long-lived as g. */
const char *gateway_host(const struct gateway *g);

#endif
