/*
 * cluster_impl.h - what the files of the launcher share. cluster.c has the design notes.
 */
#ifndef GPUCTL_CLUSTER_IMPL_H
#define GPUCTL_CLUSTER_IMPL_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "cluster.h"

#define CLUSTER_DIR_MAX \
	80 /* leaves room for "/dev1023.sock" in the 108 bytes of a socket's path \
	    */
#define CLUSTER_URL_MAX (CLUSTER_DIR_MAX + 32)

/* One launch. Filled before the first fork; each process has its own copy. */
struct cluster {
	const struct cluster_config *cfg;
	char bindir[PATH_MAX];		     /* "" when unknown */
	char dir[CLUSTER_DIR_MAX];	     /* private, 0700 */
	char mem_base[CLUSTER_DIR_MAX + 16]; /* device K: mem_base, K; "" with mem_file */
	sigset_t mask;			     /* the caller's */
	struct rlimit nofile;		     /* the caller's; the guardian raises its own */
	pid_t keeper, guardian;
	int front_fd; /* guardian: bytes are signals to forward, EOF is the front's death */
	int done_fd;  /* keeper and guardian hold it; EOF at the front: both are gone */
};

/* Supervise the daemons and the command (cluster_guardian.c). Returns the exit status. */
int guardian_main(struct cluster *c);

/* The exit status that stands for a wait status: its code, or 128+S. */
int status_exit(int wait_status);

/*
 * exec_command - fork the command, held until one byte is written to *go_fd.
 *
 * It is forked first so that ^C finds it in the terminal's foreground group from the start, and so
 * that it never holds a descriptor of a daemon. It exits when *go_fd closes unwritten. Returns its
 * pid, or -1 with errno.
 */
pid_t exec_command(const struct cluster *c, int *go_fd);

/*
 * exec_daemon - fork and exec gpucoord (ordinal -1) or gpudev `ordinal`.
 *
 *	lifeline_fd	read end; the daemon ends at its EOF
 *	exits_fd	read end, by which gpucoord hears how processes have ended; gpudev: not used
 *	ready_fd	[out] "\n" and EOF when the daemon is ready; the caller closes it
 *
 * Returns the pid, or -1 with errno.
 */
pid_t exec_daemon(const struct cluster *c, int ordinal, int lifeline_fd, int exits_fd,
		  int *ready_fd);

/* Let go of the user's stdin and stdout, so that only the command holds them. */
void release_stdio(void);

/* Wait until a child may have ended (SIGCHLD, which must be blocked) or the deadline passes. */
void wait_child(uint64_t deadline_ns);

/*
 * sweep_children - send sig to every child of this process, and to the orphans it inherits as a
 * subreaper, until none is left or the deadline passes.
 *
 *	spare, nspare	pids that are not touched; 0 in it is nobody
 *	reap, arg	called before each look; must wait4 what has ended
 */
void sweep_children(const pid_t *spare, size_t nspare, int sig, void (*reap)(void *), void *arg,
		    uint64_t deadline_ns);

/* The same to the daemons of c among them alone: to devices that the coordinator started, too. */
void sweep_devices(const struct cluster *c, int sig, void (*reap)(void *), void *arg,
		   uint64_t deadline_ns);

/* Remove the private directory and the memory files. What is gone already is no error. */
void sweep_files(const struct cluster *c);

/* Remove the memory files alone. */
void sweep_mem_files(const struct cluster *c);

#endif
