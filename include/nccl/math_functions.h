/* math_functions.h - a name that programs include; all of it is in cuda_runtime.h. */
#ifndef MATH_FUNCTIONS_H
#define MATH_FUNCTIONS_H

#include "cuda_runtime.h"

#endif
