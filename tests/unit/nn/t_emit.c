/*
 * The gradients of every model, by finite differences; and the gradients of several ranks against one rank
 * with the whole batch. Emitted kernels run at once, on one device memory that holds all ranks.
 */
#include "nn/emit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kern/kernel.h"
#include "mem/devmem.h"
#include "nn/rng.h"
#include "tap.h"

#define MEM_BYTES (UINT64_C(1) << 30)
#define MAX_RANKS 3
#define CLASSES	  3

static struct devmem *mem;
static struct err err;
static bool failed; /* a kernel failed */

static void *
at(uint64_t addr)
{
	return devmem_at(mem, addr, 0);
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
		given[i] = (struct kernel_arg){
		    .name = args[i].name, .is_real = args[i].is_real, .step = args[i].step};
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

static unsigned nranks; /* of the sums */

static void
allreduce(void *arg, enum gpusim_dtype type, uint64_t nelem, const uint64_t *addr)
{
	(void)arg;
	failed |= type != GPUSIM_F64;
	for (uint64_t i = 0; i < nelem; i++) {
		double sum = 0;

		for (unsigned r = 0; r < nranks; r++)
			sum += ((double *)at(addr[r]))[i];
		for (unsigned r = 0; r < nranks; r++)
			((double *)at(addr[r]))[i] = sum;
	}
}

static const struct emit_sink sink = {.launch = launch, .allreduce = allreduce};

/* A net on some ranks, in double precision. */
struct trial {
	struct net net;
	struct emit_place place[MAX_RANKS];
	struct emit_target target[MAX_RANKS];
	uint64_t rows[MAX_RANKS], labels[MAX_RANKS], loss[MAX_RANKS];
	struct emit_batch batch;
};

/* Lay a net out from *next; the rank's samples begin at `first` of the batch. */
static void
place(struct trial *t, const struct net *net, unsigned n, const uint64_t *rows, enum emit_use use,
      uint64_t *next)
{
	uint64_t values = (net->nparams + net->nstats) * sizeof(double), total = 0;

	*t = (struct trial){.net = *net};
	for (unsigned r = 0; r < n; r++)
		total += rows[r];
	for (unsigned r = 0; r < n; r++) {
		t->rows[r] = rows[r];
		t->place[r].params = emit_take(next, values);
		t->place[r].grads = emit_take(next, values);
		t->labels[r] = emit_take(next, rows[r]);
		t->loss[r] = emit_take(next, sizeof(double));
		*next += emit_place(&t->place[r], net, GPUSIM_F64, rows[r], *next, use);
		t->target[r] = (struct emit_target){
		    .labels = t->labels[r], .loss = t->loss[r], .grad_scale = 1 / (double)total};
	}
	t->batch = (struct emit_batch){.nranks = n,
				       .place = t->place,
				       .rows = t->rows,
				       .total = total,
				       .apart = use == EMIT_APART};
}

/* The same parameters on all ranks; sample i is the i-th of a seeded series. */
static void
fill(struct trial *t, uint64_t seed)
{
	uint64_t n = t->net.nparams + t->net.nstats, item = net_shape_size(t->net.input), i = 0;
	float *params = malloc(n * sizeof *params);
	struct rng rng;

	net_init(&t->net, seed, params);
	rng_init(&rng, seed + 1);
	for (uint64_t k = 0; k < t->net.nparams; k++) /* gamma and beta with different values */
		params[k] += rng_uniform(&rng, -0.02f, 0.02f);
	for (unsigned r = 0; r < t->batch.nranks; r++) {
		for (uint64_t k = 0; k < n; k++)
			((double *)at(t->place[r].params))[k] = params[k];
		for (uint64_t row = 0; row < t->rows[r]; row++, i++) {
			((uint8_t *)at(t->labels[r]))[row] = (uint8_t)(i % CLASSES);
			for (uint64_t k = 0; k < item; k++)
				((double *)at(t->place[r].x))[row * item + k] =
				    (double)rng_uniform(&rng, -1, 1);
		}
	}
	free(params);
}

/* The mean loss of the batch. */
static double
forward(struct trial *t)
{
	double sum = 0;

	nranks = t->batch.nranks;
	emit_forward(&t->net, &t->batch, EMIT_TRAIN, &sink);
	emit_loss(&t->net, &t->batch, t->target, &sink);
	for (unsigned r = 0; r < nranks; r++)
		sum += *(double *)at(t->loss[r]);
	return sum / (double)t->batch.total;
}

/* A gradient, summed over the ranks. */
static double
gradient(const struct trial *t, uint64_t i)
{
	double sum = 0;

	for (unsigned r = 0; r < t->batch.nranks; r++)
		sum += ((const double *)at(t->place[r].grads))[i];
	return sum;
}

/* Move some of each node's parameters up and down. A kink of a ReLU or a maximum within the step
 * would spoil the difference: then try a smaller step. */
static bool
differences_agree(struct trial *t, unsigned tries)
{
	double *params = at(t->place[0].params), worst = 0;
	struct rng rng;

	rng_init(&rng, 99);
	for (uint32_t k = 0; k < t->net.nnodes; k++) {
		const struct net_node *node = &t->net.node[k];
		uint64_t n = node->nweight + node->nbias;

		for (unsigned j = 0; j < tries && n; j++) {
			uint64_t i = node->weight + (j ? rng_below(&rng, n) : n - 1);
			double was = params[i], got = gradient(t, i), off = 1;

			for (double h = 1e-4; h > 1e-7 && off > 1e-5; h /= 10) {
				double up, down, want;

				params[i] = was + h;
				up = forward(t);
				params[i] = was - h;
				down = forward(t);
				params[i] = was;
				want = (up - down) / (2 * h);
				off = fabs(got - want) / (fabs(want) + 1e-3);
			}
			if (off > 1e-5)
				printf("# %s: parameter %llu: %g\n", node->name,
				       (unsigned long long)i, got);
			worst = off > worst ? off : worst;
		}
	}
	return worst <= 1e-5;
}

static bool
same_gradients(const struct trial *one, const struct trial *many)
{
	uint64_t n = one->net.nparams;
	double largest = 0, off = 0;

	for (uint64_t i = 0; i < n; i++) {
		double a = gradient(one, i), b = gradient(many, i);

		largest = fmax(largest, fabs(a));
		off = fmax(off, fabs(a - b));
	}
	/* Statistics are not a sum: each rank has the whole batch's. */
	for (uint64_t i = n; i < n + one->net.nstats; i++)
		off = fmax(off, fabs(gradient(one, i) - gradient(many, i) / many->batch.nranks));
	printf("# largest gradient %g, off by %g\n", largest, off);
	return largest > 1e-6 && off <= 1e-11 * fmax(largest, 1);
}

/* The statistics of each batch norm against a computation from its input, element by element. */
static bool
statistics_agree(const struct trial *t)
{
	const struct emit_place *p = &t->place[0];
	const double *grads = at(p->grads);
	double off = 0;

	for (uint32_t k = 0; k < t->net.nnodes; k++) {
		const struct net_node *node = &t->net.node[k];
		uint64_t hw = (uint64_t)node->shape.rows * node->shape.cols,
			 c = node->shape.channels, n = t->rows[0] * hw;
		const double *x = node->kind == NET_BATCHNORM
				      ? at(node->in[0] == NET_INPUT ? p->x : p->y[node->in[0]])
				      : NULL;

		for (uint64_t ch = 0; x && ch < c; ch++) {
			double mean = 0, variance = 0;

			for (uint64_t i = 0; i < n; i++)
				mean += x[(i / hw * c + ch) * hw + i % hw] / (double)n;
			for (uint64_t i = 0; i < n; i++)
				variance += pow(x[(i / hw * c + ch) * hw + i % hw] - mean, 2) /
					    (double)(n - 1);
			off = fmax(off, fabs(grads[node->stats + ch] - mean));
			off = fmax(off, fabs(grads[node->stats + c + ch] - variance) /
					    fmax(variance, 1e-3));
		}
	}
	return off < 1e-9;
}

/* Forward unit by unit; the inputs' gradients of all nodes, and only then those of the parameters, from the first node
 * on: the same bits. */
static bool
apart_agrees(const struct trial *one, const struct trial *apart)
{
	const struct net *n = &apart->net;

	for (uint32_t i = 0; i < n->ncuts; i++)
		emit_forward_nodes(n, &apart->batch, n->cut[i],
				   i + 1 < n->ncuts ? n->cut[i + 1] : n->nnodes, EMIT_TRAIN, &sink);
	emit_loss(&apart->net, &apart->batch, apart->target, &sink);
	for (uint32_t k = apart->net.nnodes; k-- > 0;)
		emit_propagate(&apart->net, &apart->batch, k, &sink);
	for (uint32_t k = 0; k < apart->net.nnodes; k++)
		emit_gradients(&apart->net, &apart->batch, k, &sink);
	return memcmp(at(one->place[0].grads), at(apart->place[0].grads),
		      one->net.nparams * sizeof(double)) == 0;
}

static void
check_model(const char *what, const struct net_config *c, struct net_shape input, unsigned tries)
{
	static const uint64_t whole[] = {5}, parts[] = {2, 0, 3};
	uint64_t next = devmem_min(mem);
	struct trial one, many, apart;
	struct net net;
	double loss;

	failed = false;
	if (net_build(c, input, CLASSES, &net, &err) != RC_OK) {
		ok(false, "%s: %s", what, err.text);
		return;
	}
	place(&one, &net, 1, whole, EMIT_BACKWARD, &next);
	place(&many, &net, 3, parts, EMIT_BACKWARD, &next);
	place(&apart, &net, 1, whole, EMIT_APART, &next);
	if (next > devmem_max(mem)) {
		ok(false, "%s: takes %llu bytes", what, (unsigned long long)next);
		return;
	}
	fill(&one, 5);
	fill(&many, 5);
	loss = forward(&one);
	emit_backward(&net, &one.batch, &sink);
	ok(!failed && fabs(loss - forward(&many)) < 1e-12 * loss, "%s: three ranks' loss is one's",
	   what);
	emit_backward(&net, &many.batch, &sink);
	ok(!failed && same_gradients(&one, &many), "%s: and so are the gradients", what);
	fill(&apart, 5);
	if (!net.nstats)
		ok(apart_agrees(&one, &apart) && !failed,
		   "%s: and those of the parameters after all others", what);
	else
		ok(statistics_agree(&one),
		   "%s: what is kept of a batch is its mean and unbiased variance", what);
	ok(differences_agree(&one, tries) && !failed, "%s: they are what differences say", what);
}

int
main(void)
{
	char path[] = "/tmp/t_emit.XXXXXX";
	const struct net_shape vector = {4, 1, 1}, digits = {1, 12, 13}, colours = {3, 9, 8},
			       colours_of_fours = {3, 12, 8};
	struct net_config vit = {.model = NET_VIT,
				 .vit = {.blocks = 3, .hidden = 12, .heads = 4, .patch = 3}};
	struct net_config c = {.nsizes = 4, .size = {4, 30, 20, CLASSES}};
	static const enum net_act acts[] = {NET_RELU, NET_SIGMOID, NET_TANH, NET_GELU, NET_LINEAR};
	char what[64];

	close(mkstemp(path));
	unlink(path);
	if (devmem_open(path, 1, MEM_BYTES, &mem, &err) != RC_OK) {
		printf("Bail out! %s\n", err.text);
		return 1;
	}
	unlink(path);
	for (unsigned i = 0; i < sizeof acts / sizeof acts[0]; i++)
		for (c.loss = 0; c.loss < NET_NLOSSES; c.loss++) {
			c.act = acts[i];
			snprintf(what, sizeof what, "mlp %s %s", net_act_name(c.act),
				 net_loss_name(c.loss));
			check_model(what, &c, vector, 6);
		}
	c.layer_norm = true;
	for (unsigned i = 0; i < sizeof acts / sizeof acts[0]; i++) {
		c.act = acts[i];
		c.loss = i % NET_NLOSSES;
		snprintf(what, sizeof what, "mlp with layer norm %s %s", net_act_name(c.act),
			 net_loss_name(c.loss));
		check_model(what, &c, vector, 6);
	}
	check_model("softmax", &(struct net_config){.model = NET_SOFTMAX}, vector, 6);
	check_model("lenet", &(struct net_config){.model = NET_LENET}, digits, 4);
	check_model("resnet9", &(struct net_config){.model = NET_RESNET9}, colours, 2);
	check_model("vit", &vit, (struct net_shape){1, 6, 9}, 6);
	vit.vit = (struct net_vit){.blocks = 1, .hidden = 6, .heads = 1, .patch = 4};
	vit.loss = NET_L2;
	check_model("vit of colours", &vit, colours_of_fours, 6);
	devmem_close(mem, DEVMEM_UNLINK_FILE);
	return tap_done();
}
