/*
 * server.h - mnist-train --sync ps: the process that holds the weights, and the learners.
 */
#ifndef MNIST_SERVER_H
#define MNIST_SERVER_H

#include "gpusim.h"
#include "report.h"
#include "saver.h"
#include "train/task.h"
#include "train/trainer.h"

/* Send the newest model to the coordinator, which serves it over HTTP. */
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

/* Train with a parameter server and learners over n devices, one of them for the server. from: NULL, or the
 * checkpoint to continue from. */
enum rc server_run(struct gpusim *g, const struct task *task, uint32_t n,
		   const struct checkpoint *from, struct report *report, struct saver *saver,
		   struct err *err);

/* Run a learner of the server at o->learn. task NULL: the server sends the samples. */
enum rc server_learn(const struct train_config *o, const struct task *task, struct err *err);

/* Connect, and wait TASK_AWAY_MS for a coordinator that is away, now and in later calls; `who` begins the
 * message. */
enum rc server_open(const char *who, struct gpusim **g, struct err *err);

#endif
