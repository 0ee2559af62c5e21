/*
 * host_defines.h - CUDA's marks of functions and data. bin/nvcc gives those that kernels need their
 * meaning; for a plain compiler they are nothing.
 */
#ifndef __HOST_DEFINES_H__
#define __HOST_DEFINES_H__

#define CUDARTAPI
#define CUDART_CB

#ifndef __align__
#define __align__(n) __attribute__((aligned(n)))
#endif
#ifndef __host__
#define __host__
#endif
#ifndef __device__
#define __device__
#endif
#ifndef __global__
#define __global__
#endif
#ifndef __forceinline__
#define __forceinline__ __inline__ __attribute__((always_inline))
#endif
#ifndef __no_return__
#define __no_return__ __attribute__((noreturn))
#endif

#endif
