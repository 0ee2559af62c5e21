/* The devices' memory: what a replica takes there, and the images that stay. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "train/trainer_impl.h"

#define RESIDENT_MAX (1ull << 30) /* bytes of images on all devices of a cluster of our own */

struct shape
make_shape(const struct train_config *o, const struct dataset *data, uint64_t global, uint32_t n,
	   bool resident)
{
	uint64_t items = data->train.nitems, steps = items / global, rest = items % global;
	uint64_t rows = ((global < items ? global : items) + n - 1) / n;
	struct shape s = {.model = &o->model,
			  .max_rows = rows > TEST_BATCH ? rows : TEST_BATCH,
			  .train_items = steps * rows + (rest + n - 1) / n,
			  .train_steps = steps + (rest > 0),
			  .test_items = (data->test.nitems + n - 1) / n,
			  .optimizer = o->optimizer,
			  .kept = o->on_failure != GPUSIM_ON_FAILURE_ABORT};

	/* Every device tests the same number of whole batches, then what is left of its share. */
	s.held = resident ? items : s.train_items;
	s.test_steps = data->test.nitems / n / TEST_BATCH + 1;
	return s;
}

/* So few devices may be left of n. */
static uint32_t
fewest(const struct train_config *o, uint32_t n)
{
	return o->on_failure == GPUSIM_ON_FAILURE_SHRINK ? 1 : n;
}

uint64_t
trainer_bytes(const struct train_config *o, const struct dataset *data, uint32_t n)
{
	uint64_t images = (uint64_t)data->train.nitems * o->model.size[0];
	uint64_t global = o->global ? o->global : (uint64_t)o->batch * n;
	struct shape s = make_shape(o, data, global, fewest(o, n), images <= RESIDENT_MAX / n);

	return replica_bytes(&s);
}

bool
shape_fits(const struct trainer *t)
{
	const struct shape *s = &t->shape;
	struct shape now = make_shape(t->o, t->data, t->global, t->comm.nranks, resident(t));

	return now.max_rows <= s->max_rows && now.train_items <= s->train_items &&
	       now.held <= s->held && now.test_items <= s->test_items &&
	       now.test_steps <= s->test_steps;
}

void
give_back(struct trainer *t, uint32_t rank)
{
	struct replica *r = &t->replica[rank];

	if (r->owned)
		gpusim_free(t->g, r->device, r->base);
	*r = (struct replica){.device = r->device};
}

/* Allocate and lay out a device's buffers; zero what must begin as zero. */
static enum rc
place_rank(struct trainer *t, uint32_t rank, struct err *err)
{
	struct replica *r = &t->replica[rank];
	uint64_t base;
	enum rc rc = check(
	    gpusim_malloc(t->g, r->device, replica_bytes(&t->shape), GPUSIM_LEASE, &base), err);

	if (rc != RC_OK)
		return rc;
	replica_place(r, &t->shape, r->device, base);
	/* Parameters, optimizer state, step count, gradients: they lie together. */
	return check(gpusim_memset(t->g, r->device, base, 0, r->x - base), err);
}

static bool
alloc_host(struct trainer *t)
{
	const struct shape *s = &t->shape;

	free_host(t);
	t->mine = alloc_zeroed(s->train_items, sizeof *t->mine);
	t->labels = alloc_zeroed(s->train_items, sizeof *t->labels);
	t->losses = alloc_zeroed(s->train_steps, sizeof *t->losses);
	t->sums = alloc_zeroed(s->train_steps, sizeof *t->sums);
	t->right = alloc_zeroed(s->test_steps, sizeof *t->right);
	if (!resident(t))
		t->staging = alloc_zeroed(s->train_items, s->model->size[0]);
	return t->mine && t->labels && t->losses && t->sums && t->right &&
	       (resident(t) || t->staging);
}

void
free_host(struct trainer *t)
{
	free(t->mine);
	free(t->labels);
	free(t->losses);
	free(t->sums);
	free(t->right);
	free(t->staging);
	t->mine = NULL;
	t->labels = t->staging = NULL;
	t->losses = NULL;
	t->sums = NULL;
	t->right = NULL;
}

static enum rc
place_shape(struct trainer *t, uint32_t n, bool all_images, struct err *err)
{
	enum rc rc = RC_OK;

	t->shape = make_shape(t->o, t->data, t->global, n, all_images);
	for (uint32_t r = 0; r < t->comm.nranks && rc == RC_OK; r++) {
		give_back(t, r);
		rc = place_rank(t, r, err);
	}
	return rc;
}

enum rc
place_all(struct trainer *t, struct err *err)
{
	uint32_t n = t->comm.nranks, least = fewest(t->o, n);
	enum rc rc = place_shape(t, least, true, err);

	if (rc == RC_NOMEM && least < n)
		rc = place_shape(t, n, true, err);
	if (rc == RC_NOMEM && n > 1)
		rc = place_shape(t, n, false, err);
	for (uint32_t r = 0; rc == RC_OK && r < n; r++)
		rc = upload_images(t, r, err);
	if (rc == RC_OK && !alloc_host(t))
		rc = err_set(err, RC_NOMEM, "out of memory");
	return rc;
}

enum rc
place_one(struct trainer *t, uint32_t rank, struct err *err)
{
	enum rc rc;

	give_back(t, rank);
	rc = place_rank(t, rank, err);
	return rc == RC_OK ? upload_images(t, rank, err) : rc;
}

enum rc
upload_images(struct trainer *t, uint32_t rank, struct err *err)
{
	const struct dataset_part *train = &t->data->train;

	if (!resident(t))
		return RC_OK;
	return check(gpusim_memcpy_h2d(t->g, t->replica[rank].device, t->replica[rank].images,
				       train->items, train->nitems * t->shape.model->size[0]),
		     err);
}

enum rc
upload_tests(struct trainer *t, struct err *err)
{
	const struct dataset_part *test = &t->data->test;
	uint64_t pixels = t->shape.model->size[0];
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < t->comm.nranks && rc == RC_OK; r++) {
		const struct replica *rep = &t->replica[r];
		uint32_t begin, end;

		dataset_share(test->nitems, r, t->comm.nranks, &begin, &end);
		rc = check(gpusim_memcpy_h2d(t->g, rep->device, rep->test_images,
					     (const uint8_t *)test->items + begin * pixels,
					     (end - begin) * pixels),
			   err);
		if (rc == RC_OK)
			rc = check(gpusim_memcpy_h2d(t->g, rep->device, rep->test_labels,
						     test->labels + begin, end - begin),
				   err);
	}
	return rc;
}
