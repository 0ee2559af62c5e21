/*
 * asking.h - mnist-train --eval and --infer: a trained net, one device, answers on standard output.
 */
#ifndef MNIST_ASKING_H
#define MNIST_ASKING_H

#include "train/infer.h"

struct asking {
	const struct train_config *config;
	struct model model;
	struct dataset data; /* of --data; empty where it is the model's task that has it */
};

/* Read the model, and for --eval the data set. Release with asking_fini in any case. RC_BADDATA: they
 * are damaged, or do not go together; RC_FAILED, RC_NOMEM. */
enum rc asking_open(struct asking *a, const struct train_config *config, struct err *err);
void asking_fini(struct asking *a);

/* --eval: accuracy, loss, and what was taken for what; with --json to that file, too. */
enum rc asking_eval(const struct asking *a, struct gpusim *g, struct err *err);

/* --infer: for each sample of the files, of --data's test part or of standard input a line, its class and the
 * probabilities of all. Samples before a wrong one are answered. */
enum rc asking_infer(const struct asking *a, struct gpusim *g, struct err *err);

#endif
