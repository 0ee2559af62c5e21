#include "bench/data.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "coll/plan.h"
#include "mem/dtype.h"

#define PERIOD	  4093u /* prime */
#define NO_WHICH  (BENCH_REDUCED - 1)
#define MAX_SUM	  127 /* every type holds it, and what is below */
#define MAX_TWOS  6   /* factors of 2 in a product */
#define MAX_MOVED 101

enum rc
bench_data_init(struct bench_data *d, struct err *err)
{
	d->most = BENCH_PIECE / dtype_size(d->dtype);
	d->which = NO_WHICH;
	d->room = alloc_zeroed(PERIOD + d->most, dtype_size(d->dtype));
	return d->room ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
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
	uint64_t x = ((uint64_t)a << 32 | b) + UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)(x >> 33);
}

/* Element i of what a rank brings. */
static int
element(const struct bench_data *d, uint32_t rank, uint32_t i)
{
	uint32_t n = d->nranks, twos;

	if (!coll_reduces(d->coll) || d->redop == GPUSIM_MIN || d->redop == GPUSIM_MAX)
		return (int)(scramble(rank, i) % MAX_MOVED);
	if (d->redop == GPUSIM_PROD) { /* 2 from at most MAX_TWOS ranks, 1 from the others */
		twos = scramble(n, i) % (MAX_TWOS + 1);
		return (rank + scramble(i, n)) % n < twos ? 2 : 1;
	}
	if (n > MAX_SUM)
		return rank < MAX_SUM ? (int)(scramble(rank, i) % 2) : 0;
	return (int)(scramble(rank, i) % (MAX_SUM / n + 1));
}

static int
combine(enum gpusim_redop redop, int a, int b)
{
	switch (redop) {
	case GPUSIM_PROD:
		return a * b;
	case GPUSIM_MIN:
		return a < b ? a : b;
	case GPUSIM_MAX:
		return a > b ? a : b;
	default:
		return a + b;
	}
}

#define STORE(type, value)                   \
	do {                                 \
		type v_ = (type)(value);     \
		memcpy(dst, &v_, sizeof v_); \
	} while (0)

/* v / by in the type: rounded as the devices round it; by is 1 but for averages. */
static void
store(enum gpusim_dtype t, int v, int by, void *dst)
{
	switch (t) {
	case GPUSIM_F64:
		STORE(double, (double)v / by);
		break;
	case GPUSIM_F32:
		STORE(float, (float)v / (float)by);
		break;
	case GPUSIM_F16:
		STORE(uint16_t, half_from_f32((float)v / (float)by));
		break;
	case GPUSIM_BF16:
		STORE(uint16_t, bf16_from_f32((float)v / (float)by));
		break;
	case GPUSIM_I8:
	case GPUSIM_U8:
		STORE(uint8_t, v / by);
		break;
	case GPUSIM_I32:
	case GPUSIM_U32:
		STORE(uint32_t, v / by);
		break;
	case GPUSIM_I64:
	case GPUSIM_U64:
		STORE(uint64_t, v / by);
		break;
	case GPUSIM_NDTYPES:
		break;
	}
}

/* The first period of a sequence. */
static void
make(struct bench_data *d, uint32_t which)
{
	int by = which == BENCH_REDUCED && d->redop == GPUSIM_AVG ? (int)d->nranks : 1;
	size_t size = dtype_size(d->dtype);

	for (uint32_t i = 0; i < PERIOD; i++) {
		int v = element(d, which == BENCH_REDUCED ? 0 : which, i);

		for (uint32_t r = 1; which == BENCH_REDUCED && r < d->nranks; r++)
			v = combine(d->redop, v, element(d, r, i));
		store(d->dtype, v, by, d->room + i * size);
	}
	d->which = which;
	d->filled = PERIOD;
}

const char *
bench_data_get(struct bench_data *d, uint32_t which, uint64_t from, uint64_t nelem)
{
	size_t size = dtype_size(d->dtype);
	uint64_t phase = from % PERIOD, need = phase + nelem;

	if (d->which != which)
		make(d, which);
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

int
bench_segment(const struct bench_data *d, uint64_t nelem, uint32_t rank, uint32_t i,
	      struct bench_segment *out)
{
	uint64_t off, part, theirs, count;

	plan_part(nelem, d->nranks, rank, &off, &part);
	switch (d->coll) {
	case GPUSIM_ALLREDUCE:
		*out = (struct bench_segment){BENCH_REDUCED, 0, 0, nelem};
		return i == 0;
	case GPUSIM_REDUCE:
		*out = (struct bench_segment){BENCH_REDUCED, 0, 0, nelem};
		return i == 0 && rank == d->root;
	case GPUSIM_BROADCAST:
		*out = (struct bench_segment){d->root, 0, 0, nelem};
		return i == 0;
	case GPUSIM_REDUCESCATTER:
		*out = (struct bench_segment){BENCH_REDUCED, 0, off, part};
		return i == 0;
	case GPUSIM_SCATTER:
		*out = (struct bench_segment){d->root, 0, off, part};
		return i == 0;
	case GPUSIM_ALLGATHER:
	case GPUSIM_GATHER:
		if (i >= d->nranks || (d->coll == GPUSIM_GATHER && rank != d->root))
			return 0;
		plan_part(nelem, d->nranks, i, &theirs, &count);
		*out = (struct bench_segment){i, theirs, 0, count};
		return 1;
	case GPUSIM_ALLTOALL:
		if (i >= d->nranks)
			return 0;
		plan_part(nelem, d->nranks, i, &theirs, &count);
		*out = (struct bench_segment){i, theirs, off, part};
		return 1;
	default:
		return 0;
	}
}
