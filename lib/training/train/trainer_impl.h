/*
 * trainer_impl.h - shared by the files of the trainer.
 */
#ifndef TRAIN_TRAINER_IMPL_H
#define TRAIN_TRAINER_IMPL_H

#include "train/compress.h"
#include "train/order.h"
#include "train/replica.h"
#include "train/spread.h"
#include "train/trainer.h"

#define MAX_TRIES  5  /* of a unit, with the same devices */
#define MAX_LOSSES 64 /* in a unit */

/* A training step: one graph, or for many leaves several graphs, launched one after the other. */
#define MAX_PARTS 128
struct steps {
	struct gpusim_graph part[MAX_PARTS];
	unsigned nparts; /* 0: no such step */
	uint64_t sent;	 /* bytes of all ranks together for gradients (compress_sent) */
};

/* One tested part: the number of whole batches that every device has, and of further batches. */
struct tests {
	struct steps whole, rest;
	uint64_t full, more;
};

/* The position of the training, between two units. */
struct position {
	uint32_t epoch;	 /* epochs done */
	uint64_t step;	 /* finished steps of this one; if all are finished, the test is due */
	double loss_sum; /* of the images of those steps */
};

/* The copies of the training's state on the devices. There are two, so that one is complete while
 * the other is written. */
struct kept {
	bool any;
	unsigned which; /* the complete copy, on every rank */
	struct position at;
};

/* The failure of a unit, and its cost so far. */
struct trouble {
	uint64_t began_ns;   /* the unit that failed, first */
	uint64_t rebuilt_ns; /* everything is restored, and the unit begins again */
	double rebuild_ms;   /* of that: after the communicator was usable */
	bool over;	     /* trying again is useless */
	char what[512];	     /* the coordinator's message */
};

struct trainer {
	struct gpusim *g;
	struct gpusim *fresh; /* the trainer's own client, in place of the caller's; or NULL */
	/* the client before, until the communicator is opened by `fresh`; or NULL */
	struct gpusim *stale;
	const struct task *task;
	const struct train_config *o; /* the task's, as the next two */
	const struct dataset *data;
	const struct net *net;
	struct trainer_hooks hooks;
	struct shape shape;
	struct spread *spread; /* NULL: every rank has the whole net */
	uint64_t global;       /* images of a step, on all devices together */
	struct position at;
	struct gpusim_comm *comm;
	struct replica *replica;    /* by rank */
	struct gpusim_addr *addrs;  /* by rank, of one collective */
	struct gpusim_addr *totals; /* by rank, where its results go elsewhere */
	struct emit_place *places;  /* by rank, of one graph, as the next three */
	struct emit_target *targets;
	uint64_t *rows;
	struct gpusim_times *times; /* by rank, of one launch */
	struct steps train, train_rest;
	struct gpusim_graph average; /* of SYNC_LOCAL */
	uint64_t average_sent;	     /* its bytes, as those of a step */
	struct compress_phase phase; /* of the graphs */
	struct tests tests[NTESTS];
	uint64_t full_steps, rest; /* whole batches of an epoch; images left over */
	uint64_t fed;		   /* the epoch whose order the devices have, from 1; 0: none */
	uint32_t planned;	   /* the ranks whose test images the devices have; 0: none */
	double step_s;		   /* duration of a step; 0: unknown */
	uint64_t nonce;		   /* the stamp of this trainer in devices' memory */
	struct kept kept;
	uint8_t *host; /* the host's copy; live_bytes of a replica */
	struct position host_at;
	/* of a checkpoint, by rank: from `extra` of a replica on */
	struct checkpoint_bytes host_own;
	bool distrust;		      /* the devices' allocations may be lost: allocate all again */
	struct gpusim_device refused; /* a device that could not join */
	uint32_t *order;
	/* For the shape: */
	uint32_t *mine;	  /* of one device: the numbers of its images, in the order of use */
	uint8_t *labels;  /* of these images */
	uint32_t *draws;  /* their augmentation (nn/augment.h) */
	uint8_t *staging; /* the samples themselves, if they are not resident; else NULL */
	float *rates;	  /* of the epoch's steps */
	float *losses;	  /* of one device */
	double *sums;	  /* by step: over the devices */
	uint64_t *right;
};

/* The number of n things that are rank's, in groups of `whole`. */
static inline uint64_t
share(uint64_t n, uint32_t whole, uint32_t rank, uint32_t nranks)
{
	uint64_t begin, end;

	order_share(n, whole, rank, nranks, &begin, &end);
	return end - begin;
}

/* Return true if rank 0 holds the weights, and only the others train. */
static inline bool
central(const struct trainer *t)
{
	return t->o->sync == SYNC_SENDRECV && gpusim_comm_count(t->comm) > 1;
}

/* The number of ranks that divide samples among them; and which of these a rank is: several may be one, in a grid. */
static inline uint32_t
seats(const struct trainer *t)
{
	return t->spread ? t->spread->grid.dp : gpusim_comm_count(t->comm);
}

static inline uint32_t
seat(const struct trainer *t, uint32_t rank)
{
	return t->spread ? grid_at(&t->spread->grid, rank).d : rank;
}

/* The number of n training samples or batches that a rank uses. */
static inline uint64_t
trained_by(const struct trainer *t, uint64_t n, uint32_t rank)
{
	uint32_t whole = task_leaf(t->task);

	if (!central(t))
		return share(n, whole, seat(t, rank), seats(t));
	return rank ? share(n, whole, rank - 1, seats(t) - 1) : 0;
}

/* The number of samples of a tested part that are rank's. */
static inline uint64_t
tested_by(const struct trainer *t, unsigned part, uint32_t rank)
{
	return share(tested_part(t->data, part)->nitems, task_tested_whole(t->task), seat(t, rank),
		     seats(t));
}

/* Steps since the beginning. */
static inline uint64_t
steps_done(const struct trainer *t)
{
	return t->at.epoch * t->shape.train_steps + t->at.step;
}

/* Rows of a test batch. */
static inline uint64_t
test_rows(const struct trainer *t)
{
	return t->spread ? spread_test_rows(t->spread) : task_test_rows(t->task);
}

/* Does a rank report losses and right answers? One of those that compute them. */
static inline bool
reports(const struct trainer *t, uint32_t rank)
{
	const struct spread *s = t->spread;
	struct grid_place at;

	if (!s)
		return true;
	at = grid_at(&s->grid, rank);
	return rank < grid_size(&s->grid) && at.t == 0 &&
	       at.p == s->schedule->rank_of[s->schedule->nstages - 1];
}

/* Return true if every device has all training images, or gets those of an epoch with their order. */
static inline bool
resident(const struct trainer *t)
{
	return t->shape.held == t->data->train.nitems;
}

/* Return true if training goes on when a device is lost. */
static inline bool
recovers(const struct trainer *t)
{
	return t->o->on_failure != GPUSIM_ON_FAILURE_ABORT;
}

#define CALL_MS 120000 /* for any one call but: */

/* The timeout of a launch. A launch may be a whole epoch, and stuck devices are noticed long
 * before; a unit that may be lost is short. */
static inline uint32_t
launch_timeout_ms(const struct trainer *t)
{
	return recovers(t) ? CALL_MS : 3600000;
}

/* ---- place.c */

/* The sizes of replicas on n devices; resident: all training samples are on each. */
struct shape make_shape(const struct task *task, uint64_t global, uint32_t ndevices, bool resident,
			const struct spread *spread);

/* Do the replicas fit the current ranks? */
bool shape_fits(const struct trainer *t);

/* Allocate again on every rank, or on one with the same shape; with all training images, or only those of
 * an epoch if memory is short. place_all chooses the shape and allocates the host's buffers. */
enum rc place_all(struct trainer *t, struct err *err);
enum rc place_one(struct trainer *t, uint32_t rank, struct err *err);
void give_back(struct trainer *t, uint32_t rank);
void free_host(struct trainer *t);

/* Upload each device's share of the tested images. */
enum rc upload_tests(struct trainer *t, struct err *err);

/* ---- weights.c */

/* The host's copy: the initial state of a training, or a checkpoint. */
enum rc weights_begin(struct trainer *t, const struct checkpoint *from, struct err *err);

/* RC_RECOVERED if the communicator has changed since the graphs were recorded. */
enum rc check_members(struct trainer *t, struct err *err);

/* Copy the state of a spread training to the host. */
enum rc weights_keep(struct trainer *t, struct err *err);

/* Copy the state from the host to all devices; from a device to the host. */
enum rc weights_load(struct trainer *t, struct err *err);
enum rc weights_fetch(struct trainer *t, uint32_t rank, uint64_t addr, struct position at,
		      struct err *err);

/* Copy from the first device that answers; all have the same state. */
enum rc weights_fetch_any(struct trainer *t, struct err *err);

/* ---- record.c: graphs of a step and of a test, each moving over whole batches, and for the rest. */
enum rc record_graphs(struct trainer *t, struct err *err);
void forget_graphs(struct trainer *t);

/* ---- feed.c: send every device its images of this epoch, and the learning rates. */
enum rc feed(struct trainer *t, struct err *err);

/* A rank's part of a global batch: a whole one, moving, or the rest at the end of an epoch; of a test batch. */
struct batch train_batch(const struct trainer *t, bool moving, uint32_t rank);
struct batch test_batch(const struct trainer *t, unsigned part, uint64_t number, bool moving,
			uint32_t rank);

/* ---- recover.c */

/* Make the devices of the communicator ready for the position: memory, images, weights, graphs. */
enum rc rebuild(struct trainer *t, bool scratch, struct err *err);

/* Keep the position and a copy of the state, on every rank. */
enum rc keep(struct trainer *t, struct err *err);

/* Set up the ranks of a new communicator. */
void members_begin(struct trainer *t);

/* After a failure: wait until the communicator is usable, and go back to the kept copies. scratch:
 * trust only the kept copies on the devices. */
enum rc recover(struct trainer *t, bool scratch, struct trouble *trouble, struct err *err);

/* Called for a failure that ends the training: a device could not be called. A barrier lets the coordinator
 * find the rank, and the communicator's status has the reason, which goes to *err. Returns rc. */
enum rc name_lost(struct trainer *t, enum rc rc, struct err *err);

/* Take in devices that offer themselves. */
enum rc take_in(struct trainer *t, struct err *err);

#endif
