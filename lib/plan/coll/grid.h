/*
 * grid.h - the ranks of a communicator as a grid: data parallel, tensor parallel, pipeline parallel.
 *
 * Ranks are laid out as Megatron's: tensor-parallel neighbours first, then data, then pipeline. So a stage of the
 * pipeline is a run of ranks, and its tensor-parallel groups are runs within it.
 */
#ifndef COLL_GRID_H
#define COLL_GRID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"

#define GRID_MAX 1024u /* ranks */

struct grid {
	uint32_t dp, tp, pp; /* each at least 1 */
};

/* The place of a rank: which part of the batch, of each layer, of the layers. */
struct grid_place {
	uint32_t d, t, p;
};

static inline uint32_t
grid_size(const struct grid *g)
{
	return g->dp * g->tp * g->pp;
}

static inline uint32_t
grid_rank(const struct grid *g, uint32_t d, uint32_t t, uint32_t p)
{
	return (p * g->dp + d) * g->tp + t;
}

static inline struct grid_place
grid_at(const struct grid *g, uint32_t rank)
{
	return (struct grid_place){rank / g->tp % g->dp, rank % g->tp, rank / g->tp / g->dp};
}

/*
 * grid_parse - "dp=2,tp=2,pp=2", in any order; what is not named is 1, but dp is 0, to be set from the number
 * of devices.
 *
 *	most	ranks that there may be
 *
 * Errors: RC_INVAL another name, a number that is not 1 to most, a name twice, more than most ranks. Checked
 * by: tests/unit/coll/t_coll_grid.c
 */
enum rc grid_parse(const char *text, uint32_t most, struct grid *out, struct err *err);

/* "dp=2,tp=2,pp=1"; without dp if it is 0 */
#define GRID_TEXT 48
const char *grid_print(const struct grid *g, char out[GRID_TEXT]);

/* As grid_parse, for a communicator of n ranks; without dp, ranks that complete no group are outside. RC_INVAL,
 * too: the product is another, or tp times pp is more than n. */
enum rc grid_parse_for(const char *text, uint32_t n, struct grid *out, struct err *err);

/* "d1 t0 p1": the place of a rank of a grid as grid_print writes it; false: it is in none. */
bool grid_place_print(const char *grid, uint32_t rank, char out[GRID_TEXT]);

#endif
