/*
 * account_sent.c - operations and elements sent in a step, by formulas; gpusim-parallel(7) derives them.
 *
 * All numbers are sums over the ranks of one pipeline rank. There they are exact, while a rank of a ring sends one part
 * more or less than another where parts are unequal: a reduce-scatter or all-gather of n elements among k ranks moves
 * (k - 1) n in all, an all-reduce twice as many.
 */
#include <stdio.h>
#include <string.h>

#include "train/account_impl.h"

struct sums {
	struct account_count by[ACCOUNT_NGROUPS][ACCOUNT_NCOLLS];
};

struct counter {
	const struct account_facts *f;
	struct sums *out;
};

/* One operation of each of k ranks, `times` times. */
static void
collective(struct counter *c, enum account_group g, enum account_coll coll, uint64_t k,
	   uint64_t times, uint64_t elements)
{
	struct account_count *to = &c->out->by[g][coll];

	if (k < 2 || elements == 0)
		return;
	to->n += times * k;
	to->elements += times * (k - 1) * elements * (coll == ACCOUNT_ALLREDUCE ? 2 : 1);
}

/* ---- data parallel */

/* Gathers of a unit's parameters in a step: one for each pass, but one for two passes in a row. */
static uint64_t
gathers(const struct account_facts *f, uint32_t p, uint32_t unit)
{
	const struct pipeline_row *row = &f->schedule->row[p];
	uint32_t last = UINT32_MAX;
	uint64_t n = 0;

	if (f->in->c->no_reshard)
		return 1;
	for (size_t i = 0; i < row->n; i++) {
		const struct pipeline_action *a = &row->v[i];
		uint32_t first = account_unit_of(f, a->stage),
			 end = account_unit_of(f, a->stage + 1);
		bool up = a->kind == PIPELINE_F;

		if (!up && a->kind != PIPELINE_B && a->kind != PIPELINE_I)
			continue;
		for (uint32_t k = first; k < end; k++) {
			uint32_t u = up ? k : end - 1 - (k - first);

			n += u == unit && u != last;
			last = u;
		}
	}
	return n;
}

static void
over_dp(struct counter *c, uint32_t p, uint32_t u)
{
	const struct account_facts *f = c->f;
	uint64_t n = account_params(f, u), R = f->N / f->S;
	uint64_t reduces = f->zero >= 2 ? f->M : 1;

	for (uint64_t t = 0; t < f->t; t++) {
		if (f->zero == 0) {
			collective(c, ACCOUNT_DP, ACCOUNT_ALLREDUCE, f->N, 1, n);
			continue;
		}
		collective(c, ACCOUNT_DP, ACCOUNT_REDUCESCATTER, f->S, R * reduces, n);
		for (uint64_t k = 0; k < f->S; k++) /* each part over its replicas, once a step */
			collective(c, ACCOUNT_REP, ACCOUNT_ALLREDUCE, R, 1,
				   n * (k + 1) / f->S - n * k / f->S);
		collective(c, ACCOUNT_DP, ACCOUNT_ALLGATHER, f->S,
			   R * (f->zero == 3 ? gathers(f, p, u) : 1), n);
	}
}

/* ---- tensor parallel */

/* What all tp ranks together have of a value of so many rows, filled up with sequence parallelism. */
static uint64_t
rows_of(const struct account_facts *f, uint64_t rows)
{
	return f->seq ? (rows + f->t - 1) / f->t * f->t : rows;
}

/* A microbatch's piece of r samples. */
static void
over_tp(struct counter *c, uint32_t u, bool last, uint64_t r)
{
	const struct account_facts *f = c->f;
	const struct account_unit *unit = &f->unit[u];
	bool full = f->in->c->recompute == RECOMPUTE_FULL;
	uint64_t value = rows_of(f, r * f->s) * f->h, n = full ? 6 : 4;

	switch (unit->kind) {
	case ACCOUNT_EMBEDDING: /* back, the gradients of all rows */
		if (f->seq)
			collective(c, ACCOUNT_TP, ACCOUNT_ALLGATHER, f->t, 1, value);
		break;
	case ACCOUNT_BLOCK:
		if (f->seq) {
			collective(c, ACCOUNT_TP, ACCOUNT_ALLGATHER, f->t, n, value);
			collective(c, ACCOUNT_TP, ACCOUNT_REDUCESCATTER, f->t, n, value);
		} else {
			collective(c, ACCOUNT_TP, ACCOUNT_ALLREDUCE, f->t, n, value);
		}
		break;
	case ACCOUNT_HEAD:
		if (f->seq)
			collective(c, ACCOUNT_TP, ACCOUNT_ALLGATHER, f->t, full ? 2 : 1, value);
		collective(c, ACCOUNT_TP, ACCOUNT_ALLREDUCE, f->t, 1, r * f->h);
		break;
	case ACCOUNT_DENSE: /* the input's gradient, but of the data; the sum of the outputs */
		if (unit->role == ACCOUNT_COLUMNS && u > 0)
			collective(c, ACCOUNT_TP, ACCOUNT_ALLREDUCE, f->t, 1, r * unit->in);
		if (unit->role == ACCOUNT_ROWS)
			collective(c, ACCOUNT_TP, ACCOUNT_ALLREDUCE, f->t, 1, r * unit->out);
		break;
	default:
		break;
	}
	/* A divided loss: the largest logit of each row, then three sums. */
	if (last && (unit->kind == ACCOUNT_HEAD || unit->role == ACCOUNT_COLUMNS)) {
		collective(c, ACCOUNT_TP, ACCOUNT_ALLREDUCE, f->t, 1, r);
		collective(c, ACCOUNT_TP, ACCOUNT_ALLREDUCE, f->t, 1, 3 * r);
	}
}

/* With sequence parallelism: the gradients of two norms and two biases, each of which saw only its rows. */
static void
over_rows(struct counter *c, uint32_t u)
{
	const struct account_facts *f = c->f;
	uint64_t reduces = f->zero >= 2 ? f->M : 1;

	if (!f->seq || f->unit[u].kind != ACCOUNT_BLOCK)
		return;
	for (uint64_t d = 0; d < f->N; d++) {
		collective(c, ACCOUNT_TP, ACCOUNT_ALLREDUCE, f->t, 2 * reduces, 2 * f->h);
		collective(c, ACCOUNT_TP, ACCOUNT_ALLREDUCE, f->t, 2 * reduces, f->h);
	}
}

/* ---- pipeline */

/* A value of r samples that passes a boundary: all tp ranks send their copies, or their parts. */
static void
over_pp(struct counter *c, uint32_t before, uint64_t r)
{
	const struct account_facts *f = c->f;
	const struct account_unit *unit = &f->unit[before];
	struct account_count *to = &c->out->by[ACCOUNT_PP][ACCOUNT_SEND];
	uint64_t each = f->t, all = r * f->s * f->h * f->t;

	if (unit->kind == ACCOUNT_DENSE) {
		all = r * unit->out * (unit->role == ACCOUNT_COLUMNS ? 1 : f->t);
	} else if (f->seq) { /* the last ranks may have no row */
		uint64_t rows = r * f->s, part = rows_of(f, rows) / f->t;

		all = rows * f->h;
		each = (rows + part - 1) / part;
	}
	to->n += each;
	to->elements += all;
}

static void
messages(struct counter *c, uint32_t p)
{
	const struct account_facts *f = c->f;
	const struct pipeline_row *row = &f->schedule->row[p];

	for (size_t i = 0; i < row->n; i++) {
		const struct pipeline_action *a = &row->v[i];
		bool forward = a->kind == PIPELINE_SEND_F;

		if (!forward && a->kind != PIPELINE_SEND_B)
			continue;
		for (uint32_t d = 0; d < f->N; d++)
			for (uint32_t piece = 0; piece < f->pieces; piece++) {
				uint64_t r = account_rows(f, d, a->micro, piece);

				if (r)
					over_pp(c, account_unit_of(f, a->stage + forward) - 1, r);
			}
	}
}

/* ---- compression */

/* PowerSGD: a weight of n x m is sent as P and Q of r columns if that is less; all else goes with P. */
static void
over_powersgd(struct counter *c)
{
	const struct net *net = c->f->in->net;
	uint64_t r = c->f->in->c->compress.rank, p = net->nparams, q = 0;

	for (uint32_t k = 0; k < net->nnodes; k++) {
		const struct net_node *node = &net->node[k];
		uint64_t n = node->shape.channels, m = node->nweight / n;

		if ((node->kind != NET_DENSE && node->kind != NET_CONV) || r * (n + m) >= n * m ||
		    r >= n || r >= m)
			continue;
		p += r * n - n * m;
		q += r * m;
	}
	collective(c, ACCOUNT_DP, ACCOUNT_ALLREDUCE, c->f->N, 1, p);
	collective(c, ACCOUNT_DP, ACCOUNT_ALLREDUCE, c->f->N, 1, q);
}

/* ---- a pipeline rank */

static void
expect(const struct account_facts *f, uint32_t p, struct sums *out)
{
	struct counter c = {.f = f, .out = out};
	uint32_t last_stage;

	if (!f->schedule) {
		over_powersgd(&c);
		return;
	}
	last_stage = f->schedule->nstages - 1;

	for (uint32_t stage = 0; stage <= last_stage; stage++) {
		uint32_t first = account_unit_of(f, stage), end = account_unit_of(f, stage + 1);

		if (f->schedule->rank_of[stage] != p)
			continue;
		for (uint32_t u = first; u < end; u++) {
			over_dp(&c, p, u);
			over_rows(&c, u);
			for (uint64_t k = 0; k < f->N * f->M * f->pieces; k++) {
				uint32_t d = (uint32_t)(k / (f->M * f->pieces));
				uint32_t m = (uint32_t)(k / f->pieces % f->M);

				over_tp(&c, u, stage == last_stage && u + 1 == end,
					account_rows(f, d, m, (uint32_t)(k % f->pieces)));
			}
		}
		if (stage == last_stage && f->leaf) /* the loss, an integer */
			for (uint64_t t = 0; t < f->t; t++)
				collective(&c, ACCOUNT_DP, ACCOUNT_ALLREDUCE, f->N, 1, 1);
	}
	messages(&c, p);
}

static const char *
formula(const struct account_facts *f, enum account_group g, enum account_coll coll)
{
	uint32_t zero = f->zero;
	bool full = f->in->c->recompute == RECOMPUTE_FULL;

	if (g == ACCOUNT_REP)
		return "2 (R-1)/R Psi / S";
	if (g == ACCOUNT_PP)
		return f->h ? "b s h a boundary, microbatch and direction"
			    : "b by features a boundary, microbatch and direction";
	if (g == ACCOUNT_DP && !f->schedule)
		return "2 (N-1)/N (r (n + m) of each n by m weight, and all others)";
	if (g == ACCOUNT_DP)
		return coll == ACCOUNT_ALLREDUCE ? zero ? "2 (N-1)/N, the loss" : "2 (N-1)/N Psi"
		       : coll == ACCOUNT_REDUCESCATTER ? zero >= 2 ? "m (N-1)/N Psi" : "(N-1)/N Psi"
		       : zero < 3 || f->in->c->no_reshard
			   ? "(N-1)/N Psi"
			   : "2 m (N-1)/N Psi, less units used twice in a row";
	if (g == ACCOUNT_GRID)
		return "2 (R-1)/R of the norm's 21 integers, for R ranks";
	if (g != ACCOUNT_TP)
		return "none";
	if (!f->h)
		return "2 (t-1)/t b by features of each pair of layers";
	if (coll != ACCOUNT_ALLREDUCE)
		return full
			   ? "6 bsh (t-1)/t a block and microbatch, rows filled up; embedding, head"
			   : "4 bsh (t-1)/t a block and microbatch, rows filled up; embedding, "
			     "head";
	return f->seq ? "12 h (t-1)/t a block: norms and biases; bh, 4b of the head"
	       : full ? "12 bsh (t-1)/t a block and microbatch; bh, 4b of the head"
		      : "8 bsh (t-1)/t a block and microbatch; bh, 4b of the head";
}

/* Compare what the ranks of a row, or all, were counted to do. */
static void
compare(const struct account_facts *f, uint32_t p, bool all, const struct sums *expected,
	struct account *a)
{
	uint64_t ranks = f->N * f->t * (all ? f->p : 1), first = all ? 0 : p * ranks;

	for (unsigned i = 0; i < ACCOUNT_NGROUPS * ACCOUNT_NCOLLS; i++) {
		unsigned g = i / ACCOUNT_NCOLLS, k = i % ACCOUNT_NCOLLS;
		const struct account_count *e = &expected->by[g][k];
		struct account_count seen = {0};
		char what[64], text[112];

		for (uint64_t r = first; r < first + ranks; r++) {
			seen.n += f->in->seen[r].by[g][k].n;
			seen.elements += f->in->seen[r].by[g][k].elements;
		}
		if ((g == ACCOUNT_GRID) != all || (e->n == 0 && seen.n == 0))
			continue;
		snprintf(text, sizeof text, "%s", formula(f, g, k));
		if (f->S < f->N && g == ACCOUNT_DP && k != ACCOUNT_ALLREDUCE)
			for (char *c = text; (c = strchr(c, 'N'));)
				*c = 'S';
		snprintf(what, sizeof what, "%s %s, elements sent", account_group_name(g),
			 account_coll_name(k));
		account_add(a, what, p, (double)e->elements / (double)ranks,
			    (double)seen.elements / (double)ranks, "%s", text);
		snprintf(what, sizeof what, "%s %s, number", account_group_name(g),
			 account_coll_name(k));
		account_add(a, what, p, (double)e->n / (double)ranks,
			    (double)seen.n / (double)ranks, "of the same");
	}
}

void
account_sent(const struct account_facts *f, struct account *a)
{
	struct sums all = {0};
	struct counter c = {f, &all};

	for (uint32_t p = 0; p < f->p; p++) {
		struct sums expected = {0};

		expect(f, p, &expected);
		compare(f, p, false, &expected, a);
	}
	if (f->normed)
		collective(&c, ACCOUNT_GRID, ACCOUNT_ALLREDUCE, f->N * f->t * f->p, 1, LAYOUT_NORM);
	compare(f, UINT32_MAX, true, &all, a);
}
