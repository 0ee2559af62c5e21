/*
 * gateway.h - exchanges with etcd's JSON gateway over HTTP or TLS, bounded in time and size.
 *
 * libcurl is loaded by the first gateway_open: programs without etcd do not need it.
 */
#ifndef STORE_GATEWAY_H
#define STORE_GATEWAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"

/*
 * Requests to etcd's JSON gateway, and its answers. Pure.
 *
 * Keys here are the whole keys in etcd, terminated; keys and values travel in base64.
 */

/* ---- requests; each appends, false: out of memory */

/* A page of the keys from `from` to before `end`; revision 0: the newest. */
bool etcd_json_range(struct buf *b, const char *from, const char *end, uint64_t revision,
		     uint32_t limit);

/* A transaction: begin (compared: the key must have that value; NULL: no condition), its changes,
 * end. */
bool etcd_json_txn(struct buf *b, const char *key, const char *compared);
bool etcd_json_put(struct buf *b, const char *key, const void *value, size_t nbytes);
bool etcd_json_delete(struct buf *b, const char *key, const char *end); /* end NULL: one key */
bool etcd_json_txn_end(struct buf *b);

/* For a token; nuser bytes of user. */
bool etcd_json_login(struct buf *b, const char *user, size_t nuser, const char *password);

/* ---- answers: RC_BADDATA unexpected, RC_NOMEM */

/* One record; false: out of memory. */
typedef bool etcd_json_fn(void *arg, const char *key, const void *value, size_t nbytes);

/* A page: its records, its revision, whether there are more, and the last key. */
struct etcd_page {
	uint64_t revision;
	bool more;
	char last[1024];
};
enum rc etcd_json_page(const char *text, size_t nbytes, etcd_json_fn *fn, void *arg,
		       struct etcd_page *out, struct err *err);

/* *done: the transaction's condition held. */
enum rc etcd_json_done(const char *text, size_t nbytes, bool *done, struct err *err);

/* The token in the answer to a login. False: none, or too long. */
#define ETCD_TOKEN_MAX 4096
bool etcd_json_token(const char *text, size_t nbytes, char token[ETCD_TOKEN_MAX]);

/* The message of a refusal; "" when there is none. */
void etcd_json_refusal(const char *text, size_t nbytes, char *out, size_t size);

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
