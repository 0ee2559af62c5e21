/*
 * trainer.h - data-parallel training over the devices of one communicator.
 *
 * Every epoch has one order of the images, from the seed and the epoch alone; global batch s is
 * images [s*G, (s+1)*G) of it, and worker r of n computes the r-th part of it. G is --batch times the
 * workers at the beginning, and stays when workers join or leave. So the result does not depend on
 * the number of devices, except for rounding. A last, smaller batch is divided as evenly as
 * possible: no image is left out, none is used twice.
 *
 * A position is the number of finished epochs and the number of finished steps of the current one. Training
 * is cut into units: some steps, in one launch; or, after all steps, the test. Between two units the
 * devices agree, and weights, optimizer state and position are the whole state of the training. Checkpoints
 * hold it, and devices keep a copy of it if training is to continue after a lost device.
 */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "gpusim.h"
#include "train/task.h"

struct trainer;

/* Device memory that one of ndevices devices needs. global: images of a step; 0: as configured. */
uint64_t trainer_bytes(const struct task *task, uint64_t global, uint32_t ndevices);

/* The trainer calls these within an epoch; each may be NULL. */
struct trainer_hooks {
	void *arg;
	void (*progress)(void *arg, double fraction);	  /* of the epoch's steps */
	void (*checkpoint)(void *arg, struct trainer *t); /* one is due */
	void (*event)(void *arg, const char *text);	  /* a device was lost, or joined: a line */
};

/*
 * Take devices, place buffers, initialise and broadcast the weights, record the graphs.
 *
 *	from the checkpoint to resume from, or NULL; not used after the call
 *
 * All other arguments outlive the trainer.
 */
enum rc trainer_new(struct gpusim *g, const struct task *task, uint32_t ndevices,
		    const struct checkpoint *from, const struct trainer_hooks *hooks,
		    struct trainer **out, struct err *err);

/* Give devices back. NULL is legal. */
void trainer_free(struct trainer *t);

/* The number of its devices: at the beginning as many as requested, unless one was already lost. */
uint32_t trainer_devices(const struct trainer *t);

/* The number of finished epochs; steps since the beginning. */
uint32_t trainer_epochs(const struct trainer *t);
uint64_t trainer_steps(const struct trainer *t);

struct epoch {
	double loss;		  /* mean over the images at the time of their use */
	double accuracy;	  /* fraction of the test images, after the epoch */
	double validation;	  /* fraction of the validation images; NAN: none */
	double seconds;		  /* of training, without the test */
	double compute_s, comm_s; /* mean over the devices */
	double images_per_s;
	/* That all devices together send for gradients or weights (compress_sent), and would send if every
	 * step all-reduced its gradients. */
	uint64_t sent_bytes, allreduce_bytes;
	double loss_scale;	/* at its end; 0: the loss is not scaled */
	uint32_t skipped_steps; /* since the training began: a gradient was infinite or NaN */
};

/* Train one epoch, or the rest of it, and test. */
enum rc trainer_epoch(struct trainer *t, struct epoch *out, struct err *err);

/* Fetch the weights, task_values of them, between two epochs. Recovers if a device is lost.
 * RC_RECOVERED: the weights are lost; the trainer went back to an earlier position. */
enum rc trainer_weights(struct trainer *t, float *params, struct err *err);

/* Fetch the whole state of the training, between two units; *out is released with checkpoint_fini. */
enum rc trainer_state(struct trainer *t, struct checkpoint *out, struct err *err);

#endif
