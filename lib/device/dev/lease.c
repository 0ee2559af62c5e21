/* Design notes. One lock guards everything; memory is freed under it, so that a reused address is not
 * taken for the expired allocation. */
#include "dev/lease.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"

/* One client's allocations; a client without any has no owner struct. */
struct owner {
	struct owner *next;
	uint64_t client;
	uint64_t until_ns; /* 0: the client is connected */
	uint64_t nbytes;   /* of all allocations */
	struct range {
		uint64_t addr, nbytes;
	} * v;
	size_t n, cap;
};

struct leases {
	struct devmem *mem;
	uint64_t max_bytes;
	pthread_mutex_t lock;
	struct owner *owners;
};

struct leases *
leases_new(struct devmem *mem, uint64_t max_bytes)
{
	struct leases *l = calloc(1, sizeof *l);

	if (l) {
		l->mem = mem;
		l->max_bytes = max_bytes;
		pthread_mutex_init(&l->lock, NULL);
	}
	return l;
}

/* Lock held. */
static void
drop(struct owner **at)
{
	struct owner *h = *at;

	*at = h->next;
	free(h->v);
	free(h);
}

void
leases_free(struct leases *l)
{
	if (!l)
		return;
	while (l->owners)
		drop(&l->owners);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

/* Lock held. NULL: it has no allocations. */
static struct owner *
find(struct leases *l, uint64_t client)
{
	struct owner *h = l->owners;

	while (h && h->client != client)
		h = h->next;
	return h;
}

/* Lock held. False: out of memory. */
static bool
put(struct leases *l, uint64_t client, uint64_t addr, uint64_t nbytes)
{
	struct owner *h = find(l, client);

	if (!h && (h = calloc(1, sizeof *h))) {
		h->client = client;
		h->next = l->owners;
		l->owners = h;
	}
	if (!h || !alloc_room(&h->v, h->n, &h->cap, sizeof *h->v))
		return false;
	h->v[h->n++] = (struct range){addr, nbytes};
	h->nbytes += nbytes;
	return true;
}

enum rc
lease_add(struct leases *l, uint64_t client, uint64_t addr, uint64_t nbytes, struct err *err)
{
	const struct owner *h;
	uint64_t held;
	enum rc rc = RC_OK;

	pthread_mutex_lock(&l->lock);
	h = find(l, client);
	held = h ? h->nbytes : 0;
	if (h && h->n >= LEASE_MAX)
		rc = err_set(err, RC_BUSY, "this client leases %d allocations, which is its limit",
			     LEASE_MAX);
	else if (nbytes > l->max_bytes || held > l->max_bytes - nbytes)
		rc = err_set(err, RC_BUSY,
			     "this client leases %" PRIu64 " of at most %" PRIu64
			     " bytes: no room for %" PRIu64 " more",
			     held, l->max_bytes, nbytes);
	else if (!put(l, client, addr, nbytes))
		rc = err_set(err, RC_NOMEM, "out of memory");
	pthread_mutex_unlock(&l->lock);
	return rc;
}

struct inherited {
	struct {
		uint64_t addr, nbytes, client;
	} * v;
	size_t n, cap;
	bool full;
};

static void
inherit(void *arg, uint64_t addr, uint64_t nbytes, uint64_t client)
{
	struct inherited *in = arg;

	if (!alloc_room(&in->v, in->n, &in->cap, sizeof *in->v)) {
		in->full = true;
		return;
	}
	in->v[in->n].addr = addr;
	in->v[in->n].nbytes = nbytes;
	in->v[in->n++].client = client;
}

enum rc
leases_inherit(struct leases *l, uint64_t now_ns, struct err *err)
{
	struct inherited in = {0};
	enum rc rc = devmem_owners(l->mem, inherit, &in, err);

	pthread_mutex_lock(&l->lock);
	for (size_t i = 0; i < in.n && rc == RC_OK; i++) {
		uint64_t client = in.v[i].client;
		const struct owner *h = find(l, client);
		size_t k = 0;

		while (h && k < h->n && h->v[k].addr != in.v[i].addr)
			k++;
		if (h && k < h->n)
			continue; /* it is known already */
		in.full |= !put(l, client, in.v[i].addr, in.v[i].nbytes);
		if (!in.full)
			find(l, client)->until_ns = now_ns + TIME_RETURN_MS * NS_PER_MS;
	}
	pthread_mutex_unlock(&l->lock);
	free(in.v);
	return rc == RC_OK && in.full ? err_set(err, RC_NOMEM, "out of memory") : rc;
}

/* Lock held. The newest first, which are most likely to be freed. */
static bool
end(struct owner **at, uint64_t addr)
{
	struct owner *h = *at;

	for (size_t i = h->n; i-- > 0;)
		if (h->v[i].addr == addr) {
			h->nbytes -= h->v[i].nbytes;
			h->v[i] = h->v[--h->n];
			if (h->n == 0)
				drop(at);
			return true;
		}
	return false;
}

void
lease_end(struct leases *l, uint64_t addr)
{
	struct owner **at = &l->owners;

	pthread_mutex_lock(&l->lock);
	while (*at && !end(at, addr))
		at = &(*at)->next;
	pthread_mutex_unlock(&l->lock);
}

static void
set_until(struct leases *l, uint64_t client, uint64_t until_ns)
{
	struct owner *h;

	pthread_mutex_lock(&l->lock);
	h = find(l, client);
	if (h)
		h->until_ns = until_ns;
	pthread_mutex_unlock(&l->lock);
}

void
lease_client_gone(struct leases *l, uint64_t client, uint64_t now_ns)
{
	set_until(l, client, now_ns + TIME_LEASE_MS * NS_PER_MS);
}

void
lease_client_here(struct leases *l, uint64_t client)
{
	set_until(l, client, 0);
}

void
leases_tick(struct leases *l, uint64_t now_ns)
{
	struct owner **at = &l->owners, *h;

	pthread_mutex_lock(&l->lock);
	while ((h = *at)) {
		if (h->until_ns == 0 || now_ns < h->until_ns) {
			at = &h->next;
			continue;
		}
		for (size_t i = 0; i < h->n; i++)
			devmem_free(l->mem, h->v[i].addr, NULL);
		drop(at);
	}
	pthread_mutex_unlock(&l->lock);
}
