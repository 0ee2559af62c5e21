/*
 * cluster.h - a machine full of simulated GPUs for the time one command runs.
 *
 * Starts gpucoord and N gpudev on private ipc sockets, runs a command that finds them through its
 * environment, and takes everything down again, however the command or the launcher ends.
 */
#ifndef GPUCTL_CLUSTER_H
#define GPUCTL_CLUSTER_H

#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

#define CLUSTER_MAX_DEVICES	 1024
#define CLUSTER_START_TIMEOUT_MS 10000 /* until every daemon is ready */
#define CLUSTER_GRACE_MS	 5000  /* from SIGTERM or SIGHUP to SIGKILL for the command */

/* Borrowed from the caller until cluster_run returns. */
struct cluster_config {
	int ndevices;	      /* 1..CLUSTER_MAX_DEVICES */
	int nspares;	      /* so many more, with gpudev --spare; together at most that many */
	const char *mem;      /* gpudev -m, as typed; NULL: gpudev's default */
	const char *mem_file; /* device K keeps its memory in MEM_FILE.K, which is never removed
			       * (spares come after the others); NULL: a file under /dev/shm, removed at the end */
	const char
	    *grpc; /* "host:port": gpucoord --grpc; device K has the port 1+K above; port 0: any
			   * free ones; NULL: none */
	const char *const *dev_args; /* more arguments for each gpudev; may be NULL when 0 */
	size_t ndev_args;
	const char *const *coord_args; /* more arguments for gpucoord; may be NULL when 0 */
	size_t ncoord_args;
	char *const *argv;  /* the command, NULL-terminated, looked up in PATH */
	const char *bindir; /* where gpudev and gpucoord are; NULL: beside this program. What is
			     * not there is looked up in PATH. */
	uint64_t start_timeout_ms; /* 0: CLUSTER_START_TIMEOUT_MS */
};

/*
 * cluster_run - start the daemons, run cfg->argv, clean up.
 *
 * Returns the exit status to use: the command's own, 128+S when signal S ended it, 127 when it was
 * not found, 126 when it could not be executed, EXIT_FAILED when a daemon did not start and
 * EXIT_TIMEOUT when it was not ready in time. Whatever went wrong after the processes were started
 * has been said on stderr ("gpuctl: run: ..."); err->rc is set, with a sentence still to be
 * printed, only when nothing was started at all.
 *
 * The command gets GPUSIM_COORD, GPUSIM_NDEVICES, GPUSIM_DIR and the programs' folder in front of
 * PATH; stdin, stdout, stderr, other descriptors, signal mask and signal dispositions (so also an
 * ignored SIGHUP, as with nohup) are those of this process at the call.
 *
 * Call it from the only thread, before nng is started, as the last thing the program does: stdin
 * and stdout of this process are let go so that only the command holds them.
 */
int cluster_run(const struct cluster_config *cfg, struct err *err);

#endif
