#include "train/compress.h"

#include <math.h>
#include <string.h>

#include "nn/launch.h"
#include "nn/rng.h"

#define MAX_PIECES  (3 * NET_MAX_NODES + 1)
#define STAGES	    4 /* of topk's warm-up: 1/4, 1/16, 1/64, 1/256 of the elements */
#define ADAM_BETA1  0.9
#define TOPK_EPOCHS 4 /* of warm-up */

/* A range of the parameters. */
struct piece {
	uint64_t first, count, rows, cols;
	uint64_t rank;	  /* of P [rows, rank] and Q [cols, rank]; 0: sent as it is */
	uint64_t p, q;	  /* offsets in the vector that is sent with P; in all Q */
	uint64_t k, from; /* topk: elements that are sent, and their place among all */
};

struct pieces {
	unsigned n;
	struct piece at[MAX_PIECES];
	uint64_t p, q, k; /* all that is sent */
};

/* Append a range; rows: of a weight; 0: not a matrix. */
static void
add_piece(struct pieces *all, const struct train_config *c, double fraction, uint64_t first,
	  uint64_t count, uint64_t rows)
{
	struct piece p = {.first = first, .count = count, .rows = rows, .p = all->p, .q = all->q};

	if (count == 0)
		return;
	if (c->compress.kind == COMPRESS_POWERSGD && rows) {
		p.cols = count / rows;
		p.rank = c->compress.rank;
		if (p.rank >= rows || p.rank >= p.cols || p.rank * (rows + p.cols) >= count)
			p.rank = 0;
	}
	p.k = (uint64_t)ceil(fraction * (double)count);
	p.k = p.k < 1 ? 1 : p.k > count ? count : p.k;
	p.from = all->k;
	all->k += p.k;
	all->p += p.rank ? p.rank * rows : count;
	all->q += p.rank * p.cols;
	all->at[all->n++] = p;
}

/* Cut all parameters into weights, biases, and what lies between. */
static void
cut(const struct task *task, double fraction, struct pieces *all)
{
	const struct net *net = &task->net;
	uint64_t at = 0;

	all->n = 0;
	all->p = all->q = all->k = 0;
	for (uint32_t i = 0; i < net->nnodes; i++) {
		const struct net_node *n = &net->node[i];
		bool matrix = n->kind == NET_DENSE || n->kind == NET_CONV;
		uint64_t rows = matrix ? n->shape.channels : 0;

		if (n->nweight == 0)
			continue;
		add_piece(all, task->config, fraction, at, n->weight - at, 0);
		add_piece(all, task->config, fraction, n->weight, n->nweight, rows);
		at = n->weight + n->nweight;
		if (n->nbias)
			add_piece(all, task->config, fraction, n->bias, n->nbias, 0);
		at += n->nbias;
	}
	add_piece(all, task->config, fraction, at, net->nparams - at, 0);
}

/* ---- phases */

struct compress_phase
compress_phase(const struct task *task, uint64_t steps_an_epoch, uint64_t step)
{
	const struct train_config *c = task->config;
	struct compress_phase p = {.fraction = c->compress.fraction, .end = UINT64_MAX};
	uint64_t epochs = c->compress.kind == COMPRESS_TOPK ? TOPK_EPOCHS : 1;
	uint64_t warmup = c->compress_warmup ? c->compress_warmup : epochs * steps_an_epoch;

	if (c->compress.kind == COMPRESS_ONEBIT) {
		p.begin = warmup;
		p.dense = step < warmup;
		p.end = p.dense ? warmup : UINT64_MAX;
	} else if (c->compress.kind == COMPRESS_TOPK && step < warmup) {
		uint64_t stage = step * STAGES / warmup;

		p.fraction = fmax(p.fraction, pow(0.25, (double)stage + 1));
		p.end = ((stage + 1) * warmup + STAGES - 1) / STAGES;
	}
	return p;
}

/* ---- memory */

bool
compress_owns_optimizer(const struct train_config *c)
{
	return c->compress.kind == COMPRESS_TOPK || c->outer == OUTER_NESTEROV;
}

void
compress_place_shared(struct replica *r, const struct task *task, uint64_t *at)
{
	const struct train_config *c = task->config;
	struct pieces all;

	if (c->outer == OUTER_NESTEROV) {
		r->anchor = emit_take(at, task_values(task) * sizeof(float));
		r->outer = emit_take(at, task->net.nparams * sizeof(float));
	}
	if (c->compress.kind != COMPRESS_POWERSGD)
		return;
	cut(task, 0, &all);
	r->q = emit_take(at, all.q * sizeof(float));
}

void
compress_place_own(struct replica *r, const struct task *task, uint64_t *at)
{
	enum compress kind = task->config->compress.kind;
	uint64_t nbytes = task->net.nparams * sizeof(float);

	if (kind != COMPRESS_NONE)
		r->error[0] = emit_take(at, nbytes);
	if (kind == COMPRESS_ONEBIT)
		r->error[1] = emit_take(at, nbytes);
}

/* The elements of a rank's chunk, and the bytes of its signs and scale. */
static uint64_t
chunk_of(uint64_t n, uint32_t nranks)
{
	return ((n + nranks - 1) / nranks + 31) / 32 * 32;
}

static uint64_t
chunk_bytes(uint64_t chunk)
{
	return sizeof(float) + chunk / 8;
}

void
compress_place_scratch(struct replica *r, const struct shape *s, uint64_t *at)
{
	enum compress kind = s->task->config->compress.kind;
	uint64_t n = s->task->net.nparams, all, one;
	struct pieces pieces;

	if (kind == COMPRESS_NONE)
		return;
	cut(s->task, compress_phase(s->task, s->train_steps, 0).fraction, &pieces);
	one = all = pieces.p * sizeof(float); /* powersgd has no other buffer */
	if (kind == COMPRESS_TOPK) {
		one = pieces.k * 2 * sizeof(float);
		all = one * s->max_ranks;
	} else if (kind == COMPRESS_ONEBIT) {
		/* Of any number of ranks, each with a chunk that is rounded up. */
		all = n / 8 + (uint64_t)s->max_ranks * chunk_bytes(64);
		one = all;
		r->single = emit_take(at, chunk_bytes(chunk_of(n, 1)));
	}
	r->send = emit_take(at, one);
	r->gathered = kind == COMPRESS_POWERSGD ? 0 : emit_take(at, all);
}

void
compress_begin(const struct task *task, const struct replica *offsets, uint8_t *image)
{
	float *values = (float *)(void *)image;
	struct pieces all;
	struct rng rng;

	if (offsets->anchor)
		memcpy(image + offsets->anchor, values, task_values(task) * sizeof *values);
	if (!offsets->q)
		return;
	cut(task, 0, &all);
	rng_init(&rng, task->config->seed ^ 0x706f776572u);
	values = (float *)(void *)(image + offsets->q);
	for (uint64_t i = 0; i < all.q; i++)
		values[i] = rng_uniform(&rng, -1, 1);
}

/* ---- emission */

/* Element i of a vector of f32. */
static uint64_t
element(uint64_t vector, uint64_t i)
{
	return vector + i * sizeof(float);
}

static void
collective(const struct compress_run *run, enum gpusim_coll coll, enum gpusim_dtype type,
	   uint64_t nelem)
{
	const struct gpusim_collective c = {GPUSIM_COLLECTIVE_INIT,
					    .coll = coll,
					    .dtype = type,
					    .redop = GPUSIM_SUM,
					    .nelem = nelem,
					    .send = run->send,
					    .recv =
						coll == GPUSIM_ALLREDUCE ? run->send : run->recv};

	if (nelem)
		run->collective(run->arg, &c);
}

uint64_t
compress_sent(const struct gpusim_collective *c, uint32_t nranks)
{
	uint64_t size = c->dtype == GPUSIM_U8 ? 1 : sizeof(float);

	return (c->coll == GPUSIM_ALLREDUCE ? 2 : 1) * (nranks - 1) * c->nelem * size;
}

/* L2 decay is part of the gradient, so a rank adds its share of it. */
static void
add_decay(const struct compress_run *run, uint32_t r)
{
	const struct train_config *c = run->task->config;
	const struct emit_place *p = &run->replica[r].net;

	if (c->weight_decay > 0 && c->optimizer != OPTIMIZER_ADAMW)
		LAUNCH(run->sink, r, "axpy", U("y", p->grads), U("x", p->params),
		       U("n", run->task->net.nparams), F("alpha", c->weight_decay / run->nranks));
}

/* M = gradient + error, in the error's place; P = M Q, and what is sent as it is. */
static void
power_begin(const struct compress_run *run, uint32_t r, const struct piece *p)
{
	const struct replica *at = &run->replica[r];
	uint64_t grads = element(at->net.grads, p->first), m = element(at->error[0], p->first);

	if (!p->rank) {
		LAUNCH(run->sink, r, "copy", U("dst", element(at->send, p->p)), U("src", grads),
		       U("n", p->count));
		return;
	}
	LAUNCH(run->sink, r, "axpy", U("y", m), U("x", grads), U("n", p->count));
	LAUNCH(run->sink, r, "gemm", U("m", p->rows), U("n", p->rank), U("k", p->cols), U("a", m),
	       U("b", element(at->q, p->q)), U("c", element(at->send, p->p)));
}

/* Q = M^T P, with orthonormal P. */
static void
power_middle(const struct compress_run *run, uint32_t r, const struct piece *p)
{
	const struct replica *at = &run->replica[r];
	uint64_t basis = element(at->send, p->p);

	if (!p->rank)
		return;
	LAUNCH(run->sink, r, "orthogonalize", U("p", basis), U("n", p->rows), U("r", p->rank));
	LAUNCH(run->sink, r, "gemm", U("m", p->cols), U("n", p->rank), U("k", p->rows), U("ta", 1),
	       U("a", element(at->error[0], p->first)), U("b", basis),
	       U("c", element(at->q, p->q)));
}

/* The gradient is P Q^T, by one thread so that ranks have the same bits; error = M - P Q^T / N. */
static void
power_end(const struct compress_run *run, uint32_t r, const struct piece *p)
{
	const struct replica *at = &run->replica[r];
	uint64_t grads = element(at->net.grads, p->first), basis = element(at->send, p->p);

	if (!p->rank) {
		LAUNCH(run->sink, r, "copy", U("dst", grads), U("src", basis), U("n", p->count));
		return;
	}
	LAUNCH(run->sink, r, "gemm", U("m", p->rows), U("n", p->cols), U("k", p->rank), U("tb", 1),
	       U("a", basis), U("b", element(at->q, p->q)), U("c", grads), U("single", 1));
	LAUNCH(run->sink, r, "axpy", U("y", element(at->error[0], p->first)), U("x", grads),
	       U("n", p->count), F("alpha", -1.0 / run->nranks));
}

static void
each_piece(const struct compress_run *run, const struct pieces *all,
	   void (*emit)(const struct compress_run *run, uint32_t r, const struct piece *p))
{
	for (uint32_t r = 0; r < run->nranks; r++)
		for (unsigned i = 0; i < all->n; i++)
			emit(run, r, &all->at[i]);
}

static void
reduce_power(const struct compress_run *run)
{
	struct pieces all;

	cut(run->task, 0, &all);
	each_piece(run, &all, power_begin);
	for (uint32_t r = 0; r < run->nranks; r++)
		run->send[r].addr = run->replica[r].send;
	collective(run, GPUSIM_ALLREDUCE, GPUSIM_F32, all.p);
	each_piece(run, &all, power_middle);
	for (uint32_t r = 0; r < run->nranks; r++)
		run->send[r].addr = run->replica[r].q;
	collective(run, GPUSIM_ALLREDUCE, GPUSIM_F32, all.q);
	each_piece(run, &all, power_end);
}

/* Momentum correction and accumulation are SGD with rate -1 on the elements not yet sent. */
static void
topk_begin(const struct compress_run *run, uint32_t r, const struct pieces *all)
{
	const struct train_config *c = run->task->config;
	const struct replica *at = &run->replica[r];

	add_decay(run, r);
	LAUNCH(run->sink, r, "sgd", U("w", at->error[0]), U("grad", at->net.grads),
	       U("v", at->state[0]), U("n", run->task->net.nparams), F("lr", -1),
	       F("momentum", c->momentum),
	       U("nesterov", c->optimizer == OPTIMIZER_NESTEROV && c->momentum > 0));
	for (unsigned i = 0; i < all->n; i++) {
		const struct piece *p = &all->at[i];
		uint64_t u =
		    c->momentum > 0 && p->k < p->count ? element(at->state[0], p->first) : 0;

		LAUNCH(run->sink, r, "topk", U("x", element(at->error[0], p->first)), U("also", u),
		       U("n", p->count), U("k", p->k), U("first", p->first),
		       U("index", element(at->send, p->from)),
		       U("value", element(at->send, all->k + p->from)));
	}
}

static void
reduce_topk(const struct compress_run *run)
{
	uint64_t n = run->task->net.nparams;
	struct pieces all;

	cut(run->task, run->phase.fraction, &all);
	for (uint32_t r = 0; r < run->nranks; r++) {
		run->send[r].addr = run->replica[r].send;
		run->recv[r].addr = run->replica[r].gathered;
		topk_begin(run, r, &all);
	}
	collective(run, GPUSIM_ALLGATHER, GPUSIM_U32, 2 * all.k * run->nranks);
	for (uint32_t r = 0; r < run->nranks; r++) {
		LAUNCH(run->sink, r, "fill", U("dst", run->replica[r].net.grads), U("n", n));
		LAUNCH(run->sink, r, "scatter_add", U("y", run->replica[r].net.grads),
		       U("src", run->replica[r].gathered), U("n", n), U("k", all.k),
		       U("parts", run->nranks));
	}
}

/* A rank's momentum, as signs of all chunks. */
static void
onebit_begin(const struct compress_run *run, uint32_t r, uint64_t chunk)
{
	const struct replica *at = &run->replica[r];
	uint64_t n = run->task->net.nparams;

	add_decay(run, r);
	LAUNCH(run->sink, r, "scale", U("x", at->net.grads), U("n", n),
	       F("alpha", (1 - ADAM_BETA1) * run->nranks));
	LAUNCH(run->sink, r, "axpy", U("y", at->net.grads), U("x", at->state[0]), U("n", n),
	       F("alpha", ADAM_BETA1));
	LAUNCH(run->sink, r, "sign_pack", U("x", at->net.grads), U("error", at->error[0]),
	       U("used", at->state[1]), U("n", n), U("part", chunk), U("parts", run->nranks),
	       U("dst", at->send));
}

/* The mean of the rank's chunk, again as signs. */
static void
onebit_serve(const struct compress_run *run, uint32_t r, uint64_t chunk)
{
	const struct replica *at = &run->replica[r];
	uint64_t n = run->task->net.nparams, first = r * chunk < n ? r * chunk : n;
	uint64_t count = n - first < chunk ? n - first : chunk;
	uint64_t mean = element(at->net.grads, first), used = element(at->state[1], first);

	LAUNCH(run->sink, r, "sign_unpack", U("y", mean), U("src", at->gathered), U("used", used),
	       U("n", count), U("part", chunk), U("parts", run->nranks), U("mean", 1));
	LAUNCH(run->sink, r, "sign_pack", U("x", mean), U("error", element(at->error[1], first)),
	       U("used", used), U("n", count), U("part", chunk), U("dst", at->single));
}

static void
reduce_onebit(const struct compress_run *run)
{
	uint64_t chunk = chunk_of(run->task->net.nparams, run->nranks);
	uint64_t words = run->nranks * chunk_bytes(chunk) / sizeof(uint32_t);

	for (uint32_t r = 0; r < run->nranks; r++) {
		run->send[r].addr = run->replica[r].send;
		run->recv[r].addr = run->replica[r].gathered;
		onebit_begin(run, r, chunk);
	}
	collective(run, GPUSIM_ALLTOALL, GPUSIM_U32, words);
	for (uint32_t r = 0; r < run->nranks; r++) {
		run->send[r].addr = run->replica[r].single;
		run->recv[r].addr = run->replica[r].send; /* which has been delivered */
		onebit_serve(run, r, chunk);
	}
	collective(run, GPUSIM_ALLGATHER, GPUSIM_U32, words);
	for (uint32_t r = 0; r < run->nranks; r++)
		LAUNCH(run->sink, r, "sign_unpack", U("y", run->replica[r].state[0]),
		       U("src", run->replica[r].send), U("used", run->replica[r].state[1]),
		       U("n", run->task->net.nparams), U("part", chunk), U("parts", run->nranks));
}

void
compress_reduce(const struct compress_run *run)
{
	static void (*const reduce[])(const struct compress_run *run) = {
	    [COMPRESS_POWERSGD] = reduce_power,
	    [COMPRESS_TOPK] = reduce_topk,
	    [COMPRESS_ONEBIT] = reduce_onebit,
	};

	reduce[run->task->config->compress.kind](run);
}

void
compress_optimizer(const struct task *task, const struct compress_phase *phase,
		   struct emit_optimizer *o)
{
	enum compress kind = task->config->compress.kind;

	if (kind == COMPRESS_TOPK) {
		o->kind = OPTIMIZER_SGD;
		o->momentum = o->weight_decay = 0;
	} else if (kind == COMPRESS_ONEBIT && !phase->dense) {
		o->frozen = phase->begin; /* L2 decay is in the gradient already, and c1 is 0 */
	}
}

void
compress_outer(const struct compress_run *run)
{
	const struct train_config *c = run->task->config;
	uint64_t n = run->task->net.nparams, nstats = run->task->net.nstats, all = n + nstats;

	for (uint32_t r = 0; r < run->nranks; r++) {
		const struct replica *at = &run->replica[r];

		run->send[r].addr = at->net.grads;
		LAUNCH(run->sink, r, "copy", U("dst", at->net.grads), U("src", at->anchor),
		       U("n", all));
		LAUNCH(run->sink, r, "axpy", U("y", at->net.grads), U("x", at->net.params),
		       U("n", all), F("alpha", -1));
		LAUNCH(run->sink, r, "scale", U("x", at->net.grads), U("n", all),
		       F("alpha", 1.0 / run->nranks));
	}
	collective(run, GPUSIM_ALLREDUCE, GPUSIM_F32, all);
	for (uint32_t r = 0; r < run->nranks; r++) {
		const struct replica *at = &run->replica[r];

		LAUNCH(run->sink, r, "sgd", U("w", at->anchor), U("grad", at->net.grads),
		       U("v", at->outer), U("n", n), F("lr", c->outer_lr),
		       F("momentum", c->outer_momentum), U("nesterov", c->outer_momentum > 0));
		LAUNCH(run->sink, r, "axpy", U("y", element(at->anchor, n)),
		       U("x", element(at->net.grads, n)), U("n", nstats), F("alpha", -1));
		LAUNCH(run->sink, r, "copy", U("dst", at->net.params), U("src", at->anchor),
		       U("n", all));
	}
}
