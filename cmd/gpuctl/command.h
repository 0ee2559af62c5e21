/*
 * command.h - a verb of gpuctl and the arguments of every verb.
 *
 * verbs.inc is the one table of verbs. A verb returns its result with its sentence in *err; main prints the
 * sentence, closes what is open and ends the program.
 */
#ifndef GPUCTL_COMMAND_H
#define GPUCTL_COMMAND_H

#include <stdint.h>

#include "args.h"
#include "base/rc.h"

struct cli;

/* Run a verb. */
typedef enum rc command_fn(struct cli *cli, const struct args *a, struct err *err);

struct command {
	const char *name;
	const char *synopsis; /* operands and options, after the name; "" for none */
	const char *summary;  /* one line; NULL hides the verb from help and completion */
	command_fn *run;
	const char *options; /* keys of the options it takes, in args.c; "!" behind a key: needed */
	int min_rest, max_rest; /* operands; ARGS_COMMAND: a command follows */
};

struct cli {
	const struct command *cmd;
	const char *coordinator; /* NULL: $GPUSIM_COORD */
	uint32_t timeout_ms;	 /* 0: as each verb likes it */
	struct gpusim *g;	 /* NULL until cli_open */
	int status;		 /* exit status when the result is RC_OK */
};

/* The row of a name, hidden ones included; NULL: there is none. */
const struct command *command_find(const char *name);

/* The options before the verb. */
const struct option_row *command_globals(unsigned *n);

/* The row i of the table, from 0 on; NULL behind the last. */
const struct command *command_at(size_t i);

#define VERB(run, ...) command_fn run;
#include "verbs.inc"
#undef VERB

#endif
