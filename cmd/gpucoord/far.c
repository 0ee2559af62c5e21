/*
 * Design notes. The list of addresses is under `lock`. A client of the net room takes calls from all
 * threads, so two views that read the same device share its client. A client dials as long as it exists: so
 * the client of a device that does not answer is closed at once, and others when a new address comes after
 * FORGET_NS without use.
 */
#include "keep.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "net/net.h"
#include "net/rpc_client.h"

#define ADDRESSES 1024
#define FORGET_NS (60 * NS_PER_SEC)
#define ANSWER_MS 400 /* a live device answers within this time; others must not wait longer */

struct address {
	struct address *next;
	unsigned refs; /* number of holders */
	char addr[NET_ADDR_MAX];
	struct rpc_client *client; /* NULL: the device did not answer */
	uint64_t used_ns;
	uint64_t away_ns; /* it did not answer: do not ask it before this time */
	struct err away;
};

struct fars {
	pthread_mutex_t lock;
	struct address *first;
	unsigned n;
};

struct far {
	struct fars *of;
	struct address *at;
	uint64_t deadline_ns;
};

struct fars *
fars_new(void)
{
	struct fars *f = calloc(1, sizeof *f);

	if (f)
		pthread_mutex_init(&f->lock, NULL);
	return f;
}

static void
forget(struct fars *f, struct address **at)
{
	struct address *a = *at;

	*at = a->next;
	f->n--;
	rpc_client_close(a->client);
	free(a);
}

void
fars_free(struct fars *f)
{
	if (!f)
		return;
	while (f->first)
		forget(f, &f->first);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

/* Lock held. */
static enum rc
enter(struct fars *f, const char *address, uint64_t now_ns, struct address **out, struct err *err)
{
	struct address *a;
	struct address **at = &f->first;

	while (*at)
		if ((*at)->refs == 0 && now_ns - (*at)->used_ns > FORGET_NS)
			forget(f, at);
		else
			at = &(*at)->next;
	if (f->n == ADDRESSES)
		return err_set(err, RC_BUSY, "%u recorders are connected already", f->n);
	a = calloc(1, sizeof *a);
	if (!a)
		return err_set(err, RC_NOMEM, "out of memory");
	snprintf(a->addr, sizeof a->addr, "%s", address);
	a->next = f->first;
	f->first = a;
	f->n++;
	*out = a;
	return RC_OK;
}

/* Lock held. */
static enum rc
open_client(struct address *a, struct err *err)
{
	enum rc rc = rpc_client_open(a->addr, RPC_CONNECT_LATER, &a->client, err);

	if (rc == RC_OK)
		rpc_client_set_away(a->client, ANSWER_MS);
	return rc;
}

enum rc
far_hold(struct fars *f, const char *address, uint64_t deadline_ns, struct far **out,
	 struct err *err)
{
	struct far *h = calloc(1, sizeof *h);
	uint64_t now_ns = clock_now_ns();
	struct address *a;
	enum rc rc = RC_OK;

	if (!h)
		return err_set(err, RC_NOMEM, "out of memory");
	pthread_mutex_lock(&f->lock);
	for (a = f->first; a && strcmp(a->addr, address) != 0; a = a->next)
		;
	if (!a)
		rc = enter(f, address, now_ns, &a, err);
	else if (now_ns < a->away_ns)
		rc = (*err = a->away).rc;
	if (rc == RC_OK && !a->client)
		rc = open_client(a, err);
	if (rc == RC_OK) {
		a->refs++;
		a->used_ns = now_ns;
	}
	pthread_mutex_unlock(&f->lock);
	if (rc != RC_OK) {
		free(h);
		return rc;
	}
	*h = (struct far){.of = f, .at = a, .deadline_ns = deadline_ns};
	*out = h;
	return RC_OK;
}

void
far_release(struct fars *f, struct far *h)
{
	struct rpc_client *away = NULL;

	pthread_mutex_lock(&f->lock);
	if (--h->at->refs == 0 && clock_now_ns() < h->at->away_ns) {
		away = h->at->client;
		h->at->client = NULL;
	}
	pthread_mutex_unlock(&f->lock);
	rpc_client_close(away);
	free(h);
}

static void
note_away(struct far *h, const struct err *why)
{
	pthread_mutex_lock(&h->of->lock);
	h->at->away_ns = clock_now_ns() + FAR_AWAY_MS * NS_PER_MS;
	h->at->away = *why;
	pthread_mutex_unlock(&h->of->lock);
}

static enum rc
read_far(void *arg, uint64_t offset, void *dst, size_t n, struct err *err)
{
	struct far *h = arg;
	enum rc rc =
	    rpc_read_recorder(h->at->client, offset, dst, n, ANSWER_MS, h->deadline_ns, err);

	if (rc == RC_TIMEOUT || rc == RC_UNREACHABLE)
		note_away(h, err);
	return rc;
}

struct flight_source
far_source(struct far *h)
{
	return (struct flight_source){read_far, h};
}
