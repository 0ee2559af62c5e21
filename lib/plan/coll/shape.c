#include "coll/shape.h"

#include <inttypes.h>

#include "coll/algo.h"
#include "coll/parts.h"

struct shape
shape_of(enum gpusim_coll coll, uint64_t nelem, uint32_t nranks, uint32_t root, uint32_t rank)
{
	const struct plan_args a = {
	    .coll = coll, .nelem = nelem, .nranks = nranks, .root = root, .rank = rank};

	return shape_of_args(&a);
}

struct shape
shape_of_args(const struct plan_args *a)
{
	uint32_t rank = a->rank, root = a->root;
	uint64_t nelem = a->nelem, at_root = rank == root ? nelem : 0, received = nelem;
	struct span s = part_of(a, rank);
	uint64_t off = s.count || !a->part ? s.off : 0, part = s.count;

	if (a->recv_part)
		received = parts_end(a->recv_part, a->nranks);
	switch (a->coll) {
	case GPUSIM_ALLREDUCE:
		return (struct shape){.in = nelem, .out = nelem, .whole = nelem};
	case GPUSIM_BROADCAST:
		return (struct shape){.in = at_root, .out = nelem, .whole = nelem};
	case GPUSIM_REDUCE:
		return (struct shape){.in = nelem, .out = at_root, .whole = nelem};
	case GPUSIM_ALLGATHER:
		return (struct shape){.in = part, .out = nelem, .whole = nelem, .in_at = off};
	case GPUSIM_REDUCESCATTER:
		return (struct shape){.in = nelem, .out = part, .whole = nelem, .out_at = off};
	case GPUSIM_ALLTOALL: /* has no in-place form: two halves */
		return (struct shape){
		    .in = nelem, .out = received, .whole = nelem + received, .out_at = nelem};
	case GPUSIM_GATHER:
		if (rank == root)
			return (struct shape){
			    .in = part, .out = nelem, .whole = nelem, .in_at = off};
		return (struct shape){.in = part, .whole = part};
	case GPUSIM_SCATTER:
		if (rank == root)
			return (struct shape){
			    .in = nelem, .out = part, .whole = nelem, .out_at = off};
		return (struct shape){.out = part, .whole = part};
	case GPUSIM_SEND:
		return (struct shape){.in = nelem, .whole = nelem};
	case GPUSIM_RECV:
		return (struct shape){.out = nelem, .whole = nelem};
	case GPUSIM_BARRIER:
	case GPUSIM_NCOLLS:
		break;
	}
	return (struct shape){0};
}

enum rc
shape_place(const struct shape *s, uint64_t in, uint64_t out, size_t elem, struct err *err)
{
	if (!s->in || !s->out || in >= out + s->out * elem || out >= in + s->in * elem)
		return RC_OK;
	if (in - s->in_at * elem == out - s->out_at * elem)
		return RC_OK;
	return err_set(
	    err, RC_INVAL,
	    "the receive buffer overlaps the send buffer, but not as an in-place operation");
}

int
shape_counts_parts(enum gpusim_coll coll)
{
	return coll == GPUSIM_ALLGATHER || coll == GPUSIM_GATHER || coll == GPUSIM_REDUCESCATTER ||
	       coll == GPUSIM_SCATTER || coll == GPUSIM_ALLTOALL;
}

enum rc
shape_nelem(enum gpusim_coll coll, uint64_t count, uint32_t nranks, uint64_t *nelem,
	    struct err *err)
{
	uint64_t n = shape_counts_parts(coll) ? nranks : 1;

	if (__builtin_mul_overflow(count, n, nelem) || *nelem > UINT64_MAX / 16)
		return err_set(err, RC_INVAL, "%" PRIu64 " elements: too many", count);
	return RC_OK;
}
