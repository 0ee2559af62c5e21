/*
 * compare.h - one training by several methods and numbers of workers, side by side.
 *
 * Pure: it plans the runs, reads their reports, and makes a table, CSV and a plot of them.
 * cmd/mnist-train/compare.c runs them. All text is appended to a buffer.
 */
#ifndef TRAIN_COMPARE_H
#define TRAIN_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"
#include "plot/plot.h"
#include "train/config.h"
#include "train/differ.h"

enum compare_method {
	COMPARE_ALLREDUCE,
	COMPARE_SENDRECV,
	COMPARE_PS,
	COMPARE_PS_ASYNC, /* ps, gradients of any age */
	COMPARE_PS_STALE, /* ps, gradients at most two versions old */
	COMPARE_LOCAL,
	COMPARE_MPI, /* allreduce, by the backend mpi */
	COMPARE_ZERO1,
	COMPARE_ZERO2,
	COMPARE_ZERO3,
	COMPARE_TP, /* all workers share each layer */
	COMPARE_PP, /* each worker is a stage */
	COMPARE_NMETHODS,
};

/* The comparison's options. */
struct compare_request {
	unsigned nmethods, nworkers;
	enum compare_method method[COMPARE_NMETHODS];
	uint32_t workers[CONFIG_MAX_WORKERS]; /* growing */
};

/* "allreduce,ps", each once. RC_INVAL names the one that is not a method, or is given twice. */
enum rc compare_methods_parse(const char *text, struct compare_request *out, struct err *err);

/* Numbers of workers in any order, each once; n 0: 1, 2 and 4. RC_INVAL. */
enum rc compare_workers(const uint32_t *workers, unsigned n, struct compare_request *out,
			struct err *err);

const char *compare_method_name(enum compare_method m);

struct compare_epoch {
	uint32_t epoch;
	double loss, accuracy; /* accuracy: a fraction */
	double seconds;	       /* of training so far, without tests */
	double images_per_s;
};

struct compare_run {
	enum compare_method method;
	uint32_t workers, batch;     /* batch: of a worker */
	size_t nepochs;		     /* 0: the run has not started, or failed */
	struct compare_epoch *epoch; /* the run's */
	double epoch_s;		     /* median over the epochs */
	double speedup;		     /* 0: unknown */
	unsigned differs;	     /* differ.h: from all-reduce over the same samples */
};

struct compare {
	struct compare_request request;
	uint64_t global; /* images of a step, on all workers together */
	size_t nruns;
	struct compare_run *run; /* method after method, workers growing */
};

/*
 * compare_plan - the runs of a request.
 *
 *	batch	images a worker and step at the largest number of workers; that times the
 *		workers is the global batch, of which each worker of a run computes its share,
 *		rounded to the nearest number of images
 *	out	[out] released with compare_fini
 *
 * RC_INVAL more than 2^32 images a step.
 * Checked by: tests/unit/train/t_compare.c
 */
enum rc compare_plan(const struct compare_request *r, uint32_t batch, struct compare *out,
		     struct err *err);
void compare_fini(struct compare *c);

/* Fill in how each run differs, if all of them have this configuration. batchnorm: the net has batch norm. */
void compare_judge(struct compare *c, const struct train_config *config, bool batchnorm);

/* The options of one run of the comparison; its report goes to a file. Strings are not copied. */
void compare_config(const struct compare_run *run, const char *json, struct train_config *config);

/* Take a run's report: one JSON object an epoch and line, as --json writes. RC_BADDATA names the
 * line; an empty report is also an error. The run is untouched on failure. */
enum rc compare_read(struct compare_run *run, const char *json, struct err *err);

/* Compute the speed-ups of all finished runs: the epoch time of the method's smallest number of
 * workers, divided by the run's. */
void compare_speedups(struct compare *c);

/* A line about the numbers of workers that the global batch cannot be divided evenly to; nothing if there
 * is none. */
void compare_rounding(const struct compare *c, struct buf *out);

/* A header, and a line for each epoch of each run; the last column says how the run differs. */
void compare_csv(const struct compare *c, struct buf *out);

/* A line for each run, after its last epoch; runs that differ have a mark, and lines below give the
 * reason. The table has 80 columns. */
void compare_table(const struct compare *c, struct buf *out);

/* Accuracy over time, loss over epochs, speed-up over workers: into *out, which is {0} and the
 * caller's, to plot_fini. Without a result it has no panel. It borrows from c. */
void compare_plot(const struct compare *c, struct plot *out);

#endif
