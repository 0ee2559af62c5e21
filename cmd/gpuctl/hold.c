/*
 * Design notes. Two threads: the verb's, and a watcher that starts before the first thing is held. The
 * signal handler runs on either thread and writes the signal's number to `caught` and to a pipe; the
 * watcher reads the pipe, takes over everything that is held and releases it. One lock guards the rest of
 * `held`.
 *
 * `taking` is set while the verb's thread is in a call whose result is not entered yet; the watcher waits
 * for that call, up to TAKING_MS. Once `caught` is set the verb's thread is parked: it begins no such call
 * and ends nothing. Only the thread that takes over a resource releases it, so each is released once.
 * The same signal again is not caught and ends the program at once.
 */
#include "hold.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/must.h"

#define TAKING_MS  500	/* the watcher's wait for a call that takes something */
#define GIVING_MS  1000 /* and for each call that releases it */
#define DESTROY_MS 5000 /* the verb's call; after that the lease ends by itself */

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};

struct memory {
	struct gpusim_device device;
	struct gpusim_addr addr;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t taken;
	bool watched, taking;
	atomic_int caught; /* a signal that is being handled; 0: none */
	int pipe[2];
	struct cli *cli;
	uint64_t comm;
	struct memory *memory;
	size_t nmemory, cap;
} held = {.lock = PTHREAD_MUTEX_INITIALIZER, .taken = PTHREAD_COND_INITIALIZER};

/* ---- signals */

static void
on_signal(int signo)
{
	unsigned char byte = (unsigned char)signo;
	int saved = errno;

	atomic_store(&held.caught, signo);
	signal(signo, SIG_DFL);
	if (write(held.pipe[1], &byte, 1) < 0)
		saved = errno; /* the pipe has room for one byte per signal */
	errno = saved;
}

static bool
is_default(int signo)
{
	struct sigaction now;

	return sigaction(signo, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
	       now.sa_handler == SIG_DFL;
}

/* ---- the resources that are held */

static void
park(void)
{
	for (;;)
		pause();
}

/* The verb's thread begins a call that takes or releases. */
static void
enter(void)
{
	pthread_mutex_lock(&held.lock);
	held.taking = true;
	if (atomic_load(&held.caught)) {
		held.taking = false;
		pthread_mutex_unlock(&held.lock);
		park();
	}
	pthread_mutex_unlock(&held.lock);
}

static void
leave(void)
{
	bool ends;

	pthread_mutex_lock(&held.lock);
	held.taking = false;
	ends = atomic_load(&held.caught) != 0;
	pthread_cond_signal(&held.taken);
	pthread_mutex_unlock(&held.lock);
	if (ends)
		park();
}

/* Take over all that is held: only the caller releases it now. */
static uint64_t
take_out(struct memory **memory, size_t *n)
{
	uint64_t comm;

	pthread_mutex_lock(&held.lock);
	*memory = held.memory;
	*n = held.nmemory;
	comm = held.comm;
	held.memory = NULL;
	held.nmemory = held.cap = 0;
	held.comm = 0;
	pthread_mutex_unlock(&held.lock);
	return comm;
}

/* Release all, at any moment. Memory that an operation may still write to is left to its lease. */
static void
abandon(void)
{
	struct memory *memory;
	size_t n;
	struct gpusim_comm_id id = {take_out(&memory, &n)};
	struct gpusim_comm *comm;

	if (!id.id || gpusim_comm_open(held.cli->g, id, &comm) != GPUSIM_OK ||
	    gpusim_comm_destroy(comm) != GPUSIM_OK)
		return;
	for (size_t i = 0; i < n; i++)
		gpusim_free(held.cli->g, memory[i].device, memory[i].addr);
}

static void
die(int signo)
{
	sigset_t set;

	signal(signo, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, signo);
	raise(signo);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	_exit(128 + signo);
}

static void *
watch(void *unused)
{
	struct timespec until;
	unsigned char byte;
	int rc = 0;

	(void)unused;
	while (read(held.pipe[0], &byte, 1) != 1)
		continue;
	until = deadline_timespec(deadline_in_ms(TAKING_MS));
	pthread_mutex_lock(&held.lock);
	while (held.taking && rc == 0)
		rc = pthread_cond_clockwait(&held.taken, &held.lock, CLOCK_MONOTONIC, &until);
	pthread_mutex_unlock(&held.lock);
	gpusim_set_timeout_ms(held.cli->g, GIVING_MS);
	abandon();
	die(byte);
	return NULL;
}

static enum rc
start_watch(struct cli *cli, struct err *err)
{
	struct sigaction on = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	pthread_t thread;

	if (held.watched)
		return RC_OK;
	held.cli = cli;
	if (pipe2(held.pipe, O_CLOEXEC) != 0 || pthread_create(&thread, NULL, watch, NULL) != 0)
		return err_set(err, RC_FAILED, "cannot start the thread for signals: %m");
	pthread_detach(thread);
	held.watched = true;
	for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
		if (is_default(ending[i]))
			sigaction(ending[i], &on, NULL);
	return RC_OK;
}

enum rc
hold_comm(struct cli *cli, uint32_t n, const struct gpusim_comm_config *config,
	  struct gpusim_comm **out, struct err *err)
{
	enum rc rc = start_watch(cli, err);

	if (rc != RC_OK)
		return rc;
	enter();
	rc = api(gpusim_comm_init_all(cli->g, n, NULL, config, out), err);
	pthread_mutex_lock(&held.lock);
	if (rc == RC_OK)
		held.comm = gpusim_comm_id(*out).id;
	pthread_mutex_unlock(&held.lock);
	leave();
	return rc;
}

void
hold_remember(struct gpusim_device device, struct gpusim_addr addr)
{
	pthread_mutex_lock(&held.lock);
	must_room(&held.memory, held.nmemory, &held.cap, sizeof *held.memory);
	held.memory[held.nmemory++] = (struct memory){device, addr};
	pthread_mutex_unlock(&held.lock);
}

enum rc
hold_memory(struct cli *cli, struct gpusim_device device, uint64_t nbytes, struct gpusim_addr *addr,
	    struct err *err)
{
	enum rc rc = start_watch(cli, err);

	if (rc != RC_OK)
		return rc;
	enter();
	rc = api(gpusim_malloc(cli->g, device, nbytes, GPUSIM_LEASE, addr), err);
	if (rc == RC_OK)
		hold_remember(device, *addr);
	leave();
	return rc;
}

void
hold_release(struct cli *cli, struct gpusim_comm *comm)
{
	struct memory *memory;
	size_t n;

	if (!held.watched) {
		gpusim_comm_free(comm);
		return;
	}
	enter();
	if (take_out(&memory, &n)) {
		gpusim_set_timeout_ms(cli->g, DESTROY_MS);
		gpusim_comm_destroy(comm);
	} else {
		gpusim_comm_free(comm);
	}
	free(memory);
	leave();
}

void
hold_forget_memory(void)
{
	pthread_mutex_lock(&held.lock);
	held.nmemory = 0;
	pthread_mutex_unlock(&held.lock);
}

void
hold_settle(void)
{
	if (held.watched) {
		enter();
		leave();
	}
}
