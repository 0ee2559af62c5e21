/*
 * verify.h - did every rank tell the truth? Results of a reduction, made again from the inputs.
 */
#ifndef GPUCTL_VERIFY_H
#define GPUCTL_VERIFY_H

#include "ranks.h"

/* --verify: only reductions can be. Asks for deterministic results, where the algorithm can, so that every bit is known. RC_INVAL. */
enum rc verify_init(struct gpusim_collective *c, const struct args *a, struct err *err);

/*
 * verify_ranks - after the operation: inputs on the devices are as they were, and results are what they give.
 *
 *	data	the vectors of r->want ranks, of nelem elements each
 *
 * All elements up to VERIFY_ALL, then as many, evenly spread. RC_BADDATA: a sentence that names the rank that lies.
 */
#define VERIFY_ALL (1u << 20)
enum rc verify_ranks(const struct ranks *r, const char *data, uint64_t nelem, struct err *err);

#endif
