/*
 * thrust/detail/config/cpp_compatibility.h - before thrust's own. A function of the host and the device is one function
 * here, so thrust must ask at run time where it runs.
 */
#pragma once

#include_next <thrust/detail/config/cpp_compatibility.h>

#ifdef __GPUSIM_NVCC__
#undef THRUST_IS_DEVICE_CODE
#undef THRUST_IS_HOST_CODE
#undef THRUST_INCLUDE_DEVICE_CODE
#define THRUST_IS_DEVICE_CODE	   (__gpusim_inside != 0)
#define THRUST_IS_HOST_CODE	   (!__gpusim_inside)
#define THRUST_INCLUDE_DEVICE_CODE 1
#endif
