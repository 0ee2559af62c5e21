/* The lines after the head: transfers, or ranks, blocks and steps. */
#include "algo/text_impl.h"

#include <inttypes.h>

/* ---- places */

struct place {
	struct algo_place at;
	uint32_t count; /* 0: not given */
};

static bool
name_buffers(struct reader *x, enum naming naming)
{
	static const char *const words[] = {"", "data", "in and out"};

	if (x->algo->custom && naming == AS_DATA)
		return scan_fail(&x->scan, RC_BADDATA,
				 "custom algorithms have in and out, not data");
	if (x->head.in_place || x->algo->custom)
		return true;
	if (x->naming != UNNAMED && x->naming != naming)
		return scan_fail(&x->scan, RC_BADDATA,
				 "this line uses %s, line %" PRIu32
				 " uses %s: a file must use one of them",
				 words[naming], x->naming_line, words[x->naming]);
	if (x->naming == UNNAMED) {
		x->naming = naming;
		x->naming_line = x->scan.line;
		x->algo->in_place = naming == AS_DATA;
		x->algo->out_of_place = true;
	}
	return true;
}

static bool
read_buffer(struct reader *x, uint8_t *buf)
{
	static const struct {
		const char *word;
		uint8_t buf;
		enum naming naming;
	} words[] = {{"in", ALGO_IN, AS_IN_AND_OUT},
		     {"out", ALGO_OUT, AS_IN_AND_OUT},
		     {"data", ALGO_IN, AS_DATA},
		     {"scratch", ALGO_SCRATCH, UNNAMED}};

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (scan_is(&x->scan, words[i].word)) {
			*buf = words[i].buf;
			return (words[i].naming == UNNAMED || name_buffers(x, words[i].naming)) &&
			       scan_next(&x->scan);
		}
	return scan_fail(&x->scan, RC_BADDATA, "'%.*s' must be in, out, data or scratch",
			 (int)(x->scan.len < 40 ? x->scan.len : 40), x->scan.word);
}

/* BUFFER[FIRST] or BUFFER[FIRST : COUNT]. */
static bool
read_range(struct reader *x, struct place *p)
{
	bool found;

	p->count = 0;
	return read_buffer(x, &p->at.buf) && scan_expect_symbol(&x->scan, '[') &&
	       scan_u32(&x->scan, "chunk", 0, ALGO_MAX_CHUNKS - 1, &p->at.at) &&
	       scan_take_symbol(&x->scan, ':', &found) &&
	       (!found ||
		scan_u32(&x->scan, "a number of chunks", 1, ALGO_MAX_CHUNKS, &p->count)) &&
	       scan_expect_symbol(&x->scan, ']');
}

/* RANK.BUFFER[...] */
static bool
read_place(struct reader *x, struct place *p)
{
	return scan_u32(&x->scan, "rank", 0, x->algo->nranks - 1, &p->at.rank) &&
	       scan_expect_symbol(&x->scan, '.') && read_range(x, p);
}

/* All places of a line have one count, which need only be given once. */
static bool
agree(struct reader *x, uint32_t *count, uint32_t other)
{
	if (*count && other && *count != other)
		return scan_fail(&x->scan, RC_BADDATA,
				 "the places have %" PRIu32 " and %" PRIu32 " chunks", *count,
				 other);
	if (other)
		*count = other;
	return true;
}

static bool
read_channel(struct reader *x, uint32_t *channel)
{
	if (!scan_u32(&x->scan, "channel", 0, x->algo->nchannels - 1, channel))
		return false;
	if (x->nchannels <= *channel)
		x->nchannels = *channel + 1;
	return true;
}

/* ---- transfers */

static bool
transfer(struct reader *x, enum transfer_kind kind)
{
	struct transfer t = {.kind = kind, .line = x->scan.line};
	struct place from, with, to;
	struct err err = {0};
	bool sum = false, channel;

	if (x->rank)
		return scan_fail(
		    &x->scan, RC_BADDATA,
		    "a file has either transfers or steps of blocks; this one has steps");
	if (!x->transfers && !(x->transfers = transfers_new(x->algo)))
		return text_no_memory(x);
	if (!read_place(x, &from) ||
	    (kind == TRANSFER_COPY && !scan_take_symbol(&x->scan, '+', &sum)) ||
	    (sum && !read_place(x, &with)) || !scan_expect_symbol(&x->scan, SYMBOL('-', '>')) ||
	    !read_place(x, &to) || !scan_take(&x->scan, "channel", &channel) ||
	    (channel && !read_channel(x, &t.channel)) || !scan_expect_end(&x->scan))
		return false;
	t.count = from.count;
	if (!agree(x, &t.count, to.count) || (sum && !agree(x, &t.count, with.count)))
		return false;
	if (!t.count)
		t.count = 1;
	t.from = from.at;
	t.to = to.at;
	if (sum) {
		t.kind = TRANSFER_SUM;
		t.with = with.at;
	}
	return transfers_add(x->transfers, &t, x->scratch, &err) == RC_OK || text_pass_on(x, &err);
}

static bool
do_copy(struct reader *x)
{
	return transfer(x, TRANSFER_COPY);
}

static bool
do_reduce(struct reader *x)
{
	return transfer(x, TRANSFER_REDUCE);
}

/* ---- ranks, blocks, steps */

/* rank R [in N] [out N] [scratch N] */
static bool
do_rank(struct reader *x)
{
	static const char *const words[ALGO_NBUFS] = {"in", "out", "scratch"};
	struct scan *s = &x->scan;
	uint32_t r;
	bool found;

	if (x->transfers)
		return scan_fail(s, RC_BADDATA,
				 "a file has either transfers or steps of blocks; this one has "
				 "transfers");
	if (!scan_u32(s, "rank", 0, x->algo->nranks - 1, &r))
		return false;
	x->rank = &x->algo->rank[r];
	x->block = NULL;
	for (int b = 0; b < ALGO_NBUFS; b++) {
		if (!scan_take(s, words[b], &found))
			return false;
		if (found &&
		    !scan_u32(s, "a number of chunks", 0, ALGO_MAX_CHUNKS, &x->rank->chunks[b]))
			return false;
		x->sized[r] |= found && b != ALGO_SCRATCH;
	}
	return scan_expect_end(s);
}

/* block [send P] [recv P] [channel C] */
static bool
do_block(struct reader *x)
{
	uint32_t send = ALGO_NONE, recv = ALGO_NONE, channel = 0, last = x->algo->nranks - 1;
	struct scan *s = &x->scan;
	bool found;

	if (!x->rank)
		return scan_fail(s, RC_BADDATA, "a line 'rank' must come before this block");
	if (x->rank->nblock == ALGO_MAX_BLOCKS)
		return scan_fail(s, RC_BADDATA, "more than %u blocks of a rank", ALGO_MAX_BLOCKS);
	if (!scan_take(s, "send", &found) || (found && !scan_u32(s, "rank", 0, last, &send)) ||
	    !scan_take(s, "recv", &found) || (found && !scan_u32(s, "rank", 0, last, &recv)) ||
	    !scan_take(s, "channel", &found) || (found && !read_channel(x, &channel)) ||
	    !scan_expect_end(s))
		return false;
	x->block = algo_add_block(x->rank, send, recv, channel);
	return x->block || text_no_memory(x);
}

static bool
read_after(struct reader *x, struct algo_step *s)
{
	bool found;

	s->dep_block = s->dep_step = ALGO_NONE;
	return scan_take(&x->scan, "after", &found) &&
	       (!found || (scan_u32(&x->scan, "block", 0, ALGO_MAX_BLOCKS - 1, &s->dep_block) &&
			   scan_expect_symbol(&x->scan, '.') &&
			   scan_u32(&x->scan, "step", 0, ALGO_MAX_STEPS, &s->dep_step))) &&
	       scan_expect_end(&x->scan);
}

/* KIND [SRC] [->] [DST] [after BLOCK.STEP] */
static bool
do_step(struct reader *x, unsigned kind)
{
	struct algo_step s = {.kind = (uint8_t)kind, .line = x->scan.line};
	struct place src = {0}, dst = {0};

	if (!x->block)
		return scan_fail(&x->scan, RC_BADDATA,
				 "lines 'rank' and 'block' must come before this step");
	if (x->nsteps++ == algo_max_steps(x->algo->budget))
		return scan_fail(&x->scan, RC_BADDATA, "more than %u steps",
				 algo_max_steps(x->algo->budget));
	if ((algo_kind_reads(kind) && !read_range(x, &src)) ||
	    (algo_kind_reads(kind) && algo_kind_writes(kind) &&
	     !scan_expect_symbol(&x->scan, SYMBOL('-', '>'))) ||
	    (algo_kind_writes(kind) && !read_range(x, &dst)) || !read_after(x, &s))
		return false;
	s.count = src.count;
	if (!agree(x, &s.count, dst.count))
		return false;
	if (!s.count && kind != ALGO_NOP)
		s.count = 1;
	s.src = src.at.buf;
	s.src_at = src.at.at;
	s.dst = dst.at.buf;
	s.dst_at = dst.at.at;
	for (int i = 0; i < 2; i++) {
		const struct place *p = i ? &dst : &src;
		bool used = i ? algo_kind_writes(kind) : algo_kind_reads(kind);

		if (used && p->at.buf == ALGO_SCRATCH && p->at.at + s.count <= x->scratch &&
		    x->rank->chunks[ALGO_SCRATCH] < p->at.at + s.count)
			x->rank->chunks[ALGO_SCRATCH] = p->at.at + s.count;
	}
	return algo_add_step(x->block, s) || text_no_memory(x);
}

bool
text_action(struct reader *x)
{
	static const struct {
		const char *word;
		bool (*run)(struct reader *x);
	} words[] = {
	    {"copy", do_copy}, {"reduce", do_reduce}, {"rank", do_rank}, {"block", do_block}};

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (scan_is(&x->scan, words[i].word))
			return scan_next(&x->scan) && words[i].run(x);
	for (unsigned k = 0; k < ALGO_NKINDS; k++)
		if (scan_is(&x->scan, algo_kind_name(k)))
			return scan_next(&x->scan) && do_step(x, k);
	return scan_fail(&x->scan, RC_BADDATA,
			 "a line cannot begin with '%.*s'; transfers are 'copy' and 'reduce', "
			 "steps begin with s, r, rcs, rrc, rrs, rrcs, cpy, re or nop",
			 (int)(x->scan.len < 40 ? x->scan.len : 40), x->scan.word);
}
