/*
 * trainer.h - data-parallel training over the devices of one communicator.
 *
 * Every epoch has one order of the images, from the seed and the epoch alone; global batch s is
 * images [s*n*B, (s+1)*n*B) of it, of which rank r of n computes the r-th part. So what is learnt
 * does not depend on the number of devices where n*B is the same, but for rounding. A last, smaller
 * batch is shared out as evenly as it goes: no image is left out, none is used twice.
 */
#ifndef MNIST_TRAINER_H
#define MNIST_TRAINER_H

#include "gpusim.h"
#include "nn/dataset.h"
#include "options.h"

struct trainer;

/* Device memory that one device needs for this. */
uint64_t trainer_bytes(const struct options *o, const struct dataset *data, uint32_t ndevices);

/* Is the data set one for this model? RC_BADDATA. */
enum rc trainer_check(const struct options *o, const struct dataset *data, struct err *err);

/* Take devices, place buffers, initialise and broadcast the weights, record the graphs. All
 * arguments outlive the trainer. */
enum rc trainer_new(struct gpusim *g, const struct options *o, const struct dataset *data,
		    uint32_t ndevices, struct trainer **out, struct err *err);

/* Give devices back. NULL is legal. */
void trainer_free(struct trainer *t);

struct epoch {
	double loss;		  /* mean over the images, as they were when used */
	double accuracy;	  /* fraction of the test images, after the epoch */
	double seconds;		  /* of training, without the test */
	double compute_s, comm_s; /* mean over the devices */
	double images_per_s;
};

/* Called now and then within an epoch. */
typedef void (*trainer_progress_fn)(void *arg, double fraction);

/* Train one epoch and test. progress may be NULL. */
enum rc trainer_epoch(struct trainer *t, uint32_t epoch, trainer_progress_fn progress, void *arg,
		      struct epoch *out, struct err *err);

/* Fetch the weights, model->nparams of them. */
enum rc trainer_weights(struct trainer *t, float *params, struct err *err);

#endif
