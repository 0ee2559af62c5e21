/* registry.h - the kernels and variables that modules of the program have brought. */
#ifndef CUDART_REGISTRY_H
#define CUDART_REGISTRY_H

#include <stddef.h>

#include "gpusim_cuda.h"

/* The kernel of a function; NULL: none. */
struct __gpusim_kernel *registry_find(const void *function);

/* How many kernels and modules have been registered so far. A helper that was forked at that number knows these. */
unsigned long registry_count(void);

/* Its name as a person writes it: "saxpy<float>". Cut at nbytes - 1. */
void registry_name(const struct __gpusim_kernel *k, char *out, size_t nbytes);

/* The variables of module i: whole pages around them. False: there is no module i. */
struct registry_data {
	unsigned char *begin, *end;   /* of the variables */
	unsigned char *first, *after; /* pages */
};
int registry_data(unsigned i, struct registry_data *out);

#endif
