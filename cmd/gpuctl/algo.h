/*
 * algo.h - algorithms from files: the coordinator's, and --algo-file.
 */
#ifndef GPUCTL_ALGO_H
#define GPUCTL_ALGO_H

#include "cli.h"

/*
 * algo_take - resolve a verb's --algo and --algo-file.
 *
 *	a	a file's algorithm is added for the life of this program, and a->algo names it
 *
 * Names in a->algo that are not built in are looked up at the coordinator, for algo_check. Errors: RC_INVAL
 * both options; RC_FAILED the file cannot be read; those of gpusim_algo_add.
 */
enum rc algo_take(struct cli *cli, struct args *a, struct err *err);

/* Check that the collective has an algorithm of that name (NULL: any), built in or found by algo_take.
 * RC_INVAL lists the names. */
enum rc algo_check(enum gpusim_coll coll, const char *name, struct err *err);

/* Call offer with each algorithm from a file. For completion: it does not wait for a coordinator. */
void algo_names(struct cli *cli, void (*offer)(const void *arg, const struct gpusim_algo *a),
		const void *arg);

#endif
