/*
 * algo.h - algorithms from files: those that the coordinator keeps, and --algo-file.
 */
#ifndef GPUCTL_ALGO_H
#define GPUCTL_ALGO_H

#include "cli.h"

/*
 * algo_take - a verb's --algo and --algo-file.
 *
 *	a	a file is added for as long as this program lives, and a->algo names it then
 *
 * Names in a->algo that are not built in are looked up at the coordinator, for algo_check. Errors: RC_INVAL both
 * options; RC_FAILED the file cannot be read; those of gpusim_algo_add.
 */
enum rc algo_take(struct cli *cli, struct args *a, struct err *err);

/* The collective has an algorithm of that name (NULL: open), built in or, as algo_take has seen, of a file. RC_INVAL lists them. */
enum rc algo_check(enum gpusim_coll coll, const char *name, struct err *err);

/* Call offer with each algorithm of a file, if a coordinator is there. For completion: it does not wait for one. */
void algo_names(struct cli *cli, void (*offer)(const void *arg, const struct gpusim_algo *a),
		const void *arg);

#endif
