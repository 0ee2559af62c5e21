/*
 * redop.h - reduction operations: one row a redop, and what follows from it.
 */
#ifndef MEM_REDOP_H
#define MEM_REDOP_H

#include <stdbool.h>

#include "base/rc.h"

/*
 * REDOPS - one row a reduction, in the order of enum gpusim_redop. What else the caller gives goes
 * to each row's end.
 *
 *	constant	GPUSIM_constant, and ReduceOp's in gpu_sim.proto
 *	name		on command lines
 *	fold		makes one element of two: an expression in reduce_isa.c
 *	types		ANY, or WHOLE: of integers only
 *	sum		ROUNDS, or EXACT: the result is one of the inputs, so partial results need no longer type
 *	mean		the result is divided by the number of ranks (integers truncate toward zero)
 *	identity	folded with a number from 0 to 127 it leaves the number
 *	small		six numbers from 1 to this one fold to at most 127, exact in every type but
 *			those of 8 bits with a fraction, which round them
 *
 * A constant without a row, or a row without a constant, does not compile; neither does a row
 * without its fold, nor without its case in number.c.
 */
/* clang-format off */
#define REDOPS(ROW, ...)                                                           \
	ROW(SUM,       sum,       add, ANY,   ROUNDS, false, 0,   21,  __VA_ARGS__) \
	ROW(PROD,      prod,      mul, ANY,   ROUNDS, false, 1,   2,   __VA_ARGS__) \
	ROW(MIN,       min,       min, ANY,   EXACT,  false, 127, 127, __VA_ARGS__) \
	ROW(MAX,       max,       max, ANY,   EXACT,  false, 0,   127, __VA_ARGS__) \
	ROW(AVG,       avg,       add, ANY,   ROUNDS, true,  0,   21,  __VA_ARGS__) \
	ROW(PREMULSUM, premulsum, add, ANY,   ROUNDS, false, 0,   21,  __VA_ARGS__) \
	ROW(BAND,      band,      and, WHOLE, EXACT,  false, 127, 127, __VA_ARGS__) \
	ROW(BOR,       bor,       or,  WHOLE, EXACT,  false, 0,   127, __VA_ARGS__) \
	ROW(BXOR,      bxor,      xor, WHOLE, EXACT,  false, 0,   127, __VA_ARGS__)
/* clang-format on */

/* " sum prod ...", for messages. */
#define REDOP_NAME(constant, name, ...) " " #name
#define REDOP_NAMES			REDOPS(REDOP_NAME, )

struct redop {
	const char *name;
	bool whole;  /* of integers only */
	bool rounds; /* partial results of short floats are kept in f32 */
	bool mean;
	int identity, small;
};

extern const struct redop redops[GPUSIM_NREDOPS];

/* "sum"; "?" for a number that is no redop. Static storage. */
const char *redop_name(enum gpusim_redop redop);

/* Whether the redop is defined for elements of the type. Numbers that are no redop or type: false. */
bool redop_takes(enum gpusim_redop redop, enum gpusim_dtype t);

/* The same with a sentence: RC_INVAL "band is for integers, not for f32". */
enum rc redop_check(enum gpusim_redop redop, enum gpusim_dtype t, struct err *err);

/*
 * redop_widening - how many times as long as an element a partial result is.
 *
 * What the redop makes of some ranks' floats shorter than f32 is kept in f32, where it rounds: 2 or 4.
 * Min and max do not round, and other types are their own partial results: 1.
 */
unsigned redop_widening(enum gpusim_redop redop, enum gpusim_dtype t);

/* From a name; the error lists the names there are. */
enum rc redop_parse(const char *name, enum gpusim_redop *out, struct err *err);

#endif
