/*
 * Design notes. nng_dialer_close waits for work that nng runs on a few threads, and nng_close miscounts a
 * dialer that is being closed. So a thread of ours, a redialer, closes a dialer that may be dialing:
 * never one of nng's threads, nor under a lock that a callback takes; and closing a client waits for its
 * redialers first. If a dialer is closed while another thread starts it, that thread hangs: so the thread
 * that started it closes it.
 *
 * A redialer closes the dialer of a lost connection, and lets nng dial again in the background. nng does
 * not say why such a dial fails; so the redialer of a watching client dials itself, until it has a
 * connection or knows that nothing listens. Each try has its own dialer.
 *
 * A restarting server is away for tens of milliseconds. So refusals count when they have lasted, and on
 * ipc only while the lock beside the path is free.
 */
#include <nng/nng.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "net/ipcpath.h"
#include "net/rpc_client_impl.h"
#include "net/times.h"

/* One try. False: the client is being closed, or the connection was made and lost again, which another
 * redialer handles. */
static bool
dial_once(struct rpc_client *c, int *rv)
{
	nng_dialer d;
	bool ours;

	*rv = client_dialer(c, &d);
	if (*rv != 0)
		return true;
	pthread_mutex_lock(&c->lock);
	ours = !c->closing;
	if (ours)
		c->dialer = d;
	pthread_mutex_unlock(&c->lock);
	if (ours)
		*rv = client_dial(d, NET_CONNECT_MS);
	pthread_mutex_lock(&c->lock);
	ours = !c->closing && nng_dialer_id(c->dialer) == nng_dialer_id(d);
	pthread_mutex_unlock(&c->lock);
	if (*rv != 0 || !ours)
		nng_dialer_close(d);
	return ours;
}

/* Call without the lock. False: the client is being closed. */
static bool
pause_between(struct rpc_client *c)
{
	struct timespec ts = deadline_timespec(deadline_in_ms(NET_RETRY_MS));
	bool closing;

	pthread_mutex_lock(&c->lock);
	while (!c->closing &&
	       pthread_cond_clockwait(&c->changed, &c->lock, CLOCK_MONOTONIC, &ts) == 0)
		;
	closing = c->closing;
	pthread_mutex_unlock(&c->lock);
	return !closing;
}

enum found { FOUND_SERVER, FOUND_NOBODY, FOUND_NOTHING, FOUND_NOT_OURS };

/* While its process ends, a socket may still accept a connection and cut it off, so only refusals count. */
static enum found
find_out(struct rpc_client *c)
{
	uint64_t start = clock_now_ns(), refused = 0, now;
	int rv;

	for (;;) {
		if (!dial_once(c, &rv))
			return FOUND_NOT_OURS;
		if (rv == 0)
			return FOUND_SERVER;
		now = clock_now_ns();
		if (rv != NNG_ECONNREFUSED)
			refused = 0;
		else if (!refused)
			refused = now;
		if (refused && now - refused >= NET_REFUSED_MS * NS_PER_MS &&
		    !ipcpath_held(c->addr))
			return FOUND_NOBODY;
		if (now - start >= NET_CONNECT_MS * NS_PER_MS)
			return FOUND_NOTHING;
		if (!pause_between(c))
			return FOUND_NOT_OURS;
	}
}

static void
nobody_listens(struct rpc_client *c)
{
	bool tell;

	pthread_mutex_lock(&c->lock);
	c->nobody = true;
	tell = !c->closing && c->tell;
	c->telling = tell;
	pthread_mutex_unlock(&c->lock);
	if (tell)
		c->tell(c->tell_arg);
	pthread_mutex_lock(&c->lock);
	c->telling = false;
	pthread_cond_broadcast(&c->changed);
	if (c->nobody)
		client_end_waiting(c);
	pthread_mutex_unlock(&c->lock);
}

/* Use a dialer of nng's, which keeps trying. */
static void
dial_later(struct rpc_client *c)
{
	nng_dialer d;
	int rv = client_dialer(c, &d);

	pthread_mutex_lock(&c->lock);
	c->dialing = rv == 0;
	c->later_since = clock_now_ns();
	if (rv == 0)
		c->dialer = d;
	pthread_mutex_unlock(&c->lock);
	if (rv == 0)
		nng_dialer_start(d, NNG_FLAG_NONBLOCK);
}

static bool
is_closing(struct rpc_client *c)
{
	bool closing;

	pthread_mutex_lock(&c->lock);
	closing = c->closing;
	pthread_mutex_unlock(&c->lock);
	return closing;
}

void
client_end_redialer(struct rpc_client *c)
{
	pthread_mutex_lock(&c->lock);
	c->redialers--;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

static void
redial(struct rpc_client *c, nng_dialer old, bool first_find_out)
{
	enum found found = FOUND_NOTHING;

	if (nng_dialer_id(old) > 0)
		nng_dialer_close(old);
	if (first_find_out && !is_closing(c))
		found = find_out(c);
	if (found == FOUND_NOBODY)
		nobody_listens(c);
	if ((found == FOUND_NOBODY || found == FOUND_NOTHING) && !is_closing(c))
		dial_later(c);
	client_end_redialer(c);
}

struct redialer {
	struct rpc_client *client;
	nng_dialer old;
	bool find_out;
};

static void *
redialer_main(void *arg)
{
	struct redialer r = *(struct redialer *)arg;

	free(arg);
	redial(r.client, r.old, r.find_out);
	return NULL;
}

void
client_start_redialer(struct rpc_client *c, nng_dialer old, bool find_out)
{
	struct redialer *r = malloc(sizeof *r);
	pthread_attr_t attr;
	pthread_t thread;
	bool started = false;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (r) {
		*r = (struct redialer){c, old, find_out && c->watches};
		started = pthread_create(&thread, &attr, redialer_main, r) == 0;
	}
	pthread_attr_destroy(&attr);
	if (started)
		return;
	free(r);
	redial(c, old, false); /* no memory, or no thread: do what is possible now */
}
