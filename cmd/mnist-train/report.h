/*
 * report.h - what training says: a line an epoch, a bar on a terminal, a JSON object an epoch, curves.
 */
#ifndef MNIST_REPORT_H
#define MNIST_REPORT_H

#include <stdio.h>

#include "curves.h"
#include "train/trainer.h"

struct report {
	uint32_t epochs, epoch; /* the current one counts from 1 */
	bool bar;		/* stderr is a terminal */
	FILE *json;		/* or NULL */
	struct curves curves;	/* of --plot */
};

/*
 * report_streams - who prints where: --json's file in *json, NULL for none; standard output for all else.
 *
 * With --json - the former is standard output, and what is printed to stdout goes to standard error; with
 * --quiet nowhere. Before anything is printed. more: add to the file. RC_FAILED.
 */
enum rc report_streams(const struct train_config *o, bool more, FILE **json, struct err *err);

/* After so many epochs. Create the JSON file if one is wanted; with --resume it is added to.
 * RC_FAILED: it, or the file of --save or --plot, cannot be made. */
enum rc report_open(struct report *r, const struct train_config *o, uint32_t done, struct err *err);

/* The first line: on how many of what. Rank 0's alone, where there are ranks. */
void report_start(const struct task *task, uint32_t n, const char *what);

/* A warning if batch norm makes this many workers learn something else than --sync allreduce. */
void report_differs(const struct task *task, uint32_t nworkers);

/* The part of the epoch's steps that is done. */
/* Of a deterministic training, the digest of its final weights (net_digest). */
void report_weights(const struct task *task, const float *params);

void report_progress(const struct report *r, double fraction);

/* Something worth a line has happened within it. */
void report_event(struct report *r, const char *text);

/* One epoch has ended. RC_FAILED: the JSON file is full. */
enum rc report_epoch(struct report *r, const struct epoch *e, struct err *err);

/* Draw --plot, and close; RC_FAILED when something could not be written, stdout included. */
enum rc report_close(struct report *r, struct err *err);

#endif
