#include "train/leaves.h"

#include <inttypes.h>
#include <string.h>

#include "nn/launch.h"
#include "train/replica.h"

#define MAX_OPERATIONS \
	3500 /* operations of leaves in a graph, a rank; all of a graph may be 4096 */
#define MAX_BYTES	(3u << 18) /* of all ranks' leaves in a graph; a request has at most 1 MiB */
#define OPERATION_BYTES 18
#define ARG_BYTES	15
#define STEP_BYTES	11

/* A sink of one rank, as part of another one. */
struct one {
	const struct emit_sink *sink;
	uint32_t rank;
};

static void
launch_on(void *arg, uint32_t rank, const char *kernel, const struct gpusim_arg *args, size_t nargs)
{
	const struct one *one = arg;

	(void)rank;
	one->sink->launch(one->sink->arg, one->rank, kernel, args, nargs);
}

enum rc
leaves_check(const struct task *task, uint64_t global, struct err *err)
{
	const struct train_config *c = task->config;

	if (!c->deterministic || leaves_count(global, c->leaf) <= LEAVES_MAX)
		return RC_OK;
	return err_set(err, RC_INVAL,
		       "--deterministic: a step of %" PRIu64
		       " images has more than %d leaves of %u: see --leaf",
		       global, LEAVES_MAX, c->leaf);
}

/* Add n elements after the first `at` of the gradients to the elements of the sums. */
static void
add(const struct emit_sink *sink, const struct replica *r, uint64_t at, uint64_t n, double scale,
    bool begun)
{
	LAUNCH(sink, 0, "fixed_add", U("sum", r->sums + at * sizeof(int64_t)),
	       U("src", r->net.grads + at * sizeof(float)), U("n", n), F("scale", scale),
	       U("add", begun));
}

/* One leaf: its statistics count once for each of its samples. */
static void
sum_leaf(const struct emit_sink *sink, const struct replica *r, const struct shape *s,
	 const struct batch *leaf, bool begun)
{
	const struct net *net = &s->task->net;
	const struct emit_batch one = {.nranks = 1,
				       .place = &r->net,
				       .rows = &leaf->rows,
				       .total = leaf->rows,
				       .single = true};
	struct emit_target target = replica_target(r, leaf, 1);

	target.loss = r->net.grads + task_values(s->task) * sizeof(float);
	target.loss_step = 0;
	replica_load(sink, 0, r, s, leaf);
	emit_forward(net, &one, EMIT_TRAIN, sink);
	emit_loss(net, &one, &target, sink);
	emit_backward(net, &one, sink);
	add(sink, r, 0, net->nparams, LEAVES_SCALE, begun);
	if (net->nstats)
		add(sink, r, net->nparams, net->nstats, LEAVES_STATS_SCALE * (double)leaf->rows,
		    begun);
	add(sink, r, task_values(s->task), 1, LEAVES_LOSS_SCALE, begun);
}

void
leaves_sum(const struct emit_sink *sink, uint32_t rank, const struct replica *r,
	   const struct shape *s, const struct batch *b, struct leaves_range which)
{
	struct one one = {sink, rank};
	const struct emit_sink own = {.arg = &one, .launch = launch_on};
	uint64_t n = leaves_count(b->rows, s->leaf);

	if (n == 0 && which.first == 0)
		LAUNCH(&own, 0, "fill", U("dst", r->sums), U("n", leaves_elements(s->task)),
		       U("dtype", GPUSIM_I64));
	for (uint64_t k = which.first; k < which.end && k < n; k++) {
		struct batch leaf = *b;

		leaf.first += k * s->leaf;
		leaf.rows = b->rows - k * s->leaf < s->leaf ? b->rows - k * s->leaf : s->leaf;
		leaf.stride = b->rows;
		sum_leaf(&own, r, s, &leaf, k > 0);
	}
}

void
leaves_take(const struct emit_sink *sink, uint32_t rank, const struct replica *r,
	    const struct shape *s, const struct batch *b, uint64_t total)
{
	const struct net *net = &s->task->net;
	uint64_t n = task_values(s->task);

	LAUNCH(sink, rank, "cast", U("dst", r->net.grads), U("src", r->totals),
	       U("n", net->nparams), U("from", GPUSIM_I64), U("to", GPUSIM_F32),
	       F("scale", 1 / (LEAVES_SCALE * (double)total)));
	if (net->nstats)
		LAUNCH(sink, rank, "cast", U("dst", r->net.grads + net->nparams * sizeof(float)),
		       U("src", r->totals + net->nparams * sizeof(int64_t)), U("n", net->nstats),
		       U("from", GPUSIM_I64), U("to", GPUSIM_F32),
		       F("scale", 1 / (LEAVES_STATS_SCALE * (double)total)));
	LAUNCH(sink, rank, "cast",
	       MOVES("dst", r->losses + b->step * sizeof(float), b->moving ? sizeof(float) : 0),
	       U("src", r->totals + n * sizeof(int64_t)), U("n", 1), U("from", GPUSIM_I64),
	       U("to", GPUSIM_F32), F("scale", 1 / LEAVES_LOSS_SCALE));
}

/* Operations, and the most bytes that they take in a request. */
struct size {
	uint64_t ops, bytes;
};

static void
count(void *arg, uint32_t rank, const char *kernel, const struct gpusim_arg *args, size_t nargs)
{
	struct size *size = arg;

	(void)rank;
	size->ops++;
	size->bytes += OPERATION_BYTES + strlen(kernel);
	for (size_t i = 0; i < nargs; i++)
		size->bytes += ARG_BYTES + strlen(args[i].name) + (args[i].step ? STEP_BYTES : 0);
}

uint64_t
leaves_each(const struct replica *r, const struct shape *s, uint32_t nranks)
{
	struct size leaf = {0};
	const struct emit_sink sink = {.arg = &leaf, .launch = count};
	const struct batch b = {.rows = s->leaf};
	uint64_t ops, bytes, n;

	leaves_sum(&sink, 0, r, s, &b, (struct leaves_range){0, 1});
	ops = MAX_OPERATIONS / leaf.ops;
	bytes = MAX_BYTES / leaf.bytes / nranks;
	n = ops < bytes ? ops : bytes;
	return n ? n : 1;
}
