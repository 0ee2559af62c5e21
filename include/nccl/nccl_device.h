/* nccl_device.h - refused. */
#error "gpusim: NCCL's device API is not simulated; communicate by NCCL's calls of the host"
