/* A drain into a file, and on a thread. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/must.h"
#include "drain/drain.h"

enum rc
drain_file_open(const char *path, int *fd, struct err *err)
{
	*fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
	return *fd >= 0 ? RC_OK : err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
}

enum rc
drain_file_write(void *fd, const void *data, size_t n, struct err *err)
{
	if (file_write(*(const int *)fd, data, n))
		return RC_OK;
	return err_set(err, RC_FAILED, "the trace: %s", strerror(errno));
}

void
drain_tell(const struct timeline_sum *sum, const char *path, char *out, size_t room)
{
	if (sum->lost)
		snprintf(out, room,
			 "trace: %" PRIu64 " events in %s; %" PRIu64
			 " records were lost: a larger --recorder keeps more",
			 sum->events, path, sum->lost);
	else
		snprintf(out, room, "trace: %" PRIu64 " events in %s; no record was lost",
			 sum->events, path);
}

struct drain_thread {
	pthread_t thread;
	struct drain *drain;
	const char *path;
	int fd;
	atomic_bool stop;
	struct err err; /* of the thread, then of its end */
};

static void *
run(void *arg)
{
	struct drain_thread *t = arg;
	uint32_t idle_ms;

	while (!atomic_load(&t->stop) && drain_turn(t->drain, &idle_ms, &t->err) == RC_OK)
		nanosleep(&(struct timespec){.tv_nsec = (long)(idle_ms * NS_PER_MS)}, NULL);
	return NULL;
}

/* Signals are for other threads. */
static int
start_thread(struct drain_thread *t)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&t->thread, NULL, run, t);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

enum rc
drain_start(const char *coordinator, const char *path, struct drain_thread **out, struct err *err)
{
	struct drain_thread *t = must_alloc(1, sizeof *t);
	enum rc rc;

	t->path = path;
	rc = drain_file_open(path, &t->fd, err);
	if (rc != RC_OK) {
		free(t);
		return rc;
	}
	rc = drain_new(coordinator, drain_file_write, &t->fd, &t->drain, err);
	if (rc == RC_OK && start_thread(t) != 0) {
		rc = err_set(err, RC_FAILED, "cannot start a thread");
		drain_end(t->drain, NULL, NULL);
	}
	if (rc == RC_OK) {
		*out = t;
		return RC_OK;
	}
	close(t->fd);
	free(t);
	return rc;
}

enum rc
drain_stop(struct drain_thread *t, char *told, size_t room, struct err *err)
{
	struct timeline_sum sum;
	struct err ended = {0};
	enum rc rc;

	if (room)
		*told = '\0';
	if (!t)
		return RC_OK;
	atomic_store(&t->stop, true);
	pthread_join(t->thread, NULL);
	drain_end(t->drain, &sum, &ended);
	if (close(t->fd) != 0 && ended.rc == RC_OK)
		err_set(&ended, RC_FAILED, "%s: %s", t->path, strerror(errno));
	drain_tell(&sum, t->path, told, room);
	rc = t->err.rc != RC_OK	 ? err_set(err, t->err.rc, "%s", t->err.text)
	     : ended.rc != RC_OK ? err_set(err, ended.rc, "%s", ended.text)
				 : RC_OK;
	free(t);
	return rc;
}
