/*
 * lower_trace.c - run an algorithm's steps, and record how each chunk is made.
 */
#include <stdlib.h>
#include <string.h>

#include "algo/cells.h"
#include "algo/graph.h"
#include "algo/lower_impl.h"
#include "base/buf.h"

struct trace {
	struct flow *f;
	const struct algo *a;
	struct graph g;
	uint32_t *cell;	   /* the value there; ALGO_NONE */
	uint32_t *sent;	   /* values in messages */
	uint32_t *by_node; /* by node that receives: its message */
	bool full;
};

static uint32_t
per_rank(const struct algo *a)
{
	return a->nchunks / a->nranks;
}

static uint32_t
new_val(struct trace *t, struct val v)
{
	struct flow *f = t->f;

	if (!alloc_room(&f->val, f->nval, &f->val_cap, sizeof *f->val)) {
		t->full = true;
		return 0;
	}
	f->val[f->nval] = v;
	return (uint32_t)f->nval++;
}

/* The chunk of the vector that is a rank's input i. */
static uint32_t
input_chunk(const struct algo *a, uint32_t rank, uint32_t i)
{
	return a->coll == GPUSIM_ALLGATHER && !a->in_place ? rank * per_rank(a) + i : i;
}

/* The cell's place in the output; ALGO_NONE: not in the output. */
static uint32_t
place_of(const struct algo *a, uint32_t rank, unsigned buf, uint32_t at)
{
	uint32_t per = per_rank(a);

	if (buf == ALGO_SCRATCH || (buf == ALGO_IN && !cells_alias(a)) ||
	    (a->coll == GPUSIM_REDUCE && rank != a->root))
		return ALGO_NONE;
	if (a->coll != GPUSIM_REDUCESCATTER)
		return at;
	if (!a->in_place)
		return rank * per + at;
	return at / per == rank ? at : ALGO_NONE;
}

/* The value in a cell: an input, unless something was written there. */
static uint32_t
value_at(struct trace *t, uint32_t rank, unsigned buf, uint32_t at)
{
	uint32_t *cell = &t->cell[t->g.first_cell[rank] + cell_of(t->a, rank, buf, at)];

	if (*cell == ALGO_NONE) {
		uint32_t chunk = input_chunk(t->a, rank, at);

		*cell = new_val(t, (struct val){.made = MADE_INPUT,
						.rank = rank,
						.chunk = chunk,
						.nranks = 1,
						.a = ALGO_NONE,
						.b = ALGO_NONE,
						.from = ALGO_NONE,
						.message = ALGO_NONE,
						.hint = ALGO_NONE,
						.buf = PLAN_IN,
						.at = chunk});
	}
	return *cell;
}

static uint32_t
make(struct trace *t, uint32_t rank, enum made made, uint32_t a, uint32_t b, uint32_t from,
     uint32_t message)
{
	const struct val *v = t->f->val;
	struct val x = {.made = (uint8_t)made,
			.rank = rank,
			.chunk = v[from != ALGO_NONE ? from : a].chunk,
			.a = a,
			.b = b,
			.from = from,
			.message = message,
			.hint = ALGO_NONE};

	x.nranks = (from != ALGO_NONE ? v[from].nranks : 0) + (a != ALGO_NONE ? v[a].nranks : 0) +
		   (b != ALGO_NONE ? v[b].nranks : 0);
	return new_val(t, x);
}

/* Chunk i of a step. */
static void
trace_chunk(struct trace *t, uint32_t node, const struct algo_step *s, uint32_t i)
{
	uint32_t rank = graph_rank(&t->g, node), src = ALGO_NONE, come = ALGO_NONE, v,
		 message = t->by_node[node];

	if (algo_kind_reads(s->kind))
		src = value_at(t, rank, s->src, s->src_at + i);
	if (algo_kind_recvs(s->kind))
		come = t->sent[t->g.sent_at[t->g.from[node]] + i];
	v = src;
	if (come != ALGO_NONE)
		v = make(t, rank, src == ALGO_NONE ? MADE_RECV : MADE_RECV_SUM, src, ALGO_NONE,
			 come, message);
	else if (s->kind == ALGO_REDUCE)
		v = make(t, rank, MADE_SUM, value_at(t, rank, s->dst, s->dst_at + i), src,
			 ALGO_NONE, ALGO_NONE);
	if (t->full)
		return;
	if (come != ALGO_NONE)
		t->f->item[t->f->msg[message].first + i] = v;
	if (algo_kind_sends(s->kind))
		t->sent[t->g.sent_at[node] + i] = v;
	if (algo_kind_writes(s->kind)) {
		t->cell[t->g.first_cell[rank] + cell_of(t->a, rank, s->dst, s->dst_at + i)] = v;
		if (t->f->val[v].made != MADE_INPUT && t->f->val[v].rank == rank &&
		    t->f->val[v].hint == ALGO_NONE)
			t->f->val[v].hint = place_of(t->a, rank, s->dst, s->dst_at + i);
	}
}

/* ---- needed values */

static bool
has_output(const struct algo *a, uint32_t rank, uint32_t at)
{
	if (a->coll == GPUSIM_REDUCE)
		return rank == a->root;
	return a->coll != GPUSIM_REDUCESCATTER || at / per_rank(a) == rank;
}

static bool
find_outputs(struct trace *t)
{
	const struct algo *a = t->a;
	struct flow *f = t->f;

	f->out = alloc_zeroed((size_t)a->nranks * a->nchunks, sizeof *f->out);
	if (!f->out)
		return false;
	for (uint32_t r = 0; r < a->nranks; r++)
		for (uint32_t c = 0; c < a->nchunks; c++) {
			bool part = a->coll == GPUSIM_REDUCESCATTER && !a->in_place;
			uint32_t at = part ? c % per_rank(a) : c;

			if (!has_output(a, r, c))
				continue;
			f->out[f->nout++] =
			    (struct out){.rank = r, .at = c, .val = value_at(t, r, ALGO_OUT, at)};
		}
	return !t->full;
}

static void
use(struct flow *f, uint32_t v)
{
	if (v == ALGO_NONE)
		return;
	f->val[v].nuse++;
	f->val[v].live = true;
}

/* A value follows its operands, so one pass backwards finds the needed values. */
static void
find_live(struct flow *f)
{
	for (size_t i = 0; i < f->nout; i++)
		use(f, f->out[i].val);
	for (size_t i = f->nval; i-- > 0;)
		if (f->val[i].live) {
			use(f, f->val[i].a);
			use(f, f->val[i].b);
			use(f, f->val[i].from);
		}
}

/* Return true if the value is received only to be added, once. */
static bool
only_added(const struct flow *f, uint32_t v)
{
	return f->val[v].made == MADE_RECV && f->val[v].nuse == 1;
}

/* Let the message of `come` make sum v, added to a. */
static void
fuse_one(struct flow *f, uint32_t v, uint32_t a, uint32_t come, const uint32_t *slot)
{
	struct val *x = &f->val[v], *r = &f->val[come];

	x->made = MADE_RECV_SUM;
	x->a = a;
	x->b = ALGO_NONE;
	x->from = r->from;
	x->message = r->message;
	x->nranks = f->val[a].nranks + f->val[r->from].nranks;
	r->live = false;
	f->item[slot[come]] = v;
}

/* The operands of a chain of sums: values that are received only to be added, and at most one other. */
struct chain {
	uint32_t come[ALGO_MAX_RANKS], sum[ALGO_MAX_RANKS];
	uint32_t ncome, nsum, other;
	bool good;
};

static void
chain_operand(struct chain *c, const struct flow *f, uint32_t v)
{
	if (only_added(f, v) && c->ncome < ALGO_MAX_RANKS)
		c->come[c->ncome++] = v;
	else if (c->other == ALGO_NONE)
		c->other = v;
	else
		c->good = false;
}

/* From the last sum down to the first. */
static void
find_chain(struct chain *c, const struct flow *f, uint32_t v)
{
	c->ncome = c->nsum = 0;
	c->other = ALGO_NONE;
	c->good = true;
	while (c->good && c->nsum < ALGO_MAX_RANKS) {
		uint32_t a = f->val[v].a;

		c->sum[c->nsum++] = v;
		chain_operand(c, f, f->val[v].b);
		if (f->val[a].made != MADE_SUM || f->val[a].nuse != 1) {
			chain_operand(c, f, a);
			return;
		}
		v = a;
	}
	c->good = false;
}

/* The peers after the rank come first, so that not all ranks wait for the same one. */
static void
turn(struct chain *c, const struct flow *f, uint32_t rank)
{
	uint32_t n = f->algo->nranks;

	for (uint32_t i = 1; i < c->ncome; i++)
		for (uint32_t k = i; k > 0; k--) {
			uint32_t x = f->val[f->val[c->come[k - 1]].from].rank + n - rank,
				 y = f->val[f->val[c->come[k]].from].rank + n - rank,
				 come = c->come[k];

			if (x % n <= y % n)
				break;
			c->come[k] = c->come[k - 1];
			c->come[k - 1] = come;
		}
}

/* Make all sums of a chain on arrival, in the order of turn(). */
static bool
fuse_chain(struct flow *f, struct chain *c, uint32_t v, const uint32_t *slot)
{
	uint32_t a, k = 0;

	find_chain(c, f, v);
	if (!c->good || c->ncome < 2)
		return false;
	turn(c, f, f->val[v].rank);
	a = c->other != ALGO_NONE ? c->other : c->come[k++];
	for (uint32_t i = c->nsum; i-- > 0; k++) {
		fuse_one(f, c->sum[i], a, c->come[k], slot);
		a = c->sum[i];
	}
	return true;
}

/* Later sums first: they are the ends of chains. */
static bool
fuse(struct flow *f)
{
	uint32_t *slot = alloc_zeroed(f->nval + 1, sizeof *slot);
	struct chain *c = alloc_zeroed(1, sizeof *c);
	bool good;

	for (size_t m = 0; slot && c && m < f->nmsg; m++)
		for (uint32_t k = 0; k < f->msg[m].n; k++)
			slot[f->item[f->msg[m].first + k]] = f->msg[m].first + k;
	for (uint32_t i = (uint32_t)f->nval; slot && c && i-- > 0;) {
		const struct val *v = &f->val[i];

		if (!v->live || v->made != MADE_SUM || fuse_chain(f, c, i, slot))
			continue;
		if (only_added(f, v->b))
			fuse_one(f, i, v->a, v->b, slot);
		else if (only_added(f, v->a))
			fuse_one(f, i, v->b, v->a, slot);
	}
	good = slot && c;
	free(slot);
	free(c);
	return good;
}

/* ---- all of it */

static bool
number_messages(struct trace *t)
{
	struct flow *f = t->f;
	uint32_t nitem = 0;

	f->msg = alloc_zeroed((size_t)t->g.nmessage + 1, sizeof *f->msg);
	f->item = alloc_zeroed((size_t)t->g.nsent + 1, sizeof *f->item);
	t->sent = alloc_zeroed((size_t)t->g.nsent + 1, sizeof *t->sent);
	for (uint32_t n = 0; f->msg && n < t->g.nnode; n++) {
		const struct algo_step *s = graph_step(&t->g, n);

		if (!algo_kind_recvs(s->kind))
			continue;
		t->by_node[n] = (uint32_t)f->nmsg;
		f->msg[f->nmsg++] = (struct msg){.from = graph_rank(&t->g, t->g.from[n]),
						 .to = graph_rank(&t->g, n),
						 .first = nitem,
						 .n = s->count,
						 .order = s->order};
		nitem += s->count;
	}
	return f->msg && f->item && t->sent;
}

static bool
trace_init(struct trace *t)
{
	t->cell = alloc_zeroed((size_t)t->g.ncell + 1, sizeof *t->cell);
	t->by_node = alloc_zeroed((size_t)t->g.nnode + 1, sizeof *t->by_node);
	if (!t->cell || !t->by_node)
		return false;
	memset(t->cell, 0xff, t->g.ncell * sizeof *t->cell);
	return number_messages(t);
}

enum rc
flow_trace(const struct algo *a, bool fused, struct flow *f, struct err *err)
{
	struct trace t = {.f = f, .a = a};
	enum rc rc;

	*f = (struct flow){.algo = a};
	rc = graph_init(&t.g, a, err);
	if (rc == RC_OK)
		rc = graph_sort(&t.g, 0, err);
	if (rc == RC_OK && !trace_init(&t))
		rc = RC_NOMEM;
	for (uint32_t k = 0; rc == RC_OK && k < t.g.nnode && !t.full; k++) {
		const struct algo_step *s = graph_step(&t.g, t.g.order[k]);

		for (uint32_t i = 0; i < s->count && s->kind != ALGO_NOP && !t.full; i++)
			trace_chunk(&t, t.g.order[k], s, i);
	}
	if (rc == RC_OK && (t.full || !find_outputs(&t)))
		rc = RC_NOMEM;
	if (rc == RC_OK) {
		find_live(f);
		if (fused && !fuse(f))
			rc = RC_NOMEM;
		/* Drop dead values from messages, and empty messages. */
		for (size_t m = 0; m < f->nmsg; m++) {
			struct msg *x = &f->msg[m];
			uint32_t n = 0;

			for (uint32_t k = 0; k < x->n; k++)
				if (f->val[f->item[x->first + k]].live)
					f->item[x->first + n++] = f->item[x->first + k];
			x->n = n;
		}
	}
	if (rc == RC_NOMEM)
		err_set(err, rc, "no memory to lower algorithm %s", a->name);
	graph_fini(&t.g);
	free(t.cell);
	free(t.sent);
	free(t.by_node);
	return rc;
}

void
flow_fini(struct flow *f)
{
	free(f->val);
	free(f->msg);
	free(f->item);
	free(f->out);
	free(f->scratch);
	*f = (struct flow){0};
}
