/*
 * A client dials as long as it exists, many times a second, and each try is a socket that a single nng
 * thread must clean up. So a client for an address where nobody listens is closed a moment later, unless it
 * is called again; a call that finds nobody there reports it again.
 */
#include "shell_impl.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "net/net.h"

#define MAX_ADDRESSES 4096
#define BUCKETS	      1024
#define FORGET_AFTER  (600 * NS_PER_SEC) /* longer than any call lasts */
#define NOBODY_AFTER  (200 * NS_PER_MS)
#define CALL_WAITS    (350 * NS_PER_MS) /* longer than a call waits if nobody listens */

struct connection {
	struct connection *next;
	struct connections *all;
	_Atomic uint64_t device_id; /* the device of the last call */
	char addr[NET_ADDR_MAX];
	struct rpc_client *client;
	uint64_t used_ns;
	/* The time from which nobody listens there; 0: somebody may listen */
	_Atomic uint64_t nobody_ns;
};

struct connections {
	struct connection *bucket[BUCKETS]; /* by address */
	unsigned n;
	connections_lost_fn fn;
	void *arg;
};

struct connections *
connections_new(connections_lost_fn fn, void *arg)
{
	struct connections *d = calloc(1, sizeof *d);

	if (d)
		*d = (struct connections){.fn = fn, .arg = arg};
	return d;
}

static void
on_nobody(void *arg, uint64_t seen_ns)
{
	struct connection *c = arg;
	uint64_t id = atomic_load(&c->device_id);

	atomic_store(&c->nobody_ns, clock_now_ns());
	if (id)
		c->all->fn(c->all->arg, id, c->addr, seen_ns);
}

static void
forget(struct connections *d, struct connection **at)
{
	struct connection *c = *at;

	*at = c->next;
	d->n--;
	rpc_client_close(c->client);
	free(c);
}

void
connections_free(struct connections *d)
{
	for (unsigned i = 0; d && i < BUCKETS; i++)
		while (d->bucket[i])
			forget(d, &d->bucket[i]);
	free(d);
}

/* Find the link to the connection of an address, or to the place for one. */
static struct connection **
find(struct connections *d, const char *addr)
{
	struct connection **at;
	uint32_t h = 2166136261u;

	for (const char *p = addr; *p; p++)
		h = (h ^ (unsigned char)*p) * 16777619u;
	at = &d->bucket[h % BUCKETS];
	while (*at && strcmp((*at)->addr, addr) != 0)
		at = &(*at)->next;
	return at;
}

enum rc
connections_client(struct connections *d, const char *addr, uint64_t id, uint64_t now_ns,
		   struct rpc_client **out, struct err *err)
{
	struct connection **at = find(d, addr), *c = *at;
	enum rc rc;

	if (!c) {
		if (d->n == MAX_ADDRESSES)
			return err_set(err, RC_BUSY, "%u devices are connected already", d->n);
		c = calloc(1, sizeof *c);
		if (!c)
			return err_set(err, RC_NOMEM, "out of memory");
		c->all = d;
		snprintf(c->addr, sizeof c->addr, "%s", addr);
		atomic_store(&c->device_id, id);
		rc = rpc_client_watch(addr, on_nobody, c, &c->client, err);
		if (rc != RC_OK) {
			free(c);
			return rc;
		}
		*at = c;
		d->n++;
	}
	if (id)
		atomic_store(&c->device_id, id);
	atomic_store(&c->nobody_ns, 0); /* the call will report it */
	c->used_ns = now_ns;
	*out = c->client;
	return RC_OK;
}

static bool
is_over(struct connection *c, uint64_t now_ns)
{
	uint64_t nobody_ns = atomic_load(&c->nobody_ns);

	return now_ns - c->used_ns > FORGET_AFTER ||
	       (nobody_ns && now_ns > nobody_ns + NOBODY_AFTER && now_ns - c->used_ns > CALL_WAITS);
}

static void
tick_bucket(struct connections *d, struct connection **at, uint64_t now_ns)
{
	while (*at)
		if (is_over(*at, now_ns))
			forget(d, at);
		else
			at = &(*at)->next;
}

void
connections_tick(struct connections *d, uint64_t now_ns)
{
	for (unsigned i = 0; d->n && i < BUCKETS; i++)
		tick_bucket(d, &d->bucket[i], now_ns);
}
