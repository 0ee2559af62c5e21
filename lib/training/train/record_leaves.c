/*
 * The graphs of a deterministic step: each rank adds up its leaves, then the ranks' sums are added,
 * by any method.
 *
 * A step of many leaves is more operations than a graph may have. Then it is several graphs, and
 * the last one adds up and updates.
 */
#include "nn/launch.h"
#include "train/leaves.h"
#include "train/record_impl.h"
#include "train/verify.h"

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
	struct recorder rec = {t, gpusim_ops_new(gpusim_comm_count(t->comm))};
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

enum rc
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
