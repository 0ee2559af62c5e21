/*
 * etcd.c - a store under a prefix of keys in etcd, by its JSON gateway.
 *
 * PREFIX/.owner holds "ID N": the owner and its number of commits. Each commit is one transaction that
 * compares the owner's value and increments it. So a replaced process can change nothing, and a commit
 * that was given up cannot take effect late. If the answer to a commit was lost, the next commit first
 * asks whether it took effect, and undoes it: it restores the keys' former values, and increments as
 * well.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "net/net.h"
#include "store/gateway.h"
#include "store/store_impl.h"

#define PREFIX_MAX  200
#define PAGE	    32		/* records asked for at once */
#define ANSWER_MAX  (96u << 20) /* a page of the largest records, in base64 */
#define CHANGES_MAX 126		/* etcd takes 128 operations; one is the owner's */
#define UNDO_TRIES  8
#define BYTES_MAX   (1400u << 10) /* etcd takes 1.5 MiB */

struct etcd {
	struct gateway *gateway;
	char prefix[PREFIX_MAX + 2]; /* ends with a slash */
	char end[PREFIX_MAX + 2];    /* after all keys with the prefix */
	char owner[PREFIX_MAX + 16]; /* the key */
	uint64_t id, seq;
	bool unsure;	   /* the last commit may have taken effect */
	struct table undo; /* its keys */
	struct buf out, in;
};

static void
etcd_free(struct etcd *e)
{
	gateway_close(e->gateway);
	table_fini(&e->undo);
	buf_fini(&e->out);
	buf_fini(&e->in);
	free(e);
}

static const char *
host_of(const struct etcd *e)
{
	return gateway_host(e->gateway);
}

static enum rc
no_memory(const struct etcd *e, struct err *err)
{
	return err_set(err, RC_NOMEM, "etcd: %s: out of memory", host_of(e));
}

/* Post e->out; the answer is in e->in. */
static enum rc
post(struct etcd *e, const char *path, bool repeatable, struct err *err)
{
	enum rc rc = gateway_post(e->gateway, path, &e->out, repeatable, &e->in, err);

	return rc == RC_OK ? rc : err_prefix(err, "etcd");
}

/* Send the transaction in e->out. */
static enum rc
transact(struct etcd *e, bool repeatable, bool *done, struct err *err)
{
	enum rc rc = post(e, "/v3/kv/txn", repeatable, err);

	if (rc != RC_OK)
		return rc;
	rc = etcd_json_done(e->in.data, e->in.len, done, err);
	return rc == RC_OK ? rc : err_prefix(err, "etcd: %s", host_of(e));
}

/* ---- reading */

static enum rc
read_pages(struct etcd *e, const char *from, const char *end, etcd_json_fn *fn, void *arg,
	   struct err *err)
{
	struct etcd_page page = {.revision = 0};
	char next[sizeof page.last + 1];
	enum rc rc;

	snprintf(next, sizeof next, "%s", from);
	do {
		e->out.len = 0;
		if (!etcd_json_range(&e->out, next, end, page.revision, PAGE))
			return no_memory(e, err);
		rc = post(e, "/v3/kv/range", true, err);
		if (rc != RC_OK)
			return rc;
		rc = etcd_json_page(e->in.data, e->in.len, fn, arg, &page, err);
		if (rc != RC_OK)
			return err_prefix(err, "etcd: %s", host_of(e));
		/* The last key is the page's largest; the next page begins after it. */
		if (page.more && strcmp(page.last, next) < 0)
			return err_set(err, RC_BADDATA, "etcd: %s: its keys are not in order",
				       host_of(e));
		snprintf(next, sizeof next, "%s\x01", page.last);
	} while (page.more);
	return RC_OK;
}

/* A record of the state into the table. */
static bool
take_record(void *arg, const char *key, const void *value, size_t nbytes)
{
	struct store *s = arg;
	const struct etcd *e = s->own;
	struct store_change c = {key + strlen(e->prefix), value, nbytes};

	if (strncmp(key, e->prefix, strlen(e->prefix)) != 0 || strcmp(key, e->owner) == 0 ||
	    !c.key[0])
		return true;
	return store_apply(&s->table, &c);
}

static bool
take_owner(void *arg, const char *key, const void *value, size_t nbytes)
{
	char(*text)[64] = arg;

	(void)key;
	snprintf(*text, sizeof *text, "%.*s", nbytes < 60 ? (int)nbytes : 60, (const char *)value);
	return true;
}

/* ---- owning */

static enum rc
taken_over(const struct etcd *e, struct err *err)
{
	return err_set(err, RC_BUSY, "etcd: %s: another process has taken over %s", host_of(e),
		       e->prefix);
}

static void
owner_text(const struct etcd *e, uint64_t seq, char text[64])
{
	snprintf(text, 64, "%016" PRIx64 " %" PRIu64, e->id, seq);
}

/* Begin a transaction of the owner, which increments its count. */
static bool
begin(struct etcd *e, bool compare)
{
	char now[64], next[64];

	owner_text(e, e->seq, now);
	owner_text(e, e->seq + 1, next);
	e->out.len = 0;
	return etcd_json_txn(&e->out, e->owner, compare ? now : NULL) &&
	       etcd_json_put(&e->out, e->owner, next, strlen(next));
}

/* Send such a transaction. */
static enum rc
end(struct etcd *e, bool repeatable, struct err *err)
{
	bool done = false;
	enum rc rc =
	    etcd_json_txn_end(&e->out) ? transact(e, repeatable, &done, err) : no_memory(e, err);

	if (rc == RC_OK && !done)
		rc = taken_over(e, err);
	if (rc == RC_OK)
		e->seq++;
	return rc;
}

/* The number of our commits that etcd has carried out. */
static enum rc
ask_seq(struct etcd *e, struct err *err)
{
	char end_key[sizeof e->owner + 1], text[64] = "", mine[64];
	enum rc rc;

	snprintf(end_key, sizeof end_key, "%s\x01", e->owner);
	rc = read_pages(e, e->owner, end_key, take_owner, &text, err);
	if (rc != RC_OK)
		return rc;
	snprintf(mine, sizeof mine, "%016" PRIx64 " ", e->id);
	if (strncmp(text, mine, strlen(mine)) != 0 ||
	    parse_u64(text + strlen(mine), 0, UINT64_MAX, &e->seq, NULL) != RC_OK)
		return taken_over(e, err);
	return RC_OK;
}

/* One try: all keys of the lost commit get the values that they have in the table. */
static enum rc
undo_once(struct store *s, struct err *err)
{
	struct etcd *e = s->own;
	bool packed = begin(e, true);

	for (size_t i = 0; packed && i < e->undo.n; i++) {
		const struct entry *was = table_find(&s->table, e->undo.v[i]->key);
		char key[PREFIX_MAX + STORE_KEY_MAX + 2];

		snprintf(key, sizeof key, "%s%s", e->prefix, e->undo.v[i]->key);
		packed = was ? etcd_json_put(&e->out, key, was->value, was->nbytes)
			     : etcd_json_delete(&e->out, key, NULL);
	}
	return packed ? end(e, false, err) : no_memory(e, err);
}

/* Undo the commit that may have taken effect. It may still do so between our question and our
 * transaction; then the owner is still us, with another count, and we try again. Only a few commits can
 * be late, so this ends. */
static enum rc
undo(struct store *s, struct err *err)
{
	struct etcd *e = s->own;
	struct err why;
	enum rc rc = RC_BUSY;

	for (int i = 0; rc == RC_BUSY && i < UNDO_TRIES; i++) {
		rc = ask_seq(e, &why);
		if (rc != RC_OK)
			break;
		rc = undo_once(s, &why);
	}
	if (rc != RC_OK)
		return err_set(err, rc, "%s", why.text);
	table_fini(&e->undo);
	e->unsure = false;
	return RC_OK;
}

/* ---- committing */

/* A key changes once in a transaction: the last change counts. */
static bool
is_last(const struct store_change *change, size_t n, size_t i)
{
	for (size_t k = i + 1; k < n; k++)
		if (strcmp(change[k].key, change[i].key) == 0)
			return false;
	return true;
}

static enum rc
measure(const struct etcd *e, const struct store_change *change, size_t n, struct err *err)
{
	size_t nbytes = 0;

	for (size_t i = 0; i < n; i++) {
		size_t key = strlen(change[i].key);

		if (key == 0 || key > STORE_KEY_MAX)
			return err_set(err, RC_INVAL, "a record under a key of %zu bytes", key);
		nbytes += strlen(e->prefix) + key;
		if (change[i].value && change[i].nbytes > BYTES_MAX)
			nbytes = BYTES_MAX + 1;
		else if (change[i].value)
			nbytes += change[i].nbytes;
		if (nbytes > BYTES_MAX)
			break;
	}
	if (n > CHANGES_MAX || nbytes > BYTES_MAX)
		return err_set(err, RC_INVAL,
			       "etcd: %s: %zu changes at once; it takes %u, and %u KiB in all",
			       host_of(e), n, CHANGES_MAX, BYTES_MAX >> 10);
	return RC_OK;
}

/* The transaction, and the list of its keys. False: out of memory. */
static bool
pack(struct etcd *e, const struct store_change *change, size_t n)
{
	if (!begin(e, true))
		return false;
	for (size_t i = 0; i < n; i++) {
		struct store_change key_only = {change[i].key, "", 0};
		char key[PREFIX_MAX + STORE_KEY_MAX + 2];

		if (!is_last(change, n, i))
			continue;
		snprintf(key, sizeof key, "%s%s", e->prefix, change[i].key);
		if (!store_apply(&e->undo, &key_only) ||
		    !(change[i].value
			  ? etcd_json_put(&e->out, key, change[i].value, change[i].nbytes)
			  : etcd_json_delete(&e->out, key, NULL)))
			return false;
	}
	return true;
}

static enum rc
etcd_commit(struct store *s, const struct store_change *change, size_t n,
	    enum store_durability durability, struct err *err)
{
	struct etcd *e = s->own;
	enum rc rc = measure(e, change, n, err);

	(void)durability; /* etcd has synced what it has accepted */
	if (rc == RC_OK && e->unsure)
		rc = undo(s, err);
	if (rc != RC_OK)
		return rc;
	if (!pack(e, change, n)) {
		table_fini(&e->undo);
		return no_memory(e, err);
	}
	rc = end(e, false, err);
	e->unsure = rc != RC_OK && rc != RC_BUSY;
	if (!e->unsure)
		table_fini(&e->undo);
	return rc;
}

/* ---- opening and closing */

/* etcd://host:port,.../prefix; etcds: with TLS. */
static enum rc
parse_where(struct etcd *e, const char *where, struct err *err)
{
	const char *hosts = strstr(where, "://") + 3, *slash = strchr(hosts, '/');
	const char *prefix = slash && slash[1] ? slash + 1 : "gpusim";
	size_t len = strlen(prefix);
	char *list = strndup(hosts, slash ? (size_t)(slash - hosts) : strlen(hosts));
	enum rc rc = list ? gateway_open(list, where[4] == 's', ANSWER_MAX, &e->gateway, err)
			  : err_set(err, RC_NOMEM, "out of memory");

	free(list);
	if (rc != RC_OK)
		return err_prefix(err, "%s", where);
	while (len && prefix[len - 1] == '/')
		len--;
	if (len == 0 || len > PREFIX_MAX)
		return err_set(err, RC_INVAL, "%s: the prefix must have 1 to %d bytes", where,
			       PREFIX_MAX);
	snprintf(e->prefix, sizeof e->prefix, "%.*s/", (int)len, prefix);
	snprintf(e->end, sizeof e->end, "%.*s0", (int)len, prefix); /* '0' follows '/' */
	snprintf(e->owner, sizeof e->owner, "%s.owner", e->prefix);
	return RC_OK;
}

static enum rc
etcd_open(struct store *s, const char *where, struct err *err)
{
	struct etcd *e = alloc_zeroed(1, sizeof *e);
	enum rc rc;

	if (!e)
		return err_set(err, RC_NOMEM, "%s: out of memory", where);
	s->own = e;
	e->id = net_random();
	rc = parse_where(e, where, err);
	if (rc == RC_OK)
		rc = begin(e, false) ? end(e, true, err) : no_memory(e, err);
	if (rc == RC_OK)
		rc = read_pages(e, e->prefix, e->end, take_record, s, err);
	if (rc != RC_OK) {
		etcd_free(e);
		s->own = NULL;
	}
	return rc;
}

static enum rc
etcd_close(struct store *s, enum store_end how, struct err *err)
{
	struct etcd *e = s->own;
	char now[64];
	bool done;
	enum rc rc = e->unsure ? undo(s, err) : RC_OK;

	if (rc == RC_OK && how == STORE_REMOVE) {
		owner_text(e, e->seq, now);
		e->out.len = 0;
		if (etcd_json_txn(&e->out, e->owner, now) &&
		    etcd_json_delete(&e->out, e->prefix, e->end) && etcd_json_txn_end(&e->out))
			rc = transact(e, false, &done, err); /* another's state is left alone */
		else
			rc = no_memory(e, err);
	}
	etcd_free(e);
	s->own = NULL;
	return rc;
}

const struct medium store_etcd = {etcd_open, etcd_commit, NULL, etcd_close};
