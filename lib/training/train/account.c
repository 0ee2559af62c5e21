#include "train/account.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "train/account_impl.h"
#include "train/trainer_impl.h"

void
account_fini(struct account *a)
{
	free(a->line);
	*a = (struct account){0};
}

/* ---- the letters */

/* An mlp's layers, and which way tp divides them: one by its outputs, the next by its inputs. */
static void
find_layers(struct account_facts *f)
{
	const struct net *n = f->in->net;
	bool divided = false; /* the input */

	for (uint32_t u = 0; u < n->ncuts; u++) {
		uint32_t at = n->cut[u], end = u + 1 < n->ncuts ? n->cut[u + 1] : n->nnodes;
		const struct net_node *node = &n->node[at];
		struct account_unit *to = &f->unit[u];

		*to = (struct account_unit){.kind = ACCOUNT_UNKNOWN};
		if (node->kind != NET_DENSE || end - at > 2) {
			f->known = false;
			continue;
		}
		*to = (struct account_unit){.kind = ACCOUNT_DENSE,
					    .in = net_shape_size(net_in_shape(n, node)),
					    .out = net_shape_size(node->shape),
					    .norm = end - at == 2,
					    .gelu = n->node[end - 1].act == NET_GELU,
					    .last = u + 1 == n->ncuts};
		if (f->t == 1)
			continue;
		to->role = divided		   ? ACCOUNT_ROWS
			   : to->norm && !to->last ? ACCOUNT_WHOLE
						   : ACCOUNT_COLUMNS;
		divided = to->role == ACCOUNT_COLUMNS;
	}
}

static void
find_blocks(struct account_facts *f)
{
	const struct net *n = f->in->net;
	const struct net_vit *v = &n->vit;

	f->h = v->hidden;
	f->a = v->heads;
	f->s = (uint64_t)n->input.rows / v->patch * (n->input.cols / v->patch) + 1;
	f->q = (uint64_t)v->patch * v->patch * n->input.channels;
	for (uint32_t u = 0; u < f->nunits; u++)
		f->unit[u] = (struct account_unit){.kind = u == 0	    ? ACCOUNT_EMBEDDING
							   : u <= v->blocks ? ACCOUNT_BLOCK
									    : ACCOUNT_HEAD,
						   .in = v->hidden,
						   .out = v->hidden};
}

/* Samples that stay together. */
static uint64_t
together(const struct account_facts *f)
{
	return f->leaf ? f->leaf : 1;
}

static void
find(const struct account_input *in, struct account_facts *f)
{
	const struct grid *g = &in->grid;
	uint64_t most;

	*f = (struct account_facts){.in = in,
				    .schedule = in->spread ? in->spread->schedule : NULL,
				    .N = g->dp,
				    .t = g->tp,
				    .p = g->pp,
				    .S = in->spread ? in->spread->layout->c.shards : g->dp,
				    .M = in->spread ? in->spread->schedule->nmicro : 1,
				    .c = in->net->nclasses,
				    .leaf = in->c->deterministic ? in->c->leaf : 0,
				    .each = in->c->precision ? 2 : sizeof(float),
				    .nunits = in->net->ncuts,
				    .nstate = (optimizer_adapts(in->c->optimizer) ? 2 : 1) +
					      (in->c->precision ? 1 : 0),
				    .normed = in->c->clip > 0 || config_scales(in->c),
				    .seq = in->c->sequence && g->tp > 1,
				    .known = true};
	f->zero = f->S > 1 ? in->c->zero : 0;
	if (in->net->vit.blocks)
		find_blocks(f);
	else
		find_layers(f);
	/* ceil(ceil(groups / N) / M) groups of samples */
	most = (in->most + together(f) - 1) / together(f);
	most = (most + f->N - 1) / f->N;
	most = (most + f->M - 1) / f->M * together(f);
	f->b = f->leaf && f->leaf < most ? f->leaf : most;
	f->pieces = (most + f->b - 1) / f->b;
}

/* ---- the schedule */

struct bubble {
	const char *name, *formula, *peak_formula;
	double part, peak; /* of the time in which a rank is busy, for F = B = W; microbatches */
	bool holds;
};

static struct bubble
bubble_of(const struct account_facts *f)
{
	const char *name = f->in->c->pipeline ? f->in->c->pipeline : f->p > 1 ? "1f1b" : "gpipe";
	double p = (double)f->p, m = (double)f->M, v = f->schedule->nstages / p;
	const struct bubble all[] = {
	    {"gpipe", "(p-1)/m", "gpipe: m", (p - 1) / m, m, true},
	    {"1f1b", "(p-1)/m", "1f1b: p, at most m", (p - 1) / m, fmin(p, m), true},
	    {"interleaved", "(p-1)/(v m)", "passes of 1/v of a rank: p v + p - 1, at most m v",
	     (p - 1) / (v * m), fmin(p * v + p - 1, m * v), true},
	    {"zb-h1", "(p-1)(F+B-W) / m(F+B+W)", "zb-h1: p, as 1f1b", (p - 1) / (3 * m), p, m >= p},
	    {"zb-h2", "(p-1)(F+B-2W) / m(F+B+W)", "zb-h2: 2p - 1", 0, 2 * p - 1, m >= 2 * p - 1},
	    {"zb-v", "0", "passes of half a rank: 2p", 0, 2 * p, m >= 2 * p - 1},
	};

	for (size_t i = 0, n = strcspn(name, "="); i < sizeof all / sizeof all[0]; i++)
		if (strlen(all[i].name) == n && memcmp(name, all[i].name, n) == 0 && all[i].holds)
			return all[i];
	return (struct bubble){name, "none", "none", NAN, NAN, false};
}

/* Most passes forward of a rank whose weights' gradients are not made yet. */
static uint32_t
peak_of(const struct pipeline *s)
{
	uint32_t peak = 0;

	for (uint32_t p = 0; p < s->nranks; p++) {
		uint32_t now = 0;

		for (size_t i = 0; i < s->row[p].n; i++) {
			enum pipeline_kind k = s->row[p].v[i].kind;

			now += k == PIPELINE_F;
			peak = now > peak ? now : peak;
			now -= k == PIPELINE_B || k == PIPELINE_W;
		}
	}
	return peak;
}

static void
add_schedule(const struct account_facts *f, struct account *a)
{
	const struct pipeline_costs costs = {.f = 1, .b = 1, .w = 1};
	struct pipeline_times times;
	struct bubble b = bubble_of(f);
	struct err ignored;

	account_add(a, "microbatches in progress, peak", UINT32_MAX, b.peak, peak_of(f->schedule),
		    "%s", b.peak_formula);
	if (f->p == 1 || pipeline_time(f->schedule, &costs, &times, &ignored) != RC_OK)
		return;
	account_add(a, "bubble / busy time, of the schedule, F=B=W", UINT32_MAX, b.part,
		    times.bubble / times.busy, "%s", b.formula);
	pipeline_times_fini(&times);
}

void
account_make(const struct account_input *in, struct account *out)
{
	struct account_facts f;
	int n;

	*out = (struct account){0};
	find(in, &f);
	for (uint32_t u = 0; u < f.nunits; u++) {
		struct account_facts one = f;

		one.t = 1;
		one.unit[u].role = ACCOUNT_WHOLE;
		f.psi += account_params(&one, u);
	}
	n = snprintf(out->title, sizeof out->title,
		     "Psi %" PRIu64 " parameters, N %" PRIu64 " data parallel, t %" PRIu64
		     " tensor parallel, p %" PRIu64 " pipeline, m %" PRIu64
		     " microbatches, b %" PRIu64 " samples",
		     f.psi, f.N, f.t, f.p, f.M, f.b);
	if (f.S < f.N)
		n += snprintf(out->title + n, sizeof out->title - (size_t)n,
			      ", S %" PRIu64 " that shard, R %" PRIu64 " replicas", f.S, f.N / f.S);
	if (f.h)
		snprintf(out->title + n, sizeof out->title - (size_t)n,
			 ", s %" PRIu64 " tokens, h %" PRIu64 " features, a %" PRIu64 " heads", f.s,
			 f.h, f.a);
	if (in->spread)
		account_memory(&f, out);
	account_sent(&f, out);
	if (in->spread)
		add_schedule(&f, out);
}

/* ---- of a trainer */

struct gpusim_device
account_device(const struct trainer *t, uint32_t rank)
{
	return t->replica[rank].device;
}

void
account_of(const struct trainer *t, struct account_input *out)
{
	*out = (struct account_input){.c = t->o,
				      .net = t->net,
				      .grid = {gpusim_comm_count(t->comm), 1, 1},
				      .spread = t->spread,
				      .global = t->full_steps ? t->global : t->rest,
				      .most = t->global};
	if (!t->spread)
		return;
	out->grid = t->spread->grid;
	out->item_bytes = replica_bytes(&t->shape) - t->shape.layout->bytes;
}

enum rc
account_step(struct trainer *t, struct err *err)
{
	const struct steps *s = t->full_steps ? &t->train : &t->train_rest;
	enum rc rc = t->fed ? RC_OK : feed(t, err);

	for (unsigned i = 0; i < s->nparts && rc == RC_OK; i++)
		rc =
		    api(gpusim_graph_launch(t->comm, s->part[i], 0, 1, GPUSIM_SYNC, t->times), err);
	return rc;
}
