/* device_atomic_functions.h - a name that programs include; all of it is in cuda_runtime.h. */
#ifndef DEVICE_ATOMIC_FUNCTIONS_H
#define DEVICE_ATOMIC_FUNCTIONS_H

#include "cuda_runtime.h"

#endif
