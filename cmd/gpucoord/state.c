/*
 * state.c - the place of the stored state, and the changes that could not be stored yet.
 *
 * Changes that could not be committed wait in `late`, in order, and are committed together with later ones,
 * so that the store never has a state that did not exist. Meanwhile the coordinator accepts nothing that
 * needs to be stored, so `late` stays small. The longer a try takes, the longer the pause before the next.
 */
#include "shell_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/net.h"
#include "statedir.h"
#include "store/store.h"

#define RETRY_NS (200 * NS_PER_MS)

struct state {
	struct store *store;
	struct store_change *late;
	size_t nlate, cap;
	bool promise;	   /* one of them was promised */
	bool local;	   /* the state is useless after the machine's end */
	bool failing;	   /* the last commit failed with *why */
	uint64_t retry_ns; /* time of the next try */
	struct err why;
};

/* ---- the place */

/* The directory for an address; false: none. A coordinator with any free port is never found again. */
static bool
default_where(const char *address, char *out, size_t n)
{
	const char *host = net_addr_host(address);
	size_t len = strlen(address);
	int k;

	if (!host)
		return strncmp(address, "ipc://", 6) == 0 &&
		       snprintf(out, n, "%s.state", address + 6) < (int)n;
	if ((len > 2 && strcmp(address + len - 2, ":0") == 0) || !statedir_path(out, n))
		return false;
	k = (int)strlen(out);
	statedir_make(out);
	return snprintf(out + k, n - (size_t)k, "/%s", host) < (int)n - k;
}

bool
state_wanted(const char *where, const char *address)
{
	char path[1024];

	return where ? strcmp(where, "none") != 0 : default_where(address, path, sizeof path);
}

/* ---- opening */

struct taking {
	struct coord *coord;
	struct coord_actions *out;
	struct err err;
};

static void
take(void *arg, const char *key, const void *value, size_t nbytes)
{
	struct taking *t = arg;

	if (t->err.rc == RC_OK)
		coord_restore(t->coord, key, value, nbytes, t->out, &t->err);
}

static enum rc
open_store(const char *where, struct coord *c, struct coord_actions *out, struct state *st,
	   struct err *err)
{
	struct taking t = {.coord = c, .out = out};
	enum rc rc = store_open(where, take, &t, &st->store, err);

	if (rc == RC_OK && *store_note(st->store))
		log_say(LOG_WARN, LOG_INIT, "%s", store_note(st->store));
	if (rc == RC_OK && t.err.rc != RC_OK)
		rc = err_set(err, t.err.rc, "%s: %s", where, t.err.text);
	if (rc == RC_BADDATA) {
		t.err = *err;
		err_set(err, rc, "%s; move the state away, or start with --state none", t.err.text);
	}
	return rc;
}

enum rc
state_open(const char *where, const char *address, struct coord *c, struct coord_actions *actions,
	   struct state **out, struct err *err)
{
	bool given = where != NULL;
	struct state *st;
	char path[1024];
	enum rc rc;

	if (given ? strcmp(where, "none") == 0 : !default_where(address, path, sizeof path))
		return RC_OK;
	st = alloc_zeroed(1, sizeof *st);
	if (!st)
		return err_set(err, RC_NOMEM, "out of memory");
	rc = open_store(given ? where : path, c, actions, st, err);
	if (rc == RC_OK) {
		st->local = !given && !net_addr_host(address);
		*out = st;
		return RC_OK;
	}
	state_close(st, false);
	if (rc == RC_FAILED && !given) {
		log_say(LOG_WARN, LOG_INIT, "%s; nothing is stored", err->text);
		*err = (struct err){0};
		return RC_OK;
	}
	return rc;
}

/* ---- committing */

static void
forget(struct state *st)
{
	for (size_t i = 0; i < st->nlate; i++) {
		free((char *)st->late[i].key);
		free((void *)st->late[i].value);
	}
	st->nlate = 0;
	st->promise = false;
}

/* Take over the records. False: out of memory, some may be missing. */
static bool
gather(struct state *st, struct coord_actions *a)
{
	for (size_t i = 0; i < a->n; i++) {
		struct coord_action *from = &a->v[i];
		char *key;

		if (from->kind != COORD_STORE)
			continue;
		if (!alloc_room(&st->late, st->nlate, &st->cap, sizeof *st->late))
			return false;
		key = strdup(from->address);
		if (!key)
			return false;
		st->late[st->nlate++] = (struct store_change){key, from->body.data, from->body.len};
		st->promise |= from->promise;
		from->body = (struct buf){0};
	}
	return true;
}

/* Commit all changes at once; if that is too much, commit each one that is not too large by itself. *err
 * names the others. */
static enum rc
commit_late(struct state *st, struct err *err)
{
	enum store_durability how = st->promise && !st->local ? STORE_SYNC : STORE_LAZY;
	enum rc rc = store_commit(st->store, st->late, st->nlate, how, err);
	struct err one;

	if (rc != RC_INVAL)
		return rc;
	for (size_t i = 0; i < st->nlate; i++)
		if (store_commit(st->store, &st->late[i], 1, how, &one) != RC_OK)
			err_set(err, RC_INVAL, "%s: %s", st->late[i].key, one.text);
	return RC_INVAL;
}

static enum rc
commit(struct state *st)
{
	uint64_t began = clock_now_ns();
	struct err err = {0};
	enum rc rc = commit_late(st, &err);

	if (rc == RC_OK || rc == RC_INVAL)
		forget(st); /* a change that is too large stays too large */
	if (rc != RC_OK) {
		if (!st->failing || strcmp(st->why.text, err.text) != 0)
			log_say(LOG_ERROR, LOG_INIT, "cannot store the state: %s", err.text);
		st->why = err;
		st->retry_ns = clock_now_ns() + RETRY_NS + 2 * (clock_now_ns() - began);
	} else if (st->failing) {
		log_say(LOG_WARN, LOG_INIT, "the state is stored again");
	}
	st->failing = rc != RC_OK && rc != RC_INVAL;
	return rc;
}

void
state_commit(struct state *st, struct coord *c, struct coord_actions *actions)
{
	size_t before;
	enum rc rc;

	if (!st)
		return;
	before = st->nlate;
	if (!gather(st, actions)) {
		rc = err_set(&st->why, RC_NOMEM, "out of memory");
	} else if (st->nlate == before) {
		return;
	} else {
		rc = st->failing && clock_now_ns() < st->retry_ns ? st->why.rc : commit(st);
	}
	if (rc == RC_OK) {
		coord_committed(c);
		return;
	}
	coord_uncommitted(c, &st->why, actions);
	if (!st->failing)
		coord_committed(c);
	gather(st, actions);
}

void
state_tick(struct state *st, struct coord *c)
{
	if (!st || (!st->failing && st->nlate == 0) || clock_now_ns() < st->retry_ns)
		return;
	if (commit(st) == RC_OK)
		coord_committed(c);
}

void
state_close(struct state *st, bool remove)
{
	struct err err = {0};

	if (!st)
		return;
	if (!remove && st->store && st->nlate)
		commit(st);
	if ((remove ? store_close_but(st->store, coord_record_stays, &err)
		    : store_close(st->store, STORE_KEEP, &err)) != RC_OK)
		log_say(LOG_WARN, LOG_INIT, "%s", err.text);
	forget(st);
	free(st->late);
	free(st);
}
