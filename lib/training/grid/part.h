/*
 * part.h - a part of a net: some of its units, as one tensor-parallel rank computes them.
 *
 * A part is a net by itself, with the same shapes on all tp ranks; only the values of its parameters differ.
 * Linear layers are split as Megatron's: a layer by columns of its output, the next by rows of its input, so
 * that one sum over the ranks follows two layers (arXiv:1909.08053). With sequence parallelism what lies
 * between such pairs is divided by rows (arXiv:2205.05198).
 */
#ifndef GRID_PART_H
#define GRID_PART_H

#include "nn/net.h"

/* An array of the part, and what it is of the whole net's. */
struct part_array {
	uint64_t whole, part; /* offsets, in elements */
	uint32_t rows, cols;  /* of the whole array */
	/* By rows: it is so many arrays, one below another, each divided by itself */
	uint32_t groups;
	enum part_split { PART_WHOLE, PART_ROWS, PART_COLUMNS } split;
	uint32_t each; /* rows (of a group) or columns of one rank; the last rank may have fewer */
};

/* Elements of one rank's part. */
static inline uint64_t
part_array_size(const struct part_array *a)
{
	if (a->split == PART_ROWS)
		return (uint64_t)a->groups * a->each * a->cols;
	return (uint64_t)a->rows * (a->split == PART_COLUMNS ? a->each : a->cols);
}

/* Nodes that are cut out together: a block. Their parameters are contiguous. */
struct part_unit {
	uint32_t node, nnodes;
	uint64_t first, n; /* of its parameters */
};

struct part {
	struct net net;
	uint32_t tp;
	uint32_t nunits;
	struct part_unit unit[NET_MAX_CUTS];
	uint32_t narrays;
	struct part_array array[NET_MAX_ARRAYS];
};

/*
 * part_build - units [first, first + n) of a net, for tp ranks.
 *
 *	sequence  divide rows between the split layers; tp > 1
 *	out	  released with free
 *
 * Errors: RC_INVAL: a layer that tp does not divide, or that cannot be divided.
 * Checked by: tests/unit/grid/t_part.c
 */
enum rc part_build(const struct net *whole, uint32_t first, uint32_t n, uint32_t tp, bool sequence,
		   struct part **out, struct err *err);

/* n numbers, "1, 2 or 4". */
#define PART_TEXT 144
const char *part_either(const uint32_t *v, uint32_t n, char out[PART_TEXT]);

/* The tp up to 64 that a net can have, in those words. */
const char *part_choices(const struct net *whole, bool sequence, char out[PART_TEXT]);

/* Copy rank t's values out of the whole net's; what is beyond the whole net becomes 0. And back. */
void part_take(const struct part *p, uint32_t t, const float *whole, float *part);
void part_give(const struct part *p, uint32_t t, const float *part, float *whole);

/* Floating-point operations of one item forward in units [first, first + n) of a net: products and attention. */
double part_flops(const struct net *whole, uint32_t first, uint32_t n);

#endif
