/* The devices' memory: the replicas and the resident images. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "train/order.h"
#include "train/leaves.h"
#include "train/trainer_impl.h"
#include "train/verify.h"

#define RESIDENT_MAX (1ull << 30) /* bytes of images on all devices of the training's own cluster */

static uint64_t
larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

struct shape
make_shape(const struct task *task, uint64_t global, uint32_t n, bool resident,
	   const struct spread *spread)
{
	const struct dataset *data = &task->data;
	const struct order_steps steps = {global, task_leaf(task), task_workers(task, n)};
	uint32_t items = data->train.nitems, leaf = task->config->deterministic ? steps.whole : 0;
	uint64_t tested = spread ? spread_test_rows(spread) : task_test_rows(task);
	uint32_t testers = spread ? spread->grid.dp : n;
	struct shape s = {.task = task,
			  .max_rows = larger(leaf ? leaf : order_most_rows(items, &steps), tested),
			  .train_items = order_most(items, &steps),
			  .train_steps = items / global + (items % global > 0),
			  .leaf = leaf,
			  .layout = spread ? spread->layout : NULL,
			  .verify = task->config->verify && leaf,
			  .kept = task->config->on_failure != GPUSIM_ON_FAILURE_ABORT,
			  .augment = task->config->augment,
			  .inbox = task->config->sync == SYNC_SENDRECV};

	/* Every device tests the same number of whole batches, then the rest of its share. */
	s.held = resident ? items : s.train_items;
	for (unsigned p = 0; p < NTESTS; p++) {
		const struct order_steps all = {tested_part(data, p)->nitems + 1ull,
						task_tested_whole(task), testers};

		s.test_items[p] = order_most_rows(tested_part(data, p)->nitems, &all);
		s.test_steps[p] = s.test_items[p] / tested + 1;
	}
	return s;
}

/* The fewest of n devices that may remain. */
static uint32_t
fewest(const struct task *task, uint32_t n)
{
	return task->config->on_failure == GPUSIM_ON_FAILURE_SHRINK ? n / task_workers(task, n) : n;
}

uint64_t
trainer_bytes(const struct task *task, uint64_t global, uint32_t n)
{
	uint64_t samples = task->data.train.nitems * dataset_item_bytes(&task->data), nbytes;
	struct spread *spread = NULL;
	struct err ignored;
	struct shape s;

	if (global == 0)
		global = task_global(task, n);
	/* What it refuses, trainer_new will, too. */
	if (spread_wanted(task->config))
		(void)spread_new(task, fewest(task, n), global, &spread, &ignored);
	s = make_shape(task, global, fewest(task, n), samples <= RESIDENT_MAX / n, spread);
	s.max_ranks = n;
	nbytes = replica_bytes(&s);
	spread_free(spread);
	return nbytes;
}

bool
shape_fits(const struct trainer *t)
{
	const struct shape *s = &t->shape;
	struct shape now =
	    make_shape(t->task, t->global, gpusim_comm_count(t->comm), resident(t), t->spread);
	bool fits =
	    now.max_rows <= s->max_rows && now.train_items <= s->train_items && now.held <= s->held;

	if (t->o->compress.kind)
		fits = fits && gpusim_comm_count(t->comm) <= s->max_ranks;

	for (unsigned p = 0; p < NTESTS; p++)
		fits = fits && now.test_items[p] <= s->test_items[p] &&
		       now.test_steps[p] <= s->test_steps[p];
	return fits;
}

void
give_back(struct trainer *t, uint32_t rank)
{
	struct replica *r = &t->replica[rank];

	if (r->owned)
		replica_free_memory(t->g, r->device, r->base);
	*r = (struct replica){.device = r->device};
}

/* Allocate and lay out a device's buffers; zero the buffers that must begin as zero. */
static enum rc
place_rank(struct trainer *t, uint32_t rank, struct err *err)
{
	struct replica *r = &t->replica[rank];
	uint64_t base;
	enum rc rc = device_alloc(t->g, r->device, replica_bytes(&t->shape), &base, err);

	if (rc != RC_OK)
		return rc;
	replica_place(r, &t->shape, r->device, base);
	/* Parameters, optimizer state, step count, gradients: they are contiguous. */
	return api(
	    gpusim_memset(t->g, r->device, (struct gpusim_addr){base}, 0,
			  (t->spread ? r->spread + t->shape.layout->bytes : r->net.x) - base),
	    err);
}

static void
alloc_host(struct trainer *t)
{
	const struct shape *s = &t->shape;
	uint64_t tests = larger(s->test_steps[TESTS], s->test_steps[VALIDATION]);

	free_host(t);
	t->mine = must_alloc(s->train_items, sizeof *t->mine);
	t->labels = must_alloc(s->train_items, sizeof *t->labels);
	t->draws = must_alloc(s->train_items, sizeof *t->draws);
	t->losses = must_alloc(s->train_steps, sizeof *t->losses);
	t->sums = must_alloc(s->train_steps, sizeof *t->sums);
	t->right = must_alloc(tests, sizeof *t->right);
	if (!resident(t))
		t->staging = must_alloc(s->train_items, dataset_item_bytes(t->data));
	t->rates = must_alloc(s->train_steps, sizeof *t->rates);
}

void
free_host(struct trainer *t)
{
	free(t->mine);
	free(t->labels);
	free(t->draws);
	free(t->losses);
	free(t->sums);
	free(t->right);
	free(t->rates);
	free(t->staging);
	t->mine = t->draws = NULL;
	t->labels = t->staging = NULL;
	t->losses = NULL;
	t->sums = NULL;
	t->right = NULL;
	t->rates = NULL;
}

static enum rc
place_shape(struct trainer *t, uint32_t n, bool all_images, struct err *err)
{
	enum rc rc = RC_OK;

	if (spread_wanted(t->o)) {
		struct spread *spread;

		rc = spread_new(t->task, gpusim_comm_count(t->comm), t->global, &spread, err);
		if (rc != RC_OK)
			return rc;
		spread_free(t->spread);
		t->spread = spread;
	}
	t->shape = make_shape(t->task, t->global, n, all_images, t->spread);
	t->shape.max_ranks = gpusim_comm_count(t->comm);
	for (uint32_t r = 0; r < gpusim_comm_count(t->comm) && rc == RC_OK; r++) {
		give_back(t, r);
		rc = place_rank(t, r, err);
	}
	return rc;
}

/* Upload the training images, once a device, if they are resident. */
static enum rc
upload_images(struct trainer *t, uint32_t rank, struct err *err)
{
	const struct dataset *data = t->data;
	const struct replica *r = &t->replica[rank];
	uint64_t nbytes = data->channels * sizeof *data->scale;
	enum rc rc = device_write(t->g, r->device, r->scale, data->scale, nbytes, err);

	if (rc == RC_OK)
		rc = device_write(t->g, r->device, r->shift, data->shift, nbytes, err);
	if (rc == RC_OK && r->samples_of) {
		uint32_t index[VERIFY_SAMPLES];

		verify_choose(t->nonce, leaves_elements(t->task), index);
		rc = device_write(t->g, r->device, r->samples_of, index, sizeof index, err);
	}
	if (rc == RC_OK && resident(t))
		rc = device_write(t->g, r->device, r->samples, data->train.items,
				  data->train.nitems * dataset_item_bytes(data), err);
	return rc;
}

enum rc
place_all(struct trainer *t, struct err *err)
{
	uint32_t n = gpusim_comm_count(t->comm), least = fewest(t->task, n);
	enum rc rc = place_shape(t, least, true, err);

	if (rc == RC_NOMEM && least < n)
		rc = place_shape(t, n, true, err);
	if (rc == RC_NOMEM && n > 1)
		rc = place_shape(t, n, false, err);
	for (uint32_t r = 0; rc == RC_OK && r < n; r++)
		rc = upload_images(t, r, err);
	if (rc == RC_OK)
		alloc_host(t);
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

/* A device's share of a part. */
static enum rc
upload_part(struct trainer *t, unsigned part, uint32_t rank, struct err *err)
{
	const struct dataset_part *from = tested_part(t->data, part);
	const struct replica *r = &t->replica[rank];
	uint64_t item = dataset_item_bytes(t->data);
	uint64_t begin, end;
	enum rc rc;

	order_share(from->nitems, task_tested_whole(t->task), seat(t, rank), seats(t), &begin,
		    &end);
	rc = device_write(t->g, r->device, r->tests[part],
			  (const uint8_t *)from->items + begin * item, (end - begin) * item, err);
	if (rc == RC_OK)
		rc = device_write(t->g, r->device, r->test_labels[part], from->labels + begin,
				  end - begin, err);
	return rc;
}

enum rc
upload_tests(struct trainer *t, struct err *err)
{
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < gpusim_comm_count(t->comm) && rc == RC_OK; r++)
		for (unsigned p = 0; p < NTESTS && rc == RC_OK; p++)
			if (tested_part(t->data, p)->nitems)
				rc = upload_part(t, p, r, err);
	return rc;
}
