/* builtin_types.h - the types of the CUDA runtime's interface. */
#ifndef __BUILTIN_TYPES_H__
#define __BUILTIN_TYPES_H__

#include "driver_types.h"
#include "vector_types.h"

#endif
