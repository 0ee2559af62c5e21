/*
 * trainer.h - data-parallel training over the devices of one communicator.
 *
 * Every epoch has one order of the images, from the seed and the epoch alone; global batch s is
 * images [s*G, (s+1)*G) of it, of which worker r of n computes the r-th part. G is --batch times the
 * workers at the beginning, and stays when there are more or fewer. So what is learnt does not
 * depend on the number of devices, but for rounding. A last, smaller batch is shared out as evenly
 * as it goes: no image is left out, none is used twice.
 *
 * A position is a number of epochs done and of steps of the one begun. Training is cut into units:
 * some steps, in one launch; or, when all are done, the test. Between two units the devices agree,
 * and weights, optimizer state and position are all there is to go on from: that is what checkpoints
 * hold, and what devices keep beside it when training is to go on after a device is lost.
 */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "gpusim.h"
#include "train/task.h"

struct trainer;

/* Device memory that one of ndevices devices needs. global: images of a step, or 0: as many
 * as the configuration says. */
uint64_t trainer_bytes(const struct task *task, uint64_t global, uint32_t ndevices);

/* The trainer calls these within an epoch; each may be NULL. */
struct trainer_hooks {
	void *arg;
	void (*progress)(void *arg, double fraction);	  /* of the epoch's steps */
	void (*checkpoint)(void *arg, struct trainer *t); /* one is due */
	void (*event)(void *arg, const char *text);	  /* a device was lost, or came: a line */
};

/*
 * Take devices, place buffers, initialise and broadcast the weights, record the graphs.
 *
 *	from	the checkpoint to go on from, or NULL; not used after the call
 *
 * All other arguments outlive the trainer.
 */
enum rc trainer_new(struct gpusim *g, const struct task *task, uint32_t ndevices,
		    const struct checkpoint *from, const struct trainer_hooks *hooks,
		    struct trainer **out, struct err *err);

/* Give devices back. NULL is legal. */
void trainer_free(struct trainer *t);

/* Devices that it has: at the beginning as many as were asked for, unless one was lost by then. */
uint32_t trainer_devices(const struct trainer *t);

/* Epochs that are done; steps since the beginning. */
uint32_t trainer_epochs(const struct trainer *t);
uint64_t trainer_steps(const struct trainer *t);

struct epoch {
	double loss;		  /* mean over the images, as they were when used */
	double accuracy;	  /* fraction of the test images, after the epoch */
	double validation;	  /* fraction of the validation part's; NAN: it is empty */
	double seconds;		  /* of training, without the test */
	double compute_s, comm_s; /* mean over the devices */
	double images_per_s;
};

/* Train one epoch, or the rest of it, and test. */
enum rc trainer_epoch(struct trainer *t, struct epoch *out, struct err *err);

/* Fetch the weights, task_values of them, between two epochs. A lost device is recovered from. RC_RECOVERED: no device has them any more;
 * the trainer went back to an earlier position. */
enum rc trainer_weights(struct trainer *t, float *params, struct err *err);

/* Fetch all there is to go on from, between two units; *out is released with checkpoint_fini. */
enum rc trainer_state(struct trainer *t, struct checkpoint *out, struct err *err);

#endif
