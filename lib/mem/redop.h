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
 *	mean		the result is divided by the number of ranks (integers truncate toward zero)
 *	identity	folded with a number from 0 to 127 it leaves the number
 *	small		six numbers from 1 to this one fold to at most 127, exact in every type but
 *			those of 8 bits with a fraction, which round them
 *
 * A redop that has a constant and no row, or a row and no constant, does not compile; neither does
 * one without its fold, nor without its case in number.c.
 */
/* clang-format off */
#define REDOPS(ROW, ...)                  \
	REDOPS_NUMBERS(ROW, __VA_ARGS__)  \
	REDOPS_BITS(ROW, __VA_ARGS__)

/* Those of every type, and those of integers alone. */
#define REDOPS_NUMBERS(ROW, ...)                                    \
	ROW(SUM,       sum,       add, false, 0,   21,  __VA_ARGS__) \
	ROW(PROD,      prod,      mul, false, 1,   2,   __VA_ARGS__) \
	ROW(MIN,       min,       min, false, 127, 127, __VA_ARGS__) \
	ROW(MAX,       max,       max, false, 0,   127, __VA_ARGS__) \
	ROW(AVG,       avg,       add, true,  0,   21,  __VA_ARGS__) \
	ROW(PREMULSUM, premulsum, add, false, 0,   21,  __VA_ARGS__)
#define REDOPS_BITS(ROW, ...)                                       \
	ROW(BAND,      band,      and, false, 127, 127, __VA_ARGS__) \
	ROW(BOR,       bor,       or,  false, 0,   127, __VA_ARGS__) \
	ROW(BXOR,      bxor,      xor, false, 0,   127, __VA_ARGS__)
/* clang-format on */

/* " sum prod ...", for messages. */
#define REDOP_NAME(constant, name, ...) " " #name
#define REDOP_NAMES			REDOPS(REDOP_NAME, )

struct redop {
	const char *name;
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
