/*
 * store.h - state that outlives its process: values under keys, changed all or nothing.
 *
 * The state is in a directory of this machine (a journal, see journal.h) or in etcd. One process owns it
 * at a time, on one thread at a time. All of it is held in memory too.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"

#define STORE_KEY_MAX	  255	       /* bytes of a key, at least 1 */
#define STORE_VALUE_MAX	  (4u << 20)   /* bytes of a value */
#define STORE_BATCH_MAX	  (256u << 20) /* bytes of keys and values of one commit */
#define STORE_DEADLINE_MS 2000 /* of an exchange with etcd. Fixed: gpucoord blocks meanwhile */

struct store;

/* One record. key and value are the store's, valid during the call. */
typedef void store_fn(void *arg, const char *key, const void *value, size_t nbytes);

/*
 * store_open - take the state, and call each() for every record, in order of keys.
 *
 *	where	a directory, created (0700) if missing; or etcd://host:port[,host:port...][/prefix],
 *		etcds:// with TLS; gateway.h has the variables for users and certificates
 *	out	the caller's; ends with store_close
 *
 * An incomplete last commit (after a crash) is dropped, as it was not promised: see store_note. Errors:
 * RC_BUSY another process owns it. RC_BADDATA damaged, of another version, or not a store. RC_FAILED
 * cannot be created or read, or is open to others. RC_INVAL malformed `where`. RC_UNREACHABLE, RC_TIMEOUT
 * etcd does not answer. RC_NOMEM.
 */
enum rc store_open(const char *where, store_fn *each, void *arg, struct store **out,
		   struct err *err);

/* A message about records dropped at the opening, or "". Lives as long as the store. */
const char *store_note(const struct store *s);

struct store_change {
	const char *key;
	const void *value; /* NULL: remove the key; a missing key is not an error */
	size_t nbytes;
};

enum store_durability {
	STORE_LAZY, /* the change survives the death of the process */
	STORE_SYNC, /* the change survives the death of the machine */
};

/*
 * store_commit - make all changes, in order, or none.
 *
 * Errors: RC_FAILED the medium failed: no space, a device error. RC_UNREACHABLE, RC_TIMEOUT etcd did not
 * answer. RC_BUSY another process has taken over the state in etcd. RC_INVAL a key or value is too long.
 * RC_NOMEM. Then none of the changes is visible, also after opening again, and the next commit may
 * succeed. (What etcd did when its answer was lost is undone with the next commit.)
 */
enum rc store_commit(struct store *s, const struct store_change *change, size_t n,
		     enum store_durability durability, struct err *err);

enum store_end {
	STORE_KEEP,   /* for the process that opens it next */
	STORE_REMOVE, /* remove our own records only */
};

/* Close and free. NULL is legal. RC_FAILED: it could not be synced, or removed. */
enum rc store_close(struct store *s, enum store_end end, struct err *err);

/* The record stays. */
typedef bool store_stays(const char *key, const void *value, size_t nbytes);

/*
 * store_close_but - the same, but keep only the records that stay, for the process that opens it next; if
 * there are none, as STORE_REMOVE. Records are removed from the last key to the first, so those that
 * others refer to go last.
 *
 * Errors: as store_close and store_commit: then other records may remain.
 */
enum rc store_close_but(struct store *s, store_stays *stays, struct err *err);

#endif
