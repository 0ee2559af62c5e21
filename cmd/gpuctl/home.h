/*
 * home.h - the home of NCCL's interface, and an environment in which programs find it.
 */
#ifndef GPUCTL_HOME_H
#define GPUCTL_HOME_H

#include <limits.h>
#include <stdbool.h>

#include "base/rc.h"

/* Set NCCL_HOME, CUDA_HOME, CUDA_PATH, LD_LIBRARY_PATH and PATH of this process and its children. */
enum rc home_enter(struct err *err);

/* Add the folder with the package for Python, if there is one, to PYTHONPATH, after what the user has named; and with
 * `hook` its folder of that name, before. RC_FAILED: there is none, and it was to have a hook. */
enum rc home_name_python(bool hook, struct err *err);

#endif
