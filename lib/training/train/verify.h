/*
 * verify.h - checks sums over ranks against the ranks' inputs, by samples.
 *
 * In a deterministic training with --verify, each rank keeps some elements of its own sums before
 * they are added up, and the same elements of the result. Integers add up exactly, so any
 * difference is an error of a device, of its memory or of a link.
 */
#ifndef TRAIN_VERIFY_H
#define TRAIN_VERIFY_H

#include <stdint.h>

#include "base/rc.h"

#define VERIFY_SAMPLES 256 /* elements of a step */

/* Choose elements of n, for the caller's VERIFY_SAMPLES entries: all, if n is no larger; else one
 * of each of VERIFY_SAMPLES equal parts, and the last. */
void verify_choose(uint64_t seed, uint64_t n, uint32_t *index);

/*
 * verify_sums - compare the sums with the inputs.
 *
 *	in	i64[nranks, VERIFY_SAMPLES]: the input of each rank
 *	out	i64[nholders, VERIFY_SAMPLES]: the results of the first ranks
 *	index	u32[VERIFY_SAMPLES]: the elements' indices
 *	culprit	[out] the first rank with a wrong result; nranks: all have the same wrong result
 *
 * RC_BADDATA names the element, the rank, and both numbers.
 * Checked by: tests/unit/train/t_verify.c
 */
enum rc verify_sums(const int64_t *in, uint32_t nranks, const int64_t *out, uint32_t nholders,
		    const uint32_t *index, uint32_t *culprit, struct err *err);

/*
 * verify_equal - check that all ranks have the same results.
 *
 *	crc	u64[n]: the checksum of each rank's result
 *	what	the result's name in messages, in the plural
 *	culprit	[out] the first rank without the checksum that most ranks have; n: no majority has one
 *
 * RC_BADDATA names the rank.
 * Checked by: tests/unit/train/t_verify.c
 */
enum rc verify_equal(const uint64_t *crc, uint32_t n, const char *what, uint32_t *culprit,
		     struct err *err);

#endif
