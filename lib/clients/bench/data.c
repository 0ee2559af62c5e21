#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>

#include "base/mix.h"
#include "base/must.h"
#include "coll/shape.h"
#include "mem/dtype.h"
#include "mem/number.h"
#include "mem/redop.h"

#define PERIOD	    4093u /* prime */
#define NO_WHICH    (SHAPE_REDUCED - 1)
#define SMALL_RANKS 6 /* as redop.h counts them */
#define MAX_MOVED   101

void
bench_data_init(struct bench_data *d)
{
	d->most = BENCH_PIECE / dtype_size(d->dtype);
	d->which = NO_WHICH;
	d->room = must_alloc(PERIOD + d->most, dtype_size(d->dtype));
}

void
bench_data_fini(struct bench_data *d)
{
	free(d->room);
	d->room = NULL;
}

static uint32_t
scramble(uint32_t a, uint32_t b)
{
	return (uint32_t)(mix64((uint64_t)a << 32 | b) >> 33);
}

/* Element i of a rank's input. A few ranks have small numbers and the others the redop's
 * identity, so that every type holds the result exactly. */
static union number
element(const struct bench_data *d, uint32_t rank, uint32_t i)
{
	const struct redop *redop = &redops[d->redop];
	uint32_t v = scramble(rank, i);

	if (!coll_reduces(d->coll))
		return number_of(d->dtype, v % MAX_MOVED);
	if ((rank + scramble(i, d->nranks)) % d->nranks >= SMALL_RANKS)
		return number_of(d->dtype, redop->identity);
	return number_of(d->dtype, 1 + (int)(v % (uint32_t)redop->small));
}

union number
bench_factor(enum gpusim_dtype dtype, uint32_t rank)
{
	return number_of(dtype, 1 + rank % 2);
}

/* A rank's element as it enters the reduction. */
static union number
summand(const struct bench_data *d, uint32_t rank, uint32_t i)
{
	return number_enter(d->dtype, d->redop, element(d, rank, i), bench_factor(d->dtype, rank));
}

/* Element i of the reduction of all ranks. */
static union number
reduced(const struct bench_data *d, uint32_t i)
{
	union number n = summand(d, 0, i);

	for (uint32_t r = 1; r < d->nranks; r++)
		n = number_fold(d->dtype, d->redop, n, summand(d, r, i));
	return number_finish(d->dtype, d->redop, n, d->nranks);
}

const char *
bench_data_get(struct bench_data *d, uint32_t which, uint64_t from, uint64_t nelem)
{
	size_t size = dtype_size(d->dtype);
	uint64_t phase = from % PERIOD, need = phase + nelem;

	if (d->which != which) { /* the first period */
		for (uint32_t i = 0; i < PERIOD; i++)
			number_put(d->dtype, d->room + i * size,
				   which == SHAPE_REDUCED ? reduced(d, i) : element(d, which, i));
		d->which = which;
		d->filled = PERIOD;
	}
	while (d->filled < need) {
		/* The copied part is whole periods, so the sequence goes on. */
		uint64_t more = d->filled < need - d->filled ? d->filled : need - d->filled;

		memcpy(d->room + d->filled * size, d->room, more * size);
		d->filled += more;
	}
	if (d->filled % PERIOD) /* only whole periods may be copied next time */
		d->filled -= d->filled % PERIOD;
	return d->room + phase * size;
}
