/* nvToolsExt.h - the name of NVTX 2 for nvtx3/nvToolsExt.h. */
#ifndef NVTOOLSEXT_H
#define NVTOOLSEXT_H

#include <nvtx3/nvToolsExt.h>

#endif
