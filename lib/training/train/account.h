/*
 * account.h - a training's memory and communication: as formulas give them, beside what was measured.
 *
 * Expected numbers come from the sizes of the net, the grid, the options and the schedule alone: gpusim-parallel(7)
 * derives them. Measured numbers come from the caller, who counts in the devices' recorders and asks their allocators,
 * and from the addresses of the layout that ran.
 */
#ifndef TRAIN_ACCOUNT_H
#define TRAIN_ACCOUNT_H

#include "train/spread.h"

/* The ranks that take part in an operation differ in one dimension of the grid. */
enum account_group {
	ACCOUNT_DP,
	ACCOUNT_REP, /* those that have the same part, of hybrid sharding */
	ACCOUNT_TP,
	ACCOUNT_PP,
	ACCOUNT_OTHER,
	ACCOUNT_GRID, /* all ranks */
	ACCOUNT_NGROUPS
};

enum account_coll {
	ACCOUNT_ALLREDUCE,
	ACCOUNT_ALLGATHER,
	ACCOUNT_REDUCESCATTER,
	ACCOUNT_SEND,
	ACCOUNT_ELSE,
	ACCOUNT_NCOLLS
};

/* Operations, and elements that were sent in them: of a rank, or of all ranks of a stage. */
struct account_count {
	uint64_t n, elements;
};

/* What one rank's device did in one step. */
struct account_seen {
	struct account_count by[ACCOUNT_NGROUPS][ACCOUNT_NCOLLS];
	uint64_t used_bytes; /* of its allocator */
};

struct account_input {
	const struct train_config *c;
	const struct net *net;
	struct grid grid;
	const struct spread *spread; /* NULL: each rank has the whole net, with --compress */
	uint64_t global;	     /* samples of the step that was counted */
	uint64_t most;		     /* of any step: memory is laid out for these */
	uint64_t item_bytes; /* memory of a device besides the layout: data, order, losses */
	const struct account_seen *seen; /* by rank */
};

struct account_line {
	char what[64], formula[112];
	uint32_t row; /* the pipeline rank that it is about; UINT32_MAX: all */
	/* Of a rank: of operations the mean over the ranks of the row. NAN: there is no formula */
	double expected;
	double measured;
	bool agrees;
};

struct account {
	char title[256]; /* what the letters of formulas stand for */
	struct account_line *line;
	size_t n, cap;
	size_t ndisagree;
};

/* Compare. Release *out with account_fini. Checked by: tests/unit/train/t_account.c, tests/bats/account.bats */
void account_make(const struct account_input *in, struct account *out);
void account_fini(struct account *a);

const char *account_group_name(enum account_group g); /* "dp" */
const char *account_coll_name(enum account_coll c);   /* "all-reduce" */

/* ---- of a trainer whose training is over */

/* Run one more step, which changes the devices' weights. */
enum rc account_step(struct trainer *t, struct err *err);

/* Fill all of *out but `seen`. */
void account_of(const struct trainer *t, struct account_input *out);

/* The device of a rank. */
struct gpusim_device account_device(const struct trainer *t, uint32_t rank);

#endif
