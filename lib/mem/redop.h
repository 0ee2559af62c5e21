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
 *	small		six numbers from 1 to this one fold to at most 127, exact in every type
 *
 * A redop that has a constant and no row, or a row and no constant, does not compile; neither does
 * one without its fold, nor without its case in number.c.
 */
/* clang-format off */
#define REDOPS(ROW, ...)                                \
	ROW(SUM,  sum,  add, false, 0,   21,  __VA_ARGS__) \
	ROW(PROD, prod, mul, false, 1,   2,   __VA_ARGS__) \
	ROW(MIN,  min,  min, false, 127, 127, __VA_ARGS__) \
	ROW(MAX,  max,  max, false, 0,   127, __VA_ARGS__) \
	ROW(AVG,  avg,  add, true,  0,   21,  __VA_ARGS__)
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

/* From a name; the error lists the names there are. */
enum rc redop_parse(const char *name, enum gpusim_redop *out, struct err *err);

#endif
