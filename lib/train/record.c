/* The graphs: a training step and a test batch, of every rank. */
#include "train/trainer_impl.h"

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
	uint64_t rows = share(t->global, rank, t->comm.nranks);

	return (struct batch){.first = moving ? 0 : t->full_steps * rows,
			      .rows = moving ? rows : share(t->rest, rank, t->comm.nranks),
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
	uint64_t global = moving ? t->global : t->rest;
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

enum rc
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

void
forget_graphs(struct trainer *t)
{
	uint64_t *const graphs[] = {&t->train, &t->train_rest, &t->test, &t->test_rest};

	for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++) {
		if (*graphs[i])
			(void)gpusim_graph_destroy(t->g, t->comm.id, *graphs[i]);
		*graphs[i] = 0;
	}
}
