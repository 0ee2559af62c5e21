/*
 * Design notes. A client that watches its server dials by a thread of its own, which lives until
 * there is a connection or it is known that nobody listens; nng alone would not say why a dial has
 * failed. Then, or when it takes too long, nng's own dialing goes on in the background, without a
 * thread. Each try has a dialer of its own. The threads are counted in `redialers`; closing closes
 * the dialer that one is waiting for, and waits for the count.
 *
 * A listener that is being revived (listener.h) is away for some tens of milliseconds. So refusals
 * count when they have lasted, and on ipc while nobody holds the lock beside the path.
 */
#include <nng/nng.h>
#include <pthread.h>

#include "base/clock.h"
#include "net/ipcpath.h"
#include "net/rpc_client_impl.h"

#define CONFIRM_MS 100 /* of refusals, at least */
#define RETRY_MS   20

/* One try. False: it is not ours to try: the client is being closed, or the connection was made and
 * is lost again already, which is somebody else's. */
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
		*rv = client_dial(d);
	pthread_mutex_lock(&c->lock);
	ours = !c->closing && nng_dialer_id(c->dialer) == nng_dialer_id(d);
	pthread_mutex_unlock(&c->lock);
	if (*rv != 0 || !ours)
		nng_dialer_close(d);
	return ours;
}

/* Lock not held. False: the client is being closed. */
static bool
pause_between(struct rpc_client *c)
{
	struct timespec ts = deadline_timespec(deadline_in_ms(RETRY_MS));
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

/* While its process ends, a socket may still let in who then is cut off, so only refusals count. */
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
		if (refused && now - refused >= CONFIRM_MS * NS_PER_MS && !ipcpath_held(c->addr))
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
	pthread_mutex_lock(&c->lock);
	c->nobody = true;
	pthread_mutex_unlock(&c->lock);
	if (c->tell)
		c->tell(c->tell_arg);
	pthread_mutex_lock(&c->lock);
	if (c->nobody)
		client_end_waiting(c);
	pthread_mutex_unlock(&c->lock);
}

static void *
redial_main(void *arg)
{
	struct rpc_client *c = arg;
	enum found found = find_out(c);

	if (found == FOUND_NOBODY)
		nobody_listens(c);
	if (found == FOUND_NOBODY || found == FOUND_NOTHING)
		client_dial_later(c);
	pthread_mutex_lock(&c->lock);
	c->redialers--;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

void
client_dial_watched(struct rpc_client *c)
{
	pthread_attr_t attr;
	pthread_t thread;
	bool started;

	pthread_mutex_lock(&c->lock);
	c->redialers++;
	pthread_mutex_unlock(&c->lock);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	started = pthread_create(&thread, &attr, redial_main, c) == 0;
	pthread_attr_destroy(&attr);
	if (started)
		return;
	pthread_mutex_lock(&c->lock);
	c->redialers--;
	pthread_mutex_unlock(&c->lock);
	client_dial_later(c);
}
