/* The samples that each device uses in a step, a test batch, an epoch; and the learning rates. */
#include <string.h>

#include "nn/augment.h"
#include "train/order.h"
#include "train/trainer_impl.h"

/* A rank's part of a global batch: a whole part, moving, or of the rest at the end of an epoch. */
struct batch
train_batch(const struct trainer *t, bool moving, uint32_t rank)
{
	uint64_t rows = trained_by(t, t->global, rank);

	return (struct batch){.first = moving ? 0 : t->full_steps * rows,
			      .rows = moving ? rows : trained_by(t, t->rest, rank),
			      .step = moving ? 0 : t->full_steps,
			      .moving = moving};
}

/* One of the whole batches of a part that all ranks have, moving, or one of the rest. */
struct batch
test_batch(const struct trainer *t, unsigned part, uint64_t number, bool moving, uint32_t rank)
{
	uint64_t rows = test_rows(t), done = number * rows, mine = tested_by(t, part, rank);
	uint64_t left = mine > done ? mine - done : 0;

	return (struct batch){
	    .first = done, .rows = left < rows ? left : rows, .step = number, .moving = moving};
}

/* The samples that one device uses, step after step, their labels and their augmentation. Returns
 * their number. */
static uint64_t
deal(struct trainer *t, uint32_t rank)
{
	uint32_t first = central(t);
	const struct order_steps steps = {t->global, task_leaf(t->task), seats(t) - first};
	uint64_t k = rank < first ? 0
				  : order_deal(t->order, t->data->train.nitems, &steps,
					       seat(t, rank) - first, t->mine);

	for (uint64_t i = 0; i < k; i++)
		t->labels[i] = t->data->train.labels[t->mine[i]];
	augment_draws(t->o->augment, t->o->seed, t->at.epoch, t->mine, k, t->draws);
	return k;
}

/* The samples in the order of use, for a device that does not have all of them; their numbers are
 * then in that order. */
static enum rc
feed_samples(struct trainer *t, const struct replica *r, uint64_t n, struct err *err)
{
	uint64_t nbytes = dataset_item_bytes(t->data);
	const uint8_t *items = t->data->train.items;

	for (uint64_t k = 0; k < n; k++) {
		memcpy(t->staging + k * nbytes, items + t->mine[k] * nbytes, nbytes);
		t->mine[k] = (uint32_t)k;
	}
	return device_write(t->g, r->device, r->samples, t->staging, n * nbytes, err);
}

static enum rc
feed_device(struct trainer *t, uint32_t rank, struct err *err)
{
	const struct replica *r = &t->replica[rank];
	uint64_t n = deal(t, rank);
	enum rc rc = resident(t) ? RC_OK : feed_samples(t, r, n, err);

	if (rc == RC_OK)
		rc = device_write(t->g, r->device, r->order, t->mine, n * sizeof *t->mine, err);
	if (rc == RC_OK)
		rc = device_write(t->g, r->device, r->labels, t->labels, n, err);
	if (rc == RC_OK && r->draws)
		rc = device_write(t->g, r->device, r->draws, t->draws, n * sizeof *t->draws, err);
	if (rc == RC_OK)
		rc = device_write(t->g, r->device, r->lr, t->rates,
				  t->shape.train_steps * sizeof *t->rates, err);
	return rc;
}

enum rc
feed(struct trainer *t, struct err *err)
{
	enum rc rc = RC_OK;

	order_epoch(t->o->seed, t->at.epoch, t->data->train.nitems, t->order);
	order_rates(&t->o->schedule, t->at.epoch, t->o->epochs, t->shape.train_steps, t->rates);
	for (uint32_t r = 0; r < gpusim_comm_count(t->comm) && rc == RC_OK; r++)
		rc = feed_device(t, r, err);
	if (rc == RC_OK)
		t->fed = t->at.epoch + 1ull;
	return rc;
}
