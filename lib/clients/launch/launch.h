/*
 * launch.h - a machine full of simulated GPUs: gpucoord and N gpudev on private ipc sockets, for
 * the time of one command (launch_run), or until this program ends them (launch_start, launch_end).
 *
 * Everything is cleaned up however the command, this program or the supervisor ends, even by SIGKILL.
 * launch.c describes the processes.
 */
#ifndef LAUNCH_LAUNCH_H
#define LAUNCH_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "base/rc.h"

#define LAUNCH_MAX_DEVICES 1024

/* Borrowed from the caller until the called function returns. */
struct launch_config {
	int ndevices;	 /* 1..LAUNCH_MAX_DEVICES */
	int nspares;	 /* additional gpudev --spare; both together at most LAUNCH_MAX_DEVICES */
	const char *mem; /* gpudev -m, as typed; NULL: gpudev's default */
	/* Device K keeps its memory in MEM_FILE.K, which is never removed (spares come after the
	 * others). NULL: a file under /dev/shm, removed at the end. */
	const char *mem_file;
	/* "host:port": gpucoord --grpc; device K has the port plus 1+K; port 0: any free ports; NULL: none */
	const char *grpc;
	const char *const *dev_args; /* more arguments for each gpudev; may be NULL when 0 */
	size_t ndev_args;
	const char *const *coord_args; /* more arguments for gpucoord; may be NULL when 0 */
	size_t ncoord_args;
	/* The folder of gpudev and gpucoord; NULL: this program's. PATH is searched next. */
	const char *bindir;
	/* message for a command that does not exist; NULL: the system's text */
	const char *not_found;
	bool each;  /* run the command once for each device, as that device's rank */
	bool label; /* each: put "RANK: " before each line of output */
	/* each: how often ranks are started again after a failure, in all; then all ranks, or the failed one alone */
	uint32_t max_restarts;
	bool restart_rank;
	uint64_t start_timeout_ms; /* until every daemon is ready; 0: LAUNCH_START_MS */
	/* Called for each event with a message without a newline. Runs in the process that sees the
	 * event: this one or a child of it. May be NULL. */
	void (*say)(enum log_level level, const char *sentence);
	/* launch_run: called when all daemons are ready; the command starts when this returns EXIT_OK, and otherwise
	 * that is the exit status. Runs in a child of this process. May be NULL. */
	int (*ready)(void *arg, const char *coordinator);
	void *ready_arg;
};

/*
 * launch_run - start the daemons, run a command, clean up.
 *
 *	argv	NULL-terminated; argv[0] is looked up in PATH
 *
 * Returns the exit status to use: the command's own, 128+S when signal S ended it, 127 when it was
 * not found, 126 when it could not be executed, EXIT_FAILED when a daemon did not start and
 * EXIT_TIMEOUT when it was not ready in time. cfg->say gets each failure after the first process
 * was started; *err is set only if none was.
 *
 * The command gets GPUSIM_COORD, GPUSIM_NDEVICES, GPUSIM_DIR and the programs' folder in front of
 * PATH; stdin, stdout, stderr, other descriptors, signal mask and signal dispositions (so also an
 * ignored SIGHUP, as with nohup) are those of this process at the call.
 *
 * With cfg->each the command runs once for each device. Each has RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
 * MASTER_ADDR, MASTER_PORT, what else torchrun sets, Open MPI's names for the rank and size, and GPUSIM_DEVICE, the
 * index of its device. Rank 0 has stdin. The first rank that fails ends the others (SIGTERM; SIGKILL 5 s later),
 * and its exit status is returned. Within max_restarts, all ranks start again then; or with restart_rank, the others
 * run on, and the failed one starts again. TORCHELASTIC_RESTART_COUNT counts the starts of a rank, from 0.
 *
 * Call it from the only thread, before the first call of gpusim.h, as the last thing the program does:
 * this process gives up its stdin and stdout, so that only the command holds them.
 */
int launch_run(const struct launch_config *cfg, char *const *argv, struct err *err);

/* Give up the user's stdin and stdout, so that only the command holds them: for a child that was
 * forked before. */
void launch_release_stdio(void);

/*
 * launch_start - start the daemons; they run until launch_end or the end of this process.
 *
 * Call it before the first call of gpusim.h, as it forks. Changes no signal, descriptor or environment
 * variable of this process. Errors: RC_INVAL counts or address; RC_FAILED, RC_TIMEOUT as launch_run, with
 * the message in *err; RC_NOMEM. On failure nothing is left behind. Release with launch_end.
 */
struct launch;
enum rc launch_start(const struct launch_config *cfg, struct launch **out, struct err *err);

/* The coordinator's address, for gpusim_open. As long-lived as l. */
const char *launch_coordinator(const struct launch *l);

/* The private folder, which has gpucoord's and the devices' sockets. As long-lived as l. */
const char *launch_folder(const struct launch *l);

/* End the daemons and remove their files. l may be NULL. */
void launch_end(struct launch *l);

#endif
