/*
 * Nets cut into stages and divided over ranks, against the whole net: outputs, loss, right answers, gradients.
 * Emitted kernels run at once, on one device memory that holds all ranks; the sink does the exchanges itself.
 */
#include "grid/part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kern/kernel.h"
#include "mem/devmem.h"
#include "nn/emit.h"
#include "nn/rng.h"
#include "tap.h"

#define MEM_BYTES  (UINT64_C(1) << 28)
#define MAX_RANKS  16u
#define MAX_STAGES 8u

static struct devmem *mem;
static struct err err;
static bool failed; /* a kernel, an exchange */

static void *
at(uint64_t addr)
{
	return devmem_at(mem, addr, 0);
}

static double
get(enum gpusim_dtype type, uint64_t addr, uint64_t i)
{
	return type == GPUSIM_F64 ? ((double *)at(addr))[i] : (double)((float *)at(addr))[i];
}

static void
put(enum gpusim_dtype type, uint64_t addr, uint64_t i, double x)
{
	if (type == GPUSIM_F64)
		((double *)at(addr))[i] = x;
	else
		((float *)at(addr))[i] = (float)x;
}

static void
launch(void *arg, uint32_t rank, const char *kernel, const struct gpusim_arg *args, size_t nargs)
{
	const struct kernel *k = kernel_find(kernel);
	struct kernel_arg given[KERNEL_MAX_PARAMS];
	union kernel_value v[KERNEL_MAX_PARAMS];
	uint64_t step[KERNEL_MAX_PARAMS];
	enum rc rc = k ? RC_OK : err_set(&err, RC_NOTFOUND, "no kernel %s", kernel);

	(void)arg;
	for (size_t i = 0; i < nargs; i++) {
		given[i] = (struct kernel_arg){.name = args[i].name, .is_real = args[i].is_real};
		if (args[i].is_real)
			given[i].value.f = args[i].f;
		else
			given[i].value.u = args[i].u;
	}
	if (rc == RC_OK)
		rc = kernel_bind(k, given, nargs, v, step, &err);
	if (rc == RC_OK)
		rc = kernel_run(k, mem, v, &err);
	if (rc != RC_OK && !failed)
		printf("# rank %u: %s\n", rank, err.text);
	failed |= rc != RC_OK;
}

static uint32_t ntensor;   /* ranks of an exchange */
static unsigned exchanges; /* so far */

/* As collectives do it: element i of rank r's part. Sums go from a copy, for send may be recv. */
static void
tensor(void *arg, const struct emit_tensor *x)
{
	uint64_t n = x->nelem, part = n / ntensor;
	double *sum = calloc(n, sizeof *sum);

	(void)arg;
	exchanges++;
	failed |= x->coll != GPUSIM_ALLREDUCE && n % ntensor != 0;
	for (uint64_t i = 0; i < n; i++) {
		sum[i] = x->redop == GPUSIM_MAX ? -INFINITY : 0;
		for (uint32_t r = 0; r < ntensor && x->coll != GPUSIM_ALLGATHER; r++) {
			double v = get(x->dtype, x->send[r], i);

			sum[i] = x->redop == GPUSIM_MAX ? fmax(sum[i], v) : sum[i] + v;
		}
		if (x->coll == GPUSIM_ALLGATHER)
			sum[i] = get(x->dtype, x->send[i / part], i % part);
	}
	for (uint32_t r = 0; r < ntensor; r++)
		for (uint64_t i = 0; i < n; i++) {
			if (x->coll != GPUSIM_REDUCESCATTER)
				put(x->dtype, x->recv[r], i, sum[i]);
			else if (i / part == r)
				put(x->dtype, x->recv[r], i % part, sum[i]);
		}
	free(sum);
}

static const struct emit_sink sink = {.launch = launch, .tensor = tensor};

/* A stage on its ranks; or the whole net on one. */
struct stage {
	const struct net *net;
	struct part *part; /* NULL: it is whole */
	/* [rank of tp][nparams]: 1 + each value's place in the whole net; 0: beyond */
	float *index;
	struct emit_place place[MAX_RANKS];
};

struct trial {
	const char *what;
	const struct net *net;
	uint32_t tp, dp, nstages;
	bool sequence, apart;
	enum gpusim_dtype type;
	uint64_t rows[3]; /* by data-parallel rank */
};

static struct trial c;
static struct stage whole, stage[MAX_STAGES];
static uint64_t next, total;
static struct emit_target target[MAX_RANKS], whole_target;

static uint64_t
take(uint64_t nbytes)
{
	return emit_take(&next, nbytes);
}

/* Lay a rank out. */
static void
place(struct stage *s, uint32_t rank, uint64_t rows)
{
	struct emit_areas size = {.place = rank, .rows = rows}, a = size;
	struct emit_place *p = &s->place[rank];
	uint64_t values = s->net->nparams * sizeof(double);
	enum emit_use use = c.apart ? EMIT_APART : EMIT_BACKWARD;
	uint64_t most = 0;

	a.place = size.place = c.tp > 1 && s->part ? rank % c.tp : 0;
	for (uint32_t d = 0; d < c.dp; d++)
		most = c.rows[d] > most ? c.rows[d] : most;
	most = s->part ? most : total;
	emit_lay(p, s->net, c.type, most, use, &size);
	a.kept = take(size.kept);
	a.shared = take(size.shared);
	emit_lay(p, s->net, c.type, most, use, &a);
	p->params = take(values);
	p->grads = take(values);
	if (next > devmem_max(mem))
		tap_bail("memory is too small");
	memset(at(p->grads), 0x7f, values);
}

static void
build(struct rng *rng)
{
	uint32_t first = 0, n = c.net->ncuts;
	float *params = malloc(c.net->nparams * sizeof *params),
	      *index = malloc(c.net->nparams * sizeof *index);

	net_init(c.net, 3, params);
	for (uint64_t i = 0; i < c.net->nparams; i++) {
		params[i] += rng_uniform(rng, -0.1f, 0.1f); /* also norms and zeros */
		index[i] = (float)(i + 1);
	}
	whole = (struct stage){.net = c.net};
	place(&whole, 0, total);
	for (uint64_t i = 0; i < c.net->nparams; i++)
		put(c.type, whole.place[0].params, i, (double)params[i]);
	for (uint32_t k = 0; k < c.nstages; k++) {
		struct stage *s = &stage[k];
		uint32_t count = (n - first) / (c.nstages - k);

		*s = (struct stage){0};
		if (part_build(c.net, first, count, c.tp, c.sequence, &s->part, &err) != RC_OK)
			tap_bail(err.text);
		first += count;
		s->net = &s->part->net;
		s->index = malloc((c.tp * s->net->nparams + 1) * sizeof *s->index);
		for (uint32_t r = 0; r < c.dp * c.tp; r++) {
			float *own = s->index + r % c.tp * s->net->nparams;

			place(s, r, c.rows[r / c.tp]);
			part_take(s->part, r % c.tp, index, own);
			for (uint64_t i = 0; i < s->net->nparams; i++)
				put(c.type, s->place[r].params, i,
				    own[i] > 0 ? (double)params[(uint64_t)own[i] - 1] : 0);
		}
	}
	free(params);
	free(index);
}

/* The same samples and labels for both. */
static void
feed(struct rng *rng)
{
	uint64_t item = net_shape_size(c.net->input), first = 0;

	whole_target = (struct emit_target){
	    .labels = take(total), .loss = take(8), .grad_scale = 1 / (double)total};
	for (uint64_t i = 0; i < total; i++)
		((uint8_t *)at(whole_target.labels))[i] = (uint8_t)rng_below(rng, c.net->nclasses);
	for (uint64_t i = 0; i < total * item; i++)
		put(c.type, whole.place[0].x, i, (double)rng_uniform(rng, -1, 1));
	for (uint32_t r = 0; r < c.dp * c.tp; r++) {
		uint64_t rows = c.rows[r / c.tp];

		target[r] = (struct emit_target){.labels = take(rows),
						 .loss = take(8),
						 .grad_scale = 1 / (double)total,
						 .scratch = take(16 * rows)};
		memcpy(at(target[r].labels), (uint8_t *)at(whole_target.labels) + first, rows);
		for (uint64_t i = 0; i < rows * item; i++)
			put(c.type, stage[0].place[r].x, i,
			    get(c.type, whole.place[0].x, first * item + i));
		first += r % c.tp + 1 == c.tp ? rows : 0;
	}
}

static struct emit_batch
batch_of(const struct stage *s, uint64_t *rows)
{
	struct emit_batch b = {.nranks = s->part ? c.dp * c.tp : 1,
			       .place = s->place,
			       .rows = rows,
			       .total = total,
			       .apart = c.apart};

	for (uint32_t r = 0; r < b.nranks; r++)
		rows[r] = s->part ? c.rows[r / c.tp] : total;
	return b;
}

/* What a stage makes goes to the next one, or the gradient back. */
static void
pass(uint32_t from, bool back)
{
	struct stage *a = &stage[from], *b = &stage[from + 1];
	const struct net_node *last = &a->net->node[a->net->nnodes - 1], *input = &b->net->node[0];

	for (uint32_t r = 0; r < c.dp * c.tp; r++) {
		uint64_t n = emit_have(a->net, last, c.rows[r / c.tp], r % c.tp) *
			     net_shape_size(last->shape);

		failed |= n != emit_have(b->net, input, c.rows[r / c.tp], r % c.tp) *
				   net_shape_size(input->shape);
		for (uint64_t i = 0; i < n; i++)
			if (back)
				put(c.type, a->place[r].dy[a->net->nnodes - 1], i,
				    get(c.type, b->place[r].dy[0], i));
			else
				put(c.type, b->place[r].y[0], i,
				    get(c.type, a->place[r].y[a->net->nnodes - 1], i));
	}
}

static void
forward(void)
{
	uint64_t rows[MAX_RANKS];
	struct emit_batch b = batch_of(&whole, rows);

	emit_forward(whole.net, &b, EMIT_TRAIN, &sink);
	for (uint32_t k = 0; k < c.nstages; k++) {
		b = batch_of(&stage[k], rows);
		emit_forward(stage[k].net, &b, EMIT_TRAIN, &sink);
		if (k + 1 < c.nstages)
			pass(k, false);
	}
}

static void
backward(void)
{
	uint64_t rows[MAX_RANKS];
	struct emit_batch b = batch_of(&whole, rows);

	emit_backward(whole.net, &b, &sink);
	for (uint32_t k = c.nstages; k-- > 0;) {
		b = batch_of(&stage[k], rows);
		for (uint32_t node = stage[k].net->nnodes; c.apart && node-- > 0;)
			emit_propagate(stage[k].net, &b, node, &sink);
		if (!c.apart)
			emit_backward(stage[k].net, &b, &sink);
		if (k > 0)
			pass(k - 1, true);
	}
	for (uint32_t k = 0; c.apart && k < c.nstages; k++) {
		b = batch_of(&stage[k], rows);
		for (uint32_t node = 0; node < stage[k].net->nnodes; node++)
			emit_gradients(stage[k].net, &b, node, &sink);
	}
}

/* ---- the last node: of rank r, row and column of the whole output */

static uint32_t
columns(void)
{
	return c.net->node[c.net->nnodes - 1].shape.channels;
}

/* How far off are the outputs, as a part of the largest? */
static double
outputs_off(void)
{
	const struct net *n = stage[c.nstages - 1].net;
	uint32_t each = n->each ? n->each : columns();
	double off = 0, largest = 0;
	uint64_t first = 0;

	for (uint32_t r = 0; r < c.dp * c.tp; r++) {
		uint64_t rows = c.rows[r / c.tp];

		for (uint64_t i = 0; i < rows * each; i++) {
			uint64_t col = (n->each ? r % c.tp * each : 0) + i % each;
			double want = col < columns()
					  ? get(c.type, whole.place[0].y[whole.net->nnodes - 1],
						(first + i / each) * columns() + col)
					  : 0;
			double got = get(c.type, stage[c.nstages - 1].place[r].y[n->nnodes - 1], i);

			off = fmax(off, isnan(got) ? INFINITY : fabs(got - want));
			largest = fmax(largest, fabs(want));
		}
		first += r % c.tp + 1 == c.tp ? rows : 0;
	}
	return off / largest;
}

/* Any gradient of the output, in double too; beyond the classes 0, as the loss leaves it. */
static void
give_gradient(struct rng *rng)
{
	const struct net *n = stage[c.nstages - 1].net;
	uint32_t each = n->each ? n->each : columns();
	uint64_t first = 0, to = whole.place[0].dy[whole.net->nnodes - 1];

	for (uint64_t i = 0; i < total * columns(); i++)
		put(c.type, to, i, (double)rng_uniform(rng, -1, 1));
	for (uint32_t r = 0; r < c.dp * c.tp; r++) {
		for (uint64_t i = 0; i < c.rows[r / c.tp] * each; i++) {
			uint64_t col = (n->each ? r % c.tp * each : 0) + i % each;

			put(c.type, stage[c.nstages - 1].place[r].dy[n->nnodes - 1], i,
			    col < columns() ? get(c.type, to, (first + i / each) * columns() + col)
					    : 0);
		}
		first += r % c.tp + 1 == c.tp ? c.rows[r / c.tp] : 0;
	}
}

/* ---- gradients */

/* A stage's gradients into the whole net's: summed over the data-parallel ranks, and over the tensor-parallel ones
 * where each has only seen its rows. Elsewhere those must agree. */
static double
add_gradients(const struct stage *s, double *sum)
{
	double off = 0;

	for (uint32_t k = 0; k < s->net->nnodes; k++) {
		const struct net_node *node = &s->net->node[k];
		uint64_t at[] = {node->weight, node->bias}, n[] = {node->nweight, node->nbias};

		for (unsigned a = 0; a < 2; a++)
			for (uint64_t i = at[a]; i < at[a] + n[a]; i++)
				for (uint32_t r = 0; r < c.dp * c.tp; r++) {
					float to = s->index[r % c.tp * s->net->nparams + i];
					double g = get(c.type, s->place[r].grads, i);
					bool copy = to > 0 && r % c.tp > 0 && !node->sharded &&
						    to == s->index[i];

					if (copy)
						off = fmax(
						    off,
						    fabs(g - get(c.type,
								 s->place[r - r % c.tp].grads, i)));
					else if (to > 0)
						sum[(uint64_t)to - 1] += g;
					else
						off = fmax(off, fabs(g)); /* beyond */
				}
	}
	return off;
}

static double
gradients_off(void)
{
	double *sum = calloc(c.net->nparams, sizeof *sum), off = 0, largest = 0;

	for (uint32_t k = 0; k < c.nstages; k++)
		off = fmax(off, add_gradients(&stage[k], sum));
	for (uint64_t i = 0; i < c.net->nparams; i++) {
		double want = get(c.type, whole.place[0].grads, i);

		off = fmax(off, isnan(sum[i]) ? INFINITY : fabs(sum[i] - want));
		largest = fmax(largest, fabs(want));
	}
	free(sum);
	return off / largest;
}

/* ---- a trial */

static void
begin(const struct trial *t, struct rng *rng)
{
	c = *t;
	ntensor = c.tp;
	exchanges = 0;
	failed = false;
	next = devmem_min(mem);
	total = 0;
	for (uint32_t d = 0; d < c.dp; d++)
		total += c.rows[d];
	rng_init(rng, 11);
	build(rng);
	feed(rng);
}

static void
end(void)
{
	for (uint32_t k = 0; k < c.nstages; k++) {
		free(stage[k].part);
		free(stage[k].index);
	}
}

/* Loss and right answers, which exist for floats. */
static bool
loss_agrees(void)
{
	uint64_t rows[MAX_RANKS];
	struct emit_batch b = batch_of(&whole, rows);
	const struct stage *last = &stage[c.nstages - 1];
	double want, got = 0, right;

	emit_loss(whole.net, &b, &whole_target, &sink);
	want = get(c.type, whole_target.loss, 0);
	b = batch_of(last, rows);
	emit_loss(last->net, &b, target, &sink);
	for (uint32_t r = 0; r < c.dp * c.tp; r += c.tp) {
		got += get(c.type, target[r].loss, 0);
		for (uint32_t t = 1; t < c.tp; t++)
			failed |=
			    get(c.type, target[r + t].loss, 0) != get(c.type, target[r].loss, 0);
	}
	if (fabs(got - want) > 1e-5 * fabs(want)) {
		printf("# the loss is %.9g, not %.9g\n", got, want);
		return false;
	}
	b = batch_of(&whole, rows);
	emit_count(whole.net, &b, &whole_target, &sink);
	right = (double)*(uint64_t *)at(whole_target.loss);
	b = batch_of(last, rows);
	emit_count(last->net, &b, target, &sink);
	for (uint32_t r = 0; r < c.dp * c.tp; r += c.tp)
		right -= (double)*(uint64_t *)at(target[r].loss);
	return right == 0;
}

static bool
try(const struct trial *t)
{
	bool wide = t->type == GPUSIM_F64;
	double bound = wide ? 1e-12 : 1e-5, off;
	struct rng rng;
	bool good;

	begin(t, &rng);
	forward();
	off = outputs_off();
	good = off <= bound;
	if (wide)
		give_gradient(&rng);
	else
		good = loss_agrees() && good;
	backward();
	off = fmax(off, gradients_off());
	good = good && !failed && off <= bound;
	if (!good)
		printf("# %s, tp %u, stages %u, dp %u%s%s, %s: off by %g%s\n", c.what, c.tp,
		       c.nstages, c.dp, c.sequence ? ", rows divided" : "",
		       c.apart ? ", apart" : "", wide ? "f64" : "f32", off,
		       failed ? ", failed" : "");
	end();
	return good;
}

/* All cuts, ways to divide, and types, for some tp. */
static void
sweep(const char *what, const struct net *net, const uint32_t *tp, unsigned ntp, bool rows)
{
	static const uint64_t parts[2][3] = {{5}, {3, 0, 2}};
	unsigned tried = 0;
	bool good = true;

	for (unsigned i = 0; i < ntp; i++)
		for (uint32_t stages = 1; stages <= net->ncuts && stages <= MAX_STAGES; stages++)
			for (unsigned k = 0; k < 16; k++) {
				struct trial t = {.what = what,
						  .net = net,
						  .tp = tp[i],
						  .dp = k & 1 ? 3 : 1,
						  .nstages = stages,
						  .sequence = k & 2,
						  .apart = k & 4,
						  .type = k & 8 ? GPUSIM_F64 : GPUSIM_F32};

				memcpy(t.rows, parts[k & 1], sizeof t.rows);
				if (t.dp * t.tp > MAX_RANKS || (t.sequence && !rows))
					continue;
				good = try(&t) && good;
				tried++;
			}
	ok(good && tried > 0, "%s: %u ways to divide it", what, tried);
}

static struct net
make(const struct net_config *config, struct net_shape input, uint32_t nclasses)
{
	struct net n;

	if (net_build(config, input, nclasses, &n, &err) != RC_OK)
		tap_bail(err.text);
	return n;
}

static void
vits(void)
{
	static const uint32_t tps[] = {1, 2, 4}, three[] = {3, 1, 12};
	const struct net_config config = {.model = NET_VIT, .vit = {3, 12, 4, 3}},
				other = {.model = NET_VIT, .vit = {1, 12, 12, 3}};
	struct net n = make(&config, (struct net_shape){1, 6, 9}, 10);

	sweep("vit, 7 tokens, 10 classes", &n, tps, 3, true);
	n = make(&other, (struct net_shape){1, 6, 9}, 4);
	sweep("vit, 4 classes", &n, three, 3, true);
}

/* Megatron's numbers of exchanges: of a block 2 forward and 2 back; besides the head's one back, the loss's 2. */
static void
counts(void)
{
	const struct net_config config = {.model = NET_VIT, .vit = {3, 12, 4, 3}};
	struct net n = make(&config, (struct net_shape){1, 6, 9}, 10);
	struct trial t = {.what = "vit",
			  .net = &n,
			  .tp = 2,
			  .dp = 1,
			  .nstages = 1,
			  .type = GPUSIM_F32,
			  .rows = {5}};
	uint64_t rows[MAX_RANKS];
	struct rng rng;
	struct emit_batch b;

	for (unsigned sequence = 0; sequence < 2; sequence++) {
		unsigned fore, loss;

		t.sequence = sequence;
		begin(&t, &rng);
		b = batch_of(&stage[0], rows);
		emit_forward(stage[0].net, &b, EMIT_TRAIN, &sink);
		fore = exchanges;
		emit_loss(stage[0].net, &b, target, &sink);
		loss = exchanges - fore;
		emit_backward(stage[0].net, &b, &sink);
		ok(!failed && fore == (sequence ? 4 * 3 + 1 : 2 * 3) && loss == 2 &&
		       exchanges - fore - loss == (sequence ? 4 * 3 + 2 : 2 * 3 + 1),
		   "%s: %u exchanges forward, %u of the loss, %u back",
		   sequence ? "rows divided" : "rows whole", fore, loss, exchanges - fore - loss);
		end();
	}
}

static void
mlps(void)
{
	static const uint32_t tps[] = {1, 2, 3, 4, 12}, few[] = {1, 2, 3};
	static const enum net_act acts[] = {NET_RELU, NET_SIGMOID, NET_TANH, NET_GELU, NET_LINEAR};
	struct net_config config = {.nsizes = 6, .size = {9, 24, 12, 36, 24, 10}};
	char what[64];
	struct net n;

	for (unsigned i = 0; i < sizeof acts / sizeof acts[0]; i++) {
		config.act = acts[i];
		n = make(&config, (struct net_shape){9, 1, 1}, 10);
		snprintf(what, sizeof what, "mlp %s", net_act_name(acts[i]));
		sweep(what, &n, tps, i == 3 ? 5 : 2, false);
	}
	config = (struct net_config){.nsizes = 4, .size = {9, 24, 12, 2}, .layer_norm = true};
	n = make(&config, (struct net_shape){9, 1, 1}, 2);
	sweep("mlp with layer norm, fewer classes than ranks", &n, few, 3, false);
	config = (struct net_config){.model = NET_SOFTMAX};
	n = make(&config, (struct net_shape){9, 1, 1}, 10);
	sweep("softmax", &n, tps, 5, false);
}

int
main(void)
{
	char path[] = "/tmp/t_emit_part.XXXXXX";

	close(mkstemp(path));
	unlink(path);
	if (devmem_open(path, 1, MEM_BYTES, &mem, &err) != RC_OK)
		tap_bail(err.text);
	unlink(path);
	vits();
	counts();
	mlps();
	devmem_close(mem, DEVMEM_UNLINK_FILE);
	return tap_done();
}
