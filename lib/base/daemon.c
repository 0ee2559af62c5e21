#include "base/daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

/* Measured: a coordinator has 19 with its first device and 3 more for each; the rest is for clients. */
enum { FILES_LEAST = 64, FILES_A_DEVICE = 3 };

/*
 * Design notes. A handler and not a blocked signal with signalfd: OpenBLAS starts threads when it
 * is loaded, before main, and a signal would find one of them with nothing blocked. The handler
 * runs on any thread and only writes; there is one daemon a process.
 */
static volatile sig_atomic_t caught;
static int caught_wake = -1;

static void
on_signal(int signo)
{
	const uint64_t one = 1;
	int saved = errno;

	caught = signo;
	if (write(caught_wake, &one, sizeof one) < 0)
		saved = errno; /* full means readable, which suffices */
	errno = saved;
}

enum rc
daemon_check_files(uint64_t limit, uint64_t ndevices, struct err *err)
{
	uint64_t need = FILES_LEAST + FILES_A_DEVICE * ndevices;

	if (limit >= need)
		return RC_OK;
	return err_set(err, RC_FAILED,
		       "the limit of open files is %" PRIu64 " (ulimit -n), but %" PRIu64
		       " are needed",
		       limit, need);
}

enum rc
daemon_init(struct daemon *d, int lifeline, uint64_t ndevices, struct err *err)
{
	struct sigaction on = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	struct rlimit files;

	*d = (struct daemon){.lifeline = lifeline, .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	if (d->wake < 0)
		return err_set(err, RC_FAILED, "cannot make an eventfd: %s", strerror(errno));
	caught_wake = d->wake;
	sigaction(SIGTERM, &on, NULL);
	sigaction(SIGINT, &on, NULL);
	sigaction(SIGHUP, &on, NULL);
	sigaction(SIGUSR1, &on, NULL); /* the signal that every mpirun passes on */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* exceeding a file-size limit becomes an error code */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
		return daemon_check_files(files.rlim_max, ndevices, err);
	}
	return RC_OK;
}

void
daemon_ready(int fd)
{
	if (fd < 0)
		return;
	if (write(fd, "\n", 1) < 0) {
		/* The reader has gone. */
	}
	close(fd);
}

enum daemon_event
daemon_wait(struct daemon *d, int timeout_ms)
{
	struct pollfd fds[2] = {{d->wake, POLLIN, 0}, {d->lifeline, POLLIN, 0}};
	char byte;
	eventfd_t n;

	if (caught)
		return DAEMON_END;
	if (poll(fds, d->lifeline >= 0 ? 2 : 1, timeout_ms) <= 0)
		return caught ? DAEMON_END : DAEMON_TIMER;
	if (fds[0].revents)
		eventfd_read(d->wake, &n);
	if (caught || (d->lifeline >= 0 && fds[1].revents && read(d->lifeline, &byte, 1) == 0))
		return DAEMON_END;
	return DAEMON_WOKEN;
}

void
daemon_wake(struct daemon *d)
{
	eventfd_write(d->wake, 1);
}
