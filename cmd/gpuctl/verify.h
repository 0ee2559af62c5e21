/*
 * verify.h - check every rank: recompute results of a reduction from the inputs.
 */
#ifndef GPUCTL_VERIFY_H
#define GPUCTL_VERIFY_H

#include "ranks.h"

/* Check that --verify is for a reduction. Request deterministic results if the algorithm supports them, so
 * that every bit is determined. RC_INVAL. */
enum rc verify_init(struct gpusim_collective *c, const struct args *a, struct err *err);

/*
 * verify_ranks - check after an operation that the devices' inputs are unchanged and match the results.
 *
 *	data	the vectors of r->want ranks, of nelem elements each
 *
 * Checks all elements up to VERIFY_ALL, else that many, evenly spread. RC_BADDATA: the message names the
 * faulty rank.
 */
#define VERIFY_ALL (1u << 20)
enum rc verify_ranks(const struct ranks *r, const char *data, uint64_t nelem, struct err *err);

#endif
