/* Which images each device uses in an epoch, one after the other. */
#include <string.h>

#include "nn/rng.h"
#include "train/trainer_impl.h"

/* Which images one device uses, batch after batch, and their labels. Returns how many. */
static uint64_t
deal(struct trainer *t, uint32_t rank)
{
	uint64_t k = 0;

	for (uint64_t s = 0; s < t->shape.train_steps; s++) {
		uint64_t first = s * t->global;
		uint32_t begin, end;

		dataset_share((uint32_t)(s < t->full_steps ? t->global : t->rest), rank,
			      t->comm.nranks, &begin, &end);
		for (uint32_t i = begin; i < end; i++, k++) {
			t->mine[k] = t->order[first + i];
			t->labels[k] = t->data->train.labels[t->mine[k]];
		}
	}
	return k;
}

/* The images in the order of use, for a device that has not all of them; then that is their order.
 */
static enum rc
feed_images(struct trainer *t, const struct replica *r, uint64_t n, struct err *err)
{
	uint64_t pixels = t->shape.model->size[0];

	for (uint64_t k = 0; k < n; k++) {
		memcpy(t->staging + k * pixels,
		       (const uint8_t *)t->data->train.items + t->mine[k] * pixels, pixels);
		t->mine[k] = (uint32_t)k;
	}
	return check(gpusim_memcpy_h2d(t->g, r->device, r->images, t->staging, n * pixels), err);
}

static enum rc
feed_device(struct trainer *t, uint32_t rank, struct err *err)
{
	const struct replica *r = &t->replica[rank];
	uint64_t n = deal(t, rank);
	enum rc rc = resident(t) ? RC_OK : feed_images(t, r, n, err);

	if (rc == RC_OK)
		rc = check(
		    gpusim_memcpy_h2d(t->g, r->device, r->order, t->mine, n * sizeof *t->mine),
		    err);
	if (rc == RC_OK)
		rc = check(gpusim_memcpy_h2d(t->g, r->device, r->labels, t->labels, n), err);
	return rc;
}

enum rc
feed(struct trainer *t, struct err *err)
{
	struct rng rng;
	enum rc rc = RC_OK;

	/* Far from the seeds of weights, which are the plain seed. */
	rng_init(&rng, t->o->seed + 0x9e3779b97f4a7c15u * (t->at.epoch + 1ull));
	rng_permutation(&rng, t->data->train.nitems, t->order);
	for (uint32_t r = 0; r < t->comm.nranks && rc == RC_OK; r++)
		rc = feed_device(t, r, err);
	if (rc == RC_OK)
		t->fed = t->at.epoch + 1ull;
	return rc;
}
