/* registry.h - the kernels and variables of the program's modules. */
#ifndef CUDART_REGISTRY_H
#define CUDART_REGISTRY_H

#include <stddef.h>

#include "gpusim_cuda.h"

/* The kernel of a function; NULL: none. */
struct __gpusim_kernel *registry_find(const void *function);

/* The number of kernels and modules that have been registered so far. A helper that was forked at
 * that number knows these. */
unsigned long registry_count(void);

/* The kernel's name as in source: "saxpy<float>". Cut at nbytes - 1. */
void registry_name(const struct __gpusim_kernel *k, char *out, size_t nbytes);

/* The variables of module i: whole pages around them. False: no module i. */
struct registry_data {
	unsigned char *begin, *end;   /* of the variables */
	unsigned char *first, *after; /* pages */
};
int registry_data(unsigned i, struct registry_data *out);

#endif
