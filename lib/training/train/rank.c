#include "train/rank.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/must.h"
#include "nn/augment.h"
#include "train/leaves.h"
#include "train/order.h"
#include "train/trainer_impl.h"

struct rank {
	const struct task *task;
	const struct rank_world *world;
	struct shape shape;
	struct replica at;
	uint64_t global;
	uint32_t epoch;	 /* epochs done */
	uint32_t *order; /* of all samples */
	uint32_t *mine;	 /* the samples that this rank uses, step after step */
	double *sums;	 /* by step, or of a test */
};

/* The shape holds only the samples of an epoch, which are copied in the order of their use. */
static struct shape
shape_of(const struct task *task, uint32_t nranks)
{
	return make_shape(task, task_global(task, nranks), nranks, false, NULL);
}

uint64_t
rank_bytes(const struct task *task, uint32_t nranks)
{
	struct shape s = shape_of(task, nranks);

	return replica_bytes(&s);
}

/* The memory behind an address. */
static void *
memory_at(const struct rank *r, uint64_t addr)
{
	return r->world->memory + (addr - r->world->base);
}

static uint64_t
bytes_of(const struct rank *r, uint64_t nitems)
{
	return nitems * dataset_item_bytes(&r->task->data);
}

/* This rank's share of the tested samples. */
static void
fill_tests(struct rank *r, unsigned part)
{
	const struct dataset_part *from = tested_part(&r->task->data, part);
	uint64_t begin, end;

	if (from->nitems == 0)
		return;
	order_share(from->nitems, task_tested_whole(r->task), r->world->rank, r->world->nranks,
		    &begin, &end);
	memcpy(memory_at(r, r->at.tests[part]), (const uint8_t *)from->items + bytes_of(r, begin),
	       bytes_of(r, end - begin));
	memcpy(memory_at(r, r->at.test_labels[part]), from->labels + begin, end - begin);
}

/* Fill in the weights and the constant buffers. */
static enum rc
fill(struct rank *r, struct err *err)
{
	const struct train_config *o = r->task->config;
	const struct dataset *data = &r->task->data;
	float *params = memory_at(r, r->at.net.params);

	memset(r->world->memory, 0, r->at.net.x - r->world->base);
	memcpy(memory_at(r, r->at.scale), data->scale, data->channels * sizeof *data->scale);
	memcpy(memory_at(r, r->at.shift), data->shift, data->channels * sizeof *data->shift);
	fill_tests(r, TESTS);
	fill_tests(r, VALIDATION);
	net_init(&r->task->net, o->seed, params);
	return o->load ? net_load(&r->task->net, o->load, params, err) : RC_OK;
}

enum rc
rank_new(const struct task *task, const struct rank_world *world, struct rank **out,
	 struct err *err)
{
	struct rank *r = must_alloc(1, sizeof *r);
	enum rc rc;

	r->task = task;
	r->world = world;
	r->shape = shape_of(task, world->nranks);
	r->global = task_global(task, world->nranks);
	replica_place(&r->at, &r->shape, (struct gpusim_device){0}, world->base);
	r->order = must_alloc(task->data.train.nitems, sizeof *r->order);
	r->mine = must_alloc(r->shape.train_items, sizeof *r->mine);
	r->sums = must_alloc(r->shape.train_steps + 1, sizeof *r->sums);
	rc = leaves_check(task, r->global, err);
	if (rc == RC_OK)
		rc = fill(r, err);
	if (rc != RC_OK)
		rank_free(r);
	else
		*out = r;
	return rc;
}

void
rank_free(struct rank *r)
{
	if (!r)
		return;
	free(r->order);
	free(r->mine);
	free(r->sums);
	free(r);
}

const float *
rank_weights(const struct rank *r)
{
	return memory_at(r, r->at.net.params);
}

/* Prepare this rank's samples of the epoch, and the learning rates. */
static void
feed_rank(struct rank *r)
{
	const struct train_config *o = r->task->config;
	const struct dataset_part *train = &r->task->data.train;
	uint8_t *samples = memory_at(r, r->at.samples), *labels = memory_at(r, r->at.labels);
	uint32_t *index = memory_at(r, r->at.order);
	const struct order_steps steps = {r->global, task_leaf(r->task), r->world->nranks};
	uint64_t n, item = bytes_of(r, 1);

	order_epoch(o->seed, r->epoch, train->nitems, r->order);
	n = order_deal(r->order, train->nitems, &steps, r->world->rank, r->mine);
	if (r->at.draws)
		augment_draws(o->augment, o->seed, r->epoch, r->mine, n, memory_at(r, r->at.draws));
	for (uint64_t k = 0; k < n; k++) {
		memcpy(samples + k * item, (const uint8_t *)train->items + r->mine[k] * item, item);
		labels[k] = train->labels[r->mine[k]];
		index[k] = (uint32_t)k;
	}
	order_rates(&o->schedule, r->epoch, o->epochs, r->shape.train_steps,
		    memory_at(r, r->at.lr));
}

/* Sum a bucket's gradients as soon as they are computed. */
static void
backward_summed(const struct rank *r, const struct emit_batch *b)
{
	const struct net *net = &r->task->net;
	const struct emit_sink *sink = &r->world->sink;
	struct net_bucket bucket[NET_MAX_NODES];
	unsigned n = net_buckets(net, r->task->config->bucket_bytes, bucket), at = 0;

	for (uint32_t k = net->nnodes; k-- > 0;) {
		emit_gradients(net, b, k, sink);
		if (at < n && bucket[at].node == k) {
			uint64_t addr = r->at.net.grads + bucket[at].first * sizeof(float);

			sink->allreduce(sink->arg, GPUSIM_F32, bucket[at++].count, &addr);
		}
		emit_propagate(net, b, k, sink);
	}
}

/* One training step of `total` samples; the batch is this rank's part. */
static void
train_step(const struct rank *r, const struct batch *b, uint64_t total)
{
	const struct net *net = &r->task->net;
	const struct emit_sink *sink = &r->world->sink;
	struct emit_batch parts = {
	    .nranks = 1, .place = &r->at.net, .rows = &b->rows, .total = total};
	struct emit_target target = replica_target(&r->at, b, 1 / (double)total);
	struct emit_optimizer optimizer = replica_optimizer(&r->at, &r->shape, b);

	replica_load(sink, 0, &r->at, &r->shape, b);
	emit_forward(net, &parts, EMIT_TRAIN, sink);
	emit_loss(net, &parts, &target, sink);
	backward_summed(r, &parts);
	emit_update(net, 0, &r->at.net, &optimizer, sink);
}

/* A deterministic step: exact sums over leaves, then over the ranks. */
static void
train_leaves(const struct rank *r, const struct batch *b, uint64_t total)
{
	const struct emit_sink *sink = &r->world->sink;
	const struct leaves_range all = {0, UINT64_MAX};
	struct emit_optimizer optimizer = replica_optimizer(&r->at, &r->shape, b);

	leaves_sum(sink, 0, &r->at, &r->shape, b, all);
	sink->allreduce(sink->arg, GPUSIM_I64, leaves_elements(r->task), &r->at.sums);
	leaves_take(sink, 0, &r->at, &r->shape, b, total);
	emit_update(&r->task->net, 0, &r->at.net, &optimizer, sink);
}

/* Run all steps. Returns the sum of the losses of all ranks' samples. */
static double
train_all(struct rank *r)
{
	uint32_t n = r->task->data.train.nitems;
	const float *losses = memory_at(r, r->at.losses);
	struct batch b = {0};
	double sum = 0;

	for (uint64_t done = 0, total; done < n; done += total, b.step++, b.first += b.rows) {
		total = n - done < r->global ? n - done : r->global;
		b.rows = share(total, task_leaf(r->task), r->world->rank, r->world->nranks);
		(r->shape.leaf ? train_leaves : train_step)(r, &b, total);
	}
	for (uint64_t s = 0; s < b.step; s++)
		r->sums[s] = losses[s];
	if (!r->shape.leaf) /* else each rank has the losses of all */
		r->world->sum(r->world->sink.arg, r->sums, b.step);
	for (uint64_t s = 0; s < b.step; s++)
		sum += r->sums[s];
	return sum;
}

/* The fraction of a part that all ranks together classify correctly. Batch norm uses the running
 * statistics, so ranks may have different numbers of batches. */
static double
test_part(const struct rank *r, unsigned part)
{
	const struct emit_sink *sink = &r->world->sink;
	uint64_t n = tested_part(&r->task->data, part)->nitems, rows = task_test_rows(r->task),
		 mine;
	struct emit_batch parts = {.nranks = 1, .place = &r->at.net, .single = r->shape.leaf};
	struct emit_target target;
	struct batch b = {0};
	double right = 0;

	mine = share(n, task_tested_whole(r->task), r->world->rank, r->world->nranks);
	parts.rows = &b.rows;
	for (; b.first < mine; b.first += b.rows) {
		b.rows = mine - b.first < rows ? mine - b.first : rows;
		replica_load_tests(sink, 0, &r->at, &r->shape, &b, part);
		emit_forward(&r->task->net, &parts, EMIT_EVAL, sink);
		target = replica_test_target(&r->at, &b, part);
		emit_count(&r->task->net, &parts, &target, sink);
		right += (double)*(const uint64_t *)memory_at(r, r->at.right[part]);
	}
	r->world->sum(sink->arg, &right, 1);
	return n ? right / (double)n : NAN;
}

void
rank_train(struct rank *r, struct epoch *e)
{
	uint64_t began = clock_now_ns();
	uint32_t n = r->task->data.train.nitems;

	*e = (struct epoch){.validation = NAN};
	feed_rank(r);
	e->loss = train_all(r) / n;
	e->seconds = (double)(clock_now_ns() - began) / 1e9;
	e->images_per_s = n / e->seconds;
	r->epoch++;
}

void
rank_test(struct rank *r, struct epoch *e)
{
	e->accuracy = test_part(r, TESTS);
	e->validation = test_part(r, VALIDATION);
}
