/*
 * schedule_build.c - make a plan of a schedule: cut long chunks into slices, join short ones into messages.
 *
 * All ranks do their rounds in the order of build_rounds, and a rank's sends of a round come before its
 * receives. A message may have to be cut, because its chunks do not lie in one range or are too many.
 * Its pieces are then done one by one, as if each had its own round.
 */
#include <stdlib.h>

#include "coll/algo.h"
#include "coll/schedule.h"

#define MAX_TURNS (1u << 24) /* limit of rounds times slices */

struct builder {
	const struct plan_args *a;
	const struct schedule *s;
	struct plan *out;
	uint64_t longest; /* longest chunk, and so the length of a place in scratch */
	uint64_t slice;	  /* elements; the last slice of a chunk may be shorter, or empty */
	uint64_t nslices;
	uint32_t joined;	/* chunks in one message at most */
	bool even;		/* all chunks are equally long */
	uint64_t wide_tmp;	/* the beginning of the places of scratch in PLAN_WIDE */
	uint64_t in_at, out_at; /* of the vector: the first element of IN and of OUT */
	size_t *round;		/* by round: its first step; nround + 1 entries */
	uint32_t nround;
};

static uint64_t
ceil_div(uint64_t x, uint64_t y)
{
	return x / y + (x % y > 0);
}

static uint64_t
longest_chunk(const struct builder *b)
{
	const struct schedule *s = b->s;
	uint64_t most = 0, off, count;

	if (!b->a->part) /* the last part, and the last chunk, is as long as any */
		schedule_chunk(s, b->a, s->nchunks - 1, &off, &most);
	else
		for (uint32_t r = 0; r < s->nranks; r++) {
			schedule_chunk(s, b->a, (r + 1) * (s->nchunks / s->nranks) - 1, &off,
				       &count);
			most = count > most ? count : most;
		}
	return most;
}

/* The offset of an element of a place in its buffer; *buf becomes PLAN_WIDE for a wide partial sum. */
static void
place(const struct builder *b, uint8_t *buf, uint64_t *off, uint32_t at, bool partial,
      uint64_t in_slice)
{
	uint64_t count;

	if (*buf == PLAN_TMP) {
		*off = at * b->longest + in_slice;
		if (partial && b->a->wide)
			*off += b->wide_tmp;
	} else {
		schedule_chunk(b->s, b->a, at, off, &count);
		*off += in_slice - (*buf == PLAN_IN ? b->in_at : b->out_at);
	}
	if (partial && b->a->wide)
		*buf = PLAN_WIDE;
}

/* The elements of n chunks of the step, from number i on, in slice l. */
static uint64_t
length(const struct builder *b, const struct schedule_step *x, uint32_t i, uint32_t n, uint64_t l)
{
	uint64_t off, end, count, skip = l * b->slice;

	schedule_chunk(b->s, b->a, x->chunk + i, &off, &count);
	if (n > 1) {
		schedule_chunk(b->s, b->a, x->chunk + i + n - 1, &end, &count);
		return end + count - off;
	}
	count = count > skip ? count - skip : 0;
	return count < b->slice ? count : b->slice;
}

/* The number of the step's chunks in one message. */
static uint32_t
joined(const struct builder *b, const struct schedule_step *x)
{
	return b->even || (x->flags & SCHEDULE_JOINED) ? b->joined : 1;
}

/* Append piece j of the step, if it exists. */
static void
build_step(struct builder *b, const struct schedule_step *x, uint32_t j, uint64_t l, uint32_t round)
{
	uint32_t each = joined(b, x), n = each;
	uint64_t i = (uint64_t)j * each;
	struct plan_step p = {.kind = x->kind, .src = x->src, .dst = x->dst, .round = round};

	if (i >= x->count)
		return;
	if (n > x->count - i)
		n = (uint32_t)(x->count - i);
	p.count = length(b, x, (uint32_t)i, n, l);
	if (!p.count)
		return;
	if (x->kind <= STEP_RECV_REDUCE)
		p.peer = x->peer;
	if (x->kind != STEP_RECV)
		place(b, &p.src, &p.src_off, x->src_at + (uint32_t)i,
		      x->flags & SCHEDULE_SRC_PARTIAL, l * b->slice);
	if (x->kind != STEP_SEND)
		place(b, &p.dst, &p.dst_off, x->dst_at + (uint32_t)i,
		      x->flags & SCHEDULE_DST_PARTIAL, l * b->slice);
	if (x->kind == STEP_REDUCE) {
		uint8_t with = x->with;

		place(b, &with, &p.with_off, x->with_at, x->flags & SCHEDULE_WITH_PARTIAL,
		      l * b->slice);
		p.with = with;
	}
	p.last = b->a->wide && (x->flags & SCHEDULE_LAST);
	plan_append(b->out, p);
	if ((x->flags & SCHEDULE_LAST) && !b->a->wide)
		plan_append(b->out, step_finish((enum plan_buf)p.dst,
						(struct span){p.dst_off, p.count}, round));
}

/* Append the sends, or the other steps, of [i, end). */
static void
build_steps(struct builder *b, size_t i, size_t end, bool sends, uint32_t j, uint64_t l,
	    uint32_t round)
{
	for (; i < end && !b->out->rc; i++)
		if ((b->s->step[i].kind == STEP_SEND) == sends)
			build_step(b, &b->s->step[i], j, l, round);
}

static bool
is_message(const struct schedule_step *x)
{
	return x->kind <= STEP_RECV_REDUCE;
}

/* Round t of slice l. */
static void
build_round(struct builder *b, uint32_t t, uint64_t l, uint32_t round)
{
	const struct schedule_step *step = b->s->step;
	size_t lo = b->round[t], hi = b->round[t + 1];
	uint32_t pieces = 1;

	for (; lo < hi && !is_message(&step[lo]); lo++)
		build_step(b, &step[lo], 0, l, round);
	for (; hi > lo && !is_message(&step[hi - 1]); hi--)
		;
	for (size_t i = lo; i < hi; i++)
		if (pieces < ceil_div(step[i].count, joined(b, &step[i])))
			pieces = (uint32_t)ceil_div(step[i].count, joined(b, &step[i]));
	for (uint32_t j = 0; j < pieces && lo < hi && !b->out->rc; j++) {
		build_steps(b, lo, hi, true, j, l, round);
		build_steps(b, lo, hi, false, j, l, round);
	}
	for (; hi < b->round[t + 1]; hi++)
		build_step(b, &step[hi], 0, l, round);
}

/* Slice l does round t as round t + l * interval. */
static void
build_rounds(struct builder *b)
{
	uint64_t pace = b->s->interval, end;

	if (!b->nround || b->nslices > MAX_TURNS / b->nround) {
		if (b->nround)
			plan_fail(b->out, RC_INVAL);
		return;
	}
	if (pace > b->nround)
		pace = b->nround;
	end = b->nround + (b->nslices - 1) * pace;
	for (uint64_t g = 0; g < end && !b->out->rc; g++) {
		uint64_t l = g < b->nround ? 0 : (g - b->nround) / pace + 1;

		for (; l < b->nslices && l * pace <= g; l++) {
			uint64_t t = g - l * pace;

			if (b->round[t] < b->round[t + 1]) /* this rank has steps there */
				build_round(b, (uint32_t)t, l, (uint32_t)g);
		}
	}
}

static bool
index_rounds(struct builder *b)
{
	const struct schedule *s = b->s;
	uint32_t t = 0;

	b->nround = s->nstep ? s->step[s->nstep - 1].round + 1 : 0;
	b->round = alloc_zeroed((size_t)b->nround + 1, sizeof *b->round);
	if (!b->round)
		return false;
	for (size_t i = 0; i < s->nstep; i++)
		while (t < s->step[i].round)
			b->round[++t] = i;
	b->round[b->nround] = s->nstep;
	return true;
}

/* Set the sizes of scratch and PLAN_WIDE. False: they exceed any memory. */
static bool
make_room(struct builder *b)
{
	const struct schedule *s = b->s;
	uint64_t room, off, count;
	bool any = false, in_out = false;

	if (s->scratch && b->longest > UINT64_MAX / 16 / s->scratch)
		return false;
	room = s->scratch * b->longest;
	plan_scratch(b->out, room);
	for (size_t i = 0; i < s->nstep; i++) {
		const struct schedule_step *x = &s->step[i];
		bool src = x->flags & SCHEDULE_SRC_PARTIAL, dst = x->flags & SCHEDULE_DST_PARTIAL,
		     with = x->flags & SCHEDULE_WITH_PARTIAL;

		any |= src || with || dst;
		in_out |= (src && x->src == PLAN_OUT) || (with && x->with == PLAN_OUT) ||
			  (dst && x->dst == PLAN_OUT);
	}
	if (in_out) {
		schedule_chunk(s, b->a, s->nchunks - 1, &off, &count);
		b->wide_tmp = off + count - b->out_at;
	}
	if (b->a->wide && any && b->out->nwide < room + b->wide_tmp)
		b->out->nwide = room + b->wide_tmp;
	return true;
}

void
schedule_build(const struct plan_args *a, struct plan *out)
{
	const struct schedule *s = a->schedule;
	struct builder b = {.a = a, .s = s, .out = out};
	struct span mine = part_of(a, a->rank);

	b.longest = longest_chunk(&b);
	if (!b.longest)
		return;
	b.nslices = a->chunk ? ceil_div(b.longest, a->chunk) : 1;
	b.slice = ceil_div(b.longest, b.nslices);
	b.even = !a->part && a->nelem % s->nchunks == 0;
	b.joined = 1;
	if (b.nslices == 1)
		b.joined = a->chunk && a->chunk / b.longest < s->nchunks
			       ? (uint32_t)(a->chunk / b.longest)
			       : s->nchunks;
	b.in_at = s->coll == GPUSIM_ALLGATHER ? mine.off : 0;
	b.out_at = s->coll == GPUSIM_REDUCESCATTER ? mine.off : 0;
	if (!make_room(&b))
		plan_fail(out, RC_INVAL);
	else if (!index_rounds(&b))
		plan_fail(out, RC_NOMEM);
	else
		build_rounds(&b);
	free(b.round);
}
