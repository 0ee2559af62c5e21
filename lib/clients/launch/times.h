/*
 * times.h - the supervisor's timeouts.
 *
 * launch_config sets the first. The others are fixed: they bound the time that a signal may take to
 * end a process, and no user waits for them unless a process ignores it.
 */
#ifndef LAUNCH_TIMES_H
#define LAUNCH_TIMES_H

#define LAUNCH_START_MS	       10000 /* until every daemon is ready: gpuctl run --start-timeout */
#define LAUNCH_COMMAND_TERM_MS 5000  /* the command, from SIGTERM or SIGHUP to SIGKILL */
#define LAUNCH_DAEMON_TERM_MS  2000  /* a daemon, from SIGTERM to SIGKILL */
#define LAUNCH_KILL_MS	       2000  /* a process, from SIGKILL to its end */
#define LAUNCH_ORPHAN_TERM_MS  1000  /* an orphan of the guardian, from SIGTERM to SIGKILL */
#define LAUNCH_DONE_MS	       10000 /* a guardian that has lost its keeper, until it has cleaned up */

#endif
