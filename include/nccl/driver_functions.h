/* driver_functions.h - pitched pointers, positions and extents from their parts, for 3-D copies. */
#ifndef __DRIVER_FUNCTIONS_H__
#define __DRIVER_FUNCTIONS_H__

#include "driver_types.h"

/* pitch: bytes from row to row; xsize, ysize: of the allocation. */
static __inline__ __attribute__((unused)) struct cudaPitchedPtr
make_cudaPitchedPtr(void *ptr, size_t pitch, size_t xsize, size_t ysize)
{
	struct cudaPitchedPtr p = {ptr, pitch, xsize, ysize};

	return p;
}

static __inline__ __attribute__((unused)) struct cudaPos
make_cudaPos(size_t x, size_t y, size_t z)
{
	struct cudaPos p = {x, y, z};

	return p;
}

/* width: bytes for linear memory. */
static __inline__ __attribute__((unused)) struct cudaExtent
make_cudaExtent(size_t width, size_t height, size_t depth)
{
	struct cudaExtent e = {width, height, depth};

	return e;
}

#endif
