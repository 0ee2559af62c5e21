/*
 * server.h - mnist-train --sync ps: the process that holds the weights, and the learners.
 */
#ifndef MNIST_SERVER_H
#define MNIST_SERVER_H

#include "publish.h"
#include "report.h"
#include "saver.h"

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
