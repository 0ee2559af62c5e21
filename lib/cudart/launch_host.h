/* launch_host.h - parameters that point to memory which kernels do not see. */
#ifndef CUDART_LAUNCH_HOST_H
#define CUDART_LAUNCH_HOST_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether a parameter's value is the address of writable memory of the program's own: malloc's, a stack's, a variable's,
 * or what cudaHostRegister was given. A helper has a copy of it, so a kernel that uses it would read old values and write
 * in vain. A GPU faults.
 */
bool launch_is_host(uint64_t value);

#endif
