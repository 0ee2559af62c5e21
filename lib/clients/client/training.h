/*
 * training.h - for mnist-train: report a training's progress to the coordinator. Not part of gpusim.h.
 */
#ifndef CLIENT_TRAINING_H
#define CLIENT_TRAINING_H

#include "gpusim.h"

struct client_training {
	uint64_t training; /* random for each training, never 0 */
	const char *name;  /* of its network */
	uint32_t epoch, epochs;
	uint64_t step;
	double loss;	 /* mean of the epoch */
	double accuracy; /* share of the test set, 0 to 1 */
	double rate;	 /* samples a second */
};

/* GPUSIM_INVAL: the coordinator shows no curves; other errors as gpusim_model_put. */
enum gpusim_rc client_training_put(struct gpusim *g, const struct client_training *t);

#endif
