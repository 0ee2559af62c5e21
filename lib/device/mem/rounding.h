/*
 * rounding.h - the results of a reduction of floats that rounding explains, in any order of the operations.
 */
#ifndef MEM_ROUNDING_H
#define MEM_ROUNDING_H

#include <stdbool.h>

#include "mem/number.h"

/*
 * rounding_explains - return true if got may be the result of these elements.
 *
 *	x	n ranks' elements as they enter the reduction (number_enter)
 *	got	an element of the type
 *
 * Sums s, with partial results in f32 (f64 for f64): the numbers of that type within (n-1) u (|x1| + ... +
 * |xn|) of s, u = 2^-24 or 2^-53, divided for a mean, then rounded once to the type. Products: within (n-1)
 * u of their size, plus the loss of partial results that are subnormal. If no partial result needs more
 * digits than its type has: only the exact result. Also infinity and NaN if partial results can overflow.
 * Min, max and up to two elements have one result, number_fold's; all NaNs are equal. Not for integers.
 *
 * Sources: C.-P. Jeannerod, S. M. Rump, "Improved error bounds for inner products in floating-point
 * arithmetic", SIAM J. Matrix Anal. Appl. 34(2), 2013: sums, for any order, without terms of higher order.
 * N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1: products.
 */
bool rounding_explains(enum gpusim_dtype t, enum gpusim_redop redop, const union number x[],
		       uint32_t n, const void *got);

#endif
