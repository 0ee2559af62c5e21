/*
 * connections.h - the shell's connections to devices: one client an address, made when first
 * called.
 */
#ifndef GPUCOORD_CONNECTIONS_H
#define GPUCOORD_CONNECTIONS_H

#include "coord/coord.h"
#include "net/rpc_client.h"

struct connections;

/* Nobody listens any more where device `id` was called last; on any thread, must not block. */
typedef void (*connections_lost_fn)(void *arg, uint64_t id, const char *addr);

struct connections *connections_new(connections_lost_fn fn, void *arg);

/* Ends all calls; their callbacks run. */
void connections_free(struct connections *d);

/* The client for an address, to call device `id` (0: whoever is there); RC_BUSY: too many addresses,
 * RC_INVAL, RC_NOMEM. Valid until connections_tick. */
enum rc connections_client(struct connections *d, const char *addr, uint64_t id, uint64_t now_ns,
			   struct rpc_client **out, struct err *err);

/* Forget connections not used for a while, and those where nobody listens. */
void connections_tick(struct connections *d, uint64_t now_ns);

#endif
