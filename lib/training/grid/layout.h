/*
 * layout.h - the memory of each rank of a grid: parameters, gradients and optimizer state, whole or sharded,
 * and the activations of the microbatches in progress.
 *
 * All ranks of a stage of the pipeline have the same layout. With ZeRO (arXiv:1910.02054) a data-parallel rank
 * keeps its part of each unit's vectors, [d * n / dp, (d + 1) * n / dp) as reduce-scatter divides them; its
 * parts of all units lie one after another. In hybrid sharding (arXiv:2205.00119, arXiv:2304.11277) each `shards`
 * consecutive data-parallel ranks are such a group, and rank d has the part of d % shards, as d + shards has.
 */
#ifndef GRID_LAYOUT_H
#define GRID_LAYOUT_H

#include "gpusim.h"
#include "coll/grid.h"
#include "grid/part.h"
#include "nn/emit.h"
#include "pipeline/pipeline.h"

enum recompute { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL };

struct layout_config {
	struct grid grid;
	bool sequence; /* rows between split layers are divided over tp */
	/* 0 to 3: what is sharded over dp: 1 optimizer state, 2 and gradients, 3 and parameters */
	uint32_t zero;
	uint32_t shards; /* ranks of a group, which divide dp; 0: dp, and layout->c has that */
	bool keep; /* zero 3: parameters stay gathered from the first use in a step to its end */
	enum recompute recompute; /* what backward computes again */
	/* Of parameters, gradients and activations; 0: f32. Of 16 bits: the optimizer has masters in f32 */
	enum gpusim_dtype dtype;
	bool normed;   /* steps know the norm of the whole gradient (kern/kern_scaler.c) */
	uint32_t leaf; /* exact sums over leaves of so many rows (train/leaves.h); 0: sums in f32 */
	uint32_t nstate; /* vectors of the optimizer: 1 or 2 */
	uint64_t rows;	 /* the most of a microbatch on a rank */
	const struct pipeline *schedule;
	const uint32_t *units; /* by stage: how many units it has */
};

/* A unit of a rank's layers. */
struct layout_unit {
	uint32_t chunk, number; /* part->unit[number] of that chunk */
	uint64_t first, n;	/* in the rank's vector of parameters */
	/* Where its part begins in the sharded vectors, and room for the largest part */
	uint64_t shard, each;
};

/* A stage on its rank. */
struct layout_chunk {
	uint32_t stage, unit0, nunits; /* its units in the row's list */
	struct part *part;
	uint64_t first;		    /* of its parameters, in the rank's vector */
	uint32_t nslots;	    /* microbatches in progress at most */
	uint64_t slots, slot_bytes; /* offset; one slot's activations of all pieces */
	uint64_t piece_bytes;	    /* of one piece: a leaf, or the whole microbatch */
	/* Offset of the memory that all microbatches share, gradients and recomputed values; bytes of a piece. */
	uint64_t work, work_bytes;
	uint64_t inbox, outbox; /* in a slot: gradients on their way, [rows, item]; 0: none */
	bool split;		/* backward is I and W, so gradients stay in the slot until W */
};

struct layout_row {
	uint32_t nchunks, nunits;
	struct layout_chunk *chunk;
	struct layout_unit *unit;
	uint64_t n, nshard;		   /* elements of the rank's parameters, of its parts */
	uint64_t params, state[2], counts; /* offsets; counts: u64 by unit */
	/* f32: whole or sharded, as the state; with f32 these are the parameters */
	uint64_t master;
	uint64_t grads;	      /* i64 with leaves: whole or sharded */
	uint64_t fresh[2];    /* gradients of one unit, just computed; 0: they go to grads */
	uint64_t sums[2];     /* zero 2, 3 with leaves: i64 of one unit */
	uint64_t part[2];     /* zero 2, 3: a reduced part, before it is added */
	uint64_t gathered[2]; /* zero 3: parameters of one unit */
	uint64_t largest;     /* elements of the largest unit */
	uint64_t losses;      /* f32[pieces of a step] */
	uint64_t loss_sum;    /* with leaves: i64 */
	uint64_t scratch;     /* f32[4, rows of a piece], for a divided loss */
	/* normed: i64[LAYOUT_NORM]: sum_squares; f32[2]: grad_scaler's decision */
	uint64_t norm, gate;
	uint64_t scaler; /* f32 scale of the loss, u32 good steps, u32 skipped steps */
	uint64_t bytes;
};

struct layout {
	struct layout_config c;
	const struct net *whole;
	struct layout_row *row; /* by pipeline rank */
	uint32_t *slot;		/* [stage * nmicro + micro]: the slot of its rank's chunk */
	uint32_t pieces;	/* of a microbatch */
	uint64_t piece_rows;	/* of a piece at most */
	uint64_t bytes;		/* of a rank, at most */
};

/*
 * layout_new - lay a net out for a grid and a schedule.
 *
 * config is copied; the schedule and the net outlive the layout. Errors: RC_INVAL a layer that tp does not divide.
 * Checked by: tests/unit/grid/t_grid_layout.c
 */
enum rc layout_new(const struct net *net, const struct layout_config *config, struct layout **out,
		   struct err *err);
void layout_free(struct layout *l); /* NULL is legal */

#define LAYOUT_NORM   21
#define LAYOUT_SCALER 12 /* bytes */

/* Bytes of a parameter. */
static inline uint64_t
layout_size(const struct layout *l)
{
	return emit_type_size(l->c.dtype);
}

/* Is a vector whole on each data-parallel rank? */
static inline bool
layout_shards_state(const struct layout *l)
{
	return l->c.zero >= 1 && l->c.shards > 1;
}
static inline bool
layout_shards_grads(const struct layout *l)
{
	return l->c.zero >= 2 && l->c.shards > 1;
}
static inline bool
layout_shards_params(const struct layout *l)
{
	return l->c.zero >= 3 && l->c.shards > 1;
}

/* The masters are the state's, or the parameters themselves. */
static inline bool
layout_shards_master(const struct layout *l)
{
	return l->c.dtype == GPUSIM_F32 ? layout_shards_params(l) : layout_shards_state(l);
}

/* Data-parallel rank d's part of `all` elements, as those of a unit: its first element; *n elements. */
uint64_t layout_part(const struct layout *l, uint64_t all, uint32_t d, uint64_t *n);

/* Addresses of a chunk's activations for one piece of a microbatch, at `base` + slot, on rank t of tp, which has
 * so many rows. params and grads are the caller's. */
void layout_place(const struct layout *l, const struct layout_chunk *c, uint32_t slot,
		  uint32_t piece, uint32_t t, uint64_t rows, uint64_t base, struct emit_place *out);

/* Is a node's output computed again in backward? */
bool layout_volatile(const struct layout *l, const struct layout_chunk *c, uint32_t node);

/* Cut a net's units into n stages of about the same cost; units[n] [out]. */
void layout_balance(const struct net *net, uint32_t n, uint32_t *units);

#endif
