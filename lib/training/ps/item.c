/*
 * item.c - the samples of an item as bytes, in a message of the queue after its ticket, or in an answer:
 *
 *	u32[rows] augmentation of each (nn/augment.h)
 *	u8[rows]	labels
 *	[rows, item]	samples, of the data set's type
 */
#include "base/must.h"
#include "nn/augment.h"
#include "ps/ps_impl.h"
#include "train/leaves.h"
#include "train/order.h"

uint32_t
ps_leaf(const struct task *task)
{
	return task->config->deterministic ? task->config->leaf : 0;
}

uint64_t
ps_slot_bytes(const struct task *task, uint32_t leaf)
{
	return leaf ? leaves_elements(task) * sizeof(int64_t) : task_values(task) * sizeof(float);
}

/* Gradients of an update, unless its images set a limit. */
static uint32_t
wanted(const struct task *task, uint32_t nworkers)
{
	const struct train_config *c = task->config;

	return c->ps_aggregate ? c->ps_aggregate : nworkers ? nworkers : 1;
}

uint64_t
ps_global(const struct task *task, uint32_t nworkers)
{
	const struct train_config *c = task->config;

	return c->global_batch ? c->global_batch : (uint64_t)c->batch * wanted(task, nworkers);
}

uint32_t
ps_aggregate(const struct task *task, uint32_t nworkers)
{
	uint64_t parts = leaves_count(ps_global(task, nworkers), task_leaf(task));
	uint32_t n = wanted(task, nworkers);

	return parts < n ? (uint32_t)parts : n;
}

uint32_t
ps_item_rows(const struct task *task, uint32_t nworkers)
{
	const struct order_steps steps = {ps_global(task, nworkers), task_leaf(task),
					  ps_aggregate(task, nworkers)};

	return (uint32_t)order_most_rows(UINT32_MAX, &steps);
}

uint64_t
ps_item_bytes(const struct dataset *data, uint32_t rows)
{
	return rows * (sizeof(uint32_t) + 1 + (uint64_t)dataset_item_bytes(data));
}

enum rc
ps_item_check(const struct task *task, uint32_t nworkers, struct err *err)
{
	const struct dataset *data = &task->data;
	uint64_t each = ps_item_bytes(data, 1), most = PS_ITEM_MAX / each;
	uint32_t batch = ps_item_rows(task, nworkers);

	if (data->channels * 2 * sizeof(float) > PS_ITEM_MAX / 2)
		return err_set(err, RC_INVAL, "--feed data: samples of %u values are too long",
			       data->channels);
	if (batch > most)
		return err_set(err, RC_INVAL,
			       "--feed data: items of %u samples: a message of %d bytes holds %llu "
			       "samples of %llu bytes",
			       batch, PS_ITEM_MAX, (unsigned long long)most,
			       (unsigned long long)each);
	return RC_OK;
}

void
ps_order(struct ps *ps)
{
	if (ps->order)
		order_epoch(ps->task->config->seed, ps->epoch, ps->task->data.train.nitems,
			    ps->order);
}

bool
ps_item_put(const struct ps *ps, uint32_t item, struct buf *out)
{
	const struct train_config *c = ps->task->config;
	const struct dataset_part *train = &ps->task->data.train;
	size_t nbytes = dataset_item_bytes(&ps->task->data);
	uint32_t first, rows;

	if (!pool_item(ps->pool, item, &first, &rows))
		return false;
	for (uint32_t i = 0; i < rows; i++) {
		uint32_t draw = augment_draw(c->augment, c->seed, ps->epoch, ps->order[first + i]);

		must_add(out, &draw, sizeof draw);
	}
	for (uint32_t i = 0; i < rows; i++)
		must_add(out, &train->labels[ps->order[first + i]], 1);
	for (uint32_t i = 0; i < rows; i++)
		must_add(out, (const uint8_t *)train->items + ps->order[first + i] * nbytes,
			 nbytes);
	return true;
}

bool
ps_item_take(const void *bytes, size_t nbytes, const struct dataset *data, uint32_t rows,
	     struct minibatch *out)
{
	const uint8_t *p = bytes;

	if (nbytes != ps_item_bytes(data, rows))
		return false;
	*out = (struct minibatch){.rows = rows,
				  .draws = p,
				  .labels = p + rows * sizeof(uint32_t),
				  .samples = p + rows * (sizeof(uint32_t) + 1)};
	return true;
}
