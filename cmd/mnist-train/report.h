/*
 * report.h - the output of training: a line for each epoch, a bar on a terminal, a JSON object for each
 * epoch, curves.
 */
#ifndef MNIST_REPORT_H
#define MNIST_REPORT_H

#include <stdio.h>

#include "plot/plot.h"
#include "train/trainer.h"

/*
 * --plot: plot loss and accuracy over epochs, to a file at the end or on the terminal during
 * training.
 */

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

struct report {
	uint32_t epochs, epoch;	  /* the current one counts from 1 */
	bool bar;		  /* stderr is a terminal */
	FILE *json;		  /* or NULL */
	struct curves curves;	  /* of --plot */
	const char *method;	  /* that sends less than all-reduce; or NULL */
	uint64_t sent, allreduce; /* bytes, as in struct epoch */
};

/*
 * report_streams - open --json's file in *json, NULL for none; all else goes to standard output.
 *
 * With --json - the file is standard output, and what is printed to stdout goes to standard error; with
 * --quiet nowhere. Call it before anything is printed. more: append to the file. RC_FAILED.
 */
enum rc report_streams(const struct train_config *o, bool more, FILE **json, struct err *err);

/* Begin after `done` epochs. Create the JSON file, if any; with --resume append to it. RC_FAILED: that
 * file, or the one of --save or --plot, cannot be made. */
enum rc report_open(struct report *r, const struct train_config *o, uint32_t done, struct err *err);

/* Print the first line; n and what: "4", "device". In an MPI job only rank 0 does. */
void report_start(const struct task *task, uint32_t n, const char *what);

/* Print a warning if batch norm makes this many workers learn something else than --sync allreduce. */
void report_differs(const struct task *task, uint32_t nworkers);

/* Print the digest of a deterministic training's final weights (net_digest). */
void report_weights(const struct task *task, const float *params);

/* Draw the bar; fraction: the part of the epoch's steps that is done. */
void report_progress(const struct report *r, double fraction);

/* Print a line about an event within the epoch. */
void report_event(struct report *r, const char *text);

/* One epoch has ended. RC_FAILED: the JSON file is full. */
enum rc report_epoch(struct report *r, const struct epoch *e, struct err *err);

/* Draw --plot, and close; RC_FAILED when something could not be written, stdout included. */
enum rc report_close(struct report *r, struct err *err);

#endif
