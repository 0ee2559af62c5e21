/*
 * lease.h - allocations that are freed when their client disconnects.
 *
 * A client has disconnected when its last connection has been closed for TIME_LEASE_MS without a new request.
 * Thread-safe.
 */
#ifndef DEV_LEASE_H
#define DEV_LEASE_H

#include <stdint.h>

#include "base/rc.h"
#include "base/times.h"
#include "mem/devmem.h"

#define LEASE_MAX 4096 /* allocations that one client leases */

struct leases;

/* mem outlives the leases; max_bytes: what one client may lease. NULL: out of memory. */
struct leases *leases_new(struct devmem *mem, uint64_t max_bytes);
void leases_free(struct leases *l);

/* The nbytes at addr belong to client. RC_BUSY it is at its limit; RC_NOMEM. */
enum rc lease_add(struct leases *l, uint64_t client, uint64_t addr, uint64_t nbytes,
		  struct err *err);

/*
 * Take over the leases in the memory that this process does not know: of a killed device, or of adopted
 * memory. Their clients may be connected, and a client that waits for a run sends nothing: each has
 * TIME_RETURN_MS to send a request. RC_NOMEM, and as devmem_owners.
 */
enum rc leases_inherit(struct leases *l, uint64_t now_ns, struct err *err);

/* addr has been freed. */
void lease_end(struct leases *l, uint64_t addr);

/* A client has disconnected, or sent a request (cheap when it has no lease). */
void lease_client_gone(struct leases *l, uint64_t client, uint64_t now_ns);
void lease_client_here(struct leases *l, uint64_t client);

/* Free expired leases. */
void leases_tick(struct leases *l, uint64_t now_ns);

#endif
