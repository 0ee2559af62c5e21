/*
 * home.h - the home of NCCL's interface, and an environment in which programs find it.
 */
#ifndef GPUCTL_HOME_H
#define GPUCTL_HOME_H

#include <limits.h>

#include "base/rc.h"

/* Set NCCL_HOME, CUDA_HOME, CUDA_PATH, LD_LIBRARY_PATH and PATH of this process and its children. */
enum rc home_enter(struct err *err);

#endif
