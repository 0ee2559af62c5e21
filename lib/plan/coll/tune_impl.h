/*
 * tune_impl.h - shared by the files of the tuner.
 */
#ifndef COLL_TUNE_IMPL_H
#define COLL_TUNE_IMPL_H

#include "coll/tune.h"

#define TUNE_WORD_MAX 64 /* bytes of a name with the NUL */

/* The algorithm's bit in tune_select.allowed. */
static inline uint64_t
tune_bit(const struct plan_algo *row)
{
	return UINT64_C(1) << (row - plan_algos);
}

/* Free the rules; there are none then. */
void tune_rules_free(struct tuner *t);

#endif
