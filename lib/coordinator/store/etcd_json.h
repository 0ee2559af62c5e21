/*
 * etcd_json.h - requests to etcd's JSON gateway, and its answers. Pure.
 *
 * Keys here are the whole keys in etcd, terminated; keys and values travel in base64.
 */
#ifndef STORE_ETCD_JSON_H
#define STORE_ETCD_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"

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

#endif
