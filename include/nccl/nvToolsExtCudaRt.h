/* nvToolsExtCudaRt.h - the name of NVTX 2 for nvtx3/nvToolsExtCudaRt.h. */
#ifndef NVTOOLSEXTCUDART_H
#define NVTOOLSEXTCUDART_H

#include <nvtx3/nvToolsExtCudaRt.h>

#endif
