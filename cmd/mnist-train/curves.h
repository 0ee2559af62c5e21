/*
 * curves.h - --plot: loss and accuracy over epochs, into a file at the end, or on the terminal while it trains.
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

/* Before hours are spent. quiet: nothing is printed. RC_INVAL, RC_FAILED: the file cannot be made; RC_NOMEM. */
enum rc curves_open(struct curves *c, const struct train_config *o, struct err *err);

/* Take the curves off the terminal before anything else is printed there, and put them back behind it. */
void curves_lift(struct curves *c);
void curves_drop(struct curves *c);

/* RC_NOMEM. */
enum rc curves_epoch(struct curves *c, uint32_t number, const struct epoch *e, struct err *err);

/* Draw, if there was an epoch. Errors: plot_show's. */
enum rc curves_close(struct curves *c, struct err *err);

#endif
