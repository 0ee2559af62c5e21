/* Elements of chaos's operations, and their expected results. */
#include <string.h>

#include "base/mix.h"
#include "chaos/chaos_impl.h"
#include "coll/plan.h"
#include "coll/shape.h"
#include "mem/dtype.h"
#include "mem/number.h"

/* Element i of a rank's input: any number of the type. */
static union number
element(const struct chaos_op *o, uint32_t rank, uint64_t i)
{
	return number_of(o->dtype, (int64_t)mix64(o->seed ^ mix64((uint64_t)rank << 40 ^ i)));
}

static union number
factor(const struct chaos_op *o, uint32_t rank)
{
	return element(o, rank, UINT64_C(1) << 39);
}

void
chaos_factor(const struct chaos_op *o, uint32_t rank, void *to)
{
	number_put(o->dtype, to, factor(o, rank));
}

/* A rank's element as it enters the reduction. */
static union number
summand(const struct chaos_op *o, uint32_t rank, uint64_t i)
{
	return number_enter(o->dtype, o->redop, element(o, rank, i), factor(o, rank));
}

static union number
reduced(const struct chaos_op *o, const uint32_t *took, uint32_t ntook, uint64_t i)
{
	union number n = summand(o, took[0], i);

	for (uint32_t k = 1; k < ntook; k++)
		n = number_fold(o->dtype, o->redop, n, summand(o, took[k], i));
	return number_finish(o->dtype, o->redop, n, ntook);
}

/* Elements of one rank's part. */
static uint64_t
part_of(const struct chaos_op *o)
{
	return o->nelem / o->nranks;
}

static uint32_t
index_of_root(const struct chaos_op *o, const uint32_t *took, uint32_t ntook)
{
	uint32_t k = 0;

	while (k < ntook && took[k] != o->root)
		k++;
	return k;
}

uint64_t
chaos_out(const struct chaos_op *o, const uint32_t *took, uint32_t ntook, uint32_t me)
{
	uint64_t nelem = shape_counts_parts(o->coll) ? part_of(o) * ntook : o->nelem;

	if (o->coll == GPUSIM_SEND)
		return o->nelem;
	return shape_of(o->coll, nelem, ntook, index_of_root(o, took, ntook), me).out;
}

/* Element i of the output of the rank that is took[me]. */
static union number
expected(const struct chaos_op *o, const uint32_t *took, uint32_t ntook, uint32_t me, uint64_t i)
{
	uint64_t part = part_of(o);

	switch (o->coll) {
	case GPUSIM_BROADCAST:
		return element(o, o->root, i);
	case GPUSIM_ALLGATHER:
	case GPUSIM_GATHER:
		return element(o, took[i / part], i % part);
	case GPUSIM_REDUCESCATTER:
		return reduced(o, took, ntook, me * part + i);
	case GPUSIM_ALLTOALL:
		return element(o, took[i / part], me * part + i % part);
	case GPUSIM_SCATTER:
		return element(o, o->root, me * part + i);
	case GPUSIM_SEND: /* a ring of pairs: from the rank before */
		return element(o, took[(me + ntook - 1) % ntook], i);
	default:
		return reduced(o, took, ntook, i);
	}
}

void
chaos_fill(const struct chaos_op *o, uint32_t rank, void *to, uint64_t n)
{
	size_t size = dtype_size(o->dtype);
	unsigned char *at = to;

	for (uint64_t i = 0; i < n; i++, at += size)
		number_put(o->dtype, at, element(o, rank, i));
}

bool
chaos_check(const struct chaos_op *o, const uint32_t *took, uint32_t ntook, uint32_t me,
	    const void *got)
{
	uint64_t n = chaos_out(o, took, ntook, me);
	size_t size = dtype_size(o->dtype);
	const unsigned char *at = got;

	for (uint64_t i = 0; i < n; i++, at += size) {
		unsigned char want[8];

		number_put(o->dtype, want, expected(o, took, ntook, me, i));
		if (memcmp(at, want, size) != 0)
			return false;
	}
	return true;
}
