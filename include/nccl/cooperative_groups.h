/* cooperative_groups.h - refused. */
#error \
    "gpusim: cooperative groups are not simulated; __syncthreads, __syncwarp and the _sync functions of warps are"
