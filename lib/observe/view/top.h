/*
 * top.h - a world as a table: each device with its current operation and its rates since the world
 * before, each communicator, and the device that the others wait for.
 *
 * Pure. Rates come from counters that only grow; the current operation counts up to the world's time.
 */
#ifndef VIEW_TOP_H
#define VIEW_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "view/world.h"

#define TOP_LONG_NS 300000000u /* shorter waits are not shown */
#define TOP_CELL    96	       /* bytes of a cell's text, its end included */
#define TOP_NOBODY  SIZE_MAX

/*
 * The states, each with its name for programs (/status.json, the page's style) and its word for
 * display. Devices in the first three have done nothing since the world before.
 *
 *	idle	of a communicator
 *	runs	in an operation; or it worked for TOP_WORKED of the time since the world before
 *	waits	in one, and has waited for a peer for longer than TOP_LONG_NS
 *	stopped	its process is stopped, as by SIGSTOP
 *	gone	its process has ended, and the coordinator has not noticed yet
 */
#define TOP_STATES(X)                    \
	X(FREE, "free", "free")          \
	X(SPARE, "spare", "spare")       \
	X(IDLE, "idle", "idle")          \
	X(RUNS, "runs", "running")       \
	X(WAITS, "waits", "waiting")     \
	X(STOPPED, "stopped", "stopped") \
	X(GONE, "gone", "gone")          \
	X(LOST, "lost", "lost")

enum top_state {
#define X(state, name, word) TOP_##state,
	TOP_STATES(X)
#undef X
	    TOP_NSTATES
};
#define TOP_WORKED 0.005

struct top_device {
	size_t index; /* as gpuctl devices counts */
	uint64_t id;
	uint32_t ordinal, pid;
	enum top_state state;
	uint64_t comm; /* communicator of its operation, or else of the device; 0: none */
	int rank;      /* in it; -1 */
	char op[64];   /* "allreduce #7 8M ring", or "" */
	uint32_t step, steps;
	double share;	    /* share of its chunk in flight over a shaped link; -1: none */
	double op_s;	    /* seconds since the operation began */
	size_t waits_for;   /* index of a device; TOP_NOBODY */
	int waits_rank;	    /* its rank; -1 */
	double waits_s;	    /* seconds it has waited */
	uint32_t waited_by; /* devices that wait for it, directly and in turn */
	bool blamed;	    /* others wait for it, and it waits for none */
	double in, out;	    /* bytes of chunks a second */
	double ops;	    /* operations a second */
	double busy; /* share of the time in operations, kernels and copies, summed over streams */
	uint64_t used, size; /* bytes of memory */
	char note[192];	     /* why it was lost, or why its recorder was not read; or "" */
};

struct top_comm {
	uint64_t id;
	const char *state; /* "in-progress" ... */
	const char *policy;
	uint32_t nranks, epoch, recoveries;
	uint64_t operations, pending;
	double ops;	  /* operations a second */
	size_t culprit;	  /* index of the device that most of its ranks wait for; TOP_NOBODY */
	char reason[192]; /* of a failure, or "" */
};

struct top {
	struct top_device *device;
	struct top_comm *comm;
	size_t ndevices, ncomms;
	size_t count[TOP_NSTATES];
	double seconds; /* period of the rates; 0: no world before, all rates are 0 */
	/* The device that most others wait for: "3 wait 1.5 s for rank 7:1 (device 344571db47e33eb3, pid
	 * 4711): stopped in step 3/6 of allreduce #7 8M ring"; or "". */
	char culprit[256];
};

/* Make the table of a world; before: an earlier one, or NULL. It keeps no pointers to them. RC_NOMEM. */
enum rc top_new(const struct world *now, const struct world *before, struct top **out,
		struct err *err);
void top_free(struct top *t); /* NULL is legal */

/* ---- columns */

enum top_column {
	TOP_DEVICE,
	TOP_RANK, /* communicator and rank, "1:0" */
	TOP_STATE,
	TOP_OP,
	TOP_STEP,
	TOP_IN,
	TOP_OUT,
	TOP_MEM,
	TOP_BUSY,
	TOP_WAIT,
	TOP_OPS, /* from here on: shown if there is room */
	TOP_PID,
	TOP_ID,
	TOP_NCOLUMNS
};

/* A heading (static storage); the width of its cells, negative: flush left. */
const char *top_heading(enum top_column c);
int top_width(enum top_column c);

/* A device's cell, "-" if it is empty. May be wider than its column. */
void top_cell(const struct top_device *d, enum top_column c, char out[TOP_CELL]);

/* Sort by a column: rates, sizes and times largest first; devices, ranks, process ids and words
 * ascending. Ties are in the order of devices. */
void top_sort(struct top *t, enum top_column by, bool reverse);

/* Return true if a cell of the device, or its note, contains the text, in any case. */
bool top_matches(const struct top_device *d, const char *text);

/* Static: "runs" for programs, "running" for display. */
const char *top_state_name(enum top_state s);
const char *top_state_word(enum top_state s);

/* "1.2G": at most 5 bytes and the NUL, for bytes or bytes per second; "-" for zero. */
void top_size(double nbytes, char out[16]);

#endif
