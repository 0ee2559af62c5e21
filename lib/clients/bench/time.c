/* The clock of a bench. */
#include <stdlib.h>

#include "base/api.h"
#include "base/clock.h"
#include "base/must.h"
#include "bench/bench_impl.h"
#include "coll/shape.h"
#include "mem/dtype.h"

#define ENOUGH	(100 * NS_PER_MS) /* no further run or call after this time */
#define CALLS	15
#define PATTERN 0x3c /* rewriting fills the input with it: a small finite number in each type */

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static struct bench_time
summary(double *us, size_t n)
{
	qsort(us, n, sizeof *us, compare);
	return (struct bench_time){.p50_us = us[(n - 1) / 2], .min_us = us[0]};
}

/* Fill the input of each rank, and wait until all ranks have; untimed. */
static void
add_rewrite(struct bench *b, struct gpusim_ops *ops)
{
	struct gpusim_collective barrier = {GPUSIM_COLLECTIVE_INIT, .coll = GPUSIM_BARRIER,
					    .stream = b->c.stream};
	uint32_t n = gpusim_comm_count(b->comm);

	gpusim_ops_timing(ops, GPUSIM_UNTIMED);
	for (uint32_t r = 0; r < n; r++) {
		uint64_t in = bench_shape(b, r).in;

		if (in)
			gpusim_ops_memset(ops, r, b->c.stream, b->send[r], PATTERN,
					  in * dtype_size(b->c.dtype));
	}
	gpusim_ops_collective(ops, &barrier);
	gpusim_ops_timing(ops, GPUSIM_TIMED);
}

static enum rc
launch(struct bench *b, struct gpusim_graph graph, uint64_t n, struct gpusim_times *times,
       struct err *err)
{
	return api(gpusim_graph_launch(b->comm, graph, 0, n, GPUSIM_SYNC, times), err);
}

static enum rc
run_batches(struct bench *b, struct gpusim_graph graph, struct bench_time *out, struct err *err)
{
	struct gpusim_times *times = must_alloc(gpusim_comm_count(b->comm), sizeof *times);
	double us[BENCH_BATCHES];
	uint64_t start;
	size_t n = 0;
	enum rc rc = RC_OK;

	if (b->cfg.warmup)
		rc = launch(b, graph, b->cfg.warmup, NULL, err);
	start = clock_now_ns();
	/* Each batch is one run of the graph: the time of a repetition at the slowest rank. */
	while (rc == RC_OK && n < BENCH_BATCHES && (n == 0 || clock_now_ns() - start < ENOUGH)) {
		uint64_t slowest = 0;

		rc = launch(b, graph, b->cfg.iters, times, err);
		for (uint32_t r = 0; rc == RC_OK && r < gpusim_comm_count(b->comm); r++)
			slowest = times[r].comm_ns > slowest ? times[r].comm_ns : slowest;
		us[n++] = (double)slowest / 1e3 / (double)b->cfg.iters;
	}
	free(times);
	if (rc == RC_OK)
		*out = summary(us, n);
	return rc;
}

enum rc
bench_time(struct bench *b, struct bench_time *out, struct err *err)
{
	struct gpusim_ops *ops = gpusim_ops_new(gpusim_comm_count(b->comm));
	struct gpusim_graph graph;
	enum rc rc;

	if (b->cfg.rewrite)
		add_rewrite(b, ops);
	bench_add(b, ops);
	rc = api(gpusim_graph_create(b->comm, ops, &graph), err);
	gpusim_ops_free(ops);
	if (rc != RC_OK)
		return rc;
	rc = run_batches(b, graph, out, err);
	if (rc == RC_OK)
		rc = api(gpusim_graph_destroy(b->comm, graph), err);
	return rc;
}

enum rc
bench_latency(struct bench *b, struct bench_time *out, struct err *err)
{
	uint64_t begin = clock_now_ns(), t = begin, now;
	double us[CALLS];
	size_t n = 0;
	enum rc rc = RC_OK;

	while (rc == RC_OK && n < CALLS && (n == 0 || t - begin < ENOUGH)) {
		rc = bench_collective(b, err);
		now = clock_now_ns();
		us[n++] = (double)(now - t) / 1e3;
		t = now;
	}
	if (rc == RC_OK)
		*out = summary(us, n);
	return rc;
}
