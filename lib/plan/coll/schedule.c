/*
 * schedule.c - schedules as bytes, and their bounds. schedule_build.c makes plans of them.
 */
#include "coll/schedule.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "coll/algo.h"
#include "coll/parts.h"

bool
schedule_append(struct schedule *s, struct schedule_step step)
{
	if (!alloc_room(&s->step, s->nstep, &s->cap, sizeof *s->step))
		return false;
	s->step[s->nstep++] = step;
	return true;
}

void
schedule_free_all(struct schedule *s, uint32_t n)
{
	for (uint32_t r = 0; s && r < n; r++)
		free(s[r].step);
	free(s);
}

/* ---- bounds */

static bool
has_parts(enum gpusim_coll coll)
{
	return coll == GPUSIM_ALLGATHER || coll == GPUSIM_REDUCESCATTER || coll == GPUSIM_ALLTOALL;
}

static bool
known(enum gpusim_coll coll)
{
	return has_parts(coll) || coll == GPUSIM_ALLREDUCE || coll == GPUSIM_BROADCAST ||
	       coll == GPUSIM_REDUCE;
}

static uint32_t
per_rank(const struct schedule *s)
{
	return s->nchunks / s->nranks;
}

/* Check that the range is inside the buffer, and that its places are as long as the chunks. */
static bool
fits(const struct schedule *s, const struct schedule_step *x, unsigned buf, uint32_t at)
{
	uint32_t lo, hi;
	bool part, none;

	if (buf == PLAN_TMP)
		return at <= s->scratch && x->count <= s->scratch - at;
	if (buf != PLAN_IN && buf != PLAN_OUT)
		return false;
	/* The chunks of the vector that the rank's buffer has. */
	part = (buf == PLAN_IN && s->coll == GPUSIM_ALLGATHER) ||
	       (buf == PLAN_OUT && s->coll == GPUSIM_REDUCESCATTER);
	none = s->rank != s->root && ((buf == PLAN_IN && s->coll == GPUSIM_BROADCAST) ||
				      (buf == PLAN_OUT && s->coll == GPUSIM_REDUCE));
	lo = part ? s->rank * per_rank(s) : 0;
	hi = none ? 0 : part ? lo + per_rank(s) : s->nchunks;
	if (at < lo || at > hi || x->count > hi - at)
		return false;
	if (s->coll == GPUSIM_ALLTOALL)
		return at % per_rank(s) == x->chunk % per_rank(s);
	return at == x->chunk;
}

static bool
is_message(const struct schedule_step *x)
{
	return x->kind <= STEP_RECV_REDUCE;
}

static bool
is_sum(const struct schedule_step *x)
{
	return x->kind == STEP_RECV_REDUCE || x->kind == STEP_REDUCE;
}

static const char *
wrong(const struct schedule *s, const struct schedule_step *x)
{
	bool reads = x->kind != STEP_RECV, writes = x->kind != STEP_SEND;

	if (x->kind != STEP_COPY && x->kind != STEP_REDUCE && !is_message(x))
		return "unknown kind";
	if (x->flags >= 2 * SCHEDULE_DST_PARTIAL)
		return "unknown flags";
	if (x->round >= SCHEDULE_MAX_ROUNDS)
		return "round out of bounds";
	if (is_message(x) && (x->peer >= s->nranks || x->peer == s->rank))
		return "no such peer";
	if (!x->count || (x->count > 1 && !is_message(x)))
		return "a bad count";
	if (x->chunk >= s->nchunks || x->count > s->nchunks - x->chunk)
		return "no such chunk";
	if (reads && !fits(s, x, x->src, x->src_at))
		return "source out of bounds";
	if (writes && (x->dst == PLAN_IN || !fits(s, x, x->dst, x->dst_at)))
		return "destination out of bounds";
	if (x->kind == STEP_REDUCE && !fits(s, x, x->with, x->with_at))
		return "second source out of bounds";
	if (x->kind == STEP_RECV_REDUCE && x->src == x->dst && x->src_at != x->dst_at &&
	    (x->src_at < x->dst_at ? x->dst_at - x->src_at : x->src_at - x->dst_at) < x->count)
		return "source and destination overlap";
	if ((x->flags & ~(unsigned)SCHEDULE_JOINED || is_sum(x)) && !coll_reduces(s->coll))
		return "nothing is reduced";
	if (((x->flags & SCHEDULE_SRC_PARTIAL) && (!reads || x->src == PLAN_IN)) ||
	    ((x->flags & SCHEDULE_WITH_PARTIAL) &&
	     (x->kind != STEP_REDUCE || x->with == PLAN_IN)) ||
	    ((x->flags & SCHEDULE_DST_PARTIAL) && !writes))
		return "a partial sum where none can be";
	if ((x->flags & SCHEDULE_LAST) && (!is_sum(x) || (x->flags & SCHEDULE_DST_PARTIAL)))
		return "a bad end of a sum";
	if (is_sum(x) && !(x->flags & (SCHEDULE_LAST | SCHEDULE_DST_PARTIAL)))
		return "a sum that is neither partial nor finished";
	if (x->kind == STEP_SEND && (x->flags & SCHEDULE_SRC_PARTIAL) && !s->sends_partial)
		return "a send of a partial sum in a schedule that sends none";
	if (x->kind == STEP_COPY &&
	    !(x->flags & SCHEDULE_SRC_PARTIAL) != !(x->flags & SCHEDULE_DST_PARTIAL))
		return "a copy that changes what it copies";
	return NULL;
}

enum rc
schedule_check(const struct schedule *s, struct err *err)
{
	if (!memchr(s->name, '\0', sizeof s->name) || !known(s->coll) || s->nranks < 2 ||
	    s->nranks > PLAN_MAX_RANKS || s->rank >= s->nranks || s->root >= s->nranks ||
	    !s->nchunks || s->nchunks > SCHEDULE_MAX_CHUNKS ||
	    (has_parts(s->coll) && s->nchunks % s->nranks) || s->scratch > SCHEDULE_MAX_SCRATCH ||
	    !s->interval || s->interval > SCHEDULE_MAX_ROUNDS || s->nstep > SCHEDULE_MAX_STEPS)
		return err_set(err, RC_BADDATA, "a bad schedule");
	for (size_t i = 0; i < s->nstep; i++) {
		const char *why = wrong(s, &s->step[i]);

		if (!why && i && s->step[i].round < s->step[i - 1].round)
			why = "comes after a later round";
		if (why)
			return err_set(err, RC_BADDATA,
				       "a bad schedule: rank %" PRIu32 " step %zu: %s", s->rank, i,
				       why);
	}
	return RC_OK;
}

/* ---- bytes: numbers of 4 bytes, the digest of 8, the name of 64 */

#define MAGIC	   0x31484347u /* "GCH1" */
#define HEAD_BYTES (10 * 4 + 8 + sizeof((struct schedule){0}).name)
#define STEP_BYTES (8 * 4)

static struct schedule_step
unpack_step(const unsigned char *p)
{
	uint32_t k = get32(p);

	return (struct schedule_step){.kind = k & 0xff,
				      .flags = k >> 8 & 0xff,
				      .src = k >> 16 & 0xf,
				      .dst = k >> 20 & 0xf,
				      .with = k >> 24 & 0xff,
				      .peer = get32(p + 4),
				      .round = get32(p + 8),
				      .src_at = get32(p + 12),
				      .dst_at = get32(p + 16),
				      .with_at = get32(p + 20),
				      .chunk = get32(p + 24),
				      .count = get32(p + 28)};
}

bool
schedule_pack(const struct schedule *s, struct buf *out)
{
	unsigned char head[HEAD_BYTES], step[STEP_BYTES];
	const uint32_t v[] = {
	    MAGIC,	s->coll,    s->rank,	 s->nranks,	     s->root,
	    s->nchunks, s->scratch, s->interval, (uint32_t)s->nstep, s->sends_partial};

	if (!buf_reserve(out, sizeof head + s->nstep * sizeof step))
		return false;
	for (size_t i = 0; i < sizeof v / sizeof *v; i++)
		put32(head + 4 * i, v[i]);
	put64(head + sizeof v, s->digest);
	memcpy(head + sizeof v + 8, s->name, sizeof s->name);
	buf_add(out, head, sizeof head);
	for (size_t i = 0; i < s->nstep; i++) {
		const struct schedule_step *x = &s->step[i];
		const uint32_t w[] = {x->kind | (uint32_t)x->flags << 8 | (uint32_t)x->src << 16 |
					  (uint32_t)x->dst << 20 | (uint32_t)x->with << 24,
				      x->peer,
				      x->round,
				      x->src_at,
				      x->dst_at,
				      x->with_at,
				      x->chunk,
				      x->count};

		for (size_t k = 0; k < sizeof w / sizeof *w; k++)
			put32(step + 4 * k, w[k]);
		buf_add(out, step, sizeof step);
	}
	return true;
}

enum rc
schedule_unpack(const void *bytes, size_t n, struct schedule **out, struct err *err)
{
	const unsigned char *p = bytes;
	struct schedule *s;
	enum rc rc;

	if (n < HEAD_BYTES || get32(p) != MAGIC || get32(p + 32) > SCHEDULE_MAX_STEPS ||
	    n != HEAD_BYTES + (size_t)get32(p + 32) * STEP_BYTES)
		return err_set(err, RC_BADDATA, "a bad schedule: %zu bytes", n);
	s = alloc_zeroed(1, sizeof *s);
	if (!s)
		return err_set(err, RC_NOMEM, "out of memory");
	s->coll = (enum gpusim_coll)get32(p + 4);
	s->rank = get32(p + 8);
	s->nranks = get32(p + 12);
	s->root = get32(p + 16);
	s->nchunks = get32(p + 20);
	s->scratch = get32(p + 24);
	s->interval = get32(p + 28);
	s->sends_partial = get32(p + 36) != 0;
	s->digest = get64(p + 40);
	memcpy(s->name, p + 48, sizeof s->name);
	s->nstep = s->cap = get32(p + 32);
	s->step = alloc_zeroed(s->nstep ? s->nstep : 1, sizeof *s->step);
	for (size_t i = 0; s->step && i < s->nstep; i++)
		s->step[i] = unpack_step(p + HEAD_BYTES + i * STEP_BYTES);
	rc = s->step ? schedule_check(s, err) : err_set(err, RC_NOMEM, "out of memory");
	if (rc != RC_OK)
		schedule_free_all(s, 1);
	else
		*out = s;
	return rc;
}

/* ---- operations */

void
schedule_chunk(const struct schedule *s, const struct plan_args *a, uint32_t c, uint64_t *off,
	       uint64_t *count)
{
	struct span part;
	uint32_t per;

	if (!has_parts(s->coll)) {
		plan_part(a->nelem, s->nchunks, c, off, count);
		return;
	}
	per = per_rank(s);
	part = part_of(a, c / per);
	plan_part(part.count, per, c % per, off, count);
	*off += part.off;
}

enum rc
schedule_takes(const struct schedule *s, const struct plan_args *a, struct err *err)
{
	const char *name = s->name;

	if (s->coll != a->coll)
		return err_set(err, RC_INVAL, "algorithm %s is for %s, not %s", name,
			       coll_name(s->coll), coll_name(a->coll));
	if (s->nranks != a->nranks)
		return err_set(err, RC_INVAL, "algorithm %s is for %" PRIu32 " ranks, not %" PRIu32,
			       name, s->nranks, a->nranks);
	if (s->rank != a->rank)
		return err_set(err, RC_INVAL,
			       "algorithm %s: schedule of rank %" PRIu32 " given to rank %" PRIu32,
			       name, s->rank, a->rank);
	if (coll_has_root(a->coll) && s->root != a->root)
		return err_set(err, RC_INVAL, "algorithm %s is for root %" PRIu32 ", not %" PRIu32,
			       name, s->root, a->root);
	if (a->canonical && coll_reduces(a->coll))
		return err_set(err, RC_INVAL,
			       "algorithm %s: its summation order depends on more than the ranks, "
			       "so it cannot be "
			       "deterministic",
			       name);
	if (a->recv_part)
		return err_set(err, RC_INVAL, "algorithm %s does not accept counts", name);
	if (a->part && !parts_packed(a->part, a->nranks))
		return err_set(err, RC_INVAL, "algorithm %s does not accept displacements", name);
	return RC_OK;
}

unsigned
schedule_widening(const struct schedule *s, unsigned widening)
{
	return s->sends_partial ? widening : 1;
}
