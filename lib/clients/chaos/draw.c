/* Operations and faults of chaos, each from the seed and its number. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mix.h"
#include "chaos/chaos_impl.h"
#include "coll/fault.h"
#include "coll/plan.h"
#include "coll/shape.h"
#include "mem/dtype.h"
#include "mem/redop.h"

#define MS UINT64_C(1000000)

static uint64_t
between(uint64_t *state, uint64_t lo, uint64_t hi)
{
	return lo + splitmix64(state) % (hi - lo + 1);
}

/* (0, 1) */
static double
unit(uint64_t *state)
{
	return ((double)(splitmix64(state) >> 11) + 0.5) * 0x1p-53;
}

static uint64_t
begin(uint64_t seed, uint64_t what, uint64_t i)
{
	uint64_t state = seed;

	state = splitmix64(&state) ^ what;
	return splitmix64(&state) ^ i * UINT64_C(0xd1342543de82ef95);
}

/* An algorithm that does not store into peers: a frozen rank may resume at any time. */
static const char *
draw_algo(uint64_t *state, enum gpusim_coll coll, bool one_sided)
{
	const struct plan_algo *fit[32];
	uint64_t n = 0, which = splitmix64(state);

	for (const struct plan_algo *row = plan_algos; row->name && n < 32; row++)
		if (row->coll == coll && !plan_algo_stores(row) &&
		    (one_sided || !plan_algo_mapped(row)))
			fit[n++] = row;
	return n ? fit[which % n]->name : NULL;
}

void
chaos_draw_op(uint64_t seed, uint64_t i, uint32_t nranks, bool one_sided, struct chaos_op *out)
{
	static const enum gpusim_dtype types[] = {GPUSIM_I8,  GPUSIM_U8,  GPUSIM_I32,
						  GPUSIM_U32, GPUSIM_I64, GPUSIM_U64};
	static const uint64_t chunks[] = {0, 0, 256, 4096, 65536};
	uint64_t state = begin(seed, 'o', i), size;

	*out = (struct chaos_op){.nranks = nranks};
	out->seed = splitmix64(&state);
	out->coll = (enum gpusim_coll)between(&state, 0, GPUSIM_SEND); /* SEND: a ring of pairs */
	if (splitmix64(&state) % 3 == 0)
		out->coll = GPUSIM_ALLREDUCE;
	out->dtype = types[between(&state, 0, 5)];
	out->redop = (enum gpusim_redop)between(&state, 0, GPUSIM_NREDOPS - 1);
	out->root = (uint32_t)(splitmix64(&state) % nranks);
	if (!coll_has_root(out->coll))
		out->root = 0;
	size = dtype_size(out->dtype);
	/* Few elements are as likely as many. */
	out->nelem = (uint64_t)exp(unit(&state) * log((double)(CHAOS_BYTES / size)));
	out->in_place =
	    splitmix64(&state) % 2 && out->coll != GPUSIM_ALLTOALL && out->coll != GPUSIM_SEND;
	out->chunk_bytes = chunks[between(&state, 0, 4)];
	/* Chunks are not so small that there are too many of them. */
	if (out->nelem * size > 64 * out->chunk_bytes)
		out->chunk_bytes = 0;
	out->algo = draw_algo(&state, out->coll, one_sided);
	if (coll_has_parts(out->coll))
		out->nelem = (out->nelem + nranks - 1) / nranks * nranks;
	if (out->nelem * size > CHAOS_BYTES)
		out->nelem -= nranks;
	if (out->coll == GPUSIM_BARRIER)
		out->nelem = 0;
}

void
chaos_show_op(const struct chaos_op *o, char *out, size_t n)
{
	snprintf(out, n, "%s%s%s of %llu %s, %s%s, root %u, chunk %llu, %u ranks",
		 o->coll == GPUSIM_SEND ? "ring of sends" : coll_name(o->coll),
		 coll_reduces(o->coll) ? " " : "",
		 coll_reduces(o->coll) ? redop_name(o->redop) : "", (unsigned long long)o->nelem,
		 dtype_name(o->dtype), o->algo ? o->algo : "auto", o->in_place ? ", in place" : "",
		 o->root, (unsigned long long)o->chunk_bytes, o->nranks);
}

/* A fault's duration and amount. */
static void
draw_details(uint64_t *state, bool frames_of_sends, struct gpusim_fault *f)
{
	uint64_t a = splitmix64(state), b = splitmix64(state);

	switch (f->kind) {
	case GPUSIM_FAULT_STOP:
		f->for_ns = (50 + a % 2000) * MS;
		break;
	case GPUSIM_FAULT_SLOW:
		f->by_ns = (1 + a % 10) * MS;
		f->count = 1 + b % 100;
		break;
	case GPUSIM_FAULT_DROP:
	case GPUSIM_FAULT_CORRUPT:
		f->count = 1 + a % 4;
		f->seed = b;
		break;
	case GPUSIM_FAULT_CUT:
		f->for_ns = a % 4 ? (50 + b % 1000) * MS : 0;
		break;
	default:
		break;
	}
	if (frames_of_sends && f->kind >= GPUSIM_FAULT_DROP) {
		f->at = 1;
		f->coll = GPUSIM_SEND;
		f->step = 0;
	}
}

void
chaos_draw_fault(uint64_t seed, uint64_t i, unsigned kinds, bool frames_of_sends,
		 struct chaos_fault *out)
{
	uint64_t state = begin(seed, 'f', i), which;
	int kind = 0;

	*out = (struct chaos_fault){.after = -log(unit(&state))};
	out->victim = (uint32_t)splitmix64(&state);
	which = splitmix64(&state) % (unsigned)__builtin_popcount(kinds);
	while (!(kinds >> kind & 1) || which-- > 0)
		kind++;
	out->f = (struct gpusim_fault){.kind = (enum gpusim_fault_kind)kind, .coll = -1, .next = 1};
	out->f.at = splitmix64(&state) % 2 != 0;
	out->f.step = (uint32_t)between(&state, 0, 6);
	draw_details(&state, frames_of_sends, &out->f);
	if ((kind == GPUSIM_FAULT_STOP || kind == GPUSIM_FAULT_SLOW) &&
	    splitmix64(&state) % 10 == 0) {
		out->coordinator = true;
		out->f.at = 0;
		if (out->f.for_ns > 500 * MS)
			out->f.for_ns = 500 * MS;
	}
}

void
chaos_show_fault(const struct chaos_fault *f, char *out, size_t n)
{
	char what[GPUSIM_TEXT];

	fault_show(&f->f, what, sizeof what);
	if (f->coordinator)
		snprintf(out, n, "%s coordinator", what);
	else
		snprintf(out, n, "%s victim=%u", what, f->victim);
}
