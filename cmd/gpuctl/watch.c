/*
 * Design notes. watch_new notes which event is the last, before its caller first looks at anything. The
 * thread asks for the events after that, one call after another, on its own connection, and writes a byte
 * to a pipe for each answer that has some. It shares only the pipe with others, and runs until the process
 * ends; it blocks all signals.
 */
#include "watch.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/must.h"

#define WAIT_MS	 1000 /* for an event, in one call */
#define AGAIN_MS 100  /* after a call that failed */

struct watch {
	struct gpusim *g;
	int pipe[2];
	uint64_t after; /* the last event that is no news */
};

/* Note the last event; if there is none after w->after, wait for one, at most wait_ms. */
static int
events_until(struct watch *w, uint32_t wait_ms)
{
	struct gpusim_history_event *v;
	size_t n;
	int code = gpusim_history(w->g, w->after, wait_ms, &v, &n, &w->after);

	if (code == GPUSIM_OK)
		free(v);
	return code;
}

static void *
listen_on(void *arg)
{
	struct watch *w = arg;

	for (;;) {
		uint64_t before = w->after;

		if (events_until(w, WAIT_MS) != GPUSIM_OK)
			clock_sleep(AGAIN_MS * NS_PER_MS);
		else if (w->after != before)
			(void)!write(w->pipe[1], "", 1); /* full: there is news already */
	}
	return NULL;
}

static enum rc
begin(struct watch *w, struct err *err)
{
	sigset_t all, before;
	pthread_t thread;
	int failed;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = pthread_create(&thread, NULL, listen_on, w);
	if (!failed)
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return failed ? err_set(err, RC_FAILED, "cannot start the thread for events") : RC_OK;
}

enum rc
watch_new(const struct cli *cli, struct watch **out, struct err *err)
{
	struct watch *w = must_alloc(1, sizeof *w);
	enum rc rc;

	if (pipe2(w->pipe, O_NONBLOCK | O_CLOEXEC) != 0) {
		free(w);
		return err_set(err, RC_FAILED, "cannot create the pipe for events: %m");
	}
	rc = api(cli->timeout_ms ? gpusim_open_within(cli->coordinator, cli->timeout_ms, &w->g)
				 : gpusim_open(cli->coordinator, &w->g),
		 err);
	if (rc == RC_OK)
		rc = api(events_until(w, 0), err);
	if (rc == RC_OK)
		rc = begin(w, err);
	if (rc == RC_OK) {
		*out = w;
		return RC_OK;
	}
	gpusim_close(w->g);
	close(w->pipe[0]);
	close(w->pipe[1]);
	free(w);
	return rc;
}

int
watch_fd(const struct watch *w)
{
	return w->pipe[0];
}

void
watch_heard(struct watch *w)
{
	char bytes[64];

	while (read(w->pipe[0], bytes, sizeof bytes) > 0)
		;
}

void
watch_wait(struct watch *w, uint32_t timeout_ms)
{
	struct pollfd p[] = {{w->pipe[0], POLLIN, 0}, {STDOUT_FILENO, 0, 0}};

	poll(p, 2, (int)timeout_ms);
	watch_heard(w);
}
