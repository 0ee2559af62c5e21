/* launch.h - limits of launches, as devices report them. */
#ifndef CUDART_LAUNCH_H
#define CUDART_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#define LAUNCH_THREADS	  1024
#define LAUNCH_SHARED	  (48 << 10) /* bytes of dynamic shared memory, unless a kernel requests more */
#define LAUNCH_SHARED_MAX (227 << 10) /* the most that it may request */

/* ---- parameters that point to memory that kernels cannot access */

/*
 * Return true if a parameter's value is the address of the program's own writable memory: malloc's,
 * a stack's, a variable's, or memory of cudaHostRegister. A helper has a copy of it, so a kernel
 * that uses it would read old values, and its writes would be lost. A GPU faults.
 */
bool launch_is_host(uint64_t value);

#endif
