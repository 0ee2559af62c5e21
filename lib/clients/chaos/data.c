/* Elements of chaos's operations, and their expected results. */
#include <string.h>

#include "base/mix.h"
#include "chaos/chaos_impl.h"
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

/* The operation of these ranks, of which took[me] is one. A root that took no part is number ntook. */
static struct plan_args
args_of(const struct chaos_op *o, const uint32_t *took, uint32_t ntook, uint32_t me)
{
	struct plan_args a = {.coll = o->coll, .rank = me, .nranks = ntook, .nelem = o->nelem};

	if (coll_has_parts(o->coll))
		a.nelem = o->nelem / o->nranks * ntook;
	while (a.root < ntook && took[a.root] != o->root)
		a.root++;
	if (o->coll == GPUSIM_SEND) { /* a ring of pairs: from the rank before */
		a.coll = GPUSIM_RECV;
		a.root = (me + ntook - 1) % ntook;
	}
	return a;
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
	const struct plan_args a = args_of(o, took, ntook, me);
	size_t size = dtype_size(o->dtype);
	struct shape_source s;

	for (uint32_t k = 0; shape_source(&a, k, &s); k++) {
		const unsigned char *at = (const unsigned char *)got + s.at * size;

		for (uint64_t i = s.off; i < s.off + s.nelem; i++, at += size) {
			unsigned char want[8];

			number_put(o->dtype, want,
				   s.rank == SHAPE_REDUCED
				       ? reduced(o, took, ntook, i)
				       : element(o, s.rank < ntook ? took[s.rank] : o->root, i));
			if (memcmp(at, want, size) != 0)
				return false;
		}
	}
	return true;
}
