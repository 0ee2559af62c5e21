/*
 * publish.h - hand the newest model to the coordinator, which serves it over HTTP.
 */
#ifndef MNIST_PUBLISH_H
#define MNIST_PUBLISH_H

#include "gpusim.h"
#include "train/task.h"

struct publisher {
	struct gpusim *g;
	const struct task *task;
	uint64_t training; /* random */
	bool off;	   /* the coordinator serves no models */
};

void publisher_init(struct publisher *p, struct gpusim *g, const struct task *task);

/* Publish; versions of a training grow. A failure is said, and training goes on. arg is the publisher:
 * for struct ps_hooks. */
void publisher_put(void *arg, uint64_t version, const float *values);

#endif
