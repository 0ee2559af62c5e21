/*
 * top.h - a world as a table: each device with what it does now and its rates since the world before, each communicator,
 * and the one that the others wait for.
 *
 * Pure. Rates come from counters that only grow; the work at hand counts up to the moment of the world.
 */
#ifndef VIEW_TOP_H
#define VIEW_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "view/world.h"

#define TOP_LONG_NS 300000000u /* who waits for less is not said to wait */
#define TOP_CELL    96	       /* bytes of a cell's text, its end included */
#define TOP_NOBODY  SIZE_MAX

/*
 * The states, each with its name for programs (/status.json, the page's style) and its word for people. The first three
 * have done nothing since the world before.
 *
 *	idle	of a communicator
 *	runs	in an operation; or it worked for TOP_WORKED of the time since the world before
 *	waits	in one, and waits for a peer for longer than TOP_LONG_NS
 *	stopped	its process stands still, as after SIGSTOP
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
	uint64_t comm; /* that its operation, or else the device, belongs to; 0: none */
	int rank;      /* in it; -1 */
	char op[64];   /* "allreduce #7 8M ring", or "" */
	uint32_t step, steps;
	double
	    share; /* of its chunk that has gone over a shaped link, or come; -1: none is on its way */
	double op_s;	    /* seconds since the operation began */
	size_t waits_for;   /* index of a device; TOP_NOBODY */
	int waits_rank;	    /* its rank; -1 */
	double waits_s;	    /* for so long */
	uint32_t waited_by; /* devices that wait for it, directly and in turn */
	bool blamed;	    /* they do, and it waits for nobody */
	double in, out;	    /* bytes of chunks a second */
	double ops;	    /* operations a second */
	double
	    busy; /* share of the time in operations, kernels and copies; of several streams the sum */
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
	double seconds; /* that the rates are of; 0: there was no world before, all rates are 0 */
	char culprit
	    [256]; /* whom the most wait for: "3 wait 1.5 s for rank 7:1 (device 344571db47e33eb3, pid 4711):
			      stopped in step 3/6 of allreduce #7 8M ring"; or "" */
};

/* Of a world, and of an earlier one or NULL. Keeps nothing of them. RC_NOMEM. */
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
	TOP_OPS, /* from here on: where there is room */
	TOP_PID,
	TOP_ID,
	TOP_NCOLUMNS
};

/* A heading; how wide its cells are, negative: flush left. Static storage. */
const char *top_heading(enum top_column c);
int top_width(enum top_column c);

/* A device's cell, "-" where there is nothing to say. May be wider than its column. */
void top_cell(const struct top_device *d, enum top_column c, char out[TOP_CELL]);

/* Rates, sizes and times come largest first; devices, ranks, process ids and words in their order. Ties are in the order
 * of devices. */
void top_sort(struct top *t, enum top_column by, bool reverse);

/* Does a text, in any case, stand in a cell of the device or in its note? "" does. */
bool top_matches(const struct top_device *d, const char *text);

/* Static: "runs" for programs, "running" for people. */
const char *top_state_name(enum top_state s);
const char *top_state_word(enum top_state s);

/* "1.2G": at most 5 bytes and the end, of bytes or bytes a second; "-" for nothing. */
void top_size(double nbytes, char out[16]);

#endif
