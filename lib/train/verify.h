/*
 * verify.h - whether sums over ranks are what the ranks put in, by samples.
 *
 * Of a deterministic training with --verify, each rank keeps some elements of its own sums before they are added up, and
 * the same elements of the result. Whole numbers add up exactly, so any difference is an error of a device, of its memory
 * or of a link.
 */
#ifndef TRAIN_VERIFY_H
#define TRAIN_VERIFY_H

#include <stdint.h>

#include "base/rc.h"

#define VERIFY_SAMPLES 256 /* elements of a step */

/* Which elements of n: the caller's VERIFY_SAMPLES entries. All of n if there are no more; else one of each of as many equal parts, and
 * the last. */
void verify_choose(uint64_t seed, uint64_t n, uint32_t *index);

/*
 * verify_sums - compare.
 *
 *	in	i64[nranks, VERIFY_SAMPLES]: what each rank had
 *	out	i64[nholders, VERIFY_SAMPLES]: what the first ranks got
 *	index	u32[VERIFY_SAMPLES]: which elements these are
 *	culprit	[out] the first rank that got something else; nranks: all got the same wrong number
 *
 * RC_BADDATA names the element, the rank, and both numbers. Checked by: tests/unit/train/t_verify.c
 */
enum rc verify_sums(const int64_t *in, uint32_t nranks, const int64_t *out, uint32_t nholders,
		    const uint32_t *index, uint32_t *culprit, struct err *err);

/*
 * verify_equal - whether all ranks got the same, element by element.
 *
 *	crc	u64[n]: the checksum of what each rank got
 *	culprit	[out] the first rank without the checksum that most ranks have; n: no majority has one
 *
 * RC_BADDATA names the rank. Checked by: tests/unit/train/t_verify.c
 */
enum rc verify_equal(const uint64_t *crc, uint32_t n, uint32_t *culprit, struct err *err);

#endif
