/*
 * trainer_impl.h - what the files of the trainer share.
 */
#ifndef MNIST_TRAINER_IMPL_H
#define MNIST_TRAINER_IMPL_H

#include "replica.h"
#include "trainer.h"

#define TEST_BATCH 256

/* Where training is, between two units. */
struct position {
	uint32_t epoch;	 /* epochs done */
	uint64_t step;	 /* steps done of this one; all of them: the test is due */
	double loss_sum; /* of the images of those steps */
};

struct trainer {
	struct gpusim *g;
	const struct options *o;
	const struct dataset *data;
	struct trainer_hooks hooks;
	struct shape shape;
	uint64_t global; /* images of a step, on all devices together */
	struct position at;
	struct gpusim_comm comm;
	struct replica *replica;    /* by rank */
	uint64_t *addrs;	    /* by rank, of one collective */
	struct gpusim_times *times; /* by rank, of one launch */
	uint64_t train, train_rest; /* graphs; 0: not needed */
	uint64_t test, test_rest;
	uint64_t full_steps, rest; /* whole batches of an epoch; images left over */
	uint64_t full_tests;	   /* whole test batches of every device */
	uint32_t *order;
	uint32_t *mine;	  /* of one device: which of its images, in the order of use */
	uint8_t *labels;  /* theirs */
	uint8_t *staging; /* and the images themselves, if they are not resident; else NULL */
	float *losses;	  /* of one device */
	double *sums;	  /* by step: over the devices */
	uint64_t *right;
};

/* gpusim's rc and sentence as ours. */
static inline enum rc
check(enum gpusim_rc rc, struct err *err)
{
	return rc == GPUSIM_OK ? RC_OK : err_set(err, (enum rc)rc, "%s", gpusim_error());
}

/* How many of n things are rank's. */
static inline uint64_t
share(uint64_t n, uint32_t rank, uint32_t nranks)
{
	uint32_t begin, end;

	dataset_share((uint32_t)n, rank, nranks, &begin, &end);
	return end - begin;
}

/* Whether every device has all training images, or gets those of an epoch with their order. */
static inline bool
resident(const struct trainer *t)
{
	return t->shape.held == t->data->train.nitems;
}

/* place.c: memory of the devices, and what lies there from beginning to end. */

/* The sizes of replicas; resident: all training images are on each device. */
struct shape make_shape(const struct options *o, const struct dataset *data, uint64_t global,
			uint32_t ndevices, bool resident);
enum rc place(struct trainer *t, struct err *err);
void give_back(struct trainer *t);
/* The images that stay. */
enum rc upload_data(struct trainer *t, struct err *err);
/* The weights a training begins with, or all of a checkpoint, on all devices. */
enum rc init_weights(struct trainer *t, struct err *err);
enum rc load_weights(struct trainer *t, const struct checkpoint *c, struct err *err);

/* record.c: graphs of a step and of a test, each moving over whole batches and for the rest. */
enum rc record_graphs(struct trainer *t, struct err *err);

/* feed.c: tell every device which images it uses in this epoch, and how. */
enum rc feed(struct trainer *t, struct err *err);

#endif
