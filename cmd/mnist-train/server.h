/*
 * server.h - mnist-train --sync ps: the process that holds the weights, and those that learn.
 */
#ifndef MNIST_SERVER_H
#define MNIST_SERVER_H

#include "publish.h"
#include "report.h"
#include "saver.h"

/* Train with a parameter server and learners over n devices, one of them the server's. from: NULL, or the
 * checkpoint to go on from. */
enum rc server_run(struct gpusim *g, const struct task *task, uint32_t n,
		   const struct checkpoint *from, struct report *report, struct saver *saver,
		   struct err *err);

/* Be a learner of the server at o->learn. task: NULL: the server feeds the samples. */
enum rc server_learn(const struct train_config *o, const struct task *task, struct err *err);

/* Connect, and wait TASK_AWAY_MS for a coordinator that is away: now, with a line that begins with `who`, and later. */
enum rc server_open(const char *who, struct gpusim **g, struct err *err);

#endif
