/*
 * daemon.h - the duties of a long-running program to its parent: report readiness, end cleanly.
 */
#ifndef BASE_DAEMON_H
#define BASE_DAEMON_H

#include <stdint.h>

#include "base/rc.h"

struct daemon {
	int lifeline; /* -1, or a pipe whose end means: end */
	int wake;     /* eventfd, see daemon_wake */
};

/*
 * Catch SIGTERM, SIGINT, SIGHUP and SIGUSR1, ignore SIGPIPE and SIGXFSZ, and raise the limit of open files
 * to what is allowed. Once a process, from its main thread. RC_FAILED: that is too few.
 *
 *	ndevices	that are known to come, a few descriptors each
 *	lifeline	a descriptor from --lifeline, or -1
 */
enum rc daemon_init(struct daemon *d, int lifeline, uint64_t ndevices, struct err *err);

/* Check that a limit of open files suffices for so many devices. RC_FAILED with the number needed. */
enum rc daemon_check_files(uint64_t limit, uint64_t ndevices, struct err *err);

/* Write a newline to `fd` and close it, as s6 expects; -1: not requested. */
void daemon_ready(int fd);

enum daemon_event { DAEMON_TIMER, DAEMON_WOKEN, DAEMON_END };

/* Wait for the end, a wake, or timeout_ms. */
enum daemon_event daemon_wait(struct daemon *d, int timeout_ms);

/* End a daemon_wait from another thread. */
void daemon_wake(struct daemon *d);

#endif
