/* simulate_training.h - gpuctl simulate training. */
#ifndef GPUCTL_SIMULATE_TRAINING_H
#define GPUCTL_SIMULATE_TRAINING_H

#include "args.h"

/* gpuctl simulate --fit TABLE... */
enum rc simulate_fit(const struct args *a, struct err *err);

enum rc simulate_training(const struct args *a, struct err *err);

#endif
