/*
 * publish.h - hand the newest model to the coordinator, which serves it over HTTP.
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
	bool off;	   /* the coordinator serves no models */
};

void publisher_init(struct publisher *p, struct gpusim *g, const struct task *task);

/* Publish; versions of a training grow. A failure is said, and training goes on. arg is the publisher:
 * for struct ps_hooks. */
void publisher_put(void *arg, uint64_t version, const float *values);

/* An epoch, counted from 1, has ended: a point of the curves that the coordinator's page shows. A failure counts for
 * nothing. */
void publisher_epoch(struct publisher *p, uint32_t epoch, const struct epoch *e);

#endif
