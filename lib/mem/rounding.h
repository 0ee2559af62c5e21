/*
 * rounding.h - which results of a reduction of floats its roundings explain, in whatever order they were made.
 */
#ifndef MEM_ROUNDING_H
#define MEM_ROUNDING_H

#include <stdbool.h>

#include "mem/number.h"

/*
 * rounding_explains - may got be the result of these elements?
 *
 *	x	what n ranks' elements enter the reduction as (number_enter)
 *	got	an element of the type
 *
 * Of sums s, with partial results in f32, or f64 of f64: the numbers of those types within (n-1) u (|x1| + ... + |xn|)
 * of s, u = 2^-24 or 2^-53, then divided where the redop is a mean, then rounded to the type once. Of products within
 * (n-1) u of their size, and by what partial results lose that are too small for all their digits. Where none needs more
 * digits than its type has, the exact one alone. Also infinity and NaN where partial results can overflow. Min, max and up
 * to two elements have one result, number_fold's; any NaN is the same. Not for integers.
 *
 * Sources: C.-P. Jeannerod, S. M. Rump, "Improved error bounds for inner products in floating-point arithmetic", SIAM J.
 * Matrix Anal. Appl. 34(2), 2013: sums, for any order, without terms of higher order. N. J. Higham, "Accuracy and
 * Stability of Numerical Algorithms", 2002, section 3.1: products.
 */
bool rounding_explains(enum gpusim_dtype t, enum gpusim_redop redop, const union number x[],
		       uint32_t n, const void *got);

#endif
