/*
 * getopts.h - getopt_long with its errors as one sentence.
 */
#ifndef GPUCTL_GETOPTS_H
#define GPUCTL_GETOPTS_H

#include <getopt.h>
#include <stdbool.h>

#include "base/rc.h"

/*
 * The next option, as getopt_long returns it (-1: no more), or '?' with *err set: unknown, or
 * without the value it needs. shorts is as for getopt, without a leading colon.
 */
int getopts_next(int argc, char **argv, const char *shorts, const struct option *longs,
		 struct err *err);

/* Put "--name: " before *err, where it is about the value of option `opt`. Returns err->rc. */
enum rc getopts_err(const struct option *longs, int opt, struct err *err);

#endif
