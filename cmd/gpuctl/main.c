/* gpuctl - operate simulated GPUs from a shell. See gpuctl(1). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/nearest.h"
#include "base/parse.h"
#include "cli.h"
#include "coll/fault.h"
#include "getopts.h"

#define WHERE	 (OPT(DEVICE) | OPT(COMM) | OPT(RANK))
#define HOW	 (OPT(ALGO) | OPT(CHUNK) | OPT(STREAM) | OPT(QUEUE))
#define BUFFERS	 (OPT(COMM) | OPT(ADDR) | OPT(SEND) | OPT(RECV) | OPT(COUNT) | OPT(TYPE))
#define FILTER	 (OPT(RANKS) | OPT(RAW) | OPT(ON_FAILURE) | OPT(WAIT) | OPT(STREAMING))
#define MOVES	 (BUFFERS | FILTER | HOW)
#define TRANSFER (OPT(COMM) | OPT(RANK) | OPT(PEER) | OPT(ADDR) | OPT(COUNT) | OPT(TYPE))

static enum rc run_help(struct cli *, const struct args *,
			struct err *); /* at the end of this file */

#define ON_BUFFERS "[--comm ID {--addr A,... | --send A,... --recv A,...} --count N] [options]"

/* clang-format off */
static const struct command commands[] = {
	{"run", "-n N [options] [--] COMMAND [ARG...]", "run a command with N devices of its own", run_run,
	 OPT(RANKS) | OPT(MEM) | OPT(MEM_FILE) | OPT(LATENCY) | OPT(BANDWIDTH) | OPT(TRANSPORT) | OPT(THREADS) | OPT(KERNELS) | OPT(PIN) |
	 OPT(OP_TIMEOUT) | OPT(START_TIMEOUT) | OPT(ALLOW_INJECT) | OPT(HTTP) | OPT(GRPC) | OPT(SPARES) | OPT(ON_FAILURE) | OPT(VERBOSE), OPT(RANKS), 1, ARGS_COMMAND},
	{"devices", "[--json]", "list the devices", run_devices, OPT(JSON), 0, 0, 0},
	{"status", "[--json]", "show coordinator, devices and communicators", run_status, OPT(JSON), 0, 0, 0},
	{"events", "[--follow] [--json]", "list what has happened, newest last", run_events,
	 OPT(FOLLOW) | OPT(JSON), 0, 0, 0},
	{"topo", "[--comm ID] [--json]", "show how each pair of devices reaches each other", run_topo,
	 OPT(COMM) | OPT(JSON), 0, 0, 0},

	{"unique-id", "", "print an id by which ranks can meet, each with its own comm-init", run_unique_id, OPT(JSON), 0, 0, 0},
	{"comm-init", "{-n N | DEVICE... | --id ID [--rank R] [--nranks N] [--device DEVICE]} [options]",
	 "make a communicator and print its id", run_comm_init,
	 OPT(RANKS) | OPT(ID) | OPT(RANK) | OPT(NRANKS) | OPT(DEVICE) | OPT(ON_FAILURE) | OPT(OP_TIMEOUT) | OPT(WAIT) |
	 OPT(JSON), 0, 0, 65536},
	{"comm-destroy", "ID", "end a communicator", run_comm_destroy, 0, 0, 1, 1},
	{"comm-status", "ID [--json]", "print success, in-progress, or failed and why", run_comm_status,
	 OPT(JSON), 0, 1, 1},
	{"stragglers", "ID [--json]", "show by how much each rank held up the others", run_stragglers,
	 OPT(JSON), 0, 1, 1},
	{"comm-abort", "ID [REASON...]", "end what runs on a communicator; it has failed", run_comm_abort, 0, 0, 1, 65536},
	{"comm-shrink", "ID [RANK...]", "leave ranks out, the lost ones, and print how many are left",
	 run_comm_shrink, OPT(JSON), 0, 1, 65536},
	{"comm-grow", "ID {-n N | DEVICE...}", "take in devices as the last ranks, and print how many there are",
	 run_comm_grow, OPT(RANKS) | OPT(WAIT) | OPT(JSON), 0, 1, 65536},
	{"comm-split", "ID COLOR,COLOR,... [--keys K,...]", "a communicator for the ranks of each color",
	 run_comm_split, OPT(KEYS) | OPT(ON_FAILURE) | OPT(OP_TIMEOUT) | OPT(JSON), 0, 2, 2},
	{"wait", "ID", "wait until nothing is in progress on a communicator", run_wait, 0, 0, 1, 1},

	{"malloc", "--device DEVICE SIZE", "allocate memory and print its address", run_malloc, WHERE | OPT(JSON), 0, 1, 1},
	{"free", "--device DEVICE ADDR", "free memory", run_free, WHERE, 0, 1, 1},
	{"memcpy", "SRC DST", "copy; each is -, a file, or DEVICE:ADDR[:NBYTES]", run_memcpy, OPT(COMM), 0, 2, 2},
	{"memset", "--device DEVICE ADDR BYTE SIZE", "fill memory", run_memset, WHERE, 0, 3, 3},
	{"launch", "--device DEVICE KERNEL [NAME=VALUE...] | --list [--json]", "run a kernel, or list those there are", run_launch,
	 WHERE | OPT(STREAM) | OPT(QUEUE) | OPT(LIST) | OPT(JSON), 0, 0, 65536},
	{"sync", "--device DEVICE [--stream STREAM]", "wait until a stream is idle", run_sync,
	 WHERE | OPT(STREAM), 0, 0, 0},

	{"allreduce", ON_BUFFERS, "reduce; every rank gets the result", run_collective,
	 MOVES | OPT(OP) | OPT(ALL), 0, 0, 0},
	{"broadcast", ON_BUFFERS, "the root's vector to every rank", run_collective,
	 MOVES | OPT(ROOT) | OPT(ALL), 0, 0, 0},
	{"reduce", ON_BUFFERS, "reduce; the root gets the result", run_collective,
	 MOVES | OPT(OP) | OPT(ROOT) | OPT(ALL), 0, 0, 0},
	{"allgather", ON_BUFFERS, "join all vectors; every rank gets the result", run_collective,
	 MOVES | OPT(ALL), 0, 0, 0},
	{"reduce-scatter", ON_BUFFERS, "reduce; each rank gets its part", run_collective,
	 MOVES | OPT(OP) | OPT(ALL), 0, 0, 0},
	{"alltoall", ON_BUFFERS, "each rank's parts to the ranks they are for", run_collective,
	 MOVES | OPT(ALL), 0, 0, 0},
	{"gather", ON_BUFFERS, "join all vectors; the root gets the result", run_collective,
	 MOVES | OPT(ROOT) | OPT(ALL), 0, 0, 0},
	{"scatter", ON_BUFFERS, "the root's vector in parts, each rank gets its own", run_collective,
	 MOVES | OPT(ROOT) | OPT(ALL), 0, 0, 0},
	{"barrier", "[--comm ID | -n N] [options]", "return when every rank is there", run_collective,
	 OPT(COMM) | OPT(RANKS) | OPT(ALGO) | OPT(STREAM) | OPT(QUEUE) | OPT(ON_FAILURE) | OPT(WAIT), 0, 0, 0},
	{"send", "--comm ID --rank R --peer P --addr A --count N [options]", "send to a peer that receives",
	 run_send_recv, TRANSFER | HOW, TRANSFER & ~OPT(TYPE), 0, 0},
	{"recv", "--comm ID --rank R --peer P --addr A --count N [options]", "receive from a peer that sends",
	 run_send_recv, TRANSFER | HOW, TRANSFER & ~OPT(TYPE), 0, 0},
	{"group", "--comm ID [--queue] <OPERATIONS", "run operations together, one a line, as the verbs are spelled",
	 run_group, OPT(COMM) | OPT(QUEUE), OPT(COMM), 0, 0},

	{"begin-send", "--device DEVICE --peer RANK --addr A --bytes SIZE",
	 "queue a transfer's sending end and print its stream", run_begin_send,
	 WHERE | OPT(PEER) | OPT(ADDR) | OPT(BYTES) | OPT(JSON), OPT(PEER) | OPT(ADDR) | OPT(BYTES), 0, 0},
	{"begin-receive", "--device DEVICE --peer RANK --stream STREAM --addr A --bytes SIZE",
	 "queue the receiving end", run_begin_receive,
	 WHERE | OPT(PEER) | OPT(STREAM) | OPT(ADDR) | OPT(BYTES),
	 OPT(PEER) | OPT(STREAM) | OPT(ADDR) | OPT(BYTES), 0, 0},
	{"stream-status", "--device DEVICE --stream STREAM", "print success, in-progress, or failed and why",
	 run_stream_status, WHERE | OPT(STREAM) | OPT(JSON), 0, 0, 0},

	{"inject", "[--comm ID] {FAULT TARGET [KEY=VALUE...]}... | list | clear",
	 "make something fail, now or at a point of a collective", run_inject, OPT(COMM) | OPT(JSON), 0, 1, 1024},

	{"chaos", "[options]", "run random collectives while random faults happen, and check every result",
	 run_chaos, OPT(SEED) | OPT(FOR) | OPT(OPS) | OPT(RATE) | OPT(KINDS) | OPT(ON_FAILURE) | OPT(OP_TIMEOUT) |
	 OPT(RANKS) | OPT(WAIT) | OPT(VERBOSE) | OPT(JSON), 0, 0, 0},

	{"plan", "COLLECTIVE -n N [options] | --list", "show a collective's schedule, step by step", run_plan,
	 OPT(ALGO) | OPT(RANKS) | OPT(COUNT) | OPT(BYTES) | OPT(TYPE) | OPT(CHUNK_ELEMS) | OPT(ROOT) | OPT(RANK) |
	 OPT(PEER) | OPT(SIMULATE) | OPT(LIST) | OPT(JSON), 0, 0, 1},
	{"bench", "[COLLECTIVE] [options]", "measure a collective, with nccl-tests' table", run_bench,
	 OPT(RANKS) | OPT(MIN_BYTES) | OPT(MAX_BYTES) | OPT(FACTOR) | OPT(TYPE) | OPT(OP) | OPT(ALGO) |
	 OPT(ROOT) | OPT(CHUNK) | OPT(ITERS) | OPT(WARMUP) | OPT(REWRITE) |
	 OPT(ON_FAILURE) | OPT(WAIT) | OPT(BASELINE) | OPT(MAX_SLOWDOWN) | OPT(JSON), 0, 0, 1},
	{"tune", "[COLLECTIVE...] [options]", "measure which algorithms are fastest, as a file for gpucoord --tuner",
	 run_tune, OPT(RANKS) | OPT(MIN_BYTES) | OPT(MAX_BYTES) | OPT(FACTOR) | OPT(TYPE) | OPT(ITERS) |
	 OPT(WARMUP) | OPT(WAIT) | OPT(JSON), 0, 0, GPUSIM_NCOLLS},
	{"params", "", "print what is in force", run_params, OPT(JSON), 0, 0, 0},
	{"version", "", "print the version", run_version, OPT(JSON), 0, 0, 0},
	{"help", "[VERB]", "list the verbs, or one's options", run_help, 0, 0, 0, 1},
	{"completion", "[--] WORD...", NULL, run_completion, 0, 0, 0, ARGS_COMMAND},
};
/* clang-format on */

#define NCOMMANDS (sizeof commands / sizeof *commands)

static const struct option longopts[] = {{"coordinator", 1, NULL, 'c'},
					 {"timeout", 1, NULL, 't'},
					 {"help", 0, NULL, 'h'},
					 {"version", 0, NULL, 'V'},
					 {NULL, 0, NULL, 0}};

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

/* Usage, summary and options of one verb, to stdout. */
static void
command_help(const struct command *cmd)
{
	printf("usage: gpuctl %s%s%s\n", cmd->name, *cmd->synopsis ? " " : "", cmd->synopsis);
	if (cmd->summary)
		printf("%s\n", cmd->summary);
	args_help(cmd->options, stdout);
	if (cmd->run == run_inject)
		fault_help(stdout);
}

static void
help_all(void)
{
	printf("usage: gpuctl [--coordinator ADDR] [--timeout TIME] VERB [ARG...]\n"
	       "  --coordinator ADDR  where gpucoord is (default $GPUSIM_COORD)\n"
	       "  --timeout TIME      longest wait of one call, such as 5s (default 60s)\n"
	       "  -V                  print the version\n"
	       "  -h                  print this; gpuctl help VERB: a verb's options\n\n");
	for (size_t i = 0; i < NCOMMANDS; i++)
		if (commands[i].summary)
			printf("  %-14s  %s\n", commands[i].name, commands[i].summary);
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
	if (cmd)
		command_help(cmd);
	else
		help_all();
	return RC_OK;
}

/* The options before the verb; ends the program for -h and -V. */
static enum rc
global_options(struct cli *cli, int argc, char **argv, struct err *err)
{
	const char *env = getenv("GPUSIM_TIMEOUT");
	int opt;

	if (env && *env && parse_ms(env, &cli->timeout_ms, err) != RC_OK)
		return err_prefix(err, "GPUSIM_TIMEOUT");
	while ((opt = getopts_next(argc, argv, "+Vh", longopts, err)) != -1) {
		switch (opt) {
		case 'c':
			cli->coordinator = optarg;
			break;
		case 't':
			if (parse_ms(optarg, &cli->timeout_ms, err) != RC_OK)
				return err_prefix(err, "--timeout");
			break;
		case 'V':
			run_version(cli, NULL, err);
			cli_end(cli, err);
		case 'h':
			help_all();
			cli_end(cli, err);
		default:
			return err->rc;
		}
	}
	if (optind >= argc)
		return err_set(err, RC_INVAL, "no verb; gpuctl -h lists them");
	return RC_OK;
}

int
main(int argc, char **argv)
{
	struct cli cli = {0};
	struct err err = {0};
	struct args a;

	log_open("gpuctl", LOG_WARN);
	if (log_check(&err) != RC_OK || global_options(&cli, argc, argv, &err) != RC_OK)
		cli_end(&cli, &err);
	argc -= optind;
	argv += optind;
	cli.cmd = command_find(argv[0]);
	if (!cli.cmd) {
		unknown(argv[0], &err);
		cli_end(&cli, &err);
	}
	switch (args_parse(cli.cmd, argc, argv, 0, &a, &err)) {
	case ARGS_OK:
		if (cli.cmd->run(&cli, &a, &err) == RC_OK)
			err = (struct err){0};
		break;
	case ARGS_HELP:
		command_help(cli.cmd);
		break;
	case ARGS_BAD:
		break;
	}
	cli_end(&cli, &err);
}
