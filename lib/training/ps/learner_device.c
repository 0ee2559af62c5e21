/* A learner's device: images, weights, gradients. */
#include "ps/learner.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "nn/augment.h"
#include "train/leaves.h"
#include "train/order.h"

#define FETCH_TRIES 1000
#define DEVICE_MS   60000 /* for any one call */

static bool
resident(const struct learner_device *b)
{
	return !b->fed && b->shape.held == b->task->data.train.nitems;
}

enum rc
learner_device_open(struct learner_device *b, struct gpusim *g, uint32_t wait_ms, struct err *err)
{
	const struct gpusim_comm_config config = {GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE,
						  .wait_ms = wait_ms};

	*b = (struct learner_device){.g = g};
	gpusim_set_timeout_ms(g, DEVICE_MS);
	return api(gpusim_comm_init_all(g, 1, NULL, &config, &b->comm), err);
}

static enum rc
allocate(struct learner_device *b, uint32_t batch, uint64_t held, struct err *err)
{
	uint64_t base;
	enum rc rc;

	b->shape = (struct shape){.task = b->task,
				  .max_rows = b->leaf ? b->leaf : batch,
				  .leaf = b->leaf,
				  .augment = b->augment,
				  .held = held,
				  .train_items = batch,
				  .train_steps = 1};
	rc = device_alloc(b->g, gpusim_comm_device(b->comm, 0), replica_bytes(&b->shape), &base,
			  err);
	if (rc == RC_OK)
		replica_place(&b->r, &b->shape, gpusim_comm_device(b->comm, 0), base);
	return rc;
}

static enum rc
to_device(struct learner_device *b, uint64_t addr, const void *src, uint64_t nbytes,
	  struct err *err)
{
	return device_write(b->g, b->r.device, addr, src, nbytes, err);
}

static enum rc
upload(struct learner_device *b, struct err *err)
{
	const struct dataset *data = &b->task->data;
	enum rc rc = to_device(b, b->r.scale, data->scale, data->channels * sizeof(float), err);

	if (rc == RC_OK)
		rc = to_device(b, b->r.shift, data->shift, data->channels * sizeof(float), err);
	if (rc == RC_OK && resident(b))
		rc = to_device(b, b->r.samples, data->train.items,
			       data->train.nitems * dataset_item_bytes(data), err);
	return rc;
}

/* Allocate the host's room for items, if this process has the samples. */
static void
make_room(struct learner_device *b, uint32_t batch)
{
	b->mine = must_alloc(batch, sizeof *b->mine);
	for (uint32_t i = 0; i < batch; i++)
		b->mine[i] = i;
	if (b->fed)
		return;
	b->draws = must_alloc(batch, sizeof *b->draws);
	b->order = must_alloc(b->task->data.train.nitems, sizeof *b->order);
	b->labels = must_alloc(batch, 1);
	b->staging = must_alloc(batch, dataset_item_bytes(&b->task->data));
}

enum rc
learner_device_place(struct learner_device *b, const struct task *task,
		     const struct learner_items *items, struct err *err)
{
	uint32_t batch = items->batch, n = b->fed ? batch : task->data.train.nitems;
	enum rc rc;

	b->task = task;
	b->seed = items->seed;
	b->augment = items->augment;
	b->leaf = items->leaf;
	make_room(b, batch);
	rc = allocate(b, batch, n, err);
	if (rc == RC_NOMEM && batch < n)
		rc = allocate(b, batch, batch, err);
	return rc == RC_OK ? upload(b, err) : rc;
}

void
learner_device_close(struct learner_device *b)
{
	if (b->g)
		gpusim_set_timeout_ms(b->g, TASK_GIVE_BACK_MS);
	if (b->r.owned)
		replica_free_memory(b->g, b->r.device, b->r.base);
	gpusim_comm_destroy(b->comm);
	free(b->order);
	free(b->mine);
	free(b->draws);
	free(b->labels);
	free(b->staging);
	*b = (struct learner_device){0};
}

/* ---- weights */

/* Try once; *got: the version that was copied completely, plus 1, or 0. */
static enum rc
fetch_once(struct learner_device *b, struct gpusim_device device, uint64_t versions,
	   const uint64_t copy[2], uint64_t *got, struct err *err)
{
	uint64_t stamp[2], again, nbytes = task_values(b->task) * sizeof(float);
	unsigned k;
	enum rc rc = device_read(b->g, stamp, device, versions, sizeof stamp, err);

	*got = 0;
	k = rc == RC_OK && stamp[1] > stamp[0];
	if (rc != RC_OK || stamp[k] == 0)
		return rc;
	rc = device_copy(b->g, b->r.device, b->r.net.params, device, copy[k], nbytes, err);
	if (rc == RC_OK)
		rc = device_read(b->g, &again, device, versions + k * sizeof again, sizeof again,
				 err);
	if (rc == RC_OK && again == stamp[k])
		*got = again;
	return rc;
}

enum rc
learner_device_fetch(struct learner_device *b, struct gpusim_device device, uint64_t versions,
		     const uint64_t copy[2], uint64_t version, struct err *err)
{
	enum rc rc = RC_OK;

	for (unsigned i = 0; i < FETCH_TRIES && rc == RC_OK && b->version < version + 1; i++)
		rc = fetch_once(b, device, versions, copy, &b->version, err);
	if (rc == RC_OK && b->version < version + 1)
		rc = err_set(err, RC_FAILED, "the server's weights change too fast to be read");
	return rc;
}

/* ---- gradients */

/* Forward, losses, backward of all rows. */
static void
emit_rows(struct learner_device *b, const struct batch *batch, const struct emit_sink *sink)
{
	const struct emit_batch one = {
	    .nranks = 1, .place = &b->r.net, .rows = &batch->rows, .total = batch->rows};
	const struct emit_target target = replica_target(&b->r, batch, 1);

	replica_load(sink, 0, &b->r, &b->shape, batch);
	emit_forward(&b->task->net, &one, EMIT_TRAIN, sink);
	emit_loss(&b->task->net, &one, &target, sink);
	emit_backward(&b->task->net, &one, sink);
}

static enum rc
record_part(struct learner_device *b, const struct batch *batch, struct leaves_range which,
	    struct learner_graph *graph, struct err *err)
{
	struct gpusim_ops *o = gpusim_ops_new(1);
	struct emit_sink sink = ps_sink(o);
	enum rc rc;

	if (b->leaf)
		leaves_sum(&sink, 0, &b->r, &b->shape, batch, which);
	else
		emit_rows(b, batch, &sink);
	rc = api(gpusim_graph_create(b->comm, o, &graph->part[graph->nparts]), err);
	graph->nparts += rc == RC_OK;
	gpusim_ops_free(o);
	return rc;
}

static enum rc
record(struct learner_device *b, uint32_t rows, struct learner_graph *graph, struct err *err)
{
	const struct batch batch = {.rows = rows};
	uint64_t n = b->leaf ? leaves_count(rows, b->leaf) : 1, each = 1;
	enum rc rc = RC_OK;

	if (b->leaf)
		each = leaves_each(&b->r, &b->shape, 1);
	if (n > each * LEARNER_MAX_PARTS)
		return err_set(
		    err, RC_INVAL,
		    "an item of %u images has %llu leaves; the limit is %llu: see --leaf", rows,
		    (unsigned long long)n, (unsigned long long)each * LEARNER_MAX_PARTS);
	for (uint64_t at = 0; at < n && rc == RC_OK; at += each)
		rc = record_part(b, &batch, (struct leaves_range){at, at + each}, graph, err);
	return rc;
}

static void
forget(struct learner_device *b, struct learner_graph *graph)
{
	while (graph->nparts)
		(void)gpusim_graph_destroy(b->comm, graph->part[--graph->nparts]);
	graph->rows = 0;
}

/* The graphs for a number of rows: few different numbers occur; a new one replaces the last. */
static enum rc
graph_for(struct learner_device *b, uint32_t rows, const struct learner_graph **graph,
	  struct err *err)
{
	unsigned k = 0;
	enum rc rc;

	while (k < LEARNER_MAX_GRAPHS - 1 && b->graph[k].rows && b->graph[k].rows != rows)
		k++;
	if (b->graph[k].rows != rows) {
		forget(b, &b->graph[k]);
		rc = record(b, rows, &b->graph[k], err);
		if (rc != RC_OK) {
			forget(b, &b->graph[k]);
			return rc;
		}
		b->graph[k].rows = rows;
	}
	*graph = &b->graph[k];
	return RC_OK;
}

enum rc
learner_device_pick(struct learner_device *b, uint32_t epoch, uint32_t first, uint32_t rows,
		    struct minibatch *out, struct err *err)
{
	const struct dataset_part *train = &b->task->data.train;
	uint64_t item = dataset_item_bytes(&b->task->data);
	uint32_t n = train->nitems;

	if (rows > b->shape.train_items || first > n || rows > n - first)
		return err_set(err, RC_BADDATA, "the server requests images %u to %u of %u", first,
			       first + rows, n);
	if (b->epoch != epoch + 1) {
		order_epoch(b->seed, epoch, n, b->order);
		b->epoch = epoch + 1;
	}
	augment_draws(b->augment, b->seed, epoch, b->order + first, rows, b->draws);
	for (uint32_t i = 0; i < rows; i++) {
		uint32_t k = b->order[first + i];

		b->labels[i] = train->labels[k];
		if (resident(b))
			b->mine[i] = k;
		else
			memcpy(b->staging + i * item, (const uint8_t *)train->items + k * item,
			       item);
	}
	*out = (struct minibatch){.rows = rows,
				  .draws = b->draws,
				  .labels = b->labels,
				  .samples = resident(b) ? NULL : b->staging};
	return RC_OK;
}

/* Upload samples, or the numbers of resident ones; labels; augmentation. */
static enum rc
load(struct learner_device *b, const struct minibatch *m, struct err *err)
{
	enum rc rc = RC_OK;

	if (m->samples)
		rc = to_device(b, b->r.samples, m->samples,
			       m->rows * (uint64_t)dataset_item_bytes(&b->task->data), err);
	if (rc == RC_OK)
		rc = to_device(b, b->r.order, b->mine, m->rows * sizeof *b->mine, err);
	if (rc == RC_OK && b->r.draws)
		rc = to_device(b, b->r.draws, m->draws, m->rows * sizeof(uint32_t), err);
	return rc == RC_OK ? to_device(b, b->r.labels, m->labels, m->rows, err) : rc;
}

/* The sum of the losses of an item's images. */
static enum rc
read_loss(struct learner_device *b, double *loss, struct err *err)
{
	int64_t units = 0;
	float sum = 0;
	enum rc rc;

	if (b->leaf)
		rc =
		    device_read(b->g, &units, b->r.device,
				b->r.sums + task_values(b->task) * sizeof units, sizeof units, err);
	else
		rc = device_read(b->g, &sum, b->r.device, b->r.losses, sizeof sum, err);
	*loss = b->leaf ? (double)units / LEAVES_LOSS_SCALE : (double)sum;
	return rc;
}

enum rc
learner_device_compute(struct learner_device *b, const struct minibatch *m, double *loss,
		       struct err *err)
{
	const struct learner_graph *graph;
	enum rc rc;

	if (m->rows == 0 || m->rows > b->shape.train_items)
		return err_set(err, RC_BADDATA,
			       "the server requests %u images at once; the limit is %u", m->rows,
			       (unsigned)b->shape.train_items);
	rc = graph_for(b, m->rows, &graph, err);
	if (rc == RC_OK)
		rc = load(b, m, err);
	for (unsigned p = 0; rc == RC_OK && p < graph->nparts; p++)
		rc =
		    api(gpusim_graph_launch(b->comm, graph->part[p], 0, 1, GPUSIM_SYNC, NULL), err);
	return rc == RC_OK ? read_loss(b, loss, err) : rc;
}

enum rc
learner_device_push(struct learner_device *b, struct gpusim_device device, uint64_t addr,
		    struct err *err)
{
	return device_copy(b->g, device, addr, b->r.device, b->leaf ? b->r.sums : b->r.net.grads,
			   ps_slot_bytes(b->task, b->leaf), err);
}
