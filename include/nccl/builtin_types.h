/* builtin_types.h - the types of the CUDA runtime's interface. */
#ifndef BUILTIN_TYPES_H
#define BUILTIN_TYPES_H

#include "driver_types.h"
#include "vector_types.h"

#endif
