/* cooperative_groups.h - not supported. */
#error \
    "gpusim: cooperative groups are not simulated; __syncthreads, __syncwarp and the _sync functions of warps are"
