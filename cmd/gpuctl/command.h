/*
 * command.h - a verb of gpuctl and the arguments of every verb.
 *
 * verbs.inc is the table of verbs. A verb returns its result, with the message in *err; main prints the
 * message, closes what is open and ends the program.
 */
#ifndef GPUCTL_COMMAND_H
#define GPUCTL_COMMAND_H

#include <stdint.h>

#include "args.h"
#include "base/rc.h"

struct cli;

/* Run a verb. */
typedef enum rc command_fn(struct cli *cli, const struct args *a, struct err *err);

/* What a user wants; help lists the verbs in these groups. */
enum command_group {
	COMMAND_RUN,
	COMMAND_DATA,
	COMMAND_COLLECTIVES,
	COMMAND_LOOK,
	COMMAND_BREAK,
	COMMAND_PLAN,
	COMMAND_NGROUPS
};

struct command {
	enum command_group group;
	const char *name;
	const char *synopsis; /* operands and options, after the name; "" for none */
	const char *summary;  /* one line; NULL hides the verb from help and completion */
	command_fn *run;
	const char *options;	/* keys of its options, in args.c; "!" after a key: required */
	int min_rest, max_rest; /* operands; ARGS_COMMAND: a command follows */
};

struct cli {
	const struct command *cmd;
	const char *coordinator; /* NULL: $GPUSIM_COORD */
	uint32_t timeout_ms;	 /* 0: each verb's default */
	struct gpusim *g;	 /* NULL until cli_open */
	int status;		 /* exit status when the result is RC_OK */
};

/* The verb of a name, hidden ones included; NULL: none. */
const struct command *command_find(const char *name);

/* The options before the verb. */
const struct option_row *command_globals(unsigned *n);

/* Row i of the table, from 0; NULL after the last. */
const struct command *command_at(size_t i);

#define VERB(group, run, ...) command_fn run;
#include "verbs.inc"
#undef VERB

#endif
