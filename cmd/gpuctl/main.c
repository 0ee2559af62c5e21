/* gpuctl - operate simulated GPUs from a shell. See gpuctl(1). */
#define OPTION_TARGET struct cli

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/host.h"
#include "base/log.h"
#include "base/must.h"
#include "base/nearest.h"
#include "base/option_rows.h"
#include "cli.h"
#include "coll/fault.h"

#define HELP_COLUMNS 78

#define WHERE	 "device comm rank "
#define HOW	 "algo chunk async deterministic "
#define BUFFERS	 "comm addr send recv count type "
#define FILTER	 "n raw on-failure wait streaming "
#define MOVES	 BUFFERS FILTER "algo-file " HOW
#define PARTS	 "comm addr send recv counts displs type n raw on-failure wait stream " HOW
#define TRANSFER "comm! rank! peer! addr! count! type stream " HOW

#define ON_BUFFERS "[--comm ID {--addr A,... | --send A,... --recv A,...} --count N] [options]"

#define ON_PARTS                                                                            \
	"[--counts N,...] [--comm ID {--addr A,... | --send A,... --recv A,...} [--displs " \
	"N,...]] [options]"
#define ON_COUNTS "--counts N,... [--comm ID {--addr A,... | --send A,... --recv A,...}] [options]"

static const struct command commands[] = {
#define VERB(group, run, name, synopsis, summary, options, min, max) \
	{COMMAND_##group, name, synopsis, summary, run, options, min, max},
#include "verbs.inc"
#undef VERB
};
#define NCOMMANDS (sizeof commands / sizeof *commands)

static const struct option_row globals[] = {
    {"coordinator", "ADDR", "address of gpucoord", AS_ANY_STRING(coordinator), ENV("GPUSIM_COORD"),
     DEFAULT_NOTE("gpucoord.sock in the private directory")},
    {"timeout", "TIME", "longest wait for one call, such as 5s", AS_MS(timeout_ms),
     ENV("GPUSIM_TIMEOUT"), DEFAULT_NOTE("60s")},
    ROW_VERSION,
    {"help", NULL, "print this help; gpuctl help VERB: a verb's options", ASKS(OPTION_HELP),
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
		if (nearest_same(commands[i].name, name))
			return &commands[i];
	return NULL;
}

const struct command *
command_at(size_t i)
{
	return i < NCOMMANDS ? &commands[i] : NULL;
}

static void
print(struct buf *text)
{
	must(!text->failed);
	fwrite(text->data, 1, text->len, stdout);
	buf_fini(text);
}

/* Print usage, summary and options of one verb, or its options for programs. */
static enum rc
command_help(const struct command *cmd, enum args_result what, struct err *err)
{
	struct option_row rows[OPTION_MAX_ROWS];
	struct option_set set = {.rows = rows};
	struct buf text = {0};
	enum rc rc = args_rows(cmd, rows, &set.n, err);

	if (rc != RC_OK)
		return rc;
	if (what == ARGS_LIST) {
		option_list(&set, &text);
		print(&text);
		return RC_OK;
	}
	printf("usage: gpuctl %s%s%s\n", cmd->name, *cmd->synopsis ? " " : "", cmd->synopsis);
	if (cmd->summary)
		printf("%s\n", cmd->summary);
	option_help(rows, set.n, &text);
	print(&text);
	if (cmd->run == run_inject)
		fault_help(stdout);
	return RC_OK;
}

static const char *const group_title[COMMAND_NGROUPS] = {
    [COMMAND_RUN] = "Run commands, kernels and communicators",
    [COMMAND_DATA] = "Move data",
    [COMMAND_COLLECTIVES] = "Collectives",
    [COMMAND_LOOK] = "Look at what happens",
    [COMMAND_BREAK] = "Break things on purpose",
    [COMMAND_PLAN] = "Plan and measure",
};

/* Print the verbs of a group: a line each, or their names alone. */
static void
help_group(enum command_group group, bool lines)
{
	size_t column = HELP_COLUMNS;

	printf("\n%s:", group_title[group]);
	for (size_t i = 0; i < NCOMMANDS; i++) {
		const struct command *cmd = &commands[i];

		if (cmd->group != group || !cmd->summary)
			continue;
		if (lines) {
			printf("\n  %-15s  %s", cmd->name, cmd->summary);
			continue;
		}
		column += 1 + strlen(cmd->name);
		if (column > HELP_COLUMNS) {
			printf("\n ");
			column = 2 + strlen(cmd->name);
		}
		printf(" %s", cmd->name);
	}
	puts("");
}

/* Print the first verbs, then all of them in groups; with `all` a line for each. */
static void
help(bool all)
{
	static const char *const first[] = {"run",	 "allreduce", "memcpy", "malloc",
					    "comm-init", "devices",   "status", "explain",
					    "bench",	 "plan"};
	struct buf text = {0};

	puts("usage: gpuctl [--coordinator ADDR] [--timeout TIME] VERB [ARG...]");
	option_help(globals, NROWS(globals), &text);
	print(&text);
	if (!all)
		puts("\nTo begin with:");
	for (size_t i = 0; i < sizeof first / sizeof *first && !all; i++)
		printf("  %-15s  %s\n", first[i], command_find(first[i])->summary);
	for (int g = 0; g < COMMAND_NGROUPS; g++)
		help_group((enum command_group)g, all);
	if (!all)
		puts("\ngpuctl help VERB describes a verb, gpuctl help all lists them with a "
		     "summary.\nman gpusim-quickref has thirty commands, man gpusim-tutorial "
		     "teaches in an hour.");
}

/* On a terminal that has man: become the page of a verb with a page of its own. */
static void
open_page(const struct command *cmd)
{
	static const char *const places[][2] = {
	    {"../share/man/man1", ""}, {"../share/man/man1", ".gz"}, {"../../man", ""}};
	char own[PATH_MAX], path[PATH_MAX + 64];

	if (!isatty(STDOUT_FILENO) || !host_own_folder(own, sizeof own))
		return;
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		snprintf(path, sizeof path, "%s/%s/gpuctl-%s.1%s", own, places[i][0], cmd->name,
			 places[i][1]);
		if (access(path, R_OK) == 0)
			execlp("man", "man", "-l", path, (char *)NULL);
	}
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
			       "unknown verb '%.64s'; did you mean '%s'? gpuctl -h lists the verbs",
			       name, n.name);
	return err_set(err, RC_INVAL, "unknown verb '%.64s'; gpuctl -h lists the verbs", name);
}

enum rc
run_help(struct cli *cli, const struct args *a, struct err *err)
{
	const struct command *cmd = a->nrest ? command_find(a->rest[0]) : NULL;

	(void)cli;
	if (!cmd && a->nrest && strcmp(a->rest[0], "all") != 0)
		return unknown(a->rest[0], err);
	if (!cmd) {
		help(a->nrest > 0);
		return RC_OK;
	}
	open_page(cmd);
	return command_help(cmd, ARGS_HELP, err);
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
		help(false);
		cli_end(cli, err);
	}
	if (rc == RC_OK && ask != OPTION_RUN)
		rc = option_answer(&set, ask, err);
	if (rc == RC_OK && set.noperands == 0)
		rc = err_set(err, RC_INVAL, "no verb given; gpuctl -h lists the verbs");
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
