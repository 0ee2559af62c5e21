/*
 * tune_impl.h - what the files of the tuner share.
 */
#ifndef COLL_TUNE_IMPL_H
#define COLL_TUNE_IMPL_H

#include "coll/tune.h"

#define TUNE_WORD_MAX 64 /* bytes of a name with the NUL */

/* In tune_select.allowed. */
static inline uint64_t
tune_bit(const struct plan_algo *row)
{
	return UINT64_C(1) << (row - plan_algos);
}

/* The rules are none then. */
void tune_rules_free(struct tuner *t);

#endif
