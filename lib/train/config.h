/*
 * config.h - what a training was asked to do: one table for options, configuration files and help.
 */
#ifndef TRAIN_CONFIG_H
#define TRAIN_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"
#include "gpusim.h"
#include "nn/dataset.h"
#include "nn/emit.h"
#include "nn/schedule.h"

#define CONFIG_MAX_WORKERS 64

enum sync {
	SYNC_ALLREDUCE, /* every device trains, gradients are all-reduced */
	SYNC_SENDRECV,	/* rank 0 holds the weights; the others train and send it their gradients */
	SYNC_PS,	/* a parameter server with learners */
	SYNC_LOCAL,	/* every device trains by itself, and now and then weights are averaged */
	SYNC_NKINDS,
};

#define STALENESS_ASYNC UINT32_MAX

struct train_config {
	/* what */
	struct net_config net;
	struct dataset_options dataset;
	const char *data; /* path; NULL: looked for */
	/* how */
	uint32_t epochs, batch; /* batch: images a worker and step */
	double lr;		/* NAN: the optimizer's default */
	double momentum, weight_decay;
	enum optimizer optimizer;
	struct lr_schedule schedule;
	uint64_t seed;
	/* by whom */
	enum sync sync;
	uint32_t devices; /* 0: all there are, or 4 where a cluster is to be started */
	uint32_t nworkers, workers[CONFIG_MAX_WORKERS]; /* who trains; several with --compare */
	uint32_t local_steps;				/* local: average every so many */
	uint32_t ps_aggregate; /* ps: gradients of an update; 0: as many as workers */
	uint32_t staleness;    /* ps: how old a gradient may be; STALENESS_ASYNC: any */
	uint64_t bucket_bytes; /* of gradients that are reduced together; 0: all */
	uint64_t global; /* images of a step on all devices, of a checkpoint; 0: batch * workers */
	const char *algo;
	/* what if */
	const char *checkpoint;	   /* folder; NULL: none */
	uint64_t checkpoint_every; /* steps; 0: at the end of each epoch */
	bool resume;
	enum gpusim_on_failure on_failure;
	/* files */
	const char *json, *save, *load;
};

#endif
