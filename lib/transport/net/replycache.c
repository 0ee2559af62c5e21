#include "net/replycache.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

struct running {
	uint64_t seq;
	void *call;
};

struct done {
	uint64_t seq;
	void *answer;
	size_t nbytes;
};

struct client {
	uint64_t used;	 /* the tick of its last request */
	uint64_t newest; /* highest number seen */
	uint64_t floor;	 /* highest number whose answer was dropped from the window */
	struct running *running;
	unsigned nrunning, running_cap;
	struct done *done; /* a ring of done_cap, the oldest at done_first */
	unsigned ndone, done_first, done_cap;
};

struct replycache {
	/* separate from the clients: it is scanned for each request */
	uint64_t id[REPLYCACHE_CLIENTS];
	struct client *client[REPLYCACHE_CLIENTS];
	unsigned nclients;
	uint64_t tick;
	size_t bytes; /* of all kept answers and their entries */
};

struct replycache *
replycache_new(void)
{
	return calloc(1, sizeof(struct replycache));
}

static size_t
done_cost(const struct done *d)
{
	return d->nbytes + sizeof *d;
}

static struct done *
done_at(const struct client *cl, unsigned i)
{
	return &cl->done[(cl->done_first + i) % cl->done_cap];
}

static void
done_drop_oldest(struct replycache *c, struct client *cl)
{
	struct done *d = done_at(cl, 0);

	if (d->seq > cl->floor)
		cl->floor = d->seq;
	c->bytes -= done_cost(d);
	free(d->answer);
	cl->done_first = (cl->done_first + 1) % cl->done_cap;
	cl->ndone--;
}

static void
client_drop(struct replycache *c, unsigned i)
{
	struct client *cl = c->client[i];

	while (cl->ndone)
		done_drop_oldest(c, cl);
	free(cl->done);
	free(cl->running);
	free(cl);
	c->nclients--;
	c->client[i] = c->client[c->nclients];
	c->id[i] = c->id[c->nclients];
}

void
replycache_free(struct replycache *c)
{
	if (!c)
		return;
	while (c->nclients)
		client_drop(c, 0);
	free(c);
}

/* Forget the client that has been silent longest and has nothing running. */
static bool
evict(struct replycache *c, const struct client *except)
{
	unsigned best = c->nclients;

	for (unsigned i = 0; i < c->nclients; i++)
		if (c->client[i] != except && c->client[i]->nrunning == 0 &&
		    (best == c->nclients || c->client[i]->used < c->client[best]->used))
			best = i;
	if (best == c->nclients)
		return false;
	client_drop(c, best);
	return true;
}

static struct client *
client_find(struct replycache *c, uint64_t id)
{
	for (unsigned i = 0; i < c->nclients; i++)
		if (c->id[i] == id)
			return c->client[i];
	return NULL;
}

static struct client *
client_make(struct replycache *c, uint64_t id)
{
	struct client *cl;

	if (c->nclients == REPLYCACHE_CLIENTS && !evict(c, NULL))
		return NULL;
	cl = calloc(1, sizeof *cl);
	if (!cl)
		return NULL;
	c->id[c->nclients] = id;
	c->client[c->nclients++] = cl;
	return cl;
}

static struct running *
running_find(const struct client *cl, uint64_t seq)
{
	for (unsigned i = 0; i < cl->nrunning; i++)
		if (cl->running[i].seq == seq)
			return &cl->running[i];
	return NULL;
}

static const struct done *
done_find(const struct client *cl, uint64_t seq)
{
	for (unsigned i = 0; i < cl->ndone; i++)
		if (done_at(cl, i)->seq == seq)
			return done_at(cl, i);
	return NULL;
}

static bool
running_add(struct client *cl, uint64_t seq, void *call)
{
	if (cl->nrunning == REPLYCACHE_WINDOW)
		return false;
	if (cl->nrunning == cl->running_cap) {
		unsigned cap = cl->running_cap ? cl->running_cap * 2 : 4;
		struct running *r = alloc_resize(cl->running, cap, sizeof *r);

		if (!r)
			return false;
		cl->running = r;
		cl->running_cap = cap;
	}
	cl->running[cl->nrunning++] = (struct running){seq, call};
	return true;
}

enum replycache_verdict
replycache_ask(struct replycache *c, uint64_t client_id, uint64_t seq, void **call,
	       const void **answer, size_t *nbytes)
{
	struct client *cl = client_find(c, client_id);

	if (!cl)
		cl = client_make(c, client_id);
	if (!cl)
		return REPLYCACHE_FULL;
	cl->used = ++c->tick;
	if (seq <= cl->newest) {
		const struct running *r = running_find(cl, seq);
		const struct done *d = r ? NULL : done_find(cl, seq);

		if (r) {
			*call = r->call;
			return REPLYCACHE_RUNNING;
		}
		if (d) {
			*answer = d->answer;
			*nbytes = d->nbytes;
			return REPLYCACHE_DONE;
		}
		if (seq <= cl->floor)
			return REPLYCACHE_STALE;
	}
	if (!running_add(cl, seq, *call))
		return REPLYCACHE_FULL;
	if (seq > cl->newest)
		cl->newest = seq;
	return REPLYCACHE_NEW;
}

/* Make room for one more in the ring, by dropping the oldest when the window is full. */
static bool
done_room(struct replycache *c, struct client *cl)
{
	unsigned cap = cl->done_cap ? cl->done_cap * 2 : 4;
	struct done *d;

	if (cl->ndone < cl->done_cap)
		return true;
	if (cl->done_cap == REPLYCACHE_WINDOW) {
		done_drop_oldest(c, cl);
		return true;
	}
	d = alloc_zeroed(cap, sizeof *d);
	if (!d)
		return false;
	for (unsigned i = 0; i < cl->ndone; i++)
		d[i] = *done_at(cl, i);
	free(cl->done);
	cl->done = d;
	cl->done_first = 0;
	cl->done_cap = cap;
	return true;
}

void
replycache_done(struct replycache *c, uint64_t client_id, uint64_t seq, const void *answer,
		size_t nbytes)
{
	struct client *cl = client_find(c, client_id);
	struct running *r = cl ? running_find(cl, seq) : NULL;
	struct done d = {.seq = seq, .nbytes = nbytes};

	if (!r)
		return;
	*r = cl->running[--cl->nrunning];
	if (nbytes > REPLYCACHE_ANSWER || !done_room(c, cl))
		return;
	while (c->bytes + done_cost(&d) > REPLYCACHE_BYTES && evict(c, cl))
		;
	while (c->bytes + done_cost(&d) > REPLYCACHE_BYTES && cl->ndone)
		done_drop_oldest(c, cl);
	if (c->bytes + done_cost(&d) > REPLYCACHE_BYTES)
		return;
	d.answer = malloc(nbytes ? nbytes : 1);
	if (!d.answer)
		return;
	if (nbytes)
		memcpy(d.answer, answer, nbytes);
	*done_at(cl, cl->ndone++) = d;
	c->bytes += done_cost(&d);
}
