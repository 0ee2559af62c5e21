/* algo_check_shape - checks of the structure of an algorithm before any proof. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "algo/algo.h"
#include "base/buf.h"

/* The subject of a message. line 0: unknown. */
struct place {
	uint32_t rank, block;
	size_t step;
	uint32_t line;
};

static enum rc __attribute__((format(printf, 3, 4)))
wrong(struct err *err, struct place p, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (!p.line)
		return err_set(err, RC_BADDATA, "rank %" PRIu32 " block %" PRIu32 " step %zu %s",
			       p.rank, p.block, p.step, text);
	return err_set(err, RC_BADDATA,
		       "line %" PRIu32 ": rank %" PRIu32 " block %" PRIu32 " step %zu %s", p.line,
		       p.rank, p.block, p.step, text);
}

/* ---- the whole, and its buffers */

static enum rc
check_head(const struct algo *a, struct err *err)
{
	if (!algo_name_ok(a->name))
		return err_set(err, RC_BADDATA, "'%.64s' is not a legal name", a->name);
	if (a->nranks < 1 || a->nranks > ALGO_MAX_RANKS)
		return err_set(err, RC_BADDATA, "%" PRIu32 " ranks: must be 1 to %u", a->nranks,
			       ALGO_MAX_RANKS);
	if (a->nchunks < 1 || a->nchunks > ALGO_MAX_CHUNKS)
		return err_set(err, RC_BADDATA, "%" PRIu32 " chunks: must be 1 to %u", a->nchunks,
			       ALGO_MAX_CHUNKS);
	if (a->nchannels < 1 || a->nchannels > ALGO_MAX_CHANNELS)
		return err_set(err, RC_BADDATA, "%" PRIu32 " channels: must be 1 to %u",
			       a->nchannels, ALGO_MAX_CHANNELS);
	if (a->root >= a->nranks)
		return err_set(err, RC_BADDATA, "root %" PRIu32 ", but %" PRIu32 " ranks", a->root,
			       a->nranks);
	if (!a->in_place && !a->out_of_place)
		return err_set(err, RC_BADDATA, "must work in place or out of place");
	if (a->max_bytes && a->max_bytes < a->min_bytes)
		return err_set(err, RC_BADDATA,
			       "bytes: the minimum %" PRIu64 " is more than the maximum %" PRIu64
			       "",
			       a->min_bytes, a->max_bytes);
	return RC_OK;
}

/* The chunks of a buffer in a collective, out of place. */
enum extent { WHOLE, PART, AT_ROOT };

static enum extent
extent_of(enum gpusim_coll coll, unsigned buf)
{
	if (coll == (buf == ALGO_IN ? GPUSIM_ALLGATHER : GPUSIM_REDUCESCATTER))
		return PART;
	return coll == (buf == ALGO_IN ? GPUSIM_BROADCAST : GPUSIM_REDUCE) ? AT_ROOT : WHOLE;
}

static enum rc
check_buffer(const struct algo *a, uint32_t r, unsigned buf, struct err *err)
{
	uint32_t got = algo_chunks(a, r, buf), want = a->nchunks;
	enum extent extent = extent_of(a->coll, buf);

	if (got > ALGO_MAX_CHUNKS)
		return err_set(err, RC_BADDATA,
			       "rank %" PRIu32 " has %" PRIu32
			       " chunks of %s: at most %u are allowed",
			       r, got, algo_buf_word(buf), ALGO_MAX_CHUNKS);
	if (a->custom || buf == ALGO_SCRATCH)
		return RC_OK;
	if (a->in_place)
		extent = WHOLE;
	if (extent == PART)
		want /= a->nranks;
	if (got == want || (got == 0 && extent == AT_ROOT && r != a->root))
		return RC_OK;
	return err_set(err, RC_BADDATA,
		       "rank %" PRIu32 " has %" PRIu32 " chunks of %s; %s of %" PRIu32
		       " chunks wants %" PRIu32,
		       r, got, algo_buf_word(buf), algo_coll_name(a), a->nchunks, want);
}

static enum rc
check_buffers(const struct algo *a, struct err *err)
{
	bool parts = a->coll == GPUSIM_ALLGATHER || a->coll == GPUSIM_REDUCESCATTER ||
		     a->coll == GPUSIM_ALLTOALL;
	enum rc rc = RC_OK;

	if (!a->custom && parts && a->nchunks % a->nranks)
		return err_set(err, RC_BADDATA,
			       "%" PRIu32 " chunks are not a multiple of %" PRIu32
			       " ranks, as %s requires",
			       a->nchunks, a->nranks, algo_coll_name(a));
	for (uint32_t r = 0; r < a->nranks && rc == RC_OK; r++)
		for (unsigned b = 0; b < ALGO_NBUFS && rc == RC_OK; b++)
			rc = check_buffer(a, r, b, err);
	return rc;
}

/* ---- steps */

static enum rc
check_range(const struct algo *a, struct place p, const char *does, unsigned buf, uint32_t at,
	    uint32_t count, struct err *err)
{
	uint32_t has = buf < ALGO_NBUFS ? algo_chunks(a, p.rank, buf) : 0;

	if ((uint64_t)at + count <= has)
		return RC_OK;
	if (count == 1)
		return wrong(err, p, "%s %s %" PRIu32 ", but there are %" PRIu32, does,
			     algo_buf_word(buf), at, has);
	return wrong(err, p, "%s %s %" PRIu32 " to %" PRIu64 ", but there are %" PRIu32, does,
		     algo_buf_word(buf), at, (uint64_t)at + count - 1, has);
}

static enum rc
check_dep(const struct algo_rank *rank, struct place p, const struct algo_step *s, struct err *err)
{
	if (s->dep_block == ALGO_NONE)
		return RC_OK;
	if (s->dep_block >= rank->nblock)
		return wrong(err, p, "waits for a block that does not exist");
	if (s->dep_step >= rank->block[s->dep_block].nstep)
		return wrong(
		    err, p, "waits for step %" PRIu32 " of block %" PRIu32 ", which has %zu",
		    s->dep_step, rank->block[s->dep_block].id, rank->block[s->dep_block].nstep);
	return RC_OK;
}

static enum rc
check_step(const struct algo *a, struct place p, const struct algo_block *b,
	   const struct algo_step *s, struct err *err)
{
	enum rc rc = RC_OK;

	p.line = s->line;
	if (s->kind >= ALGO_NKINDS)
		return wrong(err, p, "has the unknown kind %u", s->kind);
	if (algo_kind_sends(s->kind) && b->send == ALGO_NONE)
		return wrong(err, p, "(%s) sends, but its block has no peer to send to",
			     algo_kind_name(s->kind));
	if (algo_kind_recvs(s->kind) && b->recv == ALGO_NONE)
		return wrong(err, p, "(%s) receives, but its block has no peer to receive from",
			     algo_kind_name(s->kind));
	if (s->kind != ALGO_NOP && s->count == 0)
		return wrong(err, p, "(%s) has no chunks", algo_kind_name(s->kind));
	if (algo_kind_reads(s->kind))
		rc = check_range(a, p, "reads", s->src, s->src_at, s->count, err);
	if (rc == RC_OK && algo_kind_writes(s->kind))
		rc = check_range(a, p, "writes", s->dst, s->dst_at, s->count, err);
	return rc == RC_OK ? check_dep(&a->rank[p.rank], p, s, err) : rc;
}

/* ---- blocks */

/* The ends of connections of one rank, by peer and channel: the rank + 1. */
struct ends {
	uint32_t *send, *recv;
};

static enum rc
check_end(const struct algo *a, uint32_t r, const struct algo_block *b, const char *does,
	  uint32_t peer, uint32_t *taken, struct err *err)
{
	uint32_t *mark;

	if (peer == ALGO_NONE)
		return RC_OK;
	if (peer >= a->nranks || peer == r)
		return err_set(
		    err, RC_BADDATA, "rank %" PRIu32 " block %" PRIu32 " %s rank %" PRIu32 ", %s",
		    r, b->id, does, peer, peer == r ? "which is itself" : "which does not exist");
	mark = &taken[(size_t)peer * ALGO_MAX_CHANNELS + b->channel];
	if (*mark == r + 1)
		return err_set(err, RC_BADDATA,
			       "rank %" PRIu32 " block %" PRIu32 " %s rank %" PRIu32
			       " over channel %" PRIu32 ", as an earlier block of the rank does",
			       r, b->id, does, peer, b->channel);
	*mark = r + 1;
	return RC_OK;
}

static enum rc
check_block(const struct algo *a, uint32_t r, const struct algo_block *b, struct ends *ends,
	    struct err *err)
{
	enum rc rc;

	if (b->channel >= a->nchannels)
		return err_set(err, RC_BADDATA,
			       "rank %" PRIu32 " block %" PRIu32 " has channel %" PRIu32
			       ", but there are %" PRIu32,
			       r, b->id, b->channel, a->nchannels);
	rc = check_end(a, r, b, "sends to", b->send, ends->send, err);
	if (rc == RC_OK)
		rc = check_end(a, r, b, "receives from", b->recv, ends->recv, err);
	for (size_t i = 0; i < b->nstep && rc == RC_OK; i++)
		rc = check_step(a, (struct place){r, b->id, i, 0}, b, &b->step[i], err);
	return rc;
}

static enum rc
check_blocks(const struct algo *a, struct ends *ends, struct err *err)
{
	enum rc rc = RC_OK;
	size_t steps = 0;

	for (uint32_t r = 0; r < a->nranks && rc == RC_OK; r++) {
		const struct algo_rank *rank = &a->rank[r];

		if (rank->nblock > ALGO_MAX_BLOCKS)
			return err_set(err, RC_BADDATA,
				       "rank %" PRIu32 " has %zu blocks: at most %u are allowed", r,
				       rank->nblock, ALGO_MAX_BLOCKS);
		for (size_t b = 0; b < rank->nblock && rc == RC_OK; b++) {
			steps += rank->block[b].nstep;
			rc = check_block(a, r, &rank->block[b], ends, err);
		}
	}
	if (rc == RC_OK && steps > ALGO_MAX_STEPS)
		return err_set(err, RC_BADDATA, "%zu steps: at most %u are allowed", steps,
			       ALGO_MAX_STEPS);
	return rc;
}

enum rc
algo_check_shape(const struct algo *a, struct err *err)
{
	enum rc rc = check_head(a, err);
	struct ends ends = {NULL, NULL};
	size_t nends = (size_t)a->nranks * ALGO_MAX_CHANNELS;

	if (rc == RC_OK)
		rc = check_buffers(a, err);
	if (rc != RC_OK)
		return rc;
	ends.send = alloc_zeroed(nends, sizeof *ends.send);
	ends.recv = alloc_zeroed(nends, sizeof *ends.recv);
	rc = ends.send && ends.recv ? check_blocks(a, &ends, err)
				    : err_set(err, RC_NOMEM, "out of memory");
	free(ends.send);
	free(ends.recv);
	return rc;
}
