/*
 * curves.h - --plot: plot loss and accuracy over epochs, to a file at the end or on the terminal during
 * training.
 */
#ifndef MNIST_CURVES_H
#define MNIST_CURVES_H

#include "plot/plot.h"
#include "train/trainer.h"

/* {0}: no --plot. */
struct curves {
	const char *path;
	struct plot plot;
	unsigned rows;	/* of a panel, on a terminal; 0: only at the end */
	unsigned drawn; /* lines on the terminal, above the cursor */
};

/* Check --plot before hours are spent. RC_INVAL, RC_FAILED: the file cannot be made. */
enum rc curves_open(struct curves *c, const struct train_config *o, struct err *err);

/* Erase the curves from the terminal before anything else is printed there, and draw them again after it. */
void curves_lift(struct curves *c);
void curves_drop(struct curves *c);

void curves_epoch(struct curves *c, uint32_t number, const struct epoch *e);

/* Draw, if an epoch has ended. Errors: those of plot_show. */
enum rc curves_close(struct curves *c, struct err *err);

#endif
