/* cuda_occupancy.h - a name that thrust includes; cudaOccupancy* are in cuda_runtime_api.h. */
#ifndef CUDA_OCCUPANCY_H
#define CUDA_OCCUPANCY_H

#include "cuda_runtime_api.h"

#endif
