/*
 * trainer_impl.h - what the files of the trainer share.
 */
#ifndef TRAIN_TRAINER_IMPL_H
#define TRAIN_TRAINER_IMPL_H

#include "train/order.h"
#include "train/replica.h"
#include "train/trainer.h"

#define MAX_TRIES  5  /* of a unit, with the same devices */
#define MAX_LOSSES 64 /* in a unit */

/* Graphs of one part that is tested, how many whole batches of it every device has, and how many more it takes. */
struct tests {
	struct gpusim_graph whole, rest; /* 0: not needed */
	uint64_t full, more;
};

/* A step of training: one graph, or of many leaves several, that are launched one after the other. */
#define MAX_PARTS 128
struct steps {
	struct gpusim_graph part[MAX_PARTS];
	unsigned nparts; /* 0: there is no such step */
};

/* Where training is, between two units. */
struct position {
	uint32_t epoch;	 /* epochs done */
	uint64_t step;	 /* steps done of this one; all of them: the test is due */
	double loss_sum; /* of the images of those steps */
};

/* The copies on the devices of what training changes. There are two, so that one is whole while the
 * other is written. */
struct kept {
	bool any;
	unsigned which; /* the whole one, on every rank */
	struct position at;
};

/* The failure of a unit, and its cost so far. */
struct trouble {
	uint64_t began_ns;   /* the unit that failed, first */
	uint64_t rebuilt_ns; /* everything is back, and the unit begins again */
	double rebuild_ms;   /* of that: after the communicator was usable */
	bool over;	     /* it is of no use to try again */
	char what[512];	     /* the coordinator's words */
};

struct trainer {
	struct gpusim *g;
	struct gpusim *fresh; /* ours, in place of the one we were given; or NULL */
	struct gpusim *
	    stale; /* the one before, until the communicator is opened with the fresh one; or NULL */
	const struct task *task;
	const struct train_config *o; /* the task's, as the next two */
	const struct dataset *data;
	const struct net *net;
	struct trainer_hooks hooks;
	struct shape shape;
	uint64_t global; /* images of a step, on all devices together */
	struct position at;
	struct gpusim_comm *comm;
	struct replica *replica;    /* by rank */
	struct gpusim_addr *addrs;  /* by rank, of one collective */
	struct gpusim_addr *totals; /* by rank, where its results go elsewhere */
	struct emit_place *places;  /* by rank, of one graph, as the next three */
	struct emit_target *targets;
	struct batch *batches;
	uint64_t *rows;
	struct gpusim_times *times; /* by rank, of one launch */
	struct steps train, train_rest;
	struct gpusim_graph average; /* of SYNC_LOCAL */
	struct tests tests[NTESTS];
	uint64_t full_steps, rest; /* whole batches of an epoch; images left over */
	uint64_t fed;		   /* the epoch whose order the devices have, from 1; 0: none */
	uint32_t planned;	   /* the ranks whose test images the devices have; 0: none */
	double step_s;		   /* a step takes so long; 0: not known */
	uint64_t nonce;		   /* this trainer's stamp in devices' memory */
	struct kept kept;
	uint8_t *host; /* the host's copy; live_bytes of a replica */
	struct position host_at;
	bool distrust;		      /* the devices' allocations may go: place all anew */
	struct gpusim_device refused; /* a device that could not be taken in */
	uint32_t *order;
	/* For the shape: */
	uint32_t *mine;	  /* of one device: which of its images, in the order of use */
	uint8_t *labels;  /* theirs */
	uint32_t *draws;  /* what becomes of them (nn/augment.h) */
	uint8_t *staging; /* and the samples themselves, if they are not resident; else NULL */
	float *rates;	  /* of the epoch's steps */
	float *losses;	  /* of one device */
	double *sums;	  /* by step: over the devices */
	uint64_t *right;
};

/* How many of n things are rank's, when `whole` of them are not separated. */
static inline uint64_t
share(uint64_t n, uint32_t whole, uint32_t rank, uint32_t nranks)
{
	uint64_t begin, end;

	order_share(n, whole, rank, nranks, &begin, &end);
	return end - begin;
}

/* Whether rank 0 holds the weights, and only the others train. */
static inline bool
central(const struct trainer *t)
{
	return t->o->sync == SYNC_SENDRECV && gpusim_comm_count(t->comm) > 1;
}

/* Of n things that are trained with, how many rank uses. */
static inline uint64_t
trained_by(const struct trainer *t, uint64_t n, uint32_t rank)
{
	uint32_t whole = task_leaf(t->task), nranks = gpusim_comm_count(t->comm);

	if (!central(t))
		return share(n, whole, rank, nranks);
	return rank ? share(n, whole, rank - 1, nranks - 1) : 0;
}

/* Of a part that is tested, how many samples are rank's. */
static inline uint64_t
tested_by(const struct trainer *t, unsigned part, uint32_t rank)
{
	return share(tested_part(t->data, part)->nitems, task_tested_whole(t->task), rank,
		     gpusim_comm_count(t->comm));
}

/* Whether every device has all training images, or gets those of an epoch with their order. */
static inline bool
resident(const struct trainer *t)
{
	return t->shape.held == t->data->train.nitems;
}

/* Whether training goes on when a device is lost. */
static inline bool
recovers(const struct trainer *t)
{
	return t->o->on_failure != GPUSIM_ON_FAILURE_ABORT;
}

#define CALL_MS 120000 /* for any one call but: */

/* For a launch. An epoch may be one, and devices that are stuck are found out long before; a unit that may
 * be lost is short. */
static inline uint32_t
launch_timeout_ms(const struct trainer *t)
{
	return recovers(t) ? CALL_MS : 3600000;
}

/* ---- place.c */

/* The sizes of replicas on n devices; resident: all training samples are on each. */
struct shape make_shape(const struct task *task, uint64_t global, uint32_t ndevices, bool resident);

/* Would the replicas do for the ranks there are now? */
bool shape_fits(const struct trainer *t);

/* Allocate anew on every rank, or on one of the same shape; with all training images, or where there
 * is no memory for them with those of an epoch. place_all chooses the shape and the host's buffers
 * for it. */
enum rc place_all(struct trainer *t, struct err *err);
enum rc place_one(struct trainer *t, uint32_t rank, struct err *err);
void give_back(struct trainer *t, uint32_t rank);
void free_host(struct trainer *t);

/* Once a device, if they are resident; each device's share, for the ranks there are. */
enum rc upload_images(struct trainer *t, uint32_t rank, struct err *err);
enum rc upload_tests(struct trainer *t, struct err *err);

/* ---- weights.c */

/* The host's copy: what a training begins with, or a checkpoint. */
enum rc weights_begin(struct trainer *t, const struct checkpoint *from, struct err *err);

/* From the host to all devices; from a device to the host. */
enum rc weights_load(struct trainer *t, struct err *err);
enum rc weights_fetch(struct trainer *t, uint32_t rank, uint64_t addr, struct position at,
		      struct err *err);

/* ---- record.c: graphs of a step and of a test, each moving over whole batches and for the rest. */
enum rc record_graphs(struct trainer *t, struct err *err);
void forget_graphs(struct trainer *t);

/* ---- feed.c: tell every device which images it uses in this epoch, and how. */
enum rc feed(struct trainer *t, struct err *err);

/* ---- unit.c: some steps, or the test; the position moves when all is well. */
enum rc unit_run(struct trainer *t, struct epoch *e, struct err *err);

/* ---- recover.c */

/* Make the devices of the communicator ready for the position: memory, images, weights, graphs. */
enum rc rebuild(struct trainer *t, bool scratch, struct err *err);

/* Remember the position and what training has changed, on every rank. */
enum rc keep(struct trainer *t, struct err *err);

/* The ranks of a communicator that is new. */
enum rc members_begin(struct trainer *t, struct err *err);

/* RC_RECOVERED when the communicator is not what it was when the graphs were recorded. */
enum rc check_members(struct trainer *t, struct err *err);

/* After a failure: wait until the communicator is usable, and go back to what was kept. scratch: trust
 * nothing on the devices but the kept copies. */
enum rc recover(struct trainer *t, bool scratch, struct trouble *trouble, struct err *err);

/* Of a failure with which training ends: a device could not be called. A barrier shows the coordinator which
 * rank that is, and the communicator's status why it was lost; *err says that then. Returns rc. */
enum rc name_lost(struct trainer *t, enum rc rc, struct err *err);

/* Take in devices that offer themselves. */
enum rc take_in(struct trainer *t, struct err *err);

#endif
