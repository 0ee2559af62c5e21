#include "connections.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "net/net.h"

#define MAX_ADDRESSES 4096
#define FORGET_AFTER  (600 * NS_PER_SEC) /* longer than any call lives */

struct connection {
	struct connection *next;
	char addr[NET_ADDR_MAX];
	struct rpc_client *client;
	uint64_t used_ns;
};

struct connections {
	struct connection *list;
	unsigned n;
};

struct connections *
connections_new(void)
{
	return calloc(1, sizeof(struct connections));
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
	while (d && d->list)
		forget(d, &d->list);
	free(d);
}

enum rc
connections_client(struct connections *d, const char *addr, uint64_t now_ns,
		   struct rpc_client **out, struct err *err)
{
	struct connection *c;
	enum rc rc;

	for (c = d->list; c && strcmp(c->addr, addr) != 0; c = c->next)
		;
	if (!c) {
		if (d->n == MAX_ADDRESSES)
			return err_set(err, RC_BUSY, "connected to %u devices already", d->n);
		c = calloc(1, sizeof *c);
		if (!c)
			return err_set(err, RC_NOMEM, "out of memory");
		rc = rpc_client_open(addr, RPC_CONNECT_LATER, &c->client, err);
		if (rc != RC_OK) {
			free(c);
			return rc;
		}
		snprintf(c->addr, sizeof c->addr, "%s", addr);
		c->next = d->list;
		d->list = c;
		d->n++;
	}
	c->used_ns = now_ns;
	*out = c->client;
	return RC_OK;
}

void
connections_tick(struct connections *d, uint64_t now_ns)
{
	struct connection **at = &d->list;

	while (*at)
		if (now_ns - (*at)->used_ns > FORGET_AFTER)
			forget(d, at);
		else
			at = &(*at)->next;
}
