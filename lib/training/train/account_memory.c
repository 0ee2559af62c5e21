/*
 * account_memory.c - memory by formulas: parameters, gradients, optimizer state, activations; gpusim-parallel(7)
 * derives them. Each array takes a multiple of 256 bytes.
 */
#include <math.h>
#include <stdlib.h>

#include "base/must.h"
#include "train/account_impl.h"

#define ARRAY 256u

static uint64_t
up(uint64_t nbytes)
{
	return (nbytes + ARRAY - 1) / ARRAY * ARRAY;
}

static uint64_t
ceil_div(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

uint64_t
account_params(const struct account_facts *f, uint32_t u)
{
	const struct account_unit *unit = &f->unit[u];
	uint64_t h = f->h, t = f->t, out = unit->out, norm = unit->norm ? 2 * out : 0;

	switch (unit->kind) {
	case ACCOUNT_EMBEDDING: /* of patches, class token, positions */
		return h * f->q + h + h + f->s * h;
	case ACCOUNT_BLOCK: /* divided: qkv and its bias, proj, fc1 and its bias, fc2 */
		return (12 * h * h + 7 * h) / t + 6 * h;
	case ACCOUNT_HEAD:
		return 2 * h + ceil_div(f->c, t) * (h + 1);
	case ACCOUNT_DENSE:
		if (unit->role == ACCOUNT_COLUMNS)
			return ceil_div(out, t) * (unit->in + 1) + norm;
		return unit->in / (unit->role == ACCOUNT_ROWS ? t : 1) * out + out + norm;
	default:
		return f->in->net->nparams; /* one unit */
	}
}

/* ---- activations of a piece of a microbatch, in bytes */

struct activations {
	const struct account_facts *f;
	enum recompute recompute;
	bool split; /* gradients are kept from I to W */
	uint64_t kept, again, grads;
};

enum when { ALWAYS, UNLESS_FULL, UNLESS_ATTENTION };

static void
keep(struct activations *a, enum when when, uint64_t nbytes)
{
	bool again = (when != ALWAYS && a->recompute == RECOMPUTE_FULL) ||
		     (when == UNLESS_ATTENTION && a->recompute == RECOMPUTE_SELECTIVE);

	*(again ? &a->again : &a->kept) += up(nbytes);
}

/* Values of so many tokens. With sequence parallelism rows are filled up to a multiple of t, and a rank has all or
 * its part. */
static uint64_t
values(const struct account_facts *f, uint64_t tokens, uint64_t features, bool part)
{
	uint64_t rows = f->b * tokens, each = f->seq ? ceil_div(rows, f->t) : rows;

	return (f->seq && !part ? each * f->t : each) * features * f->each;
}

/* Mean and deviation of each row, in f64. */
static uint64_t
moments(const struct account_facts *f, uint64_t tokens)
{
	return 2 * f->b * tokens * sizeof(double);
}

static void
embedding(struct activations *a)
{
	const struct account_facts *f = a->f;
	uint64_t patches = f->s - 1, h = f->h;

	keep(a, UNLESS_FULL, values(f, patches, f->q, false));
	keep(a, UNLESS_FULL, values(f, patches, h, false));
	keep(a, ALWAYS, values(f, f->s, h, false));
	a->grads += up(values(f, patches, h, false)) + up(values(f, f->s, h, false));
}

static void
block(struct activations *a)
{
	const struct account_facts *f = a->f;
	uint64_t s = f->s, h = f->h, t = f->t;
	uint64_t all = values(f, s, h, false), part = values(f, s, h, f->seq);
	uint64_t head = values(f, s, h / t, false);

	for (int half = 0; half < 2; half++) {
		keep(a, UNLESS_FULL, part); /* the norm */
		keep(a, UNLESS_FULL, moments(f, s));
		if (f->seq)
			keep(a, UNLESS_FULL, all); /* gathered for the layers */
		if (half == 0) {
			keep(a, UNLESS_FULL, 3 * head); /* q, k, v */
			keep(a, UNLESS_ATTENTION, head);
			keep(a, UNLESS_ATTENTION, f->b * f->a / t * s * sizeof(float));
		} else {
			keep(a, UNLESS_FULL, 4 * head); /* before gelu, and after */
			keep(a, UNLESS_FULL, 4 * head);
		}
		keep(a, UNLESS_FULL, all); /* a rank's summand of proj or fc2 */
		if (f->seq)
			keep(a, UNLESS_FULL, part);		 /* their sum */
		keep(a, half == 0 ? UNLESS_FULL : ALWAYS, part); /* with the residual */
	}
	a->grads += 4 * up(part) + up(3 * head) + up(head) + up(4 * head);
	if (f->seq)
		a->grads += 4 * up(all);
}

static void
head(struct activations *a)
{
	const struct account_facts *f = a->f;
	uint64_t all = values(f, f->s, f->h, false), h = values(f, 1, f->h, false);
	uint64_t logits = values(f, 1, ceil_div(f->c, f->t), false);

	if (f->seq)
		keep(a, UNLESS_FULL, all);
	keep(a, UNLESS_FULL, h); /* the class token */
	keep(a, UNLESS_FULL, h); /* its norm */
	keep(a, UNLESS_FULL, moments(f, 1));
	keep(a, ALWAYS, logits);
	a->grads += up(logits) + up(h) * (a->split ? 2 : 1);
	if (f->seq) /* has that of the last block's output in it */
		a->grads += up(all) - up(values(f, f->s, f->h, true));
}

static void
dense(struct activations *a, const struct account_unit *u)
{
	const struct account_facts *f = a->f;
	uint64_t out = u->role == ACCOUNT_COLUMNS ? ceil_div(u->out, f->t) : u->out;
	uint64_t y = values(f, 1, out, false);

	if (u->norm || (u->role == ACCOUNT_ROWS && u->gelu))
		keep(a, u->norm ? UNLESS_FULL : ALWAYS, y);
	keep(a, ALWAYS, y);
	if (u->norm)
		keep(a, ALWAYS, moments(f, 1));
	if (u->gelu && u->role != ACCOUNT_ROWS)
		keep(a, ALWAYS, y);
	a->grads += up(y) * (u->norm && a->split ? 2 : 1);
}

static void
unit(struct activations *a, uint32_t u)
{
	switch (a->f->unit[u].kind) {
	case ACCOUNT_EMBEDDING:
		embedding(a);
		break;
	case ACCOUNT_BLOCK:
		block(a);
		break;
	case ACCOUNT_HEAD:
		head(a);
		break;
	case ACCOUNT_DENSE:
		dense(a, &a->f->unit[u]);
		break;
	default:
		break;
	}
}

/* What passes from one unit to the next, on a rank. */
static uint64_t
between(const struct account_facts *f, uint32_t u)
{
	const struct account_unit *of = &f->unit[u];

	if (of->kind != ACCOUNT_DENSE)
		return values(f, f->s, f->h, f->seq);
	return values(f, 1, of->role == ACCOUNT_COLUMNS ? ceil_div(of->out, f->t) : of->out, false);
}

/* ---- a pipeline rank */

/* Most microbatches of a stage in progress: from the arrival of one to its last pass or message, or to the pass back of
 * the stage before on the same rank, which takes the gradient. */
static uint64_t
in_progress(const struct account_facts *f, uint32_t p, uint32_t stage)
{
	const struct pipeline_row *row = &f->schedule->row[p];
	size_t *left = must_alloc(f->M, sizeof *left);
	bool *began = must_alloc(f->M, sizeof *began);
	uint64_t now = 0, peak = 0;

	for (size_t i = 0; i < 2 * row->n; i++) { /* first, how often each comes */
		const struct pipeline_action *a = &row->v[i % row->n];

		bool own = a->stage == stage && a->kind <= PIPELINE_RECV_B;

		if (!own &&
		    (a->stage + 1 != stage || (a->kind != PIPELINE_B && a->kind != PIPELINE_I)))
			continue;
		if (i < row->n) {
			left[a->micro]++;
			continue;
		}
		now += !began[a->micro];
		began[a->micro] = true;
		peak = now > peak ? now : peak;
		now -= --left[a->micro] == 0;
	}
	free(left);
	free(began);
	return peak;
}

struct rank_memory {
	uint64_t n, shard, largest,
	    nunits;	      /* parameters; the parts of units; of the largest unit */
	uint64_t micro, peak; /* bytes of activations of a microbatch; at the peak */
	uint64_t params, grads, state, buffers; /* bytes */
};

static void
add_stage(const struct account_facts *f, uint32_t p, uint32_t stage, struct rank_memory *m)
{
	uint32_t first = account_unit_of(f, stage), end = account_unit_of(f, stage + 1);
	struct activations a = {.f = f, .recompute = f->in->c->recompute};
	uint64_t again = 0, slot, in;

	for (size_t i = 0; i < f->schedule->row[p].n; i++)
		a.split = a.split || (f->schedule->row[p].v[i].kind == PIPELINE_W &&
				      f->schedule->row[p].v[i].stage == stage);
	for (uint32_t u = first; u < end; u++) {
		uint64_t n = account_params(f, u);

		m->n += n;
		m->shard += ceil_div(n, f->S);
		m->largest = n > m->largest ? n : m->largest;
		m->nunits++;
		a.again = 0;
		unit(&a, u);
		again = a.again > again ? a.again : again;
	}
	in = stage ? up(between(f, first - 1))
		   : up(f->b * net_shape_size(f->in->net->input) * f->each);
	a.kept += in;
	a.grads += stage ? in : 0;
	slot = f->pieces * (a.kept + (a.split ? a.grads : 0));
	if (stage) /* the gradient on its way out; and in */
		slot += up(f->pieces * between(f, first - 1));
	if (stage + 1 < f->schedule->nstages)
		slot += up(f->pieces * between(f, end - 1));
	m->micro += slot;
	m->peak += in_progress(f, p, stage) * slot + f->pieces * (again + (a.split ? 0 : a.grads));
}

/* Parameters, gradients, optimizer; buffers for a unit's gradient and its parts, for gathered parameters, losses. */
static void
add_values(const struct account_facts *f, struct rank_memory *m)
{
	uint64_t size = f->leaf ? 8 : f->each, unit = up(m->largest * f->each);
	uint32_t zero = f->zero;

	m->params = up((zero >= 3 ? m->shard : m->n) * f->each);
	m->grads = up((zero >= 2 ? m->shard : m->n) * size);
	m->state = f->nstate * up((zero >= 1 ? m->shard : m->n) * 4);
	m->buffers = up(m->nunits * 8) + up(f->M * f->pieces * 4) + up(8) + up(4 * f->b * 4);
	if (f->normed)
		m->buffers += up(LAYOUT_NORM * 8) + up(8) + up(LAYOUT_SCALER);
	if (f->leaf || f->M > 1 || zero >= 2)
		m->buffers += 2 * (f->leaf ? up(m->largest * 4) : unit);
	if (zero >= 2)
		m->buffers += 2 * (f->leaf ? up(m->largest * size) : 0) +
			      2 * up((m->largest / f->S + 1) * size);
	if (zero >= 3)
		m->buffers += f->in->c->no_reshard ? up(m->n * f->each) : 2 * unit;
}

/* A block's, but for the bytes of a value. */
static const char *
activation_formula(const struct account_facts *f)
{
	static const char *const text[3][3] = {
	    {"18 sbh + 32 sb + 4 abs a block", "(6 + 12/t) sbh + 32 sb + 4 abs/t a block",
	     "(4 + 18/t) sbh + 32 sb + 4 abs/t a block"},
	    {"17 sbh + 32 sb a block", "(6 + 11/t) sbh + 32 sb a block",
	     "(4 + 17/t) sbh + 32 sb a block"},
	    {"sbh a block", "sbh a block", "sbh/t a block"}};

	return f->h ? text[f->in->c->recompute][f->seq ? 2 : f->t > 1]
		    : "b by features of each layer";
}

/* Where a rank has its values: lengths from the addresses of the layout that ran. */
static void
add_row(const struct account_facts *f, uint32_t p, const struct rank_memory *m, struct account *a)
{
	const struct layout_row *row = &f->in->spread->layout->row[p];
	uint32_t zero = f->zero;
	uint64_t micro = 0, peak = 0,
		 after = row->fresh[0] ? row->fresh[0]
			 : f->normed   ? row->norm
				       : row->losses;
	uint64_t state = f->each < sizeof(float) ? row->master : row->state[0];
	const char *psi = f->t * f->p > 1 ? "Psi of the rank" : "Psi";
	const char *part = f->S < f->N ? " / S" : " / N";

	for (uint32_t i = 0; i < row->nchunks; i++) {
		const struct layout_chunk *c = &row->chunk[i];

		micro += c->slot_bytes;
		peak += c->nslots * c->slot_bytes + c->work_bytes * f->pieces;
	}
	account_add(a, "parameters, bytes", p, (double)m->params, (double)(state - row->params),
		    "%u %s%s", (unsigned)f->each, psi, zero >= 3 ? part : "");
	account_add(a, "gradients, bytes", p, (double)m->grads, (double)(after - row->grads),
		    "%u %s%s", f->leaf ? 8 : (unsigned)f->each, psi, zero >= 2 ? part : "");
	account_add(a, "optimizer state, bytes", p, (double)m->state, (double)(row->counts - state),
		    "%u %s%s", 4 * f->nstate, psi, zero >= 1 ? part : "");
	account_add(a, "activations of a microbatch, bytes", p, f->known ? (double)m->micro : NAN,
		    (double)micro, "%u * %s", (unsigned)f->each, activation_formula(f));
	account_add(a, "activations at the peak, bytes", p, f->known ? (double)m->peak : NAN,
		    (double)peak, "those in progress, gradients of one");
}

void
account_memory(const struct account_facts *f, struct account *a)
{
	uint64_t expected = 0, least = UINT64_MAX, most = 0;
	double all;

	for (uint32_t p = 0; p < f->p; p++) {
		struct rank_memory m = {0};

		for (uint32_t stage = 0; stage < f->schedule->nstages; stage++)
			if (f->schedule->rank_of[stage] == p)
				add_stage(f, p, stage, &m);
		add_values(f, &m);
		add_row(f, p, &m, a);
		m.peak += m.params + m.grads + m.state + m.buffers;
		expected = m.peak > expected ? m.peak : expected;
	}
	for (uint32_t r = 0; r < f->N * f->t * f->p; r++) {
		uint64_t used = f->in->seen[r].used_bytes;

		least = used < least ? used : least;
		most = used > most ? used : most;
	}
	all = f->known ? (double)(expected + f->in->item_bytes) : NAN;
	account_add(a, "device memory in use, bytes, least", UINT32_MAX, all, (double)least,
		    "the sum for the largest rank, with buffers, and the data set");
	account_add(a, "device memory in use, bytes, most", UINT32_MAX, all, (double)most,
		    "the same, as each device can be any rank");
}
