/*
 * command.h - a verb of gpuctl and the arguments of every verb.
 *
 * main.c holds the one table of verbs. A verb returns its result with its sentence in *err; main prints the
 * sentence, closes what is open and ends the program.
 */
#ifndef GPUCTL_COMMAND_H
#define GPUCTL_COMMAND_H

#include <stdint.h>

#include "args.h"
#include "base/rc.h"

struct cli;

struct command {
	const char *name;
	const char *synopsis; /* operands and options, after the name; "" for none */
	const char *summary;  /* one line; NULL hides the verb from help and completion */
	enum rc (*run)(struct cli *cli, const struct args *a, struct err *err);
	const char
	    *options; /* keys of those it takes, in args.c; "!" behind one: it cannot do without */
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

enum rc run_bench(struct cli *, const struct args *, struct err *);
enum rc run_begin_receive(struct cli *, const struct args *, struct err *);
enum rc run_begin_send(struct cli *, const struct args *, struct err *);
enum rc run_chaos(struct cli *, const struct args *, struct err *);
enum rc run_collective(struct cli *, const struct args *, struct err *);
enum rc run_completion(struct cli *, const struct args *, struct err *);
enum rc run_comm_abort(struct cli *, const struct args *, struct err *);
enum rc run_comm_destroy(struct cli *, const struct args *, struct err *);
enum rc run_comm_grow(struct cli *, const struct args *, struct err *);
enum rc run_comm_init(struct cli *, const struct args *, struct err *);
enum rc run_comm_shrink(struct cli *, const struct args *, struct err *);
enum rc run_comm_split(struct cli *, const struct args *, struct err *);
enum rc run_comm_status(struct cli *, const struct args *, struct err *);
enum rc run_devices(struct cli *, const struct args *, struct err *);
enum rc run_events(struct cli *, const struct args *, struct err *);
enum rc run_free(struct cli *, const struct args *, struct err *);
enum rc run_group(struct cli *, const struct args *, struct err *);
enum rc run_inject(struct cli *, const struct args *, struct err *);
enum rc run_launch(struct cli *, const struct args *, struct err *);
enum rc run_malloc(struct cli *, const struct args *, struct err *);
enum rc run_memcpy(struct cli *, const struct args *, struct err *);
enum rc run_memset(struct cli *, const struct args *, struct err *);
enum rc run_params(struct cli *, const struct args *, struct err *);
enum rc run_plan(struct cli *, const struct args *, struct err *);
enum rc run_run(struct cli *, const struct args *, struct err *);
enum rc run_send_recv(struct cli *, const struct args *, struct err *);
enum rc run_status(struct cli *, const struct args *, struct err *);
enum rc run_stream_status(struct cli *, const struct args *, struct err *);
enum rc run_sync(struct cli *, const struct args *, struct err *);
enum rc run_stragglers(struct cli *, const struct args *, struct err *);
enum rc run_topo(struct cli *, const struct args *, struct err *);
enum rc run_tune(struct cli *, const struct args *, struct err *);
enum rc run_unique_id(struct cli *, const struct args *, struct err *);
enum rc run_version(struct cli *, const struct args *, struct err *);
enum rc run_wait(struct cli *, const struct args *, struct err *);

#endif
