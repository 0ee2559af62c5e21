/* A trainer from beginning to end, and its way through an epoch. */
#include "trainer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "trainer_impl.h"

#define SLICES_AN_EPOCH	  50	  /* launches, where somebody watches */
#define LAUNCH_TIMEOUT_MS 3600000 /* devices that are stuck are found out long before */

enum rc
trainer_check(const struct options *o, const struct dataset *data, struct err *err)
{
	uint64_t pixels = (uint64_t)data->rows * data->cols;

	if (o->model.size[0] != pixels)
		return err_set(err, RC_BADDATA,
			       "the images have %ux%u = %" PRIu64
			       " pixels, the model takes %" PRIu64,
			       data->rows, data->cols, pixels, o->model.size[0]);
	return dataset_check_labels(data, (uint32_t)o->model.size[o->model.nlayers], err);
}

struct checkpoint_terms
trainer_terms(const struct options *o, const struct dataset *data)
{
	struct checkpoint_terms terms = {.nsizes = o->model.nlayers + 1,
					 .optimizer = o->optimizer,
					 .batch = o->batch,
					 .seed = o->seed,
					 .lr = o->lr,
					 .momentum = o->momentum,
					 .weight_decay = o->weight_decay,
					 .train_items = data->train.nitems,
					 .test_items = data->test.nitems,
					 .data_crc = dataset_crc(data)};

	memcpy(terms.size, o->model.size, terms.nsizes * sizeof terms.size[0]);
	return terms;
}

static bool
alloc_host(struct trainer *t)
{
	const struct shape *s = &t->shape;

	t->mine = alloc_zeroed(s->train_items, sizeof *t->mine);
	t->labels = alloc_zeroed(s->train_items, sizeof *t->labels);
	t->losses = alloc_zeroed(s->train_steps, sizeof *t->losses);
	t->sums = alloc_zeroed(s->train_steps, sizeof *t->sums);
	t->right = alloc_zeroed(s->test_steps, sizeof *t->right);
	return t->mine && t->labels && t->losses && t->sums && t->right;
}

static bool
alloc_ranks(struct trainer *t)
{
	t->replica = alloc_zeroed(t->comm.nranks, sizeof *t->replica);
	t->addrs = alloc_zeroed(t->comm.nranks, sizeof *t->addrs);
	t->times = alloc_zeroed(t->comm.nranks, sizeof *t->times);
	t->order = alloc_zeroed(t->data->train.nitems, sizeof *t->order);
	return t->replica && t->addrs && t->times && t->order;
}

/* Devices, memory, images, weights, graphs. */
static enum rc
start(struct trainer *t, uint32_t ndevices, const struct checkpoint *from, struct err *err)
{
	const struct gpusim_comm_config config = {.life = GPUSIM_LEASE};
	enum rc rc = check(gpusim_comm_init(t->g, ndevices, NULL, &config, &t->comm), err);

	if (rc == RC_OK && !alloc_ranks(t))
		rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK)
		rc = place(t, err);
	if (rc == RC_OK && !alloc_host(t))
		rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK)
		rc = from ? load_weights(t, from, err) : init_weights(t, err);
	if (rc == RC_OK)
		rc = upload_data(t, err);
	if (rc == RC_OK)
		rc = record_graphs(t, err);
	return rc;
}

enum rc
trainer_new(struct gpusim *g, const struct options *o, const struct dataset *data,
	    uint32_t ndevices, const struct checkpoint *from, const struct trainer_hooks *hooks,
	    struct trainer **out, struct err *err)
{
	struct trainer *t = calloc(1, sizeof *t);
	enum rc rc;

	if (!t)
		return err_set(err, RC_NOMEM, "out of memory");
	t->g = g;
	t->o = o;
	t->data = data;
	t->hooks = *hooks;
	t->global = from ? from->global_batch : (uint64_t)o->batch * ndevices;
	t->full_steps = data->train.nitems / t->global;
	t->rest = data->train.nitems % t->global;
	t->full_tests = data->test.nitems / ndevices / TEST_BATCH;
	if (from)
		t->at = (struct position){(uint32_t)from->epoch, from->step, from->loss_sum};
	gpusim_set_timeout_ms(g, LAUNCH_TIMEOUT_MS);
	rc = start(t, ndevices, from, err);
	if (rc != RC_OK)
		trainer_free(t);
	else
		*out = t;
	return rc;
}

void
trainer_free(struct trainer *t)
{
	if (!t)
		return;
	/* What cannot be given back now goes with the lease. */
	give_back(t);
	if (t->comm.id)
		gpusim_comm_destroy(t->g, t->comm.id);
	gpusim_comm_fini(&t->comm);
	free(t->replica);
	free(t->addrs);
	free(t->times);
	free(t->order);
	free(t->mine);
	free(t->labels);
	free(t->staging);
	free(t->losses);
	free(t->sums);
	free(t->right);
	free(t);
}

uint32_t
trainer_epochs(const struct trainer *t)
{
	return t->at.epoch;
}

uint64_t
trainer_steps(const struct trainer *t)
{
	return t->at.epoch * t->shape.train_steps + t->at.step;
}

/* Run a graph and add its times to *e. */
static enum rc
launch(struct trainer *t, uint64_t graph, uint64_t first, uint64_t iterations, struct epoch *e,
       struct err *err)
{
	uint32_t n = t->comm.nranks;
	enum rc rc = check(
	    gpusim_graph_launch(t->g, t->comm.id, graph, first, iterations, GPUSIM_WAIT, t->times),
	    err);

	for (uint32_t r = 0; rc == RC_OK && e && r < n; r++) {
		e->compute_s += (double)t->times[r].compute_ns / 1e9 / n;
		e->comm_s += (double)t->times[r].comm_ns / 1e9 / n;
	}
	return rc;
}

/* The losses of n steps into the position, step by step: so it is the same sum however training is
 * cut. */
static enum rc
add_losses(struct trainer *t, uint64_t n, struct err *err)
{
	uint64_t first = t->at.step * sizeof *t->losses;
	enum rc rc = RC_OK;

	memset(t->sums, 0, n * sizeof *t->sums);
	for (uint32_t r = 0; r < t->comm.nranks && rc == RC_OK; r++) {
		rc = check(gpusim_memcpy_d2h(t->g, t->losses, t->replica[r].device,
					     t->replica[r].losses + first, n * sizeof *t->losses),
			   err);
		for (uint64_t s = 0; s < n; s++)
			t->sums[s] += t->losses[s];
	}
	for (uint64_t s = 0; s < n && rc == RC_OK; s++)
		t->at.loss_sum += t->sums[s];
	return rc;
}

/* Steps until the next checkpoint within this epoch is due, from the position on. */
static uint64_t
until_checkpoint(const struct trainer *t)
{
	uint64_t every = t->o->checkpoint_every;

	return t->hooks.checkpoint && every ? every - trainer_steps(t) % every : UINT64_MAX;
}

/* How many steps the next launch has; the last, smaller one is one of its own. */
static uint64_t
unit_steps(const struct trainer *t)
{
	uint64_t n = t->full_steps - t->at.step, due = until_checkpoint(t);
	uint64_t slice = t->hooks.progress ? t->full_steps / SLICES_AN_EPOCH + 1 : n;

	if (t->at.step >= t->full_steps)
		return 1;
	n = n < slice ? n : slice;
	return n < due ? n : due;
}

/* Some steps. */
static enum rc
train_unit(struct trainer *t, struct epoch *e, struct err *err)
{
	uint64_t n = unit_steps(t);
	bool moving = t->at.step < t->full_steps;
	enum rc rc = moving ? launch(t, t->train, t->at.step, n, e, err)
			    : launch(t, t->train_rest, 0, 1, e, err);

	if (rc == RC_OK)
		rc = add_losses(t, n, err);
	if (rc == RC_OK)
		t->at.step += n;
	return rc;
}

static enum rc
test_unit(struct trainer *t, struct epoch *e, struct err *err)
{
	uint64_t right = 0, steps = t->full_tests + 1;
	enum rc rc = RC_OK;

	if (t->full_tests)
		rc = launch(t, t->test, 0, t->full_tests, NULL, err);
	if (rc == RC_OK)
		rc = launch(t, t->test_rest, 0, 1, NULL, err);
	for (uint32_t r = 0; r < t->comm.nranks && rc == RC_OK; r++) {
		rc = check(gpusim_memcpy_d2h(t->g, t->right, t->replica[r].device,
					     t->replica[r].right, steps * sizeof *t->right),
			   err);
		for (uint64_t s = 0; s < steps; s++)
			right += t->right[s];
	}
	if (rc != RC_OK)
		return rc;
	e->accuracy = (double)right / t->data->test.nitems;
	e->loss = t->at.loss_sum / t->data->train.nitems;
	t->at = (struct position){.epoch = t->at.epoch + 1};
	return RC_OK;
}

/* Within an epoch there is one where it was asked for, and at the end of an epoch if it was not. */
static void
checkpoint_if_due(struct trainer *t)
{
	uint64_t every = t->o->checkpoint_every;

	if (!t->hooks.checkpoint || t->at.step == t->shape.train_steps)
		return;
	if (every ? trainer_steps(t) % every == 0 : t->at.step == 0)
		t->hooks.checkpoint(t->hooks.arg, t);
}

/* Images that an epoch has used after so many steps. */
static uint64_t
images_after(const struct trainer *t, uint64_t steps)
{
	return steps < t->shape.train_steps ? steps * t->global : t->data->train.nitems;
}

/* The steps that are left of this epoch. */
static enum rc
train(struct trainer *t, struct epoch *e, struct err *err)
{
	uint64_t began = clock_now_ns(), images = images_after(t, t->at.step);
	enum rc rc = feed(t, err);

	while (rc == RC_OK && t->at.step < t->shape.train_steps) {
		rc = train_unit(t, e, err);
		if (rc != RC_OK)
			break;
		if (t->hooks.progress)
			t->hooks.progress(t->hooks.arg,
					  (double)t->at.step / (double)t->shape.train_steps);
		checkpoint_if_due(t);
	}
	e->seconds = (double)(clock_now_ns() - began) / 1e9;
	e->images_per_s = (double)(t->data->train.nitems - images) / e->seconds;
	return rc;
}

enum rc
trainer_epoch(struct trainer *t, struct epoch *out, struct err *err)
{
	struct epoch e = {0};
	enum rc rc = train(t, &e, err);

	if (rc == RC_OK)
		rc = test_unit(t, &e, err);
	if (rc == RC_OK) {
		checkpoint_if_due(t);
		*out = e;
	}
	return rc;
}

/* Device memory of rank 0. */
static enum rc
fetch(struct trainer *t, uint64_t addr, void *dst, uint64_t nbytes, struct err *err)
{
	return check(gpusim_memcpy_d2h(t->g, dst, t->replica[0].device, addr, nbytes), err);
}

enum rc
trainer_weights(struct trainer *t, float *params, struct err *err)
{
	return fetch(t, t->replica[0].params, params, t->shape.model->nparams * sizeof *params,
		     err);
}

static enum rc
fetch_vector(struct trainer *t, uint64_t addr, float **out, struct err *err)
{
	uint64_t n = t->shape.model->nparams;

	*out = alloc_zeroed(n, sizeof **out);
	if (!*out)
		return err_set(err, RC_NOMEM, "out of memory");
	return fetch(t, addr, *out, n * sizeof **out, err);
}

enum rc
trainer_state(struct trainer *t, struct checkpoint *out, struct err *err)
{
	const struct replica *r = &t->replica[0];
	struct checkpoint c = {.global_batch = t->global,
			       .steps_an_epoch = t->shape.train_steps,
			       .epoch = t->at.epoch,
			       .step = t->at.step,
			       .loss_sum = t->at.loss_sum,
			       .nparams = t->shape.model->nparams};
	enum rc rc = fetch_vector(t, r->params, &c.params, err);

	for (; c.nstate < CHECKPOINT_MAX_STATE && r->state[c.nstate] && rc == RC_OK; c.nstate++)
		rc = fetch_vector(t, r->state[c.nstate], &c.state[c.nstate], err);
	if (rc == RC_OK)
		rc = fetch(t, r->adam_step, &c.optimizer_steps, sizeof c.optimizer_steps, err);
	if (rc != RC_OK)
		checkpoint_fini(&c);
	else
		*out = c;
	return rc;
}
