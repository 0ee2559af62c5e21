/*
 * Design notes. The file is cut into lines once, and `for` and `if` learn where their `end` is. Then the
 * lines run from the top, as a program; each scans its own bytes again (scan.c), which bounds the work. The
 * first line after the head makes the algorithm; from then on transfers or steps are appended to it.
 */
#include "algo/algo.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/text_impl.h"
#include "base/buf.h"

#define MAX_NESTING 32u
#define MAX_LINES   (1u << 21)
#define MAX_BYTES   (16u << 20)

/* A line that is not blank. */
struct line {
	const char *at;
	uint32_t number;
	uint32_t end, other; /* of for and if: the line of its end, and of else or the same */
};

/* The file's names for the vector's buffers. */
enum naming { UNNAMED, AS_DATA, AS_IN_AND_OUT };

struct reader {
	struct scan scan;
	struct line *line;
	size_t nlines, cap;
	struct algo *algo; /* NULL: still in the head */
	struct algo head;
	uint32_t said; /* lines of the head that were read, bits by head_lines */
	uint32_t scratch;
	struct transfers *transfers; /* NULL: none yet */
	struct algo_rank *rank;	     /* of the following steps; NULL: none */
	struct algo_block *block;
	bool *sized; /* ranks whose chunks are set */
	size_t nsteps;
	unsigned loops;	    /* current depth of loops */
	uint32_t nchannels; /* in use */
	enum naming naming;
	uint32_t naming_line;
};

static bool
text_no_memory(struct reader *x)
{
	return scan_fail(&x->scan, RC_NOMEM, "out of memory");
}

/* Fail with the error of another part, with this line. */
static bool
text_pass_on(struct reader *x, const struct err *err)
{
	return scan_fail(&x->scan, err->rc, "%s", err->text);
}

/* ---- lines */

static bool
add_line(struct reader *x, const char *at, uint32_t number)
{
	if (x->nlines == MAX_LINES)
		return scan_fail(&x->scan, RC_BADDATA, "more than %u lines", MAX_LINES);
	if (!alloc_room(&x->line, x->nlines, &x->cap, sizeof *x->line))
		return text_no_memory(x);
	x->line[x->nlines++] = (struct line){.at = at, .number = number};
	return true;
}

static bool
cut_lines(struct reader *x, const char *at)
{
	const char *end = x->scan.end;

	for (uint32_t number = 1; at < end; number++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));

		if (!scan_line(&x->scan, at, number))
			return false;
		if (x->scan.token != TOKEN_END && !add_line(x, at, number))
			return false;
		at = newline ? newline + 1 : end;
	}
	return true;
}

/* Match each `end` and `else` with its `for` or `if`. */
static bool
nest(struct reader *x)
{
	uint32_t open[MAX_NESTING], depth = 0;
	bool is_if[MAX_NESTING];
	struct scan *s = &x->scan;

	for (uint32_t i = 0; i < x->nlines; i++) {
		if (!scan_line(s, x->line[i].at, x->line[i].number))
			return false;
		if (scan_is(s, "for") || scan_is(s, "if")) {
			if (depth == MAX_NESTING)
				return scan_fail(s, RC_BADDATA,
						 "for and if are nested more than %u deep",
						 MAX_NESTING);
			is_if[depth] = scan_is(s, "if");
			open[depth++] = i;
		} else if (scan_is(s, "else")) {
			if (!depth || !is_if[depth - 1] || x->line[open[depth - 1]].other)
				return scan_fail(s, RC_BADDATA, "this else has no if");
			x->line[open[depth - 1]].other = i;
		} else if (scan_is(s, "end")) {
			if (!depth)
				return scan_fail(s, RC_BADDATA, "this end has neither for nor if");
			x->line[open[--depth]].end = i;
			if (!x->line[open[depth]].other)
				x->line[open[depth]].other = i;
		}
	}
	if (!depth)
		return true;
	s->line = x->line[open[depth - 1]].number;
	return scan_fail(s, RC_BADDATA, "no line 'end' closes this one");
}

/* ---- the head: settings before transfers or steps */

#define AT(member) offsetof(struct reader, member)

static bool
head_name(struct reader *x)
{
	const char *at;
	size_t len;

	if (!scan_rest(&x->scan, &at, &len))
		return false;
	snprintf(x->head.name, sizeof x->head.name, "%.*s",
		 (int)(len < sizeof x->head.name ? len : sizeof x->head.name - 1), at);
	if (len >= sizeof x->head.name || !algo_name_ok(x->head.name))
		return scan_fail(
		    &x->scan, RC_BADDATA,
		    "'%.*s' is not a legal name: at most %d letters, digits, . _ -, the "
		    "first one a letter or digit",
		    (int)(len < 80 ? len : 80), at, ALGO_NAME_MAX - 1);
	return true;
}

static bool
head_collective(struct reader *x)
{
	char word[48];
	struct err err = {0};
	const char *at;
	size_t len;

	if (!scan_rest(&x->scan, &at, &len))
		return false;
	snprintf(word, sizeof word, "%.*s", (int)(len < 47 ? len : 47), at);
	return algo_coll_parse(word, &x->head, &err) == RC_OK || text_pass_on(x, &err);
}

static bool
head_proto(struct reader *x)
{
	const char *at;
	size_t len;

	if (!scan_rest(&x->scan, &at, &len))
		return false;
	snprintf(x->head.proto, sizeof x->head.proto, "%.*s",
		 (int)(len < sizeof x->head.proto ? len : sizeof x->head.proto - 1), at);
	if (strcmp(x->head.proto, "Simple") && strcmp(x->head.proto, "LL") &&
	    strcmp(x->head.proto, "LL128"))
		return scan_fail(&x->scan, RC_BADDATA,
				 "protocol '%.*s': must be Simple, LL or LL128",
				 (int)(len < 40 ? len : 40), at);
	return true;
}

static bool
head_bytes(struct reader *x)
{
	int64_t lo, hi;

	if (!scan_expr(&x->scan, &lo) || !scan_expect_symbol(&x->scan, SYMBOL('.', '.')) ||
	    !scan_expr(&x->scan, &hi))
		return false;
	if (lo < 0 || hi < 0 || (hi && hi < lo))
		return scan_fail(&x->scan, RC_BADDATA, "bytes: bad range %" PRId64 "..%" PRId64 "",
				 lo, hi);
	x->head.min_bytes = (uint64_t)lo;
	x->head.max_bytes = (uint64_t)hi;
	return true;
}

/* A line has a reader, or is a number or a flag stored at `at` in the reader. */
static const struct head_line {
	const char *word;
	bool (*read)(struct reader *x);
	bool needed;
	const char *number;
	uint32_t lo, hi;
	size_t at;
} head_lines[] = {
    {.word = "algorithm", .read = head_name},
    {.word = "collective", .read = head_collective, .needed = true},
    {"ranks", NULL, true, "the number of ranks", 1, ALGO_MAX_RANKS, AT(head.nranks)},
    {"chunks", NULL, true, "the number of chunks", 1, ALGO_MAX_CHUNKS, AT(head.nchunks)},
    {"channels", NULL, false, "the number of channels", 1, ALGO_MAX_CHANNELS, AT(head.nchannels)},
    {"scratch", NULL, false, "the chunks of scratch", 0, ALGO_MAX_CHUNKS, AT(scratch)},
    {"root", NULL, false, "the root", 0, ALGO_MAX_RANKS - 1, AT(head.root)},
    {.word = "inplace", .at = AT(head.in_place)},
    {.word = "outofplace", .at = AT(head.out_of_place)},
    {.word = "proto", .read = head_proto},
    {.word = "bytes", .read = head_bytes},
};

#define NHEAD_LINES (sizeof head_lines / sizeof *head_lines)

static bool
read_line(struct reader *x, const struct head_line *l)
{
	void *at = (char *)x + l->at;
	struct variable *v;

	if (l->read)
		return l->read(x);
	if (!l->number)
		return *(bool *)at = true;
	if (!scan_u32(&x->scan, l->number, l->lo, l->hi, at))
		return false;
	if (l->needed) { /* expressions may use its name */
		v = &x->scan.variable[x->scan.nvariables++];
		*v = (struct variable){.value = *(uint32_t *)at};
		snprintf(v->name, sizeof v->name, "%s", l->word);
	}
	return true;
}

/* Out of place; in place the larger one is right, too. */
static void
size_buffers(struct algo *a)
{
	uint32_t n = a->nchunks, per = n / a->nranks;

	for (uint32_t r = 0; r < a->nranks; r++) {
		uint32_t *chunks = a->rank[r].chunks;
		bool off_root = !a->custom && r != a->root;

		chunks[ALGO_IN] = chunks[ALGO_OUT] = n;
		if (!a->custom && a->coll == GPUSIM_ALLGATHER)
			chunks[ALGO_IN] = per;
		if (!a->custom && a->coll == GPUSIM_REDUCESCATTER)
			chunks[ALGO_OUT] = per;
		if (off_root && a->coll == GPUSIM_BROADCAST)
			chunks[ALGO_IN] = 0;
		if (off_root && a->coll == GPUSIM_REDUCE)
			chunks[ALGO_OUT] = 0;
	}
}

static bool
text_begin(struct reader *x)
{
	struct algo *a;
	struct algo_rank *rank;

	for (size_t i = 0; i < NHEAD_LINES; i++)
		if (head_lines[i].needed && !(x->said & 1u << i))
			return scan_fail(&x->scan, RC_BADDATA, "a line '%s' must come before this",
					 head_lines[i].word);
	if (x->head.root >= x->head.nranks)
		return scan_fail(&x->scan, RC_BADDATA, "root %" PRIu32 ", but %" PRIu32 " ranks",
				 x->head.root, x->head.nranks);
	a = x->algo = algo_new(x->head.nranks);
	x->sized = alloc_zeroed(x->head.nranks, sizeof *x->sized);
	if (!a || !x->sized)
		return text_no_memory(x);
	rank = a->rank;
	*a = x->head;
	a->rank = rank;
	if (!a->nchannels)
		a->nchannels = ALGO_MAX_CHANNELS;
	size_buffers(a);
	return true;
}

static bool
text_head(struct reader *x, bool *done)
{
	*done = false;
	for (size_t i = 0; i < NHEAD_LINES && !*done; i++) {
		if (!scan_is(&x->scan, head_lines[i].word))
			continue;
		if (x->algo)
			return scan_fail(&x->scan, RC_BADDATA,
					 "'%s' belongs to the head, before the first line of "
					 "another kind",
					 head_lines[i].word);
		if (x->said & 1u << i)
			return scan_fail(&x->scan, RC_BADDATA, "'%s' occurs twice",
					 head_lines[i].word);
		x->said |= 1u << i;
		if (!scan_next(&x->scan) || !read_line(x, &head_lines[i]) ||
		    !scan_expect_end(&x->scan))
			return false;
		*done = true;
	}
	return true;
}

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

static bool
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

/* ---- lines, as a program */

static bool
do_let(struct reader *x)
{
	struct variable *v;
	unsigned n = x->scan.nvariables;
	int64_t value;

	if (!scan_define(&x->scan, &v))
		return false;
	x->scan.nvariables = n; /* its own value cannot use it */
	if (!scan_expect_symbol(&x->scan, '=') || !scan_expr(&x->scan, &value) ||
	    !scan_expect_end(&x->scan))
		return false;
	v->value = value;
	x->scan.nvariables = n + 1;
	return true;
}

/* NAME in FIRST..LAST; the name has no value yet. */
static bool
loop_head(struct scan *s, struct variable **v, int64_t *first, int64_t *last)
{
	unsigned n = s->nvariables;

	if (!scan_define(s, v))
		return false;
	s->nvariables = n;
	return scan_expect(s, "in") && scan_expr(s, first) &&
	       scan_expect_symbol(s, SYMBOL('.', '.')) && scan_expr(s, last) && scan_expect_end(s);
}

/*
 * The least number of lines that the loop at line i runs. Lines under an `if`, and loops whose bounds
 * depend on outer loops, do not count.
 */
static uint64_t
least_lines(struct reader *x, size_t i)
{
	struct scan keep = x->scan, *s = &x->scan;
	int64_t first = 1, last = 0;
	uint64_t n = 0, lines = 0;
	struct variable *v;

	scan_line(s, x->line[i].at, x->line[i].number);
	if (scan_next(s) && loop_head(s, &v, &first, &last) && first <= last)
		n = (uint64_t)(last - first) + 1;
	for (size_t k = i + 1; n && k < x->line[i].end; k++) {
		uint64_t more = 1;

		*s = keep;
		scan_line(s, x->line[k].at, x->line[k].number);
		if (scan_is(s, "for"))
			more += least_lines(x, k);
		if (scan_is(s, "for") || scan_is(s, "if"))
			k = x->line[k].end;
		if (__builtin_add_overflow(lines, more, &lines))
			lines = UINT64_MAX;
	}
	*s = keep;
	return __builtin_mul_overflow(lines, n, &lines) ? UINT64_MAX : lines;
}

static bool run(struct reader *x, size_t from, size_t to);

/* for NAME in FIRST..LAST */
static bool
do_for(struct reader *x, size_t i)
{
	unsigned n = x->scan.nvariables;
	struct variable *v;
	int64_t first, last;
	uint64_t least;

	if (!loop_head(&x->scan, &v, &first, &last))
		return false;
	least = x->loops ? 0 : least_lines(x, i);
	if (least > ALGO_MAX_LINES)
		return scan_fail(&x->scan, RC_BADDATA,
				 "this loop runs at least %" PRIu64
				 " lines: at most %u are allowed",
				 least, ALGO_MAX_LINES);
	x->loops++;
	for (int64_t k = first; k <= last; k++) {
		x->scan.nvariables = n + 1;
		v->value = k;
		if (!run(x, i + 1, x->line[i].end))
			return false;
	}
	x->loops--;
	x->scan.nvariables = n;
	return true;
}

/* if VALUE: not 0 */
static bool
do_if(struct reader *x, size_t i)
{
	const struct line *l = &x->line[i];
	unsigned n = x->scan.nvariables;
	int64_t value;
	bool good;

	if (!scan_expr(&x->scan, &value) || !scan_expect_end(&x->scan))
		return false;
	good = value ? run(x, i + 1, l->other) : l->other == l->end || run(x, l->other + 1, l->end);
	x->scan.nvariables = n;
	return good;
}

/* Lines from..to-1. */
static bool
run(struct reader *x, size_t from, size_t to)
{
	struct scan *s = &x->scan;
	bool done;

	if (!scan_work(s, 1))
		return false;
	for (size_t i = from; i < to; i++) {
		const struct line *l = &x->line[i];

		if (!scan_line(s, l->at, l->number) || !text_head(x, &done))
			return false;
		if (done)
			continue;
		if (!x->algo && !scan_is(s, "let") && !text_begin(x))
			return false;
		if (scan_is(s, "let")) {
			done = scan_next(s) && do_let(x);
		} else if (scan_is(s, "for")) {
			done = scan_next(s) && do_for(x, i);
			i = l->end;
		} else if (scan_is(s, "if")) {
			done = scan_next(s) && do_if(x, i);
			i = l->end;
		} else {
			done = text_action(x);
		}
		if (!done)
			return false;
	}
	return true;
}

/* ---- the whole */

/* Set values that were left open. */
static void
settle(struct reader *x)
{
	struct algo *a = x->algo;

	if (!x->head.nchannels)
		a->nchannels = x->nchannels ? x->nchannels : 1;
	if (!a->in_place && !a->out_of_place)
		a->out_of_place = true;
	if (!*a->name)
		snprintf(a->name, sizeof a->name, "unnamed");
	for (uint32_t r = 0; r < a->nranks && a->in_place && !a->custom; r++)
		if (!x->sized[r]) {
			bool gathers = a->coll == GPUSIM_ALLGATHER;

			a->rank[r].chunks[ALGO_IN] = gathers ? 0 : a->nchunks;
			a->rank[r].chunks[ALGO_OUT] = gathers ? a->nchunks : 0;
		}
}

static enum rc
parse(struct reader *x, const char *bytes, size_t n, struct err *err)
{
	const char *at = bytes;
	enum rc rc;

	if (n >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
		at += 3;
	x->scan.text = at;
	x->scan.end = bytes + n;
	x->scan.line = 1;
	if (n > MAX_BYTES)
		scan_fail(&x->scan, RC_BADDATA, "more than %u bytes", MAX_BYTES);
	else if (cut_lines(x, at) && nest(x) && run(x, 0, x->nlines) && !x->algo)
		text_begin(x);
	if (x->scan.err.rc != RC_OK) {
		if (err)
			*err = x->scan.err;
		return x->scan.err.rc;
	}
	settle(x);
	rc = algo_check_shape(x->algo, err);
	return rc == RC_OK ? RC_OK : err_prefix(err, "%s", x->scan.name);
}

enum rc
text_parse(const char *bytes, size_t n, const char *name, struct algo_budget *budget,
	   struct algo **out, struct err *err)
{
	struct reader *x = alloc_zeroed(1, sizeof *x);
	enum rc rc;

	if (!x)
		return err_set(err, RC_NOMEM, "%s: out of memory", name);
	x->scan.name = name;
	x->scan.budget = x->head.budget = budget;
	x->scratch = ALGO_MAX_CHUNKS;
	rc = parse(x, bytes, n, err);
	transfers_free(x->transfers);
	free(x->line);
	free(x->sized);
	if (rc == RC_OK)
		*out = x->algo;
	else
		algo_free(x->algo);
	free(x);
	return rc;
}

enum rc
algo_parse(const char *bytes, size_t n, const char *name, struct algo_budget *budget,
	   struct algo **out, struct err *err)
{
	size_t at = 0;

	if (n > ALGO_MAX_BYTES)
		return err_set(err, RC_BADDATA, "%s: more than %u bytes", name, ALGO_MAX_BYTES);
	if (n >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0)
		at = 3;
	while (at < n && bytes[at] && strchr(" \t\r\n", bytes[at]))
		at++;
	if (at < n && bytes[at] == '<')
		return msccl_parse(bytes, n, name, budget, out, err);
	return text_parse(bytes, n, name, budget, out, err);
}
