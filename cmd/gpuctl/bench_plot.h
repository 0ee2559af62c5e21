/*
 * bench_plot.h - gpuctl bench --plot: bus bandwidth over size, a curve for each algorithm and the baseline.
 */
#ifndef GPUCTL_BENCH_PLOT_H
#define GPUCTL_BENCH_PLOT_H

#include "bench_cli.h"
#include "plot/plot.h"

/* Initialise with {0}. */
struct bench_plot {
	struct plot plot;
	char title[96];
	double bus_factor; /* busbw divided by algbw, of the last row; 0: unknown */
};

/* Begin a curve for the algorithm that b measures; rows go to the last curve. */
void bench_plot_begin(struct bench_plot *p, const struct bench_cli *b);
void bench_plot_row(struct bench_plot *p, const struct bench_row *row);

/* Draw the plot; with --json a text plot goes to standard error. Errors: those of plot_show. */
enum rc bench_plot_show(struct bench_plot *p, const struct args *a, const struct baseline *baseline,
			struct err *err);

#endif
