/*
 * asking.h - mnist-train --eval and --infer: run a trained net on one device, and print answers.
 */
#ifndef MNIST_ASKING_H
#define MNIST_ASKING_H

#include "train/infer.h"

struct asking {
	const struct train_config *config;
	struct model model;
	struct dataset data; /* of --data; empty if the model's task has it */
};

/* Read the model, and for --eval the data set. Release with asking_fini in any case. RC_BADDATA: they are
 * damaged, or do not fit each other; RC_FAILED. */
enum rc asking_open(struct asking *a, const struct train_config *config, struct err *err);
void asking_fini(struct asking *a);

/* --eval: print accuracy, loss and the confusion matrix; with --json also to that file. */
enum rc asking_eval(const struct asking *a, struct gpusim *g, struct err *err);

/* --infer: print a line for each sample of the files, of --data's test part or of standard input: its class
 * and the probabilities of all classes. Samples before a malformed one are answered. */
enum rc asking_infer(const struct asking *a, struct gpusim *g, struct err *err);

#endif
