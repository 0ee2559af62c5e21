#include "algo/text_impl.h"

#include <inttypes.h>
#include <stdlib.h>

#include "algo/cells.h"
#include "base/buf.h"

#define NOBODY UINT32_MAX

/* A step of a rank. */
struct mark {
	uint32_t block, step;
};

/* Bookkeeping for a rank's blocks. */
struct block_state {
	uint32_t peer, channel; /* peer NOBODY: local steps */
	bool sends;
	struct mark *known; /* by other block: the last step that was waited for */
	size_t nknown, cap;
};

struct rank_state {
	struct cell *cell[ALGO_NBUFS];
	uint32_t ncell[ALGO_NBUFS];
	struct block_state *block;
	size_t nblock, cap;
};

struct transfers {
	struct algo *algo;
	struct rank_state *rank;
	struct accesses accesses;
	size_t nchunks, ntouches, nsteps;
	uint32_t *latest;		 /* by block: the latest step to wait for, + 1 */
	uint32_t waits[ALGO_MAX_BLOCKS]; /* the blocks with an entry in latest */
	size_t nwaits;
};

/* ---- memory */

static enum rc
no_memory(struct err *err)
{
	return err_set(err, RC_NOMEM, "out of memory");
}

struct transfers *
transfers_new(struct algo *a)
{
	struct transfers *t = alloc_zeroed(1, sizeof *t);

	if (!t)
		return NULL;
	t->algo = a;
	t->rank = alloc_zeroed(a->nranks, sizeof *t->rank);
	t->latest = alloc_zeroed(ALGO_MAX_BLOCKS, sizeof *t->latest);
	if (!t->rank || !t->latest) {
		transfers_free(t);
		return NULL;
	}
	return t;
}

void
transfers_free(struct transfers *t)
{
	if (!t)
		return;
	for (uint32_t r = 0; t->rank && r < t->algo->nranks; r++) {
		for (unsigned b = 0; b < ALGO_NBUFS; b++)
			free(t->rank[r].cell[b]);
		for (size_t b = 0; b < t->rank[r].nblock; b++)
			free(t->rank[r].block[b].known);
		free(t->rank[r].block);
	}
	free(t->rank);
	free(t->accesses.reader);
	free(t->latest);
	free(t);
}

/* In place input and output are one buffer. */
static unsigned
memory_of(const struct algo *a, unsigned buf)
{
	return a->in_place && !a->custom && buf == ALGO_OUT ? ALGO_IN : buf;
}

/* The cells of a buffer up to chunk `end`. */
static enum rc
make_cells(struct transfers *t, uint32_t r, unsigned buf, uint32_t end, struct err *err)
{
	struct rank_state *s = &t->rank[r];
	uint32_t want = buf == ALGO_SCRATCH ? end : algo_chunks(t->algo, r, buf);
	struct cell *cell;

	if (end <= s->ncell[buf])
		return RC_OK;
	if (buf == ALGO_SCRATCH && want < 2 * s->ncell[buf])
		want = 2 * s->ncell[buf];
	t->nchunks += want - s->ncell[buf];
	if (t->nchunks > TRANSFERS_MAX_CHUNKS)
		return err_set(err, RC_BADDATA, "more than %u chunks in all buffers",
			       TRANSFERS_MAX_CHUNKS);
	cell = alloc_resize(s->cell[buf], want, sizeof *cell);
	if (!cell)
		return no_memory(err);
	for (uint32_t i = s->ncell[buf]; i < want; i++)
		cell[i] = (struct cell){.writer = ACCESS_NONE};
	s->cell[buf] = cell;
	s->ncell[buf] = want;
	return RC_OK;
}

/* ---- dependencies */

static void
wait_for(struct transfers *t, access_step m)
{
	uint32_t block = (uint32_t)(m >> 32), step = (uint32_t)m;

	if (m == ACCESS_NONE)
		return;
	if (!t->latest[block])
		t->waits[t->nwaits++] = block;
	if (t->latest[block] < step + 1)
		t->latest[block] = step + 1;
}

/* Gather all steps that must precede a step that reads, or writes, these chunks. */
static enum rc
gather(struct transfers *t, struct algo_place p, uint32_t count, bool writes, struct err *err)
{
	unsigned buf = memory_of(t->algo, p.buf);
	const struct cell *cell;
	enum rc rc = make_cells(t, p.rank, buf, p.at + count, err);

	if (rc != RC_OK)
		return rc;
	t->ntouches += count;
	if (t->ntouches > TRANSFERS_MAX_TOUCHES)
		return err_set(err, RC_BADDATA, "all steps together access more than %u chunks",
			       TRANSFERS_MAX_TOUCHES);
	cell = &t->rank[p.rank].cell[buf][p.at];
	for (uint32_t i = 0; i < count; i++) {
		wait_for(t, cell[i].writer);
		for (uint32_t k = cell[i].readers; writes && k; k = t->accesses.reader[k - 1].next)
			wait_for(t, t->accesses.reader[k - 1].step);
	}
	return RC_OK;
}

/* The step m has read, or written, these chunks. */
static enum rc
leave(struct transfers *t, struct algo_place p, uint32_t count, bool writes, access_step m,
      struct err *err)
{
	struct cell *cell = &t->rank[p.rank].cell[memory_of(t->algo, p.buf)][p.at];

	for (uint32_t i = 0; i < count; i++) {
		if (writes)
			cell_written(&t->accesses, &cell[i], m);
		else if (!cell_read(&t->accesses, &cell[i], m))
			return no_memory(err);
	}
	return RC_OK;
}

/* Return true if the block has already waited for that step of another, or a later one; note that it has
 * now. */
static enum rc
is_known(struct block_state *b, struct mark m, bool *known, struct err *err)
{
	size_t i = 0;

	while (i < b->nknown && b->known[i].block != m.block)
		i++;
	*known = i < b->nknown && b->known[i].step >= m.step;
	if (i == b->nknown) {
		if (!alloc_room(&b->known, b->nknown, &b->cap, sizeof *b->known))
			return no_memory(err);
		b->nknown++;
	}
	if (!*known)
		b->known[i] = m;
	return RC_OK;
}

/* ---- steps */

/* The rank's block for a peer and channel. Sends have their own block, so that none waits for messages from
 * the peer. */
static enum rc
find_block(struct transfers *t, uint32_t r, uint32_t peer, uint32_t channel, bool sends,
	   uint32_t *out, struct err *err)
{
	struct rank_state *s = &t->rank[r];
	size_t b = 0;

	while (b < s->nblock && (s->block[b].peer != peer || s->block[b].channel != channel ||
				 s->block[b].sends != sends))
		b++;
	*out = (uint32_t)b;
	if (b < s->nblock)
		return RC_OK;
	if (b == ALGO_MAX_BLOCKS)
		return err_set(err, RC_BADDATA,
			       "rank %" PRIu32 " needs more than %u thread blocks, two for each "
			       "peer and channel",
			       r, ALGO_MAX_BLOCKS);
	if (!alloc_room(&s->block, b, &s->cap, sizeof *s->block))
		return no_memory(err);
	if (!algo_add_block(&t->algo->rank[r], ALGO_NONE, ALGO_NONE, channel))
		return no_memory(err);
	s->block[s->nblock++] =
	    (struct block_state){.peer = peer, .channel = channel, .sends = sends};
	return RC_OK;
}

static enum rc
append(struct transfers *t, uint32_t r, uint32_t block, struct algo_step s, struct err *err)
{
	if (t->nsteps++ == algo_max_steps(t->algo->budget))
		return err_set(err, RC_BADDATA, "more than %u steps",
			       algo_max_steps(t->algo->budget));
	s.order = (uint32_t)t->nsteps;
	return algo_add_step(&t->algo->rank[r].block[block], s) ? RC_OK : no_memory(err);
}

/* Append a step after the gathered ones: it waits for one other step, and nops before it wait for the
 * rest. */
static enum rc
append_waiting(struct transfers *t, uint32_t r, uint32_t block, struct algo_step s, struct err *err)
{
	struct algo_step nop = {
	    .kind = ALGO_NOP, .dep_block = ALGO_NONE, .dep_step = ALGO_NONE, .line = s.line};
	const struct rank_state *of = &t->rank[r];
	enum rc rc = algo_spend(t->algo->budget,
				s.count + of->nblock + t->nwaits * of->block[block].nknown, err);

	s.dep_block = s.dep_step = ALGO_NONE;
	for (size_t i = 0; i < t->nwaits; i++) {
		struct mark m = {t->waits[i], t->latest[t->waits[i]] - 1};
		bool known = m.block == block;

		t->latest[m.block] = 0;
		if (rc == RC_OK && !known)
			rc = is_known(&t->rank[r].block[block], m, &known, err);
		if (rc != RC_OK || known)
			continue;
		if (s.dep_block != ALGO_NONE) {
			nop.dep_block = s.dep_block;
			nop.dep_step = s.dep_step;
			rc = append(t, r, block, nop, err);
		}
		s.dep_block = m.block;
		s.dep_step = m.step;
	}
	t->nwaits = 0;
	return rc == RC_OK ? append(t, r, block, s, err) : rc;
}

/* One step of a rank; from and to may be NULL. */
static enum rc
add_step(struct transfers *t, uint32_t r, uint32_t block, unsigned kind,
	 const struct algo_place *from, const struct algo_place *to, const struct transfer *x,
	 struct err *err)
{
	struct algo_step s = {.kind = (uint8_t)kind, .count = x->count, .line = x->line};
	access_step m;
	enum rc rc = RC_OK;

	if (from) {
		s.src = from->buf;
		s.src_at = from->at;
		rc = gather(t, *from, x->count, false, err);
	}
	if (to) {
		s.dst = to->buf;
		s.dst_at = to->at;
		rc = rc == RC_OK ? gather(t, *to, x->count, true, err) : rc;
	}
	rc = rc == RC_OK ? append_waiting(t, r, block, s, err) : rc;
	if (rc != RC_OK)
		return rc;
	m = (uint64_t)block << 32 | (t->algo->rank[r].block[block].nstep - 1);
	rc = from ? leave(t, *from, x->count, false, m, err) : RC_OK;
	return rc == RC_OK && to ? leave(t, *to, x->count, true, m, err) : rc;
}

/* ---- transfers */

static enum rc
check_place(struct transfers *t, struct algo_place p, uint32_t count, uint32_t scratch,
	    struct err *err)
{
	uint32_t has, *grown;

	if (p.rank >= t->algo->nranks)
		return err_set(err, RC_BADDATA,
			       "rank %" PRIu32 " does not exist: there are %" PRIu32, p.rank,
			       t->algo->nranks);
	grown = &t->algo->rank[p.rank].chunks[ALGO_SCRATCH];
	has = p.buf == ALGO_SCRATCH ? scratch : algo_chunks(t->algo, p.rank, p.buf);
	if ((uint64_t)p.at + count > has)
		return err_set(err, RC_BADDATA,
			       "rank %" PRIu32 " has %" PRIu32
			       " chunks of %s; this line uses number %" PRIu64,
			       p.rank, has, algo_buf_word(p.buf), (uint64_t)p.at + count - 1);
	if (p.buf == ALGO_SCRATCH && *grown < p.at + count)
		*grown = p.at + count;
	return RC_OK;
}

/* The overlap of two places of n chunks: all, some or none. */
enum overlap { NO_OVERLAP, SOME_OVERLAP, SAME };

static enum overlap
overlap(const struct algo *a, struct algo_place p, struct algo_place q, uint32_t n)
{
	uint32_t apart = p.at > q.at ? p.at - q.at : q.at - p.at;

	if (p.rank != q.rank || memory_of(a, p.buf) != memory_of(a, q.buf) || apart >= n)
		return NO_OVERLAP;
	return apart ? SOME_OVERLAP : SAME;
}

static enum rc
add_local(struct transfers *t, const struct transfer *x, struct err *err)
{
	enum overlap common = overlap(t->algo, x->from, x->to, x->count);
	uint32_t block;
	enum rc rc;

	if (x->kind == TRANSFER_SUM)
		return err_set(err, RC_BADDATA,
			       "both operands are at rank %" PRIu32 ": copy one, and reduce the "
			       "other into the copy",
			       x->to.rank);
	if (common == SOME_OVERLAP)
		return err_set(err, RC_BADDATA, "the two places overlap");
	if (common == SAME && x->kind == TRANSFER_COPY)
		return RC_OK;
	rc = find_block(t, x->to.rank, NOBODY, 0, false, &block, err);
	return rc == RC_OK ? add_step(t, x->to.rank, block,
				      x->kind == TRANSFER_COPY ? ALGO_COPY : ALGO_REDUCE, &x->from,
				      &x->to, x, err)
			   : rc;
}

static enum rc
add_message(struct transfers *t, const struct transfer *x, struct err *err)
{
	const struct algo_place *with = x->kind == TRANSFER_SUM ? &x->with : &x->to;
	uint32_t block;
	enum rc rc = find_block(t, x->from.rank, x->to.rank, x->channel, true, &block, err);

	if (rc == RC_OK) {
		t->algo->rank[x->from.rank].block[block].send = x->to.rank;
		rc = add_step(t, x->from.rank, block, ALGO_SEND, &x->from, NULL, x, err);
	}
	if (rc == RC_OK)
		rc = find_block(t, x->to.rank, x->from.rank, x->channel, false, &block, err);
	if (rc == RC_OK) {
		t->algo->rank[x->to.rank].block[block].recv = x->from.rank;
		rc = add_step(t, x->to.rank, block, x->kind == TRANSFER_COPY ? ALGO_RECV : ALGO_RRC,
			      x->kind == TRANSFER_COPY ? NULL : with, &x->to, x, err);
	}
	return rc;
}

enum rc
transfers_add(struct transfers *t, const struct transfer *x, uint32_t scratch, struct err *err)
{
	enum rc rc = check_place(t, x->from, x->count, scratch, err);

	if (rc == RC_OK)
		rc = check_place(t, x->to, x->count, scratch, err);
	if (rc == RC_OK && x->kind == TRANSFER_SUM)
		rc = check_place(t, x->with, x->count, scratch, err);
	if (rc != RC_OK)
		return rc;
	if (x->count == 0)
		return err_set(err, RC_BADDATA, "no chunks are moved");
	if (x->channel >= t->algo->nchannels)
		return err_set(err, RC_BADDATA, "channel %" PRIu32 ", but there are %" PRIu32,
			       x->channel, t->algo->nchannels);
	if (x->kind == TRANSFER_SUM && x->with.rank != x->to.rank)
		return err_set(err, RC_BADDATA,
			       "the second operand is at rank %" PRIu32 ", the sum at rank %" PRIu32
			       ": they must be at one rank",
			       x->with.rank, x->to.rank);
	if (x->kind == TRANSFER_SUM && overlap(t->algo, x->with, x->to, x->count) == SOME_OVERLAP)
		return err_set(err, RC_BADDATA, "the second operand and the sum overlap");
	return x->from.rank == x->to.rank ? add_local(t, x, err) : add_message(t, x, err);
}
