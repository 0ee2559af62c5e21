/* gpuctl - operate simulated GPUs from a shell. See gpuctl(1). */
#define OPTION_TARGET struct cli

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/nearest.h"
#include "base/option_rows.h"
#include "cli.h"
#include "coll/fault.h"

#define WHERE	 "device comm rank "
#define HOW	 "algo chunk async "
#define BUFFERS	 "comm addr send recv count type "
#define FILTER	 "n raw on-failure wait streaming "
#define MOVES	 BUFFERS FILTER HOW
#define TRANSFER "comm! rank! peer! addr! count! type stream " HOW

static enum rc run_help(struct cli *, const struct args *,
			struct err *); /* at the end of this file */

#define ON_BUFFERS "[--comm ID {--addr A,... | --send A,... --recv A,...} --count N] [options]"

/* clang-format off */
static const struct command commands[] = {
	{"run", "-n N [options] [--] COMMAND [ARG...]", "run a command with N devices of its own", run_run,
	 "n! mem mem-file latency bandwidth transport threads kernels pin op-timeout start-timeout allow-inject http grpc spares on-failure v", 1, ARGS_COMMAND},
	{"devices", "[--json]", "list the devices", run_devices, "json", 0, 0},
	{"status", "[--json]", "show coordinator, devices and communicators", run_status, "json", 0, 0},
	{"events", "[--follow] [--json]", "list events, newest last", run_events,
	 "follow json", 0, 0},
	{"topo", "[--comm ID] [--json]", "show how each pair of devices reaches each other", run_topo,
	 "comm json", 0, 0},

	{"unique-id", "", "print an id by which ranks can meet, each with its own comm-init", run_unique_id, "json", 0, 0},
	{"comm-init", "{-n N | DEVICE... | --id ID [--rank R] [--nranks N] [--device DEVICE]} [options]",
	 "make a communicator and print its id", run_comm_init,
	 "n id rank nranks device on-failure op-timeout wait json", 0, 65536},
	{"comm-destroy", "ID", "end a communicator", run_comm_destroy, "", 1, 1},
	{"comm-status", "ID [--json]", "print success, in-progress, or failed and why", run_comm_status,
	 "json", 1, 1},
	{"stragglers", "ID [--json]", "show by how much each rank held up the others", run_stragglers,
	 "json", 1, 1},
	{"comm-abort", "ID [REASON...]", "abort the operations of a communicator; it fails", run_comm_abort, "", 1, 65536},
	{"comm-shrink", "ID [RANK...]", "remove ranks (the lost ones by default), and print how many are left",
	 run_comm_shrink, "json", 1, 65536},
	{"comm-grow", "ID {-n N | DEVICE...}", "add devices as the last ranks, and print the number of ranks",
	 run_comm_grow, "n wait json", 1, 65536},
	{"comm-split", "ID COLOR,COLOR,... [--keys K,...]", "make a communicator of the ranks of each color",
	 run_comm_split, "keys on-failure op-timeout json", 2, 2},
	{"wait", "ID", "wait until nothing is in progress on a communicator", run_wait, "", 1, 1},

	{"malloc", "--device DEVICE SIZE", "allocate memory and print its address", run_malloc, WHERE "json", 1, 1},
	{"free", "--device DEVICE ADDR", "free memory", run_free, WHERE, 1, 1},
	{"memcpy", "SRC DST", "copy; each is -, a file, or DEVICE:ADDR[:NBYTES]", run_memcpy, "comm", 2, 2},
	{"memset", "--device DEVICE ADDR BYTE SIZE", "fill memory", run_memset, WHERE, 3, 3},
	{"launch", "--device DEVICE KERNEL [NAME=VALUE...] | --list [--json]", "run a kernel, or list the kernels", run_launch,
	 WHERE "stream async list json", 0, 65536},
	{"sync", "--device DEVICE [--stream STREAM]", "wait until a stream is idle", run_sync,
	 WHERE "stream", 0, 0},

	{"allreduce", ON_BUFFERS, "reduce; every rank gets the result", run_collective,
	 MOVES "op all", 0, 0},
	{"broadcast", ON_BUFFERS, "copy the root's vector to every rank", run_collective,
	 MOVES "root all", 0, 0},
	{"reduce", ON_BUFFERS, "reduce; the root gets the result", run_collective,
	 MOVES "op root all", 0, 0},
	{"allgather", ON_BUFFERS, "join all vectors; every rank gets the result", run_collective,
	 MOVES "all", 0, 0},
	{"reduce-scatter", ON_BUFFERS, "reduce; each rank gets its part", run_collective,
	 MOVES "op all", 0, 0},
	{"alltoall", ON_BUFFERS, "send each part of each rank's vector to the rank it is for", run_collective,
	 MOVES "all", 0, 0},
	{"gather", ON_BUFFERS, "join all vectors; the root gets the result", run_collective,
	 MOVES "root all", 0, 0},
	{"scatter", ON_BUFFERS, "cut the root's vector into parts; each rank gets its own", run_collective,
	 MOVES "root all", 0, 0},
	{"barrier", "[--comm ID | -n N] [options]", "wait until every rank has arrived", run_collective,
	 "comm n algo stream async on-failure wait", 0, 0},
	{"send", "--comm ID --rank R --peer P --addr A --count N [options]", "send to a peer that receives",
	 run_send_recv, TRANSFER, 0, 0},
	{"recv", "--comm ID --rank R --peer P --addr A --count N [options]", "receive from a peer that sends",
	 run_send_recv, TRANSFER, 0, 0},
	{"group", "--comm ID [--async] <OPERATIONS", "run operations together, one per line, written as verbs",
	 run_group, "comm! async", 0, 0},

	{"begin-send", "--device DEVICE --peer RANK --addr A --bytes SIZE",
	 "queue a transfer's sending end and print its stream", run_begin_send,
	 WHERE "peer! addr! bytes! json", 0, 0},
	{"begin-receive", "--device DEVICE --peer RANK --stream STREAM --addr A --bytes SIZE",
	 "queue the receiving end", run_begin_receive,
	 WHERE "peer! stream! addr! bytes!", 0, 0},
	{"stream-status", "--device DEVICE --stream STREAM", "print success, in-progress, or failed and why",
	 run_stream_status, WHERE "stream json", 0, 0},

	{"inject", "[--comm ID] {FAULT TARGET [KEY=VALUE...]}... | list | clear",
	 "inject faults, now or at a point of a collective", run_inject, "comm json", 1, 1024},

	{"chaos", "[options]", "run random collectives while random faults happen, and check every result",
	 run_chaos, "seed for ops rate kinds on-failure op-timeout n wait v json", 0, 0},

	{"plan", "COLLECTIVE -n N [options] | --list", "show a collective's schedule, step by step", run_plan,
	 "algo n count bytes type chunk-elems root rank peer simulate list json", 0, 1},
	{"bench", "[COLLECTIVE] [options]", "measure a collective, with nccl-tests' table", run_bench,
	 "n b e f type op algo root chunk iters warmup rewrite on-failure wait baseline max-slowdown json", 0, 1},
	{"tune", "[COLLECTIVE...] [options]", "measure the fastest algorithms, and print a file for gpucoord --tuner",
	 run_tune, "n b e f type iters warmup on-failure wait json", 0, GPUSIM_NCOLLS},
	{"params", "", "print the settings in force", run_params, "json", 0, 0},
	{"version", "", "print the version", run_version, "json", 0, 0},
	{"help", "[VERB]", "list the verbs, or one's options", run_help, "", 0, 1},
	{"completion", "[--] WORD...", NULL, run_completion, "", 0, ARGS_COMMAND},
};
/* clang-format on */

#define NCOMMANDS (sizeof commands / sizeof *commands)

static const struct option_row globals[] = {
    {"coordinator", "ADDR", "where gpucoord is", AS_ANY_STRING(coordinator), ENV("GPUSIM_COORD"),
     DEFAULT_NOTE("gpucoord.sock in the private directory")},
    {"timeout", "TIME", "longest wait of one call, such as 5s", AS_MS(timeout_ms),
     ENV("GPUSIM_TIMEOUT"), DEFAULT_NOTE("60s")},
    ROW_VERSION,
    {"help", NULL, "print this; gpuctl help VERB: a verb's options", ASKS(OPTION_HELP),
     LETTER('h')},
};

const struct option_row *
command_globals(unsigned *n)
{
	*n = NROWS(globals);
	return globals;
}

const struct command *
command_find(const char *name)
{
	for (size_t i = 0; i < NCOMMANDS; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

const struct command *
command_at(size_t i)
{
	return i < NCOMMANDS ? &commands[i] : NULL;
}

/* Print a text about options. */
static enum rc
print(struct buf *text, bool good, struct err *err)
{
	enum rc rc = good && buf_add(text, "", 1) ? RC_OK : err_set(err, RC_NOMEM, "out of memory");

	if (rc == RC_OK)
		fputs(text->data, stdout);
	buf_fini(text);
	return rc;
}

/* Usage, summary and options of one verb, or those options for programs. */
static enum rc
command_help(const struct command *cmd, enum args_result what, struct err *err)
{
	struct option_row rows[OPTION_MAX_ROWS];
	struct option_set set = {.rows = rows};
	struct buf text = {0};
	enum rc rc = args_rows(cmd, rows, &set.n, err);

	if (rc == RC_OK && what == ARGS_LIST)
		return print(&text, option_list(&set, &text), err);
	if (rc != RC_OK)
		return rc;
	printf("usage: gpuctl %s%s%s\n", cmd->name, *cmd->synopsis ? " " : "", cmd->synopsis);
	if (cmd->summary)
		printf("%s\n", cmd->summary);
	rc = print(&text, option_help(rows, set.n, &text), err);
	if (cmd->run == run_inject)
		fault_help(stdout);
	return rc;
}

static enum rc
help_all(struct err *err)
{
	struct buf text = {0};
	enum rc rc;

	puts("usage: gpuctl [--coordinator ADDR] [--timeout TIME] VERB [ARG...]");
	rc = print(&text, option_help(globals, NROWS(globals), &text), err);
	puts("");
	for (size_t i = 0; i < NCOMMANDS; i++)
		if (commands[i].summary)
			printf("  %-14s  %s\n", commands[i].name, commands[i].summary);
	return rc;
}

static enum rc
unknown(const char *name, struct err *err)
{
	struct nearest n = nearest_begin(name);

	for (size_t i = 0; i < NCOMMANDS; i++)
		if (commands[i].summary)
			nearest_offer(&n, commands[i].name);
	if (n.name)
		return err_set(err, RC_INVAL,
			       "unknown verb '%.64s', did you mean '%s'? gpuctl -h lists all", name,
			       n.name);
	return err_set(err, RC_INVAL, "unknown verb '%.64s'; gpuctl -h lists them", name);
}

static enum rc
run_help(struct cli *cli, const struct args *a, struct err *err)
{
	const struct command *cmd = a->nrest ? command_find(a->rest[0]) : NULL;

	(void)cli;
	if (a->nrest && !cmd)
		return unknown(a->rest[0], err);
	return cmd ? command_help(cmd, ARGS_HELP, err) : help_all(err);
}

/* The options before the verb; ends the program for -h and -V. */
static enum rc
global_options(struct cli *cli, int *argc, char ***argv, struct err *err)
{
	struct option_set set = {
	    .usage = "gpuctl", .rows = globals, .n = NROWS(globals), .target = cli, .stops = true};
	enum option_ask ask;
	enum rc rc = option_parse(&set, *argc, *argv, &ask, err);

	if (rc == RC_OK && ask == OPTION_HELP) {
		help_all(err);
		cli_end(cli, err);
	}
	if (rc == RC_OK && ask != OPTION_RUN)
		rc = option_answer(&set, ask, err);
	if (rc == RC_OK && set.noperands == 0)
		rc = err_set(err, RC_INVAL, "no verb; gpuctl -h lists them");
	*argc = set.noperands;
	*argv = set.operands;
	return rc;
}

int
main(int argc, char **argv)
{
	struct cli cli = {0};
	struct err err = {0};
	enum args_result what;
	struct args a;

	log_open("gpuctl", LOG_WARN);
	if (log_check(&err) != RC_OK || global_options(&cli, &argc, &argv, &err) != RC_OK)
		cli_end(&cli, &err);
	cli.cmd = command_find(argv[0]);
	if (!cli.cmd) {
		unknown(argv[0], &err);
		cli_end(&cli, &err);
	}
	what = args_parse(cli.cmd, argc, argv, NULL, &a, &err);
	if (what == ARGS_OK && cli.cmd->run(&cli, &a, &err) == RC_OK)
		err = (struct err){0};
	if (what == ARGS_HELP || what == ARGS_LIST)
		command_help(cli.cmd, what, &err);
	cli_end(&cli, &err);
}
