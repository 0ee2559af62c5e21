/*
 * options.h - what mnist-train was asked to do.
 */
#ifndef MNIST_OPTIONS_H
#define MNIST_OPTIONS_H

#include <stdbool.h>

#include "base/rc.h"
#include "nn/model.h"

enum optimizer { OPTIMIZER_SGD, OPTIMIZER_ADAM };

struct options {
	struct model model;
	uint32_t devices; /* 0: all there are, or 4 where a cluster is to be started */
	uint32_t epochs, batch;
	double lr; /* NAN: the optimizer's default */
	double momentum, weight_decay;
	enum optimizer optimizer;
	uint64_t seed;
	uint64_t bucket_bytes; /* of gradients that are reduced together; 0: all */
	uint64_t global; /* images of a step on all devices, of a checkpoint; 0: batch * devices */
	const char *checkpoint;	   /* folder; NULL: none */
	uint64_t checkpoint_every; /* steps; 0: at the end of each epoch */
	bool resume;
	enum gpusim_on_failure on_failure;
	const char *algo, *data, *json, *save;
};

/* Parse; ends the program for -h and -V. */
enum rc options_parse(int argc, char **argv, struct options *o, struct err *err);

#endif
