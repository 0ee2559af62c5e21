/* The devices' memory, and what is put there before training: images, and what it goes on from. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/buf.h"
#include "trainer_impl.h"

#define RESIDENT_MAX (1ull << 30) /* bytes of images on all devices of a cluster of our own */

struct shape
make_shape(const struct options *o, const struct dataset *data, uint64_t global, uint32_t n,
	   bool resident)
{
	uint64_t items = data->train.nitems, steps = items / global, rest = items % global;
	uint64_t rows = ((global < items ? global : items) + n - 1) / n;
	struct shape s = {.model = &o->model,
			  .max_rows = rows > TEST_BATCH ? rows : TEST_BATCH,
			  .train_items = steps * rows + (rest + n - 1) / n,
			  .train_steps = steps + (rest > 0),
			  .test_items = (data->test.nitems + n - 1) / n,
			  .optimizer = o->optimizer};

	/* Every device tests the same number of whole batches, then what is left of its share. */
	s.held = resident ? items : s.train_items;
	s.test_steps = data->test.nitems / n / TEST_BATCH + 1;
	return s;
}

uint64_t
trainer_bytes(const struct options *o, const struct dataset *data, uint32_t n)
{
	uint64_t images = (uint64_t)data->train.nitems * o->model.size[0];
	uint64_t global = o->global ? o->global : (uint64_t)o->batch * n;
	struct shape s = make_shape(o, data, global, n, images <= RESIDENT_MAX / n);

	return replica_bytes(&s);
}

void
give_back(struct trainer *t)
{
	for (uint32_t r = 0; t->replica && r < t->comm.nranks; r++) {
		if (t->replica[r].base)
			gpusim_free(t->g, t->replica[r].device, t->replica[r].base);
		t->replica[r].base = 0;
	}
}

/* Allocate and lay out every device's buffers; zero what must begin as zero. */
static enum rc
place_replicas(struct trainer *t, struct err *err)
{
	uint64_t bytes = replica_bytes(&t->shape), base;
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < t->comm.nranks && rc == RC_OK; r++) {
		uint64_t device = t->comm.device[r].id;

		rc = check(gpusim_malloc(t->g, device, bytes, GPUSIM_LEASE, &base), err);
		if (rc != RC_OK)
			return rc;
		replica_place(&t->replica[r], &t->shape, device, base);
		/* Parameters, optimizer state, step count, gradients: they lie together. */
		rc = check(gpusim_memset(t->g, device, base, 0, t->replica[r].x - base), err);
	}
	return rc;
}

/* With all training images, or where there is no memory for them with those of an epoch. */
enum rc
place(struct trainer *t, struct err *err)
{
	uint32_t n = t->comm.nranks;
	enum rc rc;

	t->shape = make_shape(t->o, t->data, t->global, n, true);
	rc = place_replicas(t, err);
	if (rc == RC_NOMEM && n > 1) {
		give_back(t);
		t->shape = make_shape(t->o, t->data, t->global, n, false);
		rc = place_replicas(t, err);
	}
	if (rc == RC_OK && !resident(t) &&
	    !(t->staging = alloc_zeroed(t->shape.train_items, t->shape.model->size[0])))
		rc = err_set(err, RC_NOMEM, "out of memory");
	return rc;
}

/* Rank 0's bytes from its address on, to all. */
static enum rc
broadcast(struct trainer *t, uint64_t nbytes, struct err *err)
{
	const struct gpusim_collective c = {.coll = GPUSIM_BROADCAST,
					    .dtype = GPUSIM_U8,
					    .nelem = nbytes,
					    .send = t->addrs,
					    .recv = t->addrs};

	for (uint32_t r = 0; r < t->comm.nranks; r++)
		t->addrs[r] = t->replica[r].params;
	return check(gpusim_collective(t->g, &t->comm, &c, GPUSIM_WAIT), err);
}

enum rc
init_weights(struct trainer *t, struct err *err)
{
	const struct model *m = t->shape.model;
	uint64_t nbytes = m->nparams * sizeof(float);
	float *params = alloc_zeroed(m->nparams, sizeof *params);
	enum rc rc;

	if (!params)
		return err_set(err, RC_NOMEM, "out of memory");
	model_init(m, t->o->seed, params);
	rc = check(
	    gpusim_memcpy_h2d(t->g, t->replica[0].device, t->replica[0].params, params, nbytes),
	    err);
	if (rc == RC_OK)
		rc = broadcast(t, nbytes, err);
	free(params);
	return rc;
}

enum rc
load_weights(struct trainer *t, const struct checkpoint *c, struct err *err)
{
	const struct replica *r = &t->replica[0];
	uint64_t nbytes = c->nparams * sizeof(float);
	enum rc rc = check(gpusim_memcpy_h2d(t->g, r->device, r->params, c->params, nbytes), err);

	for (unsigned i = 0; i < c->nstate && rc == RC_OK; i++)
		rc = check(gpusim_memcpy_h2d(t->g, r->device, r->state[i], c->state[i], nbytes),
			   err);
	if (rc == RC_OK)
		rc = check(gpusim_memcpy_h2d(t->g, r->device, r->adam_step, &c->optimizer_steps,
					     sizeof c->optimizer_steps),
			   err);
	return rc == RC_OK ? broadcast(t, r->live_bytes, err) : rc;
}

/* Once, if they are resident. */
static enum rc
upload_images(struct trainer *t, struct err *err)
{
	const struct dataset_part *train = &t->data->train;
	enum rc rc = RC_OK;

	for (uint32_t r = 0; resident(t) && r < t->comm.nranks && rc == RC_OK; r++)
		rc =
		    check(gpusim_memcpy_h2d(t->g, t->replica[r].device, t->replica[r].images,
					    train->images, train->nitems * t->shape.model->size[0]),
			  err);
	return rc;
}

/* Each device gets its share of the test images once. */
static enum rc
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
					     test->images + begin * pixels, (end - begin) * pixels),
			   err);
		if (rc == RC_OK)
			rc = check(gpusim_memcpy_h2d(t->g, rep->device, rep->test_labels,
						     test->labels + begin, end - begin),
				   err);
	}
	return rc;
}

enum rc
upload_data(struct trainer *t, struct err *err)
{
	enum rc rc = upload_images(t, err);

	return rc == RC_OK ? upload_tests(t, err) : rc;
}
