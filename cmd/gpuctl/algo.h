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
 * Names in a->algo that are not built in are looked up at the coordinator, for algo_is_kept. Errors: RC_INVAL both
 * options; RC_FAILED the file cannot be read; those of gpusim_algo_add.
 */
enum rc algo_take(struct cli *cli, struct args *a, struct err *err);

/* Whether the coordinator has an algorithm of that name, as algo_take has seen. */
bool algo_is_kept(enum gpusim_coll coll, const char *name);

/* Call offer with each name, as far as a coordinator is there. For completion. */
void algo_names(struct cli *cli, void (*offer)(void *arg, const struct gpusim_algo *a), void *arg);

#endif
