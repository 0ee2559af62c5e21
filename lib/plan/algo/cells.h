/*
 * cells.h - the places of a rank's chunks, and those that a step accesses. Pure.
 *
 * Each chunk of a rank is a cell: input, output, scratch, one after the other. In place input and output are
 * the same cells; not of custom algorithms, whose generators say "in place" and keep two buffers
 * (msccl-tools' alltonext).
 */
#ifndef ALGO_CELLS_H
#define ALGO_CELLS_H

#include "algo/algo.h"

/* A range of cells of one rank. */
struct cells {
	uint32_t at, count;
};

static inline bool
cells_alias(const struct algo *a)
{
	return a->in_place && !a->custom;
}

static inline uint32_t
cells_data(const struct algo *a, uint32_t rank)
{
	return algo_chunks(a, rank, ALGO_IN) +
	       (cells_alias(a) ? 0 : algo_chunks(a, rank, ALGO_OUT));
}

static inline uint32_t
cells_of_rank(const struct algo *a, uint32_t rank)
{
	return cells_data(a, rank) + algo_chunks(a, rank, ALGO_SCRATCH);
}

static inline uint32_t
cell_of(const struct algo *a, uint32_t rank, unsigned buf, uint32_t at)
{
	if (buf == ALGO_SCRATCH)
		return cells_data(a, rank) + at;
	return buf == ALGO_OUT && !cells_alias(a) ? algo_chunks(a, rank, ALGO_IN) + at : at;
}

/* The cells of the step's source in its rank. A reduce also reads its destination. */
static inline struct cells
step_reads(const struct algo *a, uint32_t rank, const struct algo_step *s)
{
	return (struct cells){cell_of(a, rank, s->src, s->src_at),
			      algo_kind_reads(s->kind) ? s->count : 0};
}

static inline struct cells
step_writes(const struct algo *a, uint32_t rank, const struct algo_step *s)
{
	return (struct cells){cell_of(a, rank, s->dst, s->dst_at),
			      algo_kind_writes(s->kind) ? s->count : 0};
}

static inline bool
cells_have(struct cells c, uint32_t cell)
{
	return cell >= c.at && cell - c.at < c.count;
}

/* ---- the steps that last accessed a cell */

#define ACCESS_NONE UINT64_MAX

/* A step: the upper half is its block, and in a block later steps are greater. */
typedef uint64_t access_step;

struct cell {
	access_step writer; /* ACCESS_NONE: none */
	uint32_t readers;   /* since then: an index into accesses.reader, plus 1; 0: none */
};

/* The readers of many cells. {0} is empty; its owner frees reader. */
struct accesses {
	struct cell_reader {
		access_step step;
		uint32_t next; /* plus 1 */
	} * reader;
	size_t n, cap;
	uint32_t spare; /* plus 1 */
};

/* The step reads the cell, and so replaces an earlier reader of its block. False: out of memory. */
bool cell_read(struct accesses *a, struct cell *c, access_step step);
void cell_written(struct accesses *a, struct cell *c, access_step step);

/* "scratch 3": the cell's name in the step. */
struct cell_name {
	char text[32];
};
struct cell_name cell_name(const struct algo *a, uint32_t rank, const struct algo_step *s,
			   uint32_t cell);

#endif
