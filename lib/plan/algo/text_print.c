/* An algorithm as text: text_print, text_print_plans. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"

static const char *const buffers[ALGO_NBUFS] = {"in", "out", "scratch"};

static bool
print_head(const struct algo *a, struct buf *out)
{
	const char *coll = algo_coll_name(a);
	bool good = buf_addf(out,
			     "algorithm %s\ncollective %s\nranks %" PRIu32 "\nchunks %" PRIu32
			     "\nchannels %" PRIu32 "\n",
			     a->name, coll, a->nranks, a->nchunks, a->nchannels);

	if (a->root)
		good = good && buf_addf(out, "root %" PRIu32 "\n", a->root);
	if (a->in_place)
		good = good && buf_addf(out, "inplace\n");
	if (a->out_of_place)
		good = good && buf_addf(out, "outofplace\n");
	if (*a->proto)
		good = good && buf_addf(out, "proto %s\n", a->proto);
	if (a->min_bytes || a->max_bytes)
		good = good && buf_addf(out, "bytes %" PRIu64 "..%" PRIu64 "\n", a->min_bytes,
					a->max_bytes);
	return good;
}

/* ---- steps of blocks */

static bool
print_range(unsigned buf, uint32_t at, uint32_t count, struct buf *out)
{
	if (count == 1)
		return buf_addf(out, " %s[%" PRIu32 "]", buffers[buf], at);
	return buf_addf(out, " %s[%" PRIu32 ":%" PRIu32 "]", buffers[buf], at, count);
}

static bool
print_step(const struct algo_step *s, struct buf *out)
{
	bool reads = algo_kind_reads(s->kind), writes = algo_kind_writes(s->kind);
	bool good = buf_addf(out, "    %s", algo_kind_name(s->kind));

	if (reads)
		good = good && print_range(s->src, s->src_at, s->count, out);
	if (reads && writes)
		good = good && buf_addf(out, " ->");
	if (writes)
		good = good && print_range(s->dst, s->dst_at, s->count, out);
	if (s->dep_block != ALGO_NONE)
		good =
		    good && buf_addf(out, " after %" PRIu32 ".%" PRIu32, s->dep_block, s->dep_step);
	return good && buf_addf(out, "\n");
}

static bool
print_block(const struct algo_block *b, size_t number, struct buf *out)
{
	bool good = buf_addf(out, "  block");

	if (b->send != ALGO_NONE)
		good = good && buf_addf(out, " send %" PRIu32, b->send);
	if (b->recv != ALGO_NONE)
		good = good && buf_addf(out, " recv %" PRIu32, b->recv);
	if (b->channel)
		good = good && buf_addf(out, " channel %" PRIu32, b->channel);
	good = good && buf_addf(out, " # %zu\n", number);
	for (size_t i = 0; i < b->nstep && good; i++)
		good = print_step(&b->step[i], out);
	return good;
}

bool
text_print(const struct algo *a, struct buf *out)
{
	bool good = print_head(a, out);

	for (uint32_t r = 0; r < a->nranks && good; r++) {
		const struct algo_rank *rank = &a->rank[r];

		good = buf_addf(
		    out, "\nrank %" PRIu32 " in %" PRIu32 " out %" PRIu32 " scratch %" PRIu32 "\n",
		    r, rank->chunks[ALGO_IN], rank->chunks[ALGO_OUT], rank->chunks[ALGO_SCRATCH]);
		for (size_t b = 0; b < rank->nblock && good; b++)
			good = print_block(&rank->block[b], b, out);
	}
	return good;
}

/* ---- plans as transfers */

/*
 * The plans of all ranks, run round by round in an order that they allow. A send is kept until its receiver
 * takes it; then its transfer is printed. The sent data do not change until then, which every plan
 * guarantees.
 */
struct telling {
	struct plan *plans;
	size_t *next; /* step of each rank */
	/* of sender * nranks + receiver: the sender's step of the next message to take */
	size_t *sent;
	uint32_t nranks, round;
	uint64_t unit; /* elements of a chunk */
	struct buf *out;
};

static uint64_t
common_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t c = a % b;

		a = b;
		b = c;
	}
	return a;
}

static uint64_t
unit_of(const struct plan_args *a, const struct plan *plans)
{
	uint64_t unit = a->nelem;

	for (uint32_t r = 0; r < a->nranks; r++)
		for (size_t i = 0; i < plans[r].nstep; i++) {
			const struct plan_step *s = &plans[r].step[i];

			unit = common_divisor(unit, s->src_off);
			unit = common_divisor(unit, s->dst_off);
			unit = common_divisor(unit, s->count);
		}
	return unit ? unit : 1;
}

/* The number of chunks of the vector, so that each rank's part has whole chunks. */
static uint64_t
unit_of_parts(const struct plan_args *a, uint64_t unit)
{
	for (uint32_t r = 0; r < a->nranks; r++) {
		uint64_t off, count;

		plan_part(a->nelem, a->nranks, r, &off, &count);
		unit = common_divisor(common_divisor(unit, off), count);
	}
	return unit;
}

static bool
tell_place(const struct telling *t, uint32_t rank, unsigned buf, uint64_t off, uint64_t count)
{
	bool good = buf_addf(t->out, " %" PRIu32 ".%s[%" PRIu64, rank, buffers[buf], off / t->unit);

	if (count != t->unit)
		good = good && buf_addf(t->out, ":%" PRIu64, count / t->unit);
	return good && buf_addf(t->out, "]");
}

static bool
tell_copy(const struct telling *t, uint32_t r, const struct plan_step *s)
{
	if (s->src == s->dst && s->src_off == s->dst_off)
		return true;
	return buf_addf(t->out, "copy") && tell_place(t, r, s->src, s->src_off, s->count) &&
	       buf_addf(t->out, " ->") && tell_place(t, r, s->dst, s->dst_off, s->count) &&
	       buf_addf(t->out, "\n");
}

static bool
tell_message(const struct telling *t, uint32_t from, const struct plan_step *send, uint32_t to,
	     const struct plan_step *recv)
{
	bool reduces = recv->kind == STEP_RECV_REDUCE;
	bool into = reduces && recv->src == recv->dst && recv->src_off == recv->dst_off;
	bool good = buf_addf(t->out, into ? "reduce" : "copy") &&
		    tell_place(t, from, send->src, send->src_off, send->count);

	if (reduces && !into)
		good = good && buf_addf(t->out, " +") &&
		       tell_place(t, to, recv->src, recv->src_off, recv->count);
	return good && buf_addf(t->out, " ->") &&
	       tell_place(t, to, recv->dst, recv->dst_off, recv->count) && buf_addf(t->out, "\n");
}

/* The sender's next message to that receiver; NULL: not sent yet. */
static const struct plan_step *
take_message(struct telling *t, uint32_t from, uint32_t to)
{
	size_t *at = &t->sent[(size_t)from * t->nranks + to];

	for (; *at < t->next[from]; ++*at) {
		const struct plan_step *s = &t->plans[from].step[*at];

		if (s->kind == STEP_SEND && s->peer == to) {
			++*at;
			return s;
		}
	}
	return NULL;
}

/* Run a rank as far as possible in this round. False: out of memory. */
static bool
advance(struct telling *t, uint32_t r, bool *moved)
{
	for (; t->next[r] < t->plans[r].nstep; t->next[r]++) {
		const struct plan_step *s = &t->plans[r].step[t->next[r]], *sent;
		bool good = true;

		if (s->round > t->round)
			return true;

		if (s->kind == STEP_COPY) {
			good = tell_copy(t, r, s);
		} else if (s->kind == STEP_RECV || s->kind == STEP_RECV_REDUCE) {
			sent = take_message(t, s->peer, r);
			if (!sent)
				return true;
			good = tell_message(t, s->peer, sent, r, s);
		}
		if (!good)
			return false;
		*moved = true;
	}
	return true;
}

/* Go to the next round in which a rank has a step. False: there is none. */
static bool
next_round(struct telling *t)
{
	uint32_t round = UINT32_MAX;

	for (uint32_t r = 0; r < t->nranks; r++)
		if (t->next[r] < t->plans[r].nstep) {
			uint32_t at = t->plans[r].step[t->next[r]].round;

			if (at > t->round && at < round)
				round = at;
		}
	if (round == UINT32_MAX)
		return false;
	t->round = round;
	return true;
}

static enum rc
tell(struct telling *t, struct err *err)
{
	bool moved = true, good = true;

	t->next = alloc_zeroed(t->nranks, sizeof *t->next);
	t->sent = alloc_zeroed((size_t)t->nranks * t->nranks, sizeof *t->sent);
	if (!t->next || !t->sent)
		good = false;
	while (good && (moved || next_round(t))) {
		moved = false;
		for (uint32_t r = 0; r < t->nranks && good; r++)
			good = advance(t, r, &moved);
	}
	for (uint32_t r = 0; r < t->nranks && good; r++)
		if (t->next[r] < t->plans[r].nstep)
			return err_set(err, RC_INTERNAL, "the plan of rank %" PRIu32 " is blocked",
				       r);
	return good ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
}

static bool
is_for_files(enum gpusim_coll coll)
{
	struct algo a = {0};

	return algo_coll_parse(coll_name(coll), &a, NULL) == RC_OK;
}

enum rc
text_print_plans(const struct plan_args *a, const char *algo, struct buf *out, struct err *err)
{
	const struct plan_algo *row;
	struct plan_args args = *a;
	struct telling t = {.nranks = a->nranks, .out = out};
	enum rc rc = plan_algo_find(a->coll, algo, &row, err);
	size_t len = out->len;

	args.wide = false;
	if (rc != RC_OK)
		return rc;
	if (!is_for_files(a->coll))
		return err_set(err, RC_INVAL,
			       "%s cannot be a file: files are for allreduce, "
			       "allgather, reduce-scatter, alltoall, broadcast, reduce",
			       coll_name(a->coll));
	if (plan_algo_mapped(row))
		return err_set(
		    err, RC_INVAL,
		    "%s %s reads and writes the other ranks' memory, so it cannot be a file",
		    coll_name(a->coll), row->name);
	if (a->nranks > ALGO_MAX_RANKS)
		return err_set(err, RC_INVAL, "%" PRIu32 " ranks: files have at most %u", a->nranks,
			       ALGO_MAX_RANKS);
	rc = plan_build_all(&args, row->name, &t.plans, err);
	if (rc != RC_OK)
		return rc;
	t.unit = unit_of_parts(&args, unit_of(&args, t.plans));
	if (args.nelem / t.unit > ALGO_MAX_CHUNKS)
		rc = err_set(err, RC_INVAL, "%" PRIu64 " chunks: files have at most %u",
			     args.nelem / t.unit, ALGO_MAX_CHUNKS);
	else if (!buf_addf(out,
			   "algorithm %s\ncollective %s\nranks %" PRIu32 "\nchunks %" PRIu64 "\n",
			   row->name, coll_name(a->coll), a->nranks, args.nelem / t.unit) ||
		 (coll_has_root(a->coll) && a->root &&
		  !buf_addf(out, "root %" PRIu32 "\n", a->root)) ||
		 !buf_addf(out, "\n"))
		rc = err_set(err, RC_NOMEM, "out of memory");
	rc = rc == RC_OK ? tell(&t, err) : rc;
	plan_free_all(t.plans, a->nranks);
	free(t.next);
	free(t.sent);
	if (rc != RC_OK)
		out->len = len;
	return rc;
}
