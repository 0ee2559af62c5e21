/* Records the graphs of every rank: a training step for each way to synchronise, and a test batch. */
#include "nn/launch.h"
#include "train/compress.h"
#include "train/leaves.h"
#include "train/trainer_impl.h"
#include "train/verify.h"

/* The target of emission. */
struct recorder {
	struct trainer *t;
	struct gpusim_ops *o;
	uint64_t sent; /* bytes of all ranks, for gradients or weights (compress_sent) */
};

static void
record_launch(void *arg, uint32_t rank, const char *kernel, const struct gpusim_arg *args,
	      size_t nargs)
{
	struct recorder *rec = arg;

	gpusim_ops_launch(rec->o, rank, STREAM_COMPUTE, kernel, args, nargs);
}

static void
record_allreduce(void *arg, enum gpusim_dtype type, uint64_t nelem, const uint64_t *addr)
{
	struct recorder *rec = arg;
	struct trainer *t = rec->t;
	const struct gpusim_collective c = {
	    GPUSIM_COLLECTIVE_INIT, .coll = GPUSIM_ALLREDUCE, .dtype = type,
	    .redop = GPUSIM_SUM,    .algo = t->o->algo,	      .nelem = nelem,
	    .send = t->addrs,	    .recv = t->addrs,	      .stream = STREAM_COMPUTE};

	for (uint32_t r = 0; r < gpusim_comm_count(t->comm); r++)
		t->addrs[r].addr = addr[r];
	gpusim_ops_collective(rec->o, &c);
}

/* Ranks that share a step sum their batch norms' statistics; the rank that holds the weights and
 * does not train adds zeros. With SYNC_LOCAL a step is each rank's own. */
static struct emit_sink
make_sink(struct recorder *rec)
{
	return (struct emit_sink){.arg = rec,
				  .launch = record_launch,
				  .allreduce =
				      rec->t->o->sync == SYNC_LOCAL ? NULL : record_allreduce};
}

/* Ends the list. */
static enum rc
make_graph(struct trainer *t, struct gpusim_ops *o, struct gpusim_graph *graph, struct err *err)
{
	enum rc rc = api(gpusim_graph_create(t->comm, o, graph), err);

	gpusim_ops_free(o);
	return rc;
}

/* All ranks' parts, as emission needs them. */
static struct emit_batch
emit_parts(struct trainer *t, uint64_t total)
{
	for (uint32_t r = 0; r < gpusim_comm_count(t->comm); r++)
		t->places[r] = t->replica[r].net;
	return (struct emit_batch){.nranks = gpusim_comm_count(t->comm),
				   .place = t->places,
				   .rows = t->rows,
				   .total = total};
}

/* ---- every rank trains, gradients are all-reduced */

/*
 * Sum a bucket's gradients over the ranks. All sums of a list are on one stream, and so in one
 * order on every device: after backward, or concurrent with it if there are several buckets. Returns
 * the bytes that are sent.
 */
static uint64_t
reduce_bucket(struct trainer *t, struct gpusim_ops *o, const struct net_bucket *bucket,
	      unsigned number, struct gpusim_stream stream)
{
	struct gpusim_collective c = {
	    GPUSIM_COLLECTIVE_INIT, .coll = GPUSIM_ALLREDUCE, .dtype = GPUSIM_F32,
	    .redop = GPUSIM_SUM,    .algo = t->o->algo,	      .nelem = bucket->count,
	    .send = t->addrs,	    .recv = t->addrs,	      .stream = stream};

	for (uint32_t r = 0; r < gpusim_comm_count(t->comm); r++) {
		t->addrs[r].addr = t->replica[r].net.grads + bucket->first * sizeof(float);
		if (stream.id != STREAM_COMPUTE.id)
			replica_join(o, r, number, STREAM_COMPUTE, stream);
	}
	gpusim_ops_label(o, stream, "reduce");
	gpusim_ops_collective(o, &c);
	return compress_sent(&c, gpusim_comm_count(t->comm));
}

/* Append backward with the sums of the gradients. */
static void
backward_reduced(struct recorder *rec, const struct emit_batch *b, const struct emit_sink *sink)
{
	struct trainer *t = rec->t;
	struct net_bucket bucket[NET_MAX_NODES];
	unsigned n = net_buckets(t->net, t->o->bucket_bytes, bucket), at = 0;
	struct gpusim_stream stream = n > 1 ? STREAM_COMM : STREAM_COMPUTE;

	for (uint32_t k = t->net->nnodes; k-- > 0;) {
		emit_gradients(t->net, b, k, sink);
		if (at < n && bucket[at].node == k) {
			rec->sent += reduce_bucket(t, rec->o, &bucket[at], at, stream);
			at++;
		}
		emit_propagate(t->net, b, k, sink);
	}
	for (uint32_t r = 0; stream.id != STREAM_COMPUTE.id && r < gpusim_comm_count(t->comm); r++)
		replica_join(rec->o, r, n, stream, STREAM_COMPUTE);
}

/* ---- less than the gradients is sent (compress.h) */

static void
record_collective(void *arg, const struct gpusim_collective *c)
{
	struct recorder *rec = arg;
	struct gpusim_collective own = *c;

	own.algo = c->coll == GPUSIM_ALLREDUCE ? rec->t->o->algo : NULL;
	own.stream = STREAM_COMPUTE;
	gpusim_ops_collective(rec->o, &own);
	rec->sent += compress_sent(c, gpusim_comm_count(rec->t->comm));
}

static struct compress_run
compress_by(struct recorder *rec, const struct emit_sink *sink)
{
	struct trainer *t = rec->t;

	return (struct compress_run){.task = t->task,
				     .replica = t->replica,
				     .nranks = gpusim_comm_count(t->comm),
				     .phase = t->phase,
				     .sink = sink,
				     .send = t->addrs,
				     .recv = t->totals,
				     .collective = record_collective,
				     .arg = rec};
}

/* ---- rank 0 holds the weights, the others send it their gradients */

/* Append bytes of one rank to another. */
static void
send_recv(struct recorder *rec, uint32_t from, uint64_t src, uint32_t to, uint64_t dst,
	  uint64_t nbytes)
{
	const struct gpusim_addr out = {src}, in = {dst};
	struct gpusim_collective c = {GPUSIM_COLLECTIVE_INIT, .coll = GPUSIM_SEND,
				      .dtype = GPUSIM_U8,     .nelem = nbytes,
				      .rank = from,	      .root = to,
				      .send = &out,	      .stream = STREAM_COMPUTE};

	gpusim_ops_collective(rec->o, &c);
	c.coll = GPUSIM_RECV;
	c.rank = to;
	c.root = from;
	c.send = NULL;
	c.recv = &in;
	gpusim_ops_collective(rec->o, &c);
}

/* Send gradients to rank 0, which adds them in the order of ranks. It already has the batch's statistics. */
static void
collect_gradients(struct recorder *rec, const struct emit_batch *b, const struct emit_sink *sink)
{
	const struct replica *to = &rec->t->replica[0];
	uint64_t n = rec->t->net->nparams;

	for (uint32_t r = 1; r < b->nranks; r++) {
		send_recv(rec, r, b->place[r].grads, 0, r == 1 ? to->net.grads : to->inbox,
			  n * sizeof(float));
		if (r > 1)
			LAUNCH(sink, 0, "axpy", U("y", to->net.grads), U("x", to->inbox),
			       U("n", n));
	}
}

/* Send the weights to all ranks; or all values that training changes, if another rank may have to
 * take over. */
static void
return_weights(struct recorder *rec)
{
	const struct trainer *t = rec->t;
	uint64_t nbytes =
	    recovers(t) ? t->replica[0].live_bytes : task_values(t->task) * sizeof(float);

	for (uint32_t r = 1; r < gpusim_comm_count(t->comm); r++)
		send_recv(rec, 0, t->replica[0].net.params, r, t->replica[r].net.params, nbytes);
}

/* ---- a step */

/* A rank that trains by itself and has no row of an epoch's last step has no statistics. Its
 * running statistics take the place of the batch's, so they do not change. */
static void
keep_statistics(const struct recorder *rec, uint32_t rank, const struct emit_sink *sink)
{
	const struct net *net = rec->t->net;
	const struct emit_place *p = &rec->t->replica[rank].net;
	uint64_t at = net->nparams * sizeof(float);

	if (net->nstats)
		LAUNCH(sink, rank, "copy", U("dst", p->grads + at), U("src", p->params + at),
		       U("n", net->nstats));
}

/* The optimizer's step. */
static void
update(struct recorder *rec, uint32_t rank, bool moving, const struct emit_sink *sink)
{
	const struct trainer *t = rec->t;
	const struct replica *r = &t->replica[rank];
	struct batch b = train_batch(t, moving, rank);
	struct emit_optimizer o = replica_optimizer(r, &t->shape, &b);

	compress_optimizer(t->task, &t->phase, &o);
	emit_update(t->net, rank, &r->net, &o, sink);
}

/* The rest of a step, after the losses. */
static void
finish_step(struct recorder *rec, const struct emit_batch *b, bool moving,
	    const struct emit_sink *sink)
{
	struct trainer *t = rec->t;
	struct compress_run compressed = compress_by(rec, sink);
	bool less = t->o->compress.kind && !t->phase.dense;

	gpusim_ops_label(rec->o, STREAM_COMPUTE, "B");
	if (t->o->sync == SYNC_ALLREDUCE && !less)
		backward_reduced(rec, b, sink);
	else
		emit_backward(t->net, b, sink);
	if (less || central(t))
		gpusim_ops_label(rec->o, STREAM_COMPUTE, "reduce");
	if (less)
		compress_reduce(&compressed);
	if (central(t))
		collect_gradients(rec, b, sink);
	gpusim_ops_label(rec->o, STREAM_COMPUTE, "step");
	for (uint32_t r = 0; t->o->sync == SYNC_LOCAL && r < b->nranks; r++)
		if (b->rows[r] == 0)
			keep_statistics(rec, r, sink);
	for (uint32_t r = 0; r < (central(t) ? 1 : b->nranks); r++)
		update(rec, r, moving, sink);
	if (central(t))
		return_weights(rec);
}

/* The gradient is of the mean: over the global batch, whose sum comes later; or over each rank's
 * own batch. */
static double
grad_scale(const struct trainer *t, uint64_t rows, uint64_t total)
{
	uint64_t n = t->o->sync == SYNC_LOCAL ? rows : total;

	return n ? 1 / (double)n : 0;
}

/* Record a training step: a whole global batch, moving, or the rest at the end of an epoch. */
static enum rc
record_train(struct trainer *t, bool moving, struct steps *steps, struct err *err)
{
	uint32_t n = gpusim_comm_count(t->comm);
	uint64_t global = moving ? t->global : t->rest;
	struct recorder rec = {t, gpusim_ops_new(n), 0};
	struct emit_sink sink = make_sink(&rec);
	struct emit_batch parts = emit_parts(t, global);
	enum rc rc;

	gpusim_ops_label(rec.o, STREAM_COMPUTE, "F");
	for (uint32_t r = 0; r < n; r++) {
		struct batch b = train_batch(t, moving, r);

		t->rows[r] = b.rows;
		t->targets[r] = replica_target(&t->replica[r], &b, grad_scale(t, b.rows, global));
		replica_load(&sink, r, &t->replica[r], &t->shape, &b);
	}
	emit_forward(t->net, &parts, EMIT_TRAIN, &sink);
	emit_loss(t->net, &parts, t->targets, &sink);
	finish_step(&rec, &parts, moving, &sink);
	rc = make_graph(t, rec.o, &steps->part[0], err);
	steps->nparts = rc == RC_OK;
	steps->sent = rec.sent;
	return rc;
}

/* ---- deterministic: each rank adds up its leaves, then the ranks' sums are added, by any method */

/* A step of many leaves is more operations than a graph may have. Then it is several graphs, and the
 * last one adds up and updates. */

/* Sum bucket after bucket over the ranks. The first bucket, of the last layers, also has the values
 * after the parameters. */
static void
reduce(struct recorder *rec)
{
	struct trainer *t = rec->t;
	struct net_bucket bucket[NET_MAX_NODES];
	unsigned n = net_buckets(t->net, t->o->bucket_bytes, bucket);
	struct gpusim_collective c = {GPUSIM_COLLECTIVE_INIT, .coll = GPUSIM_ALLREDUCE,
				      .dtype = GPUSIM_I64,    .redop = GPUSIM_SUM,
				      .algo = t->o->algo,     .send = t->addrs,
				      .recv = t->totals,      .stream = STREAM_COMPUTE};

	for (unsigned i = 0; i < n; i++) {
		c.nelem = bucket[i].count;
		if (i == 0)
			c.nelem = leaves_elements(t->task) - bucket[i].first;
		for (uint32_t r = 0; r < gpusim_comm_count(t->comm); r++) {
			uint64_t at = bucket[i].first * sizeof(int64_t);

			t->addrs[r].addr = t->replica[r].sums + at;
			t->totals[r].addr = t->replica[r].totals + at;
		}
		gpusim_ops_collective(rec->o, &c);
	}
}

/* Send all sums to rank 0, which has no sums of its own. */
static void
collect(struct recorder *rec, const struct emit_sink *sink)
{
	const struct trainer *t = rec->t;
	const struct replica *to = &t->replica[0];
	uint64_t n = leaves_elements(t->task);

	for (uint32_t r = 1; r < gpusim_comm_count(t->comm); r++) {
		send_recv(rec, r, t->replica[r].sums, 0, r == 1 ? to->sums : to->inbox,
			  n * sizeof(int64_t));
		if (r > 1)
			LAUNCH(sink, 0, "add", U("y", to->sums), U("a", to->sums),
			       U("b", to->inbox), U("n", n), U("dtype", GPUSIM_I64));
	}
}

/* Keep samples of a rank's sums, or of the totals. */
static void
keep_samples(const struct recorder *rec, uint32_t rank, uint64_t to, uint64_t of,
	     const struct emit_sink *sink)
{
	const struct replica *r = &rec->t->replica[rank];

	if (r->samples_of)
		LAUNCH(sink, rank, "gather", U("dst", to), U("src", of), U("index", r->samples_of),
		       U("n", VERIFY_SAMPLES), U("rows", leaves_elements(rec->t->task)),
		       U("cols", 1), U("dtype", GPUSIM_I64));
}

/* Keep a rank's inputs, to be compared afterwards. */
static void
keep_inputs(const struct recorder *rec, uint32_t rank, const struct emit_sink *sink)
{
	const struct replica *r = &rec->t->replica[rank];

	keep_samples(rec, rank, r->before, r->sums, sink);
	if (r->aside)
		LAUNCH(sink, rank, "copy", U("dst", r->aside), U("src", r->sums),
		       U("n", leaves_elements(rec->t->task)), U("dtype", GPUSIM_I64));
}

/* The rest of a step, when each rank has the sums of its leaves. */
static void
finish(struct recorder *rec, bool moving, const struct emit_sink *sink)
{
	struct trainer *t = rec->t;
	uint32_t holders = central(t) ? 1 : gpusim_comm_count(t->comm);

	for (uint32_t r = 0; r < gpusim_comm_count(t->comm); r++)
		keep_inputs(rec, r, sink);
	if (central(t))
		collect(rec, sink);
	else
		reduce(rec);
	for (uint32_t r = 0; r < holders; r++)
		keep_samples(rec, r, t->replica[r].after, t->replica[r].totals, sink);
	for (uint32_t r = 0; r < holders; r++) {
		struct batch b = train_batch(t, moving, r);

		leaves_take(sink, r, &t->replica[r], &t->shape, &b, moving ? t->global : t->rest);
		update(rec, r, moving, sink);
	}
	if (central(t))
		return_weights(rec);
}

/* Record some leaves of each rank; after the last leaves, the rest of the step. */
static enum rc
record_part(struct trainer *t, bool moving, struct leaves_range which, bool last,
	    struct gpusim_graph *graph, struct err *err)
{
	struct recorder rec = {t, gpusim_ops_new(gpusim_comm_count(t->comm)), 0};
	struct emit_sink sink = make_sink(&rec);

	for (uint32_t r = 0; r < gpusim_comm_count(t->comm); r++) {
		struct batch b = train_batch(t, moving, r);

		leaves_sum(&sink, r, &t->replica[r], &t->shape, &b, which);
	}
	if (last)
		finish(&rec, moving, &sink);
	return make_graph(t, rec.o, graph, err);
}

/* The most leaves that a rank has in a step. */
static uint64_t
most_leaves(const struct trainer *t, bool moving)
{
	uint64_t most = 0;

	for (uint32_t r = 0; r < gpusim_comm_count(t->comm); r++) {
		uint64_t n = leaves_count(train_batch(t, moving, r).rows, t->shape.leaf);

		most = n > most ? n : most;
	}
	return most;
}

static enum rc
record_leaves(struct trainer *t, bool moving, struct steps *steps, struct err *err)
{
	uint64_t each = leaves_each(&t->replica[0], &t->shape, gpusim_comm_count(t->comm));
	uint64_t n = most_leaves(t, moving);
	enum rc rc = RC_OK;

	if (n > each * MAX_PARTS)
		return err_set(err, RC_INVAL,
			       "--deterministic: %llu leaves of a step on one device are more "
			       "than %llu: see --leaf",
			       (unsigned long long)n, (unsigned long long)each * MAX_PARTS);
	for (uint64_t at = 0; at < n && rc == RC_OK; at += each) {
		struct leaves_range which = {at, at + each};

		rc =
		    record_part(t, moving, which, at + each >= n, &steps->part[steps->nparts], err);
		steps->nparts += rc == RC_OK;
	}
	return rc;
}

/* n lists, 0: too many, become the graphs of a step. */
static enum rc
make_graphs(struct trainer *t, struct gpusim_ops **lists, unsigned n, struct steps *steps,
	    struct err *err)
{
	enum rc rc = RC_OK;

	if (n == 0)
		return err_set(err, RC_INVAL,
			       "--micro: a step is more operations than %u graphs can have; fewer "
			       "microbatches or larger leaves make fewer",
			       MAX_PARTS);
	for (unsigned i = 0; i < n; i++) {
		if (rc != RC_OK) {
			gpusim_ops_free(lists[i]);
			continue;
		}
		rc = make_graph(t, lists[i], &steps->part[i], err);
		steps->nparts += rc == RC_OK;
	}
	return rc;
}

/* A step of a spread training. */
static enum rc
record_spread(struct trainer *t, bool moving, struct steps *steps, struct err *err)
{
	struct gpusim_ops *lists[MAX_PARTS];

	return make_graphs(t, lists, spread_step(t, moving, lists, MAX_PARTS), steps, err);
}

/* ---- the mean over the ranks, tests, and all graphs */

/* Record the mean over the ranks of all values that training changes; or DiLoCo's outer step. */
static enum rc
record_average(struct trainer *t, struct gpusim_graph *graph, struct err *err)
{
	struct recorder rec = {t, gpusim_ops_new(gpusim_comm_count(t->comm)), 0};
	struct emit_sink sink = make_sink(&rec);
	struct compress_run run = compress_by(&rec, &sink);
	struct gpusim_collective c = {
	    GPUSIM_COLLECTIVE_INIT,  .coll = GPUSIM_ALLREDUCE,
	    .dtype = GPUSIM_F32,     .redop = GPUSIM_AVG,
	    .algo = t->o->algo,	     .nelem = replica_floats(&t->replica[0]),
	    .send = t->addrs,	     .recv = t->addrs,
	    .stream = STREAM_COMPUTE};

	for (uint32_t r = 0; r < gpusim_comm_count(t->comm); r++)
		t->addrs[r].addr = t->replica[r].net.params;
	if (t->o->outer == OUTER_NESTEROV) {
		compress_outer(&run);
	} else {
		gpusim_ops_collective(rec.o, &c);
		rec.sent = compress_sent(&c, gpusim_comm_count(t->comm));
	}
	t->average_sent = rec.sent;
	return make_graph(t, rec.o, graph, err);
}

/* Such a batch on each rank. */
static void
emit_test(struct recorder *rec, const struct emit_sink *sink, unsigned part, uint64_t number,
	  bool moving)
{
	struct trainer *t = rec->t;
	struct emit_batch parts = emit_parts(t, 0);

	parts.single = t->shape.leaf;
	for (uint32_t r = 0; r < parts.nranks; r++) {
		struct batch b = test_batch(t, part, number, moving, r);

		t->rows[r] = b.rows;
		t->targets[r] = replica_test_target(&t->replica[r], &b, part);
		replica_load_tests(sink, r, &t->replica[r], &t->shape, &b, part);
	}
	emit_forward(t->net, &parts, EMIT_EVAL, sink);
	emit_count(t->net, &parts, t->targets, sink);
}

static enum rc
record_test(struct trainer *t, unsigned part, bool moving, struct steps *steps, struct err *err)
{
	struct gpusim_ops *lists[MAX_PARTS];
	struct recorder rec = {.t = t};
	const struct tests *tests = &t->tests[part];
	struct emit_sink sink = make_sink(&rec);

	if (t->spread)
		return make_graphs(t, lists, spread_test(t, part, moving, lists, MAX_PARTS), steps,
				   err);
	lists[0] = rec.o = gpusim_ops_new(gpusim_comm_count(t->comm));
	for (uint64_t k = 0; k < (moving ? 1 : tests->more); k++)
		emit_test(&rec, &sink, part, moving ? 0 : tests->full + k, moving);
	return make_graphs(t, lists, 1, steps, err);
}

enum rc
record_graphs(struct trainer *t, struct err *err)
{
	enum rc (*const record_steps)(struct trainer * t, bool moving, struct steps *steps,
				      struct err *err) = t->spread	 ? record_spread
							 : t->shape.leaf ? record_leaves
									 : record_train;
	enum rc rc = RC_OK;

	t->phase = compress_phase(t->task, t->shape.train_steps, steps_done(t));
	if (t->full_steps)
		rc = record_steps(t, true, &t->train, err);
	if (rc == RC_OK && t->rest)
		rc = record_steps(t, false, &t->train_rest, err);
	if (rc == RC_OK && t->o->sync == SYNC_LOCAL)
		rc = record_average(t, &t->average, err);
	for (unsigned p = 0; p < NTESTS && rc == RC_OK; p++) {
		if (tested_part(t->data, p)->nitems == 0)
			continue;
		if (t->tests[p].full)
			rc = record_test(t, p, true, &t->tests[p].whole, err);
		if (rc == RC_OK && t->tests[p].more)
			rc = record_test(t, p, false, &t->tests[p].rest, err);
	}
	return rc;
}

static void
forget_steps(struct trainer *t, struct steps *steps)
{
	while (steps->nparts)
		(void)gpusim_graph_destroy(t->comm, steps->part[--steps->nparts]);
}

void
forget_graphs(struct trainer *t)
{
	forget_steps(t, &t->train);
	forget_steps(t, &t->train_rest);
	for (unsigned p = 0; p < NTESTS; p++) {
		forget_steps(t, &t->tests[p].whole);
		forget_steps(t, &t->tests[p].rest);
	}
	if (t->average.id)
		(void)gpusim_graph_destroy(t->comm, t->average);
	t->average.id = 0;
}
