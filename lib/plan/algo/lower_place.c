/*
 * lower_place.c - choose the place of each value: in the input, the output or scratch.
 *
 * A place may be written again once all its readers are done, and once a message has proved to the rank
 * that its peers have received the data sent from there. That message is found by tracking how many rounds
 * of the others each rank knows to be done. The input may be the same memory as the output; an input that
 * would be overwritten too early is copied to scratch first.
 */
#include <stdlib.h>
#include <string.h>

#include "algo/lower_impl.h"
#include "base/buf.h"

#define MAX_TRIES 64 /* places of scratch that are tried for one value */

/* A received value. */
struct come {
	uint32_t chunk, round, val;
};

struct places {
	struct flow *f;
	uint32_t n;	   /* ranks */
	struct come *come; /* by chunk, then by round */
	size_t ncome;
	uint32_t *use_at, *user; /* by value: the values made from it */
	uint32_t *input;	 /* by rank and chunk: the value; ALGO_NONE */
	struct spot *spot;
	size_t nspot;
};

/* A value that needs a place, or an output. */
struct spot {
	uint32_t rank, at;
	uint64_t moment;
	uint32_t val, message;
	uint32_t out; /* ALGO_NONE: not an output */
};

/* The writer of a place. */
struct writer {
	uint64_t moment;
	uint32_t val, message; /* ALGO_NONE */
};

/* ---- a rank's knowledge of the others */

/* For one chunk: messages of other chunks may be empty, and then not sent, and prove nothing. */
struct knowledge {
	uint32_t *now,
	    *before; /* by rank and peer: rounds of the peer known to be done; before: at the round's start */
	uint32_t *next; /* by pair: the first value whose arrival is not proved; ALGO_NONE */
	uint32_t *then; /* by value: the next of its pair */
};

/* By message m rank r learns that `rounds` rounds of rank q are done. */
static void
hear(struct places *p, struct knowledge *k, uint32_t r, uint32_t q, uint32_t rounds, uint32_t m)
{
	const struct flow *f = p->f;
	size_t pair = (size_t)r * p->n + q;

	if (k->now[pair] >= rounds)
		return;
	k->now[pair] = rounds;
	for (; k->next[pair] != ALGO_NONE; k->next[pair] = k->then[k->next[pair]]) {
		struct val *x = &f->val[k->next[pair]];

		if (f->msg[x->message].round >= rounds)
			return;
		x->proof_round = f->msg[m].round;
		x->proof = m;
	}
}

/* The values [lo, hi) of p->come are of one chunk, in order of rounds. */
static void
hear_chunk(struct places *p, struct knowledge *k, size_t lo, size_t hi)
{
	const struct flow *f = p->f;
	size_t row = p->n * sizeof *k->now;

	for (size_t i = hi; i-- > lo;) {
		uint32_t v = p->come[i].val;
		const struct msg *x = &f->msg[f->val[v].message];
		uint32_t *first = &k->next[(size_t)x->from * p->n + x->to];

		memset(k->now + (size_t)x->from * p->n, 0, row);
		memset(k->now + (size_t)x->to * p->n, 0, row);
		f->val[v].proof_round = f->val[v].proof = ALGO_NONE;
		k->then[v] = *first;
		*first = v;
	}
	for (size_t i = lo, end; i < hi; i = end) {
		uint32_t t = p->come[i].round;

		for (end = i; end < hi && p->come[end].round == t; end++) {
			size_t q = f->msg[f->val[p->come[end].val].message].from;

			memcpy(k->before + q * p->n, k->now + q * p->n, row);
		}
		for (size_t j = i; j < end; j++) {
			uint32_t m = f->val[p->come[j].val].message, q = f->msg[m].from,
				 r = f->msg[m].to;

			for (uint32_t z = 0; z < p->n; z++)
				hear(p, k, r, z, k->before[(size_t)q * p->n + z], m);
			hear(p, k, r, q, t, m);
		}
	}
	for (size_t i = lo; i < hi; i++) {
		const struct msg *x = &f->msg[f->val[p->come[i].val].message];

		k->next[(size_t)x->from * p->n + x->to] = ALGO_NONE;
	}
}

static int
by_chunk(const void *x, const void *y)
{
	const struct come *a = x, *b = y;

	if (a->chunk != b->chunk)
		return a->chunk < b->chunk ? -1 : 1;
	if (a->round != b->round)
		return a->round < b->round ? -1 : 1;
	return a->val < b->val ? -1 : a->val > b->val;
}

static bool
sort_by_chunk(struct places *p)
{
	const struct flow *f = p->f;

	p->come = alloc_zeroed(f->nval + 1, sizeof *p->come);
	for (uint32_t v = 0; p->come && v < f->nval; v++)
		if (f->val[v].live && f->val[v].message != ALGO_NONE)
			p->come[p->ncome++] =
			    (struct come){f->val[v].chunk, f->msg[f->val[v].message].round, v};
	if (p->ncome)
		qsort(p->come, p->ncome, sizeof *p->come, by_chunk);
	return p->come != NULL;
}

static bool
find_proofs(struct places *p)
{
	size_t n = (size_t)p->n * p->n;
	struct knowledge k = {.now = alloc_zeroed(n, sizeof *k.now),
			      .before = alloc_zeroed(n, sizeof *k.before),
			      .next = alloc_zeroed(n, sizeof *k.next),
			      .then = alloc_zeroed(p->f->nval + 1, sizeof *k.then)};
	bool good = k.now && k.before && k.next && k.then && sort_by_chunk(p);

	if (good)
		memset(k.next, 0xff, n * sizeof *k.next);
	for (size_t i = 0, end; good && i < p->ncome; i = end) {
		for (end = i; end < p->ncome && p->come[end].chunk == p->come[i].chunk; end++)
			;
		hear_chunk(p, &k, i, end);
	}
	free(k.now);
	free(k.before);
	free(k.next);
	free(k.then);
	return good;
}

/* ---- readers of a place */

static void
each_operand(struct flow *f, void (*fn)(struct places *, uint32_t, uint32_t), struct places *p)
{
	for (uint32_t v = 0; v < f->nval; v++) {
		const struct val *x = &f->val[v];

		if (!x->live)
			continue;
		if (x->a != ALGO_NONE)
			fn(p, x->a, v);
		if (x->b != ALGO_NONE)
			fn(p, x->b, v);
		if (x->from != ALGO_NONE)
			fn(p, x->from, v);
	}
}

static void
count_use(struct places *p, uint32_t v, uint32_t user)
{
	(void)user;
	p->use_at[v + 1]++;
}

static void
add_use(struct places *p, uint32_t v, uint32_t user)
{
	p->user[p->use_at[v]++] = user;
}

static bool
find_users(struct places *p)
{
	size_t n = p->f->nval;

	p->use_at = alloc_zeroed(n + 2, sizeof *p->use_at);
	if (!p->use_at)
		return false;
	each_operand(p->f, count_use, p);
	for (size_t v = 0; v < n; v++)
		p->use_at[v + 1] += p->use_at[v];
	p->user = alloc_zeroed((size_t)p->use_at[n] + 1, sizeof *p->user);
	if (!p->user)
		return false;
	each_operand(p->f, add_use, p);
	memmove(p->use_at + 1, p->use_at, n * sizeof *p->use_at);
	p->use_at[0] = 0;
	return true;
}

/* Return true if user u has finished reading value v, in a message or here, before the writer. */
static bool
is_over(const struct places *p, uint32_t v, uint32_t u, struct writer w)
{
	const struct flow *f = p->f;
	const struct val *x = &f->val[u];
	uint64_t round = w.moment / NPHASES;

	if (x->from != v)
		return val_moment(x) < w.moment || u == w.val;
	if (x->proof_round != round)
		return x->proof_round < round;
	return w.moment % NPHASES == PHASE_AFTER ||
	       (x->proof == w.message && w.val != ALGO_NONE && f->val[w.val].chunk == x->chunk);
}

/* Return true if the writer may overwrite value v. */
static bool
may_overwrite(const struct places *p, uint32_t v, struct writer w)
{
	const struct val *x = &p->f->val[v];

	if (x->copied && out_moment(x) >= w.moment)
		return false;
	for (uint32_t i = p->use_at[v]; i < p->use_at[v + 1]; i++)
		if (!is_over(p, v, p->user[i], w))
			return false;
	return true;
}

/* ---- the output */

/* The lengths of the chunk and of the place are the same for any number of elements. */
static bool
suits(const struct algo *a, const struct val *v, uint32_t at)
{
	uint32_t per = a->nchunks / a->nranks;

	return a->coll == GPUSIM_ALLTOALL ? v->chunk % per == at % per : v->chunk == at;
}

/* A value that is an output is made in place, if it is made at all; to further outputs it is copied. */
static void
find_homes(struct flow *f)
{
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < f->nout; i++) {
			struct val *v = &f->val[f->out[i].val];

			if (v->made == MADE_INPUT || v->homed || (!pass && v->hint != f->out[i].at))
				continue;
			v->hint = f->out[i].at;
			v->homed = true;
		}
	for (size_t i = 0; i < f->nout; i++) {
		struct val *v = &f->val[f->out[i].val];

		f->out[i].copied = !v->homed || v->hint != f->out[i].at;
		v->copied |= f->out[i].copied;
	}
}

/* By place, the output last: it may be made before the earlier value, which then goes elsewhere. */
static int
by_place(const void *x, const void *y)
{
	const struct spot *a = x, *b = y;

	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	if ((a->out == ALGO_NONE) != (b->out == ALGO_NONE))
		return a->out == ALGO_NONE ? -1 : 1;
	if (a->moment != b->moment)
		return a->moment < b->moment ? -1 : 1;
	return a->val < b->val ? -1 : a->val > b->val;
}

static bool
collect_spots(struct places *p)
{
	struct flow *f = p->f;

	p->spot = alloc_zeroed(f->nval + f->nout + 1, sizeof *p->spot);
	if (!p->spot)
		return false;
	for (uint32_t v = 0; v < f->nval; v++) {
		const struct val *x = &f->val[v];

		if (x->live && x->made != MADE_INPUT && !x->homed && x->hint != ALGO_NONE &&
		    suits(f->algo, x, x->hint))
			p->spot[p->nspot++] = (struct spot){x->rank, x->hint,	 val_moment(x),
							    v,	     x->message, ALGO_NONE};
	}
	for (uint32_t i = 0; i < f->nout; i++) {
		const struct out *o = &f->out[i];
		const struct val *x = &f->val[o->val];

		p->spot[p->nspot++] = (struct spot){o->rank,
						    o->at,
						    o->copied ? out_moment(x) : val_moment(x),
						    o->val,
						    o->copied ? ALGO_NONE : x->message,
						    i};
	}
	qsort(p->spot, p->nspot, sizeof *p->spot, by_place);
	return true;
}

/* The input in the same memory in place; ALGO_NONE: none, or unused. */
static uint32_t
alias_of(const struct places *p, uint32_t rank, uint32_t at)
{
	if (p->f->algo->coll == GPUSIM_ALLTOALL)
		return ALGO_NONE;
	return p->input[(size_t)rank * p->f->algo->nchunks + at];
}

static struct writer
writer_of(const struct flow *f, const struct spot *s)
{
	bool copied = s->out != ALGO_NONE && f->out[s->out].copied;

	return (struct writer){s->moment, copied ? ALGO_NONE : s->val, s->message};
}

/* Spots [i, end) are for one place, and the last is its output. */
static void
share_place(struct places *p, size_t i, size_t end)
{
	struct flow *f = p->f;
	const struct spot *last = &p->spot[end - 1];
	uint32_t input = alias_of(p, last->rank, last->at);
	struct writer next = writer_of(f, last);

	for (size_t k = end - 1; k-- > i;) {
		const struct spot *s = &p->spot[k];
		struct writer w = writer_of(f, s);

		if (s->moment >= next.moment || !may_overwrite(p, s->val, next) ||
		    (input != ALGO_NONE && !may_overwrite(p, input, w)))
			continue;
		f->val[s->val].homed = true;
		next = w;
	}
	if (input != ALGO_NONE && input != last->val && !may_overwrite(p, input, next))
		f->val[input].saved = true;
}

static bool
share_output(struct places *p)
{
	struct flow *f = p->f;
	size_t ninput = (size_t)p->n * f->algo->nchunks;

	p->input = alloc_zeroed(ninput, sizeof *p->input);
	if (!p->input)
		return false;
	memset(p->input, 0xff, ninput * sizeof *p->input);
	for (uint32_t v = 0; v < f->nval; v++)
		if (f->val[v].live && f->val[v].made == MADE_INPUT)
			p->input[(size_t)f->val[v].rank * f->algo->nchunks + f->val[v].chunk] = v;
	find_homes(f);
	if (!collect_spots(p))
		return false;
	for (size_t i = 0, end; i < p->nspot; i = end) {
		for (end = i + 1; end < p->nspot && p->spot[end].rank == p->spot[i].rank &&
				  p->spot[end].at == p->spot[i].at;
		     end++)
			;
		if (p->spot[end - 1].out != ALGO_NONE)
			share_place(p, i, end);
	}
	return true;
}

/* ---- scratch */

static int
by_moment(const void *x, const void *y)
{
	const struct spot *a = x, *b = y;

	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	if (a->moment != b->moment)
		return a->moment < b->moment ? -1 : 1;
	if (a->message != b->message)
		return a->message < b->message ? -1 : 1;
	return a->val < b->val ? -1 : a->val > b->val;
}

/* Take a free place, or else a new one. Values of one message get adjacent places. */
static uint32_t
take_scratch(struct places *p, uint32_t *last, const struct spot *s, bool joined)
{
	struct flow *f = p->f;
	uint32_t n = f->scratch[s->rank], at = n;

	for (uint32_t k = 0; k < n && k < MAX_TRIES && !joined; k++) {
		const struct val *x = &f->val[last[k]];

		if ((x->saved ? PHASE_BEFORE : val_moment(x)) < s->moment &&
		    may_overwrite(p, last[k], (struct writer){s->moment, s->val, s->message})) {
			at = k;
			break;
		}
	}
	if (at == n)
		f->scratch[s->rank]++;
	last[at] = s->val;
	return at;
}

static bool
share_scratch(struct places *p)
{
	struct flow *f = p->f;
	uint32_t *last = alloc_zeroed(f->nval + 1, sizeof *last);

	f->scratch = alloc_zeroed(p->n, sizeof *f->scratch);
	if (!last || !f->scratch) {
		free(last);
		return false;
	}
	p->nspot = 0;
	for (uint32_t v = 0; v < f->nval; v++) {
		struct val *x = &f->val[v];

		if (x->live && x->homed) {
			x->buf = PLAN_OUT;
			x->at = x->hint;
		} else if (x->live && (x->made != MADE_INPUT || x->saved)) {
			p->spot[p->nspot++] =
			    (struct spot){x->rank, 0, val_moment(x), v, x->message, ALGO_NONE};
		}
	}
	qsort(p->spot, p->nspot, sizeof *p->spot, by_moment);
	for (size_t i = 0; i < p->nspot; i++) {
		const struct spot *s = &p->spot[i];
		bool joined = s->message != ALGO_NONE && f->msg[s->message].n > 1;

		f->val[s->val].buf = PLAN_TMP;
		f->val[s->val].tmp = f->val[s->val].at = take_scratch(p, last, s, joined);
	}
	free(last);
	return true;
}

enum rc
flow_place(struct flow *f, struct err *err)
{
	struct places p = {.f = f, .n = f->algo->nranks};
	bool good = find_proofs(&p) && find_users(&p) && share_output(&p) && share_scratch(&p);

	free(p.come);
	free(p.use_at);
	free(p.user);
	free(p.input);
	free(p.spot);
	return good ? RC_OK
		    : err_set(err, RC_NOMEM, "no memory to lower algorithm %s", f->algo->name);
}
