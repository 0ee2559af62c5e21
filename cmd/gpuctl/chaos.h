/*
 * chaos.h - what the files of gpuctl chaos share: operations and faults drawn from a seed, and results
 * that are checked against the host's own.
 */
#ifndef GPUCTL_CHAOS_H
#define GPUCTL_CHAOS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli.h"

#define CHAOS_BYTES (1u << 20) /* of a vector; each rank has two such buffers */

/* ---- chaos_draw.c: from seeds alone. What is drawn for number i does not depend on any other. */

struct chaos_op {
	uint64_t seed; /* of its elements */
	enum gpusim_coll coll;
	enum gpusim_dtype dtype; /* an integer */
	enum gpusim_redop redop;
	const char *algo;
	uint64_t nelem; /* a multiple of the ranks' number where ranks have parts */
	uint32_t nranks, root;
	bool in_place;
	uint64_t chunk_bytes; /* 0: default */
};

/* Operation number i for so many ranks; one_sided: steps that read peers' memory are possible. */
void chaos_draw_op(uint64_t seed, uint64_t i, uint32_t nranks, bool one_sided,
		   struct chaos_op *out);

/* One line, without newline. */
void chaos_show_op(const struct chaos_op *o, char *out, size_t n);

struct chaos_fault {
	double after;	 /* how long after the fault before it, times the rate */
	uint32_t victim; /* rank victim % nranks */
	bool coordinator;
	struct gpusim_fault f;
};

/* Fault number i, of one of the kinds (bits). frames_of_sends: those of frames wait for a send. */
void chaos_draw_fault(uint64_t seed, uint64_t i, unsigned kinds, bool frames_of_sends,
		      struct chaos_fault *out);
void chaos_show_fault(const struct chaos_fault *f, char *out, size_t n);

/* ---- chaos_data.c */

/* Elements that a rank brings, [0, n). */
void chaos_fill(const struct chaos_op *o, uint32_t rank, void *to, uint64_t n);

/*
 * Is this what a rank must have at its end, if so many ranks took part?
 *
 *	took	their ranks when it began, ascending
 *	me	an index in it
 *	got	chaos_out(o, ntook, took, me) elements
 */
bool chaos_check(const struct chaos_op *o, const uint32_t *took, uint32_t ntook, uint32_t me,
		 const void *got);
uint64_t chaos_out(const struct chaos_op *o, const uint32_t *took, uint32_t ntook, uint32_t me);

/* ---- chaos.c, chaos_operate.c and chaos_comm.c */

#define CHAOS_MAX_RANKS 64

/* Memory of a device: two buffers. */
struct chaos_slot {
	uint64_t device, send, recv;
	bool stale; /* a former communicator may write there: to be given back */
};

struct chaos {
	struct cli *cli;
	struct args *a;	     /* what was not said is filled in */
	struct gpusim *side; /* faults and memory: whose calls end soon */
	struct gpusim_comm_config config;
	unsigned kinds;
	uint32_t want;	   /* ranks */
	uint32_t ndevices; /* all there are at the beginning */
	uint64_t bound_ns;
	pthread_mutex_t lock; /* comm, live: written by the main thread alone; counts of faults */
	pthread_cond_t ended;
	bool ending;
	bool live;
	struct gpusim_comm comm;
	bool by_memory; /* every rank maps every other */
	struct chaos_slot slot[CHAOS_MAX_RANKS];
	unsigned nslots;
	unsigned char *room; /* of each rank, CHAOS_BYTES */
	uint64_t nfaults;    /* drawn */
	double next_fault;   /* in operations, or seconds from start_ns */
	uint64_t start_ns;
	uint64_t did[GPUSIM_NFAULTS], missed, skipped;
	uint64_t ops, good, failed, recovered, comms, wrong, stuck, slowest_ns;
};

/* Have a communicator that works, of as many devices as there are up to c->want. RC_FAILED: there are
 * no two that answer. */
enum rc chaos_settle(struct chaos *c, struct err *err);

/* The first one, over c->want free devices, which may be waited for. */
enum rc chaos_begin(struct chaos *c, struct err *err);

/* Who is in it now. */
enum rc chaos_refresh(struct chaos *c, struct err *err);

/* After a failure: it goes on, or is destroyed. */
void chaos_mend(struct chaos *c);
void chaos_drop(struct chaos *c);

/* Have the ranks do operation number i, and count what became of it. */
void chaos_operate(struct chaos *c, uint64_t i);

/* Where that is said what happens on the way: beside the JSON object, not in it. */
FILE *chaos_aside(const struct chaos *c);

/* The memory of a device. */
struct chaos_slot *chaos_slot_of(struct chaos *c, uint64_t device);

/* ---- chaos_watch.c: what a daemon of this host holds */

struct chaos_usage {
	uint64_t device; /* 0: the coordinator */
	uint32_t pid;
	unsigned fds, threads;
	uint64_t kib; /* private memory */
};

/* All zero when it cannot be read. */
void chaos_usage(uint32_t pid, struct chaos_usage *out);

#endif
