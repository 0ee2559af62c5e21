/*
 * texture_types.h - of textures only what headers name without using it: a use in a .cu file is an error at its line.
 */
#ifndef TEXTURE_TYPES_H
#define TEXTURE_TYPES_H

#include "driver_types.h"

typedef unsigned long long cudaTextureObject_t;

enum cudaTextureReadMode { cudaReadModeElementType, cudaReadModeNormalizedFloat };
enum cudaResourceType {
	cudaResourceTypeArray,
	cudaResourceTypeMipmappedArray,
	cudaResourceTypeLinear
};

struct cudaTextureDesc {
	enum cudaTextureReadMode readMode;
};
struct cudaResourceDesc {
	enum cudaResourceType resType;
	struct {
		struct {
			void *devPtr;
			struct cudaChannelFormatDesc desc;
			size_t sizeInBytes;
		} linear;
	} res;
};

#ifdef __GPUSIM_NVCC__
#define GPUSIM_NO_TEXTURES __attribute__((error("gpusim: textures are not simulated")))
GPUSIM_NO_TEXTURES cudaError_t cudaCreateTextureObject(cudaTextureObject_t *,
						       const struct cudaResourceDesc *,
						       const struct cudaTextureDesc *,
						       const void *);
GPUSIM_NO_TEXTURES cudaError_t cudaDestroyTextureObject(cudaTextureObject_t);
template <class T> GPUSIM_NO_TEXTURES struct cudaChannelFormatDesc cudaCreateChannelDesc();
template <class T> GPUSIM_NO_TEXTURES T tex1Dfetch(cudaTextureObject_t, int);
#endif

#endif
