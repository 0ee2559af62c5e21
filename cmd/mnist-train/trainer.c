#include "trainer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "nn/rng.h"
#include "replica.h"

#define TEST_BATCH	  256
#define SLICES_AN_EPOCH	  50	       /* steps of the progress bar */
#define RESIDENT_MAX	  (1ull << 30) /* bytes of images on all devices of a cluster of our own */
#define LAUNCH_TIMEOUT_MS 3600000      /* devices that are stuck are found out long before */

struct trainer {
	struct gpusim *g;
	const struct options *o;
	const struct dataset *data;
	struct shape shape;
	struct gpusim_comm comm;
	struct replica *replica;    /* by rank */
	uint64_t *addrs;	    /* by rank, of one collective */
	struct gpusim_times *times; /* by rank, of one launch */
	uint64_t train, train_rest; /* graphs; 0: not needed */
	uint64_t test, test_rest;
	uint64_t full_steps, rest; /* whole batches of an epoch; images left over */
	uint64_t full_tests;	   /* whole test batches of every device */
	uint32_t *order;
	uint32_t *mine;	  /* of one device: which of its images, in the order of use */
	uint8_t *labels;  /* theirs */
	uint8_t *staging; /* and the images themselves, if they are not resident; else NULL */
	float *losses;
	uint64_t *right;
};

/* gpusim's rc and sentence as ours. */
static enum rc
check(enum gpusim_rc rc, struct err *err)
{
	return rc == GPUSIM_OK ? RC_OK : err_set(err, (enum rc)rc, "%s", gpusim_error());
}

static uint64_t
share(uint64_t n, uint32_t rank, uint32_t nranks)
{
	uint32_t begin, end;

	dataset_share((uint32_t)n, rank, nranks, &begin, &end);
	return end - begin;
}

static struct shape
make_shape(const struct options *o, const struct dataset *data, uint32_t n, bool resident)
{
	uint64_t global = (uint64_t)o->batch * n, items = data->train.nitems;
	uint64_t steps = items / global, rest = items % global;
	struct shape s = {.model = &o->model,
			  .max_rows = o->batch > TEST_BATCH ? o->batch : TEST_BATCH,
			  .train_items = steps * o->batch + (rest + n - 1) / n,
			  .train_steps = steps + (rest > 0),
			  .test_items = (data->test.nitems + n - 1) / n,
			  .optimizer = o->optimizer};

	/* Every device tests the same number of whole batches, then what is left of its share. */
	s.held = resident ? items : s.train_items;
	s.test_steps = data->test.nitems / n / TEST_BATCH + 1;
	return s;
}

uint64_t
trainer_bytes(const struct options *o, const struct dataset *data, uint32_t ndevices)
{
	uint64_t images = (uint64_t)data->train.nitems * o->model.size[0];
	struct shape s = make_shape(o, data, ndevices, images <= RESIDENT_MAX / ndevices);

	return replica_bytes(&s);
}

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

/* Whether every device has all training images, or gets those of an epoch with their order. */
static bool
resident(const struct trainer *t)
{
	return t->shape.held == t->data->train.nitems;
}

static void
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
		/* Parameters, gradients, optimizer state, step count: they lie together. */
		rc = check(gpusim_memset(t->g, device, base, 0, t->replica[r].x - base), err);
	}
	return rc;
}

/* With all training images, or where there is no memory for them with those of an epoch. */
static enum rc
place(struct trainer *t, struct err *err)
{
	enum rc rc = place_replicas(t, err);

	if (rc == RC_NOMEM && t->comm.nranks > 1) {
		give_back(t);
		t->shape = make_shape(t->o, t->data, t->comm.nranks, false);
		rc = place_replicas(t, err);
	}
	if (rc == RC_OK && !resident(t) &&
	    !(t->staging = alloc_zeroed(t->shape.train_items, t->shape.model->size[0])))
		rc = err_set(err, RC_NOMEM, "out of memory");
	return rc;
}

/* The weights go to rank 0, and from there to all. */
static enum rc
init_weights(struct trainer *t, struct err *err)
{
	const struct model *m = t->shape.model;
	float *params = alloc_zeroed(m->nparams, sizeof *params);
	struct gpusim_collective c = {.coll = GPUSIM_BROADCAST,
				      .dtype = GPUSIM_F32,
				      .nelem = m->nparams,
				      .send = t->addrs,
				      .recv = t->addrs};
	enum rc rc;

	if (!params)
		return err_set(err, RC_NOMEM, "out of memory");
	model_init(m, t->o->seed, params);
	for (uint32_t r = 0; r < t->comm.nranks; r++)
		t->addrs[r] = t->replica[r].params;
	rc = check(gpusim_memcpy_h2d(t->g, t->replica[0].device, t->addrs[0], params,
				     m->nparams * sizeof *params),
		   err);
	if (rc == RC_OK)
		rc = check(gpusim_collective(t->g, &t->comm, &c, GPUSIM_WAIT), err);
	free(params);
	return rc;
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

static enum rc
make_graph(struct trainer *t, struct gpusim_ops *o, uint64_t *graph, struct err *err)
{
	enum rc rc = check(gpusim_graph_create(t->g, t->comm.id, o, graph), err);

	gpusim_ops_free(o);
	return rc;
}

/* What a rank has of a global batch: a whole part, moving, or of the rest at the end of an epoch.
 */
static struct batch
train_batch(const struct trainer *t, bool moving, uint32_t rank)
{
	return (struct batch){.first = moving ? 0 : t->full_steps * t->o->batch,
			      .rows = moving ? t->o->batch : share(t->rest, rank, t->comm.nranks),
			      .step = moving ? 0 : t->full_steps,
			      .moving = moving};
}

/*
 * Sum a bucket's gradients over the ranks. All sums of a list are on one stream, and so in one
 * order on every device: behind backward, or beside it when there are several buckets.
 */
static void
reduce_bucket(struct trainer *t, struct gpusim_ops *o, const struct model_bucket *bucket,
	      unsigned number, uint32_t stream)
{
	struct gpusim_collective c = {.coll = GPUSIM_ALLREDUCE,
				      .dtype = GPUSIM_F32,
				      .op = GPUSIM_SUM,
				      .algo = t->o->algo,
				      .nelem = bucket->count,
				      .send = t->addrs,
				      .recv = t->addrs,
				      .stream = stream};

	for (uint32_t r = 0; r < t->comm.nranks; r++) {
		t->addrs[r] = t->replica[r].grads + bucket->first * sizeof(float);
		if (stream != STREAM_COMPUTE)
			replica_join(o, r, number, STREAM_COMPUTE, stream);
	}
	gpusim_ops_collective(o, &c);
}

/* Append backward with the sums of the gradients. */
static void
backward(struct trainer *t, struct gpusim_ops *o, bool moving)
{
	struct model_bucket bucket[MODEL_MAX_SIZES];
	unsigned n = model_buckets(t->shape.model, t->o->bucket_bytes, bucket), b = 0;
	uint32_t stream = n > 1 ? STREAM_COMM : STREAM_COMPUTE;

	for (unsigned l = t->shape.model->nlayers; l-- > 0;) {
		for (uint32_t r = 0; r < t->comm.nranks; r++) {
			struct batch of_rank = train_batch(t, moving, r);

			replica_gradients(o, r, &t->replica[r], &t->shape, &of_rank, l);
		}
		if (bucket[b].layer == l) {
			reduce_bucket(t, o, &bucket[b], b, stream);
			b++;
		}
		for (uint32_t r = 0; l > 0 && r < t->comm.nranks; r++) {
			struct batch of_rank = train_batch(t, moving, r);

			replica_propagate(o, r, &t->replica[r], &t->shape, &of_rank, l);
		}
	}
	for (uint32_t r = 0; stream != STREAM_COMPUTE && r < t->comm.nranks; r++)
		replica_join(o, r, n, stream, STREAM_COMPUTE);
}

/* A training step: a whole global batch, moving, or the rest at the end of an epoch. */
static enum rc
record_train(struct trainer *t, bool moving, uint64_t *graph, struct err *err)
{
	uint32_t n = t->comm.nranks;
	uint64_t global = moving ? (uint64_t)t->o->batch * n : t->rest;
	struct gpusim_ops *o = gpusim_ops_new(n);

	for (uint32_t r = 0; r < n; r++) {
		struct batch b = train_batch(t, moving, r);

		/* The sum over the devices is the mean over the batch. */
		replica_forward(o, r, &t->replica[r], &t->shape, &b, 1 / (double)global);
	}
	backward(t, o, moving);
	for (uint32_t r = 0; r < n; r++)
		replica_update(o, r, &t->replica[r], &t->shape, t->o);
	return make_graph(t, o, graph, err);
}

static enum rc
record_test(struct trainer *t, bool moving, uint64_t *graph, struct err *err)
{
	uint32_t n = t->comm.nranks;
	struct gpusim_ops *o = gpusim_ops_new(n);
	uint64_t done = t->full_tests * TEST_BATCH;

	for (uint32_t r = 0; r < n; r++) {
		struct batch b = {.first = moving ? 0 : done,
				  .rows = moving ? TEST_BATCH
						 : share(t->data->test.nitems, r, n) - done,
				  .step = moving ? 0 : t->full_tests,
				  .moving = moving};

		replica_test(o, r, &t->replica[r], &t->shape, &b);
	}
	return make_graph(t, o, graph, err);
}

static enum rc
record_graphs(struct trainer *t, struct err *err)
{
	enum rc rc = RC_OK;

	if (t->full_steps)
		rc = record_train(t, true, &t->train, err);
	if (rc == RC_OK && t->rest)
		rc = record_train(t, false, &t->train_rest, err);
	if (rc == RC_OK && t->full_tests)
		rc = record_test(t, true, &t->test, err);
	if (rc == RC_OK)
		rc = record_test(t, false, &t->test_rest, err);
	return rc;
}

static bool
alloc_host(struct trainer *t)
{
	const struct shape *s = &t->shape;

	t->replica = alloc_zeroed(t->comm.nranks, sizeof *t->replica);
	t->addrs = alloc_zeroed(t->comm.nranks, sizeof *t->addrs);
	t->times = alloc_zeroed(t->comm.nranks, sizeof *t->times);
	t->order = alloc_zeroed(t->data->train.nitems, sizeof *t->order);
	t->mine = alloc_zeroed(s->train_items, sizeof *t->mine);
	t->labels = alloc_zeroed(s->train_items, sizeof *t->labels);
	t->losses = alloc_zeroed(s->train_steps, sizeof *t->losses);
	t->right = alloc_zeroed(s->test_steps, sizeof *t->right);
	return t->replica && t->addrs && t->times && t->order && t->mine && t->labels &&
	       t->losses && t->right;
}

enum rc
trainer_new(struct gpusim *g, const struct options *o, const struct dataset *data,
	    uint32_t ndevices, struct trainer **out, struct err *err)
{
	const struct gpusim_comm_config config = {.life = GPUSIM_LEASE};
	struct trainer *t = calloc(1, sizeof *t);
	enum rc rc = t ? RC_OK : err_set(err, RC_NOMEM, "out of memory");

	if (rc != RC_OK)
		return rc;
	t->g = g;
	t->o = o;
	t->data = data;
	t->shape = make_shape(o, data, ndevices, true);
	t->full_steps = data->train.nitems / ((uint64_t)o->batch * ndevices);
	t->rest = data->train.nitems % ((uint64_t)o->batch * ndevices);
	t->full_tests = data->test.nitems / ndevices / TEST_BATCH;
	gpusim_set_timeout_ms(g, LAUNCH_TIMEOUT_MS);
	rc = check(gpusim_comm_init(g, ndevices, NULL, &config, &t->comm), err);
	if (rc == RC_OK && !alloc_host(t))
		rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK)
		rc = place(t, err);
	if (rc == RC_OK)
		rc = init_weights(t, err);
	if (rc == RC_OK)
		rc = upload_images(t, err);
	if (rc == RC_OK)
		rc = upload_tests(t, err);
	if (rc == RC_OK)
		rc = record_graphs(t, err);
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
	free(t->right);
	free(t);
}

/* Which images one device uses, batch after batch, and their labels. Returns how many. */
static uint64_t
deal(struct trainer *t, uint32_t rank)
{
	uint32_t n = t->comm.nranks, batch = t->o->batch;
	uint64_t k = 0;

	for (uint64_t s = 0; s < t->shape.train_steps; s++) {
		uint64_t first = s * batch * n;
		uint32_t begin = rank * batch, end = begin + batch;

		if (s == t->full_steps)
			dataset_share((uint32_t)t->rest, rank, n, &begin, &end);
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
		memcpy(t->staging + k * pixels, t->data->train.images + t->mine[k] * pixels,
		       pixels);
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

static enum rc
feed(struct trainer *t, uint32_t epoch, struct err *err)
{
	struct rng rng;
	enum rc rc = RC_OK;

	/* Far from the seeds of weights, which are the plain seed. */
	rng_init(&rng, t->o->seed + 0x9e3779b97f4a7c15u * (epoch + 1ull));
	rng_permutation(&rng, t->data->train.nitems, t->order);
	for (uint32_t r = 0; r < t->comm.nranks && rc == RC_OK; r++)
		rc = feed_device(t, r, err);
	return rc;
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

static enum rc
train(struct trainer *t, trainer_progress_fn progress, void *arg, struct epoch *e, struct err *err)
{
	uint64_t slice = progress ? t->full_steps / SLICES_AN_EPOCH + 1 : t->full_steps;
	enum rc rc = RC_OK;

	for (uint64_t s = 0, n; s < t->full_steps && rc == RC_OK; s += n) {
		n = t->full_steps - s < slice ? t->full_steps - s : slice;
		rc = launch(t, t->train, s, n, e, err);
		if (progress)
			progress(arg, (double)(s + n) / (double)t->full_steps);
	}
	if (rc == RC_OK && t->rest)
		rc = launch(t, t->train_rest, 0, 1, e, err);
	return rc;
}

/* The mean loss over the epoch's images. */
static enum rc
read_loss(struct trainer *t, struct epoch *e, struct err *err)
{
	double sum = 0;
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < t->comm.nranks && rc == RC_OK; r++) {
		rc = check(gpusim_memcpy_d2h(t->g, t->losses, t->replica[r].device,
					     t->replica[r].losses,
					     t->shape.train_steps * sizeof *t->losses),
			   err);
		for (uint64_t s = 0; s < t->shape.train_steps; s++)
			sum += t->losses[s];
	}
	e->loss = sum / t->data->train.nitems;
	return rc;
}

static enum rc
test(struct trainer *t, struct epoch *e, struct err *err)
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
	e->accuracy = (double)right / t->data->test.nitems;
	return rc;
}

enum rc
trainer_epoch(struct trainer *t, uint32_t epoch, trainer_progress_fn progress, void *arg,
	      struct epoch *out, struct err *err)
{
	struct epoch e = {0};
	uint64_t began = clock_now_ns();
	enum rc rc = feed(t, epoch, err);

	if (rc == RC_OK)
		rc = train(t, progress, arg, &e, err);
	e.seconds = (double)(clock_now_ns() - began) / 1e9;
	e.images_per_s = t->data->train.nitems / e.seconds;
	if (rc == RC_OK)
		rc = read_loss(t, &e, err);
	if (rc == RC_OK)
		rc = test(t, &e, err);
	if (rc == RC_OK)
		*out = e;
	return rc;
}

enum rc
trainer_weights(struct trainer *t, float *params, struct err *err)
{
	return check(gpusim_memcpy_d2h(t->g, params, t->replica[0].device, t->replica[0].params,
				       t->shape.model->nparams * sizeof *params),
		     err);
}
