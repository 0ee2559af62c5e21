/* launch_host.h - parameters that point to memory that kernels cannot access. */
#ifndef CUDART_LAUNCH_HOST_H
#define CUDART_LAUNCH_HOST_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Return true if a parameter's value is the address of the program's own writable memory: malloc's,
 * a stack's, a variable's, or memory of cudaHostRegister. A helper has a copy of it, so a kernel
 * that uses it would read old values, and its writes would be lost. A GPU faults.
 */
bool launch_is_host(uint64_t value);

#endif
