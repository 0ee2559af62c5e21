/* gpuctl group - run the operations on stdin together, one per line, each written as a verb. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/must.h"
#include "algo.h"
#include "cli.h"
#include "coll/plan.h"
#include "counts.h"
#include "io.h"
#include "operation.h"

#define MAX_WORDS 64 /* of one line */

struct line {
	struct operation op;
	size_t number; /* counted from 1 */
};

/* Initialise with {0}. */
struct lines {
	struct line *v;
	size_t n, cap;
};

static void
add(struct lines *l, size_t number, struct operation op)
{
	must_room(&l->v, l->n, &l->cap, sizeof *l->v);
	l->v[l->n++] = (struct line){op, number};
}

/* Cut a line into words at blanks, in place; NULL-terminated. */
static enum rc
cut(char *text, char *words[MAX_WORDS + 1], int *n, struct err *err)
{
	char *save;

	*n = 0;
	for (char *w = strtok_r(text, " \t\r", &save); w; w = strtok_r(NULL, " \t\r", &save)) {
		if (*n == MAX_WORDS)
			return err_set(err, RC_INVAL, "more than %d words", MAX_WORDS);
		words[(*n)++] = w;
	}
	words[*n] = NULL;
	return RC_OK;
}

static enum rc
find_verb(const char *name, const struct command **cmd, enum gpusim_coll *coll, bool *v,
	  struct err *err)
{
	*cmd = command_find(name);
	if (!*cmd || counts_verb(name, coll, v, NULL) != RC_OK)
		return err_set(err, RC_INVAL, "'%.64s' is not a collective, send or recv", name);
	return RC_OK;
}

static enum rc
parse_line(struct cli *cli, char *text, struct gpusim_comm *comm, struct operation *op, bool *empty,
	   struct err *err)
{
	char *words[MAX_WORDS + 1];
	const struct command *cmd;
	enum gpusim_coll coll;
	struct args a;
	bool v;
	int n;
	enum rc rc = cut(text, words, &n, err);

	*empty = rc == RC_OK && (n == 0 || words[0][0] == '#');
	if (rc != RC_OK || *empty)
		return rc;
	rc = find_verb(words[0], &cmd, &coll, &v, err);
	if (rc != RC_OK)
		return rc;
	switch (args_parse(cmd, n, words, "comm", &a, err)) {
	case ARGS_HELP:
	case ARGS_LIST:
		return err_set(err, RC_INVAL, "-h: not allowed in a group");
	case ARGS_BAD:
		return err->rc;
	case ARGS_OK:
		break;
	}
	if (a.async || a.all || a.raw || a.nranks || args_given(&a, on_failure))
		return err_set(
		    err, RC_INVAL,
		    "--async, --all, --raw, -n and --on-failure: not allowed in a group");
	if (a.streaming)
		return err_set(err, RC_INVAL, "--stream: needs a number");
	if (a.comm && a.comm != gpusim_comm_id(comm).id)
		return err_set(err, RC_INVAL, "--comm: the group is on communicator %" PRIu64,
			       gpusim_comm_id(comm).id);
	if (v && !a.counts)
		return err_set(err, RC_INVAL, "%s: --counts N,... is missing", cmd->name);
	rc = algo_take(cli, &a, err);
	if (rc == RC_OK)
		rc = operation_make(coll, &a, comm, op, err);
	return rc == RC_OK ? rc : err_prefix(err, "%s", cmd->name);
}

static enum rc
parse(struct cli *cli, char *text, struct gpusim_comm *comm, struct lines *l, struct err *err)
{
	struct operation op = {0};
	size_t number = 1;
	bool empty;
	enum rc rc = RC_OK;

	for (char *next; rc == RC_OK && text; text = next, number++) {
		next = strchr(text, '\n');
		if (next)
			*next++ = '\0';
		rc = parse_line(cli, text, comm, &op, &empty, err);
		if (rc == RC_OK && !empty) {
			add(l, number, op);
			if (rc != RC_OK)
				operation_fini(&op);
		}
		if (rc != RC_OK)
			return err_prefix(err, "line %zu", number);
	}
	if (rc == RC_OK && l->n == 0)
		rc = err_set(err, RC_BADDATA, "no operations on standard input");
	return rc;
}

/* Submit all operations, then run them. If one is refused, the group stays open and ends with our
 * connection, without running. */
static enum rc
submit(const struct args *a, struct gpusim_comm *comm, const struct lines *l, struct err *err)
{
	enum rc rc = api(gpusim_group_start(comm), err);

	for (size_t i = 0; rc == RC_OK && i < l->n; i++) {
		rc = api(gpusim_collective(comm, &l->v[i].op.c, GPUSIM_ASYNC), err);
		if (rc != RC_OK)
			err_prefix(err, "line %zu", l->v[i].number);
	}
	if (rc == RC_OK)
		rc = api(gpusim_group_end(comm, a->async ? GPUSIM_ASYNC : GPUSIM_SYNC), err);
	if (rc == RC_OK)
		cli_note();
	return rc;
}

enum rc
run_group(struct cli *cli, const struct args *a, struct err *err)
{
	struct gpusim_comm *comm = NULL;
	struct lines l = {0};
	struct buf text = {0};
	enum rc rc = io_read_all(STDIN_FILENO, "standard input", &text, err);

	if (rc == RC_OK)
		must_add(&text, "", 1);
	if (rc == RC_OK && strlen(text.data) + 1 != text.len)
		rc = err_set(err, RC_BADDATA, "a NUL byte on standard input");
	if (rc == RC_OK)
		rc = cli_comm(cli, a->comm, &comm, err);
	if (rc == RC_OK)
		rc = parse(cli, text.data, comm, &l, err);
	if (rc == RC_OK)
		rc = submit(a, comm, &l, err);
	for (size_t i = 0; i < l.n; i++)
		operation_fini(&l.v[i].op);
	free(l.v);
	buf_fini(&text);
	gpusim_comm_free(comm);
	return rc;
}
