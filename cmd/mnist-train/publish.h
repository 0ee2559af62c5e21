/*
 * publish.h - send the newest model to the coordinator, which serves it over HTTP.
 */
#ifndef MNIST_PUBLISH_H
#define MNIST_PUBLISH_H

#include "gpusim.h"
#include "train/task.h"
#include "train/trainer.h"

struct publisher {
	struct gpusim *g;
	const struct task *task;
	uint64_t training; /* random */
	uint64_t version;  /* of the model that was published last */
	bool off;	   /* the coordinator does not serve models */
};

void publisher_init(struct publisher *p, struct gpusim *g, const struct task *task);

/* Publish a model; a training's versions grow. A failure is logged, and training continues. arg is the
 * publisher, as in struct ps_hooks. */
void publisher_put(void *arg, uint64_t version, const float *values);

/* Publish an epoch, counted from 1, as a point of the curves on the coordinator's page. A failure is
 * ignored. */
void publisher_epoch(struct publisher *p, uint32_t epoch, const struct epoch *e);

#endif
