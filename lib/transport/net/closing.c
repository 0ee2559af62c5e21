#include "net/closing.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"

struct closing {
	nng_socket sock;
	bool (*before)(void *);
	void (*after)(void *);
	void *arg;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool done, left; /* set by the thread and by the one that waits: the second of them frees */
};

static bool
close_now(nng_socket sock, bool (*before)(void *), void (*after)(void *), void *arg)
{
	if (before && !before(arg))
		return false;
	nng_close(sock);
	after(arg);
	return true;
}

static void
closing_free(struct closing *c)
{
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static void *
closing_main(void *arg)
{
	struct closing *c = arg;
	bool done = close_now(c->sock, c->before, c->after, c->arg), last;

	pthread_mutex_lock(&c->lock);
	c->done = done;
	last = c->left;
	c->left = true;
	pthread_cond_signal(&c->changed);
	pthread_mutex_unlock(&c->lock);
	if (last)
		closing_free(c);
	return NULL;
}

/* A thread that handles none of the program's signals. */
static bool
start_thread(struct closing *c)
{
	sigset_t all, old;
	pthread_t t;
	bool good;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	good = pthread_create(&t, NULL, closing_main, c) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (good)
		pthread_detach(t);
	return good;
}

bool
closing_start(nng_socket sock, bool (*before)(void *), void (*after)(void *), void *arg,
	      int wait_ms)
{
	struct timespec ts = deadline_timespec(deadline_in_ms((uint64_t)wait_ms));
	struct closing *c = calloc(1, sizeof *c);
	bool done, last;

	if (!c)
		return close_now(sock, before, after, arg);
	*c = (struct closing){.sock = sock, .before = before, .after = after, .arg = arg};
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	if (!start_thread(c)) {
		closing_free(c);
		return close_now(sock, before, after, arg);
	}
	pthread_mutex_lock(&c->lock);
	while (!c->left && pthread_cond_clockwait(&c->changed, &c->lock, CLOCK_MONOTONIC, &ts) == 0)
		;
	done = c->done;
	last = c->left;
	c->left = true;
	pthread_mutex_unlock(&c->lock);
	if (last)
		closing_free(c);
	return done;
}
