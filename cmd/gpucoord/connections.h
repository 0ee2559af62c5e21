/*
 * connections.h - the connections to devices: one client per address, made at its first call.
 */
#ifndef GPUCOORD_CONNECTIONS_H
#define GPUCOORD_CONNECTIONS_H

#include "coord/coord.h"
#include "net/rpc_client.h"

struct connections;

/* Called when nobody listens any more at the address where device `id` was last called. On any thread; must
 * not block. */
typedef void (*connections_lost_fn)(void *arg, uint64_t id, const char *addr);

struct connections *connections_new(connections_lost_fn fn, void *arg);

/* End all calls; their callbacks run. */
void connections_free(struct connections *d);

/* The client for an address, to call device `id` (0: any); RC_BUSY: too many addresses, RC_INVAL, RC_NOMEM.
 * Valid until connections_tick. */
enum rc connections_client(struct connections *d, const char *addr, uint64_t id, uint64_t now_ns,
			   struct rpc_client **out, struct err *err);

/* Close connections that were not used for a while, and those where nobody listens. */
void connections_tick(struct connections *d, uint64_t now_ns);

#endif
