/*
 * shape.c - the table of collectives: names, and the elements that each rank reads and writes. It needs no
 * other file of this room, so that libgpusim has it without the plans.
 */
#include "coll/shape.h"

#include <inttypes.h>

#include "base/nearest.h"
#include "coll/algo.h"
#include "coll/parts.h"
#include "mem/dtype.h"
#include "mem/redop.h"

/* The elements of the vector in a buffer: none, the rank's part, all. */
enum extent { NONE, PART, ALL };

/* Where other ranks than the root have other buffers, the collective has a root. */
static const struct row {
	const char *name;
	uint8_t in, out;	   /* of the root, or of every rank */
	uint8_t in_else, out_else; /* of the other ranks */
	bool reduces, has_parts;
} rows[GPUSIM_NCOLLS] = {
    [GPUSIM_ALLREDUCE] = {"allreduce", ALL, ALL, ALL, ALL, .reduces = true},
    [GPUSIM_BROADCAST] = {"broadcast", ALL, ALL, NONE, ALL, .reduces = false},
    [GPUSIM_REDUCE] = {"reduce", ALL, ALL, ALL, NONE, .reduces = true},
    [GPUSIM_ALLGATHER] = {"allgather", PART, ALL, PART, ALL, .has_parts = true},
    [GPUSIM_REDUCESCATTER] = {"reduce-scatter", ALL, PART, ALL, PART, true, true},
    [GPUSIM_ALLTOALL] = {"alltoall", ALL, ALL, ALL, ALL, .has_parts = true},
    [GPUSIM_GATHER] = {"gather", PART, ALL, PART, NONE, .has_parts = true},
    [GPUSIM_SCATTER] = {"scatter", ALL, PART, NONE, PART, .has_parts = true},
    [GPUSIM_BARRIER] = {"barrier", NONE, NONE, NONE, NONE, .reduces = false},
    [GPUSIM_SEND] = {"send", ALL, NONE, ALL, NONE, .reduces = false},
    [GPUSIM_RECV] = {"recv", NONE, ALL, NONE, ALL, .reduces = false},
};

/* The value may come from a peer, so it may not be a member of the enum. */
static const struct row *
row_of(enum gpusim_coll coll)
{
	static const struct row unknown = {.name = "unknown collective"};

	return (unsigned)coll < GPUSIM_NCOLLS ? &rows[coll] : &unknown;
}

const char *
coll_name(enum gpusim_coll coll)
{
	return row_of(coll)->name;
}

bool
coll_reduces(enum gpusim_coll coll)
{
	return row_of(coll)->reduces;
}

bool
coll_has_parts(enum gpusim_coll coll)
{
	return row_of(coll)->has_parts;
}

bool
coll_has_root(enum gpusim_coll coll)
{
	const struct row *row = row_of(coll);

	return row->in != row->in_else || row->out != row->out_else;
}

bool
coll_is_sendrecv(enum gpusim_coll coll)
{
	return coll == GPUSIM_SEND || coll == GPUSIM_RECV;
}

double
coll_bus_factor(enum gpusim_coll coll, uint32_t nranks)
{
	double others = nranks ? (nranks - 1.0) / nranks : 1;

	return coll == GPUSIM_ALLREDUCE && nranks ? 2 * others : coll_has_parts(coll) ? others : 1;
}

bool
plan_args_ordered(const struct plan_args *a)
{
	return coll_reduces(a->coll) && dtype_is_float(a->dtype);
}

uint64_t
plan_args_bytes(const struct plan_args *a)
{
	return a->nelem * dtype_size(a->dtype);
}

unsigned
plan_args_widening(const struct plan_args *a)
{
	return coll_reduces(a->coll) ? redop_widening(a->redop, a->dtype) : 1;
}

enum rc
coll_parse(const char *name, enum gpusim_coll *out, struct err *err)
{
	struct nearest near = nearest_begin(name);
	struct buf known = {0};

	for (int i = 0; i < GPUSIM_NCOLLS; i++)
		if (nearest_same(name, rows[i].name)) {
			*out = (enum gpusim_coll)i;
			return RC_OK;
		}
	for (int i = 0; i < GPUSIM_NCOLLS; i++) {
		nearest_offer(&near, rows[i].name);
		buf_addf(&known, "%s%s", i ? ", " : "", rows[i].name);
	}
	err_set(err, RC_INVAL, "unknown collective '%.64s': %s%s%s%s", name,
		near.name ? "did you mean '" : "not one of ", near.name ? near.name : "",
		near.name ? "'? One of " : "", known.data ? known.data : "the collectives");
	buf_fini(&known);
	return RC_INVAL;
}

/* ---- parts */

void
plan_part(uint64_t nelem, uint32_t nranks, uint32_t r, uint64_t *off, uint64_t *count)
{
	/* floor(r * nelem / p) = r * (nelem / p) + floor(r * (nelem % p) / p), exactly */
	uint64_t each = nelem / nranks, rest = nelem % nranks;
	uint64_t lo = r * each + r * rest / nranks;
	uint64_t hi = (r + 1ull) * each + (r + 1ull) * rest / nranks;

	*off = lo;
	*count = hi - lo;
}

struct span
part_of(const struct plan_args *a, uint32_t r)
{
	struct span s;

	if (a->part)
		return (struct span){a->part[r].off, a->part[r].count};
	plan_part(a->nelem, a->nranks, r, &s.off, &s.count);
	return s;
}

uint64_t
parts_end(const struct plan_part *part, uint32_t n)
{
	uint64_t end = 0;

	for (uint32_t r = 0; r < n; r++)
		if (part[r].count && part[r].off + part[r].count > end)
			end = part[r].off + part[r].count;
	return end;
}

/* ---- shapes */

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
	const struct row *row = row_of(a->coll);
	bool other = coll_has_root(a->coll) && a->rank != a->root;
	uint8_t in = other ? row->in_else : row->in, out = other ? row->out_else : row->out;
	struct span part = part_of(a, a->rank);
	struct shape s = {.in = in == ALL    ? a->nelem
				: in == PART ? part.count
					     : 0,
			  .out = out == ALL    ? a->nelem
				 : out == PART ? part.count
					       : 0};

	if (a->part && !part.count)
		part.off = 0;
	if (a->recv_part)
		s.out = parts_end(a->recv_part, a->nranks);
	s.whole = s.in > s.out ? s.in : s.out;
	if (in == PART && out == ALL)
		s.in_at = part.off;
	else if (in == ALL && out == PART)
		s.out_at = part.off;
	if (a->coll == GPUSIM_ALLTOALL) { /* has no in-place form: two halves */
		s.whole = s.in + s.out;
		s.out_at = s.in;
	}
	return s;
}

bool
shape_source(const struct plan_args *a, uint32_t i, struct shape_source *s)
{
	struct shape shape = shape_of_args(a);
	struct span mine = part_of(a, a->rank), part;

	*s = (struct shape_source){.rank = coll_reduces(a->coll) ? SHAPE_REDUCED : a->root,
				   .nelem = shape.out};
	if (a->coll == GPUSIM_REDUCESCATTER || a->coll == GPUSIM_SCATTER)
		s->off = mine.off;
	if (a->coll != GPUSIM_ALLGATHER && a->coll != GPUSIM_GATHER && a->coll != GPUSIM_ALLTOALL)
		return i == 0 && shape.out;
	if (i >= a->nranks || !shape.out)
		return false;
	part = part_of(a, i);
	*s = (struct shape_source){.rank = i, .at = part.off, .nelem = part.count};
	if (a->coll == GPUSIM_ALLTOALL) {
		s->off = mine.off;
		s->nelem = mine.count;
	}
	return true;
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

enum rc
shape_nelem(enum gpusim_coll coll, uint64_t count, uint32_t nranks, uint64_t *nelem,
	    struct err *err)
{
	uint64_t n = coll_has_parts(coll) ? nranks : 1;

	if (__builtin_mul_overflow(count, n, nelem) || *nelem > UINT64_MAX / 16)
		return err_set(err, RC_INVAL, "%" PRIu64 " elements: too many", count);
	return RC_OK;
}
