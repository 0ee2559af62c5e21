/*
 * launch_impl.h - shared by the files of the supervisor. launch.c has the design notes.
 */
#ifndef LAUNCH_LAUNCH_IMPL_H
#define LAUNCH_LAUNCH_IMPL_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "launch/launch.h"

/*
 * The supervisor's timeouts.
 *
 * launch_config sets the first. The others are fixed: they bound the time that a signal may take to
 * end a process, and no user waits for them unless a process ignores it.
 */

#define LAUNCH_START_MS	       10000 /* until every daemon is ready: gpuctl run --start-timeout */
#define LAUNCH_COMMAND_TERM_MS 5000  /* the command, from SIGTERM or SIGHUP to SIGKILL */
#define LAUNCH_DAEMON_TERM_MS  2000  /* a daemon, from SIGTERM to SIGKILL */
#define LAUNCH_KILL_MS	       2000  /* a process, from SIGKILL to its end */
#define LAUNCH_ORPHAN_TERM_MS  1000  /* an orphan of the guardian, from SIGTERM to SIGKILL */
#define LAUNCH_DONE_MS	       10000 /* a guardian that has lost its keeper, until it has cleaned up */

#define LAUNCH_DIR_MAX	80 /* leaves room for "/dev1023.sock" in the 108 bytes of a socket's path */
#define LAUNCH_URL_MAX	(LAUNCH_DIR_MAX + 32)
#define LAUNCH_OWNER	"owner" /* a file in the private folder, see sweep_stale */
#define LAUNCH_NAME_MAX 16	/* of a process's name, for prctl */

#define EXIT_NOT_EXECUTABLE 126 /* as in env(1) */
#define EXIT_NOT_FOUND	    127

/* One launch. Filled before the first fork; each process has its own copy. */
struct launch {
	struct launch_config cfg;   /* its pointers are valid in the children */
	char *const *argv;	    /* the command; NULL: none, the front decides when to end */
	char name[LAUNCH_NAME_MAX]; /* the caller's */
	char bindir[PATH_MAX];	    /* "" when unknown */
	char dir[LAUNCH_DIR_MAX];   /* private, 0700 */
	char url[LAUNCH_URL_MAX];   /* the coordinator's */
	char mem_base[LAUNCH_DIR_MAX + 16]; /* device K: mem_base, K; "" with mem_file */
	sigset_t mask;			    /* the caller's */
	struct rlimit nofile;		    /* the caller's; the guardian raises its own */
	pid_t keeper, guardian;
	int to_guardian; /* front: the other end of front_fd */
	int owner;	 /* locked, in the private folder */
	int done;	 /* front: the other end of done_fd */
	int ready;	 /* front without a command: the other end of ready_fd */
	int front_fd;	 /* guardian: bytes are signals to forward, EOF is the front's death */
	int done_fd;	 /* keeper and guardian hold it; EOF at the front: both have ended */
	int ready_fd; /* guardian without a command: "\n" when all are ready, else a message; or -1 */
};

/* Call the user's function, and at LOG_ERROR also report to a front that waits for the daemons. */
void launch_say(const struct launch *l, enum log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Supervise the daemons and the command (guardian.c). Returns the exit status. */
int guardian_main(struct launch *l);

/* The exit status that stands for a wait status: its code, or 128+S. */
int status_exit(int wait_status);

/*
 * exec_command - fork the command, held until one byte is written to *go_fd (command.c).
 *
 * It is forked first so that ^C finds it in the terminal's foreground group from the start, and so
 * that it never holds a descriptor of a daemon. It exits when *go_fd closes unwritten. Returns its
 * pid, or -1 with errno.
 */
pid_t exec_command(const struct launch *l, int *go_fd);

/* Report why a program could not be executed, by errno; returns the exit status for that. */
int exec_failed(const struct launch *l, const char *name, const char *not_found);

/* End this child of the guardian with it; the guardian may have died between the fork and the prctl. */
void die_with_guardian(const struct launch *l, int sig);

/*
 * exec_daemon - fork and exec gpucoord (ordinal -1) or gpudev `ordinal`.
 *
 *	lifeline_fd	read end; the daemon ends at its EOF
 *	exits_fd	read end, from which gpucoord learns how processes have ended; gpudev: not used
 *	ready_fd	[out] "\n" and EOF when the daemon is ready; the caller closes it
 *
 * Returns the pid, or -1 with errno.
 */
pid_t exec_daemon(const struct launch *l, int ordinal, int lifeline_fd, int exits_fd,
		  int *ready_fd);

/* Wait until a child may have ended (SIGCHLD, which must be blocked) or the deadline passes. */
void wait_child(uint64_t deadline_ns);

/*
 * sweep_children - send sig to every child of this process, and to the orphans it inherits as a
 * subreaper, until none is left or the deadline passes.
 *
 *	spare, nspare	pids that are not signalled; 0 entries are ignored
 *	reap, arg	called before each search; must wait4 all that have ended
 */
void sweep_children(const pid_t *spare, size_t nspare, int sig, void (*reap)(void *), void *arg,
		    uint64_t deadline_ns);

/* As sweep_children, only for the daemons of l, including those that the coordinator started. */
void sweep_devices(const struct launch *l, int sig, void (*reap)(void *), void *arg,
		   uint64_t deadline_ns);

/* Remove the private directory and the memory files. A missing file is not an error. */
void sweep_files(const struct launch *l);

/* Remove the private folders in `base` of this user's launches whose processes were all killed. */
void sweep_stale(const char *base);

/* Remove only the memory files. */
void sweep_mem_files(const struct launch *l);

#endif
