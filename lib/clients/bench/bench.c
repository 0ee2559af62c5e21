/* A bench: at each size known input, the clock, known output. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/api.h"
#include "base/clock.h"
#include "base/must.h"
#include "bench/bench.h"
#include "coll/plan.h"
#include "coll/shape.h"
#include "coll/tune.h"
#include "mem/dtype.h"

#define BENCH_BATCHES 5
#define ENOUGH	      (100 * NS_PER_MS) /* no further run or call after this time */
#define CALLS	      15
#define PATTERN	      0x3c /* rewriting fills the input with it: a small finite number in each type */
#define UNWRITTEN     0xff /* fills output beforehand: no type's right result */

struct bench {
	struct bench_config cfg;
	struct gpusim_comm *comm;
	struct gpusim_collective c; /* the current operation */
	struct bench_data data;
	struct gpusim_addr *base[BENCH_NPLACES]; /* buffers of max_bytes by rank */
	struct gpusim_addr *send, *recv;	 /* those of the operation at hand */
	void *scalar;				 /* by rank, of premulsum */
	uint64_t max_bytes;
	int recoveries;
};

/* Wrong elements of one operation: the number of ranks, and the first element of the first rank. */
struct bench_wrong {
	bool any;
	uint32_t nranks, rank;
	uint64_t elem;
};

/* ---- buffers */

static void
free_buffers(struct bench *b)
{
	for (int p = 0; p < BENCH_NPLACES; p++)
		for (uint32_t r = 0; b->base[p] && r < gpusim_comm_count(b->comm); r++) {
			if (b->base[p][r].addr)
				gpusim_free(b->cfg.g, gpusim_comm_device(b->comm, r),
					    b->base[p][r]);
			b->base[p][r].addr = 0;
		}
}

static enum rc
make_buffers(struct bench *b, uint64_t nbytes, struct err *err)
{
	enum rc rc = RC_OK;

	for (int p = 0; p < BENCH_NPLACES; p++)
		for (uint32_t r = 0; rc == RC_OK && r < gpusim_comm_count(b->comm); r++)
			rc = api(gpusim_malloc(b->cfg.g, gpusim_comm_device(b->comm, r),
					       nbytes ? nbytes : 1, GPUSIM_LEASE, &b->base[p][r]),
				 err);
	if (rc != RC_OK)
		free_buffers(b);
	return rc;
}

/* Allocate buffers of max_bytes, or as large as fits. */
static enum rc
fit_buffers(struct bench *b, struct err *err)
{
	uint64_t fits = b->max_bytes;
	enum rc rc = make_buffers(b, fits, err);

	while (rc == RC_NOMEM && b->cfg.fits && fits / 2 >= b->cfg.min_bytes && fits > 1) {
		fits /= 2;
		rc = make_buffers(b, fits, err);
	}
	if (rc == RC_OK) {
		b->max_bytes = fits;
		*err = (struct err){0};
	}
	return rc;
}

/* What a rank reads and writes. Of sendrecv: it sends to the next rank and receives from the one before. */
static struct shape
bench_shape(const struct bench *b, uint32_t rank)
{
	if (b->c.coll == GPUSIM_SEND)
		return (struct shape){.in = b->c.nelem, .out = b->c.nelem};
	return shape_of(b->c.coll, b->c.nelem, gpusim_comm_count(b->comm), b->c.root, rank);
}

/* Set the addresses of the operation at hand, of c->nelem elements. */
static void
place(struct bench *b, enum bench_place where)
{
	uint64_t size = dtype_size(b->c.dtype);

	for (uint32_t r = 0; r < gpusim_comm_count(b->comm); r++) {
		struct shape s = bench_shape(b, r);
		struct gpusim_addr send = b->base[0][r], recv = b->base[1][r];

		if (where == BENCH_IN_PLACE) {
			send = gpusim_addr_add(recv, s.in_at * size);
			recv = gpusim_addr_add(recv, s.out_at * size);
		}
		b->send[r] = s.in ? send : (struct gpusim_addr){0};
		b->recv[r] = s.out ? recv : (struct gpusim_addr){0};
	}
	b->c.send = b->send;
	b->c.recv = b->recv;
}

/* Append the operation to a list. */
static void
bench_add(const struct bench *b, struct gpusim_ops *ops)
{
	uint32_t n = gpusim_comm_count(b->comm);
	struct gpusim_collective c = b->c;

	if (c.coll != GPUSIM_SEND)
		gpusim_ops_collective(ops, &c);
	for (uint32_t r = 0; b->c.coll == GPUSIM_SEND && r < n; r++) {
		c.rank = r;
		c.coll = GPUSIM_SEND;
		c.root = (r + 1) % n;
		c.send = &b->send[r];
		gpusim_ops_collective(ops, &c);
		c.coll = GPUSIM_RECV;
		c.root = (r + n - 1) % n;
		c.recv = &b->recv[r];
		gpusim_ops_collective(ops, &c);
	}
}

/* b->c, once. RC_RECOVERED: it recovered, so the time is not valid: its ranks changed. */
static enum rc
bench_collective(struct bench *b, struct err *err)
{
	struct gpusim_ops *ops = gpusim_ops_new(gpusim_comm_count(b->comm));
	enum rc rc;

	bench_add(b, ops);
	rc = api(gpusim_submit(b->comm, ops, GPUSIM_SYNC, NULL), err);
	gpusim_ops_free(ops);

	if (rc == RC_OK && *gpusim_note())
		return err_set(err, RC_RECOVERED, "%s", gpusim_note());
	return rc;
}

/* ---- results, before and after the clock */

static enum rc
give_input(struct bench *b, uint32_t rank, struct err *err)
{
	uint64_t total = bench_shape(b, rank).in, size = dtype_size(b->c.dtype), n;
	enum rc rc = RC_OK;

	for (uint64_t done = 0; done < total && rc == RC_OK; done += n) {
		n = total - done < b->data.most ? total - done : b->data.most;
		rc = api(gpusim_memcpy_h2d(b->cfg.g, gpusim_comm_device(b->comm, rank),
					   gpusim_addr_add(b->send[rank], done * size),
					   bench_data_get(&b->data, rank, done, n), n * size),
			 err);
	}
	return rc;
}

/* *first [out]: the first one, if there is any. */
static uint64_t
count_wrong(const char *got, const char *want, uint64_t nelem, size_t size, uint64_t *first)
{
	uint64_t n = 0;

	if (memcmp(got, want, nelem * size) == 0)
		return 0;
	for (uint64_t i = nelem; i-- > 0;)
		if (memcmp(got + i * size, want + i * size, size) != 0) {
			*first = i;
			n++;
		}
	return n;
}

static enum rc
check_source(struct bench *b, uint32_t rank, const struct shape_source *s, char *room,
	     struct bench_wrong *w, uint64_t *nwrong, struct err *err)
{
	size_t size = dtype_size(b->c.dtype);
	enum rc rc = RC_OK;
	uint64_t n, bad, first = 0;

	for (uint64_t done = 0; done < s->nelem && rc == RC_OK; done += n) {
		n = s->nelem - done < b->data.most ? s->nelem - done : b->data.most;
		rc = api(gpusim_memcpy_d2h(b->cfg.g, room, gpusim_comm_device(b->comm, rank),
					   gpusim_addr_add(b->recv[rank], (s->at + done) * size),
					   n * size),
			 err);
		if (rc != RC_OK)
			break;
		bad = count_wrong(room, bench_data_get(&b->data, s->rank, s->off + done, n), n,
				  size, &first);
		*nwrong += bad;
		if (bad && !w->any)
			*w = (struct bench_wrong){true, 0, rank, s->at + done + first};
	}
	return rc;
}

/* ---- the rank that corrupts data, if results are wrong */

static enum rc
lies(const struct bench *b, uint32_t rank, const char *what, uint64_t i, struct err *err)
{
	return err_set(err, RC_BADDATA,
		       "verify: rank %" PRIu32 " (device %016" PRIx64 ") lies: element %" PRIu64
		       " of its %s is wrong",
		       rank, gpusim_comm_device(b->comm, rank).id, i, what);
}

/* The first element of an input that is not what the rank was given. */
static enum rc
check_input(struct bench *b, uint32_t rank, char *room, struct err *err)
{
	uint64_t size = dtype_size(b->c.dtype), n;
	uint64_t total = bench_shape(b, rank).in;
	enum rc rc = RC_OK;

	for (uint64_t at = 0; at < total && rc == RC_OK; at += n) {
		const char *want;

		n = total - at < b->data.most ? total - at : b->data.most;
		rc = api(gpusim_memcpy_d2h(b->cfg.g, room, gpusim_comm_device(b->comm, rank),
					   gpusim_addr_add(b->send[rank], at * size), n * size),
			 err);
		want = bench_data_get(&b->data, rank, at, n);
		for (uint64_t i = 0; i < n && rc == RC_OK; i++)
			if (memcmp(room + i * size, want + i * size, size) != 0)
				rc = lies(b, rank, "input", at + i, err);
	}
	return rc;
}

/* RC_BADDATA, with a message that names the faulty rank if it can be found. */
static enum rc
bench_blame(struct bench *b, const struct bench_wrong *w, struct err *err)
{
	uint32_t n = gpusim_comm_count(b->comm);
	char *room = must_alloc(1, BENCH_PIECE);
	enum rc rc = RC_OK;

	/* Out of place the inputs are unchanged. */
	for (uint32_t r = 0; r < n && rc == RC_OK; r++)
		if (b->send[r].addr == b->base[0][r].addr)
			rc = check_input(b, r, room, err);
	free(room);
	if (rc != RC_OK)
		return rc;
	if (w->nranks == 1)
		return lies(b, w->rank, "result", w->elem, err);
	for (uint32_t r = 0; r < n && b->c.coll == GPUSIM_ALLREDUCE && b->c.deterministic; r++) {
		struct shape s = shape_of(GPUSIM_REDUCESCATTER, b->c.nelem, n, 0, r);

		if (b->send[r].addr == b->base[0][r].addr && w->elem >= s.out_at &&
		    w->elem < s.out_at + s.out)
			return lies(b, r, "part, which it reduced for all,", w->elem, err);
	}
	return err_set(err, RC_BADDATA,
		       "verify: element %" PRIu64 " of the results of %" PRIu32
		       " ranks is wrong: a rank lies about what it passes on",
		       w->elem, w->nranks);
}

/* ---- the check */

/* Compare every element of every rank's output; add the wrong ones to *nwrong. */
static enum rc
compare_output(struct bench *b, uint64_t *nwrong, struct err *err)
{
	struct bench_wrong w = {0};
	struct plan_args a = {.coll = b->c.coll,
			      .nranks = gpusim_comm_count(b->comm),
			      .root = b->c.root,
			      .nelem = b->c.nelem};
	struct shape_source s;
	char *room = must_alloc(1, BENCH_PIECE);
	enum rc rc = RC_OK;

	for (; a.rank < a.nranks && rc == RC_OK; a.rank++) {
		uint64_t before = *nwrong;

		if (b->c.coll == GPUSIM_SEND) {
			a.coll = GPUSIM_RECV;
			a.root = (a.rank + a.nranks - 1) % a.nranks;
		}

		for (uint32_t i = 0; rc == RC_OK && shape_source(&a, i, &s); i++)
			rc = check_source(b, a.rank, &s, room, &w, nwrong, err);
		w.nranks += *nwrong > before;
	}
	free(room);
	if (rc == RC_OK && w.nranks && b->cfg.verify)
		rc = bench_blame(b, &w, err);
	return rc;
}

/* Run once on known input and compare. */
static enum rc
check(struct bench *b, enum bench_place where, uint64_t *nwrong, struct err *err)
{
	uint64_t size = dtype_size(b->c.dtype);
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < gpusim_comm_count(b->comm) && rc == RC_OK; r++) {
		uint64_t out = bench_shape(b, r).out;

		if (where == BENCH_OUT_OF_PLACE && out)
			rc = api(gpusim_memset(b->cfg.g, gpusim_comm_device(b->comm, r), b->recv[r],
					       UNWRITTEN, out * size),
				 err);
		if (rc == RC_OK)
			rc = give_input(b, r, err);
	}
	if (rc == RC_OK)
		rc = bench_collective(b, err);
	return rc == RC_OK ? compare_output(b, nwrong, err) : rc;
}

/* ---- the clock */

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

/* Time the operation b->c in the devices, at the slowest rank. A graph repeats it cfg.iters times, in up to
 * BENCH_BATCHES runs. The time that ranks wait for each other at the operation itself is part of it. */
static enum rc
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

/* Time one call of it, from the client: to the coordinator, the devices and back. */
static enum rc
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

/* ---- a size */

static enum rc
run_place(struct bench *b, enum bench_place where, uint64_t nbytes, struct bench_result *out,
	  struct err *err)
{
	struct bench_result r = {.ran = true};
	enum rc rc;

	place(b, where);
	rc = check(b, where, &r.nwrong, err);
	if (rc == RC_OK && where == BENCH_OUT_OF_PLACE)
		rc = bench_latency(b, &r.client, err);
	if (rc == RC_OK)
		rc = bench_time(b, &r.time, err);
	if (rc == RC_OK)
		/* Out of place, input and output are still those of the timed operations; in place, or
		 * after rewriting, the input is gone, so one more operation on known input is compared. */
		rc = where == BENCH_OUT_OF_PLACE && !b->cfg.rewrite
			 ? compare_output(b, &r.nwrong, err)
			 : check(b, where, &r.nwrong, err);
	if (rc != RC_OK)
		return rc;
	r.algbw = r.time.p50_us > 0 ? (double)nbytes / 1e3 / r.time.p50_us : 0;
	if (b->cfg.baseline)
		r.ratio = baseline_ratio(b->cfg.baseline, nbytes, where, r.time.p50_us);
	r.busbw = r.algbw * coll_bus_factor(b->c.coll, gpusim_comm_count(b->comm));
	*out = r;
	return RC_OK;
}

/* Check and time the algorithm b->c.algo at one size: bytes of the whole vector, cut down to a whole number
 * of parts. */
static enum rc
bench_size(struct bench *b, uint64_t nbytes, struct bench_row *row, struct err *err)
{
	uint64_t size = dtype_size(b->c.dtype);
	enum rc rc;

	*row = (struct bench_row){.count = nbytes / size};
	if (coll_has_parts(b->c.coll))
		row->count /= gpusim_comm_count(b->comm);
	if (b->c.coll == GPUSIM_BARRIER)
		row->count = 0;
	rc = shape_nelem(b->c.coll, row->count, gpusim_comm_count(b->comm), &b->c.nelem, err);
	row->nbytes = b->c.nelem * size;
	for (int p = 0; p < BENCH_NPLACES && rc == RC_OK; p++)
		if (p == BENCH_OUT_OF_PLACE ||
		    (b->c.coll != GPUSIM_ALLTOALL && b->c.coll != GPUSIM_SEND))
			rc = run_place(b, (enum bench_place)p, row->nbytes, &row->result[p], err);
	return rc;
}

/* After the loss of a rank: repeat the size with the remaining ranks and buffers, if the caller agrees. */
static enum rc
go_on(struct bench *b, enum rc rc, struct err *err)
{
	uint32_t *was = must_alloc(gpusim_comm_count(b->comm), sizeof *was);

	if (b->cfg.recover && b->recoveries < BENCH_RECOVERIES_MAX) {
		rc = b->cfg.recover(b->cfg.arg, b->cfg.comm, was, rc, err);
		b->comm = *b->cfg.comm; /* a new handle even where it did not recover */
	}
	if (rc == RC_OK) {
		b->recoveries++;
		for (uint32_t r = 0; r < gpusim_comm_count(b->comm); r++)
			for (int p = 0; p < BENCH_NPLACES; p++)
				b->base[p][r] = b->base[p][was[r]];
		if (coll_has_root(b->c.coll) && b->c.root >= gpusim_comm_count(b->comm))
			rc = err_set(err, RC_ABORTED, "the root, rank %" PRIu32 ", is lost",
				     b->c.root);
	}
	if (rc == RC_OK && b->data.nranks != gpusim_comm_count(b->comm)) {
		bench_data_fini(&b->data);
		b->data.nranks = gpusim_comm_count(b->comm);
		b->data.filled = 0;
		bench_data_init(&b->data);
	}
	free(was);
	return rc;
}

/* One size, until no rank is lost meanwhile. */
static enum rc
run_size(struct bench *b, uint64_t nbytes, struct bench_row *row, struct err *err)
{
	enum rc rc = bench_size(b, nbytes, row, err);

	while (rc != RC_OK) {
		if (rc == RC_BADDATA && b->cfg.verify)
			return rc;
		if (go_on(b, rc, err) != RC_OK)
			return err->rc;
		rc = bench_size(b, nbytes, row, err);
	}
	return rc;
}

/* The size after nbytes; 0: there is none. */
static uint64_t
bench_next(const struct bench *b, uint64_t nbytes)
{
	uint64_t next;

	if (b->c.coll == GPUSIM_BARRIER || nbytes > UINT64_MAX / b->cfg.factor)
		return 0;
	next = nbytes ? nbytes * b->cfg.factor : 1;
	return next <= b->max_bytes ? next : 0;
}

enum rc
bench_run(struct bench *b, void (*take)(void *arg, const struct bench_row *row), void *arg,
	  struct bench_summary *out, struct err *err)
{
	struct bench_summary sum = {0};
	uint64_t nresults = 0, nbytes = b->cfg.min_bytes;
	struct bench_row row;

	do {
		if (run_size(b, nbytes, &row, err) != RC_OK)
			return err->rc;
		take(arg, &row);
		if (nresults == 0) {
			sum.client = row.result[BENCH_OUT_OF_PLACE].client;
			sum.client_nbytes = row.nbytes;
		}
		for (int p = 0; p < BENCH_NPLACES; p++) {
			const struct bench_result *r = &row.result[p];

			sum.nwrong += r->nwrong;
			sum.avg_busbw += r->busbw;
			nresults += r->ran;
			if (r->ratio > sum.worst)
				sum.worst = r->ratio;
		}
	} while ((nbytes = bench_next(b, nbytes)) != 0);
	if (nresults)
		sum.avg_busbw /= (double)nresults;
	*out = sum;
	return RC_OK;
}

/* ---- the fastest algorithm */

/* The fastest at one size. An algorithm over peer memory is not a candidate if the ranks do not share
 * memory. */
static enum rc
find_winner(struct bench *b, uint64_t nbytes, const char **algo, struct err *err)
{
	double best = 0;

	*algo = NULL;
	for (const struct plan_algo *row = plan_algos; row->name; row++) {
		const struct cost_algo *cost = cost_find(b->c.coll, row->name);
		struct bench_row out;
		enum rc rc;

		if (row->coll != b->c.coll || (cost && cost->slow))
			continue;
		b->c.algo = row->name;
		rc = bench_size(b, nbytes, &out, err);
		if (rc == RC_INVAL && cost && cost->shared)
			continue;
		if (rc != RC_OK)
			return err_prefix(err, "%s %s", coll_name(b->c.coll), row->name);
		if (out.result[0].nwrong)
			return err_set(err, RC_FAILED, "%s %s: %" PRIu64 " wrong elements",
				       coll_name(b->c.coll), row->name, out.result[0].nwrong);
		if (!*algo || out.result[0].time.p50_us < best) {
			best = out.result[0].time.p50_us;
			*algo = row->name;
		}
	}
	return RC_OK;
}

enum rc
bench_tune(struct bench *b, void (*take)(void *arg, const struct bench_rule *rule), void *arg,
	   struct err *err)
{
	struct bench_rule rule = {.max_bytes = UINT64_MAX};
	uint64_t nbytes = b->cfg.min_bytes;
	const char *algo;

	do {
		if (find_winner(b, nbytes, &algo, err) != RC_OK)
			return err->rc;
		if (rule.algo && rule.algo != algo) {
			rule.max_bytes = nbytes - 1;
			take(arg, &rule);
			rule = (struct bench_rule){.min_bytes = nbytes, .max_bytes = UINT64_MAX};
		}
		rule.algo = algo;
	} while ((nbytes = bench_next(b, nbytes)) != 0);
	if (rule.algo)
		take(arg, &rule);
	return RC_OK;
}

bool
bench_has_choice(enum gpusim_coll coll)
{
	int n = 0;

	for (const struct cost_algo *row = cost_algos; row->name; row++)
		n += row->coll == coll && !row->slow && !row->shared;
	return n > 1;
}

/* ---- from beginning to end */

/* By rank, as elements. */
static void *
factors(const struct gpusim_collective *c, uint32_t n)
{
	size_t size = dtype_size(c->dtype);
	char *v = must_alloc(n, size);

	for (uint32_t r = 0; r < n; r++)
		number_put(c->dtype, v + r * size, bench_factor(c->dtype, r));
	return v;
}

enum rc
bench_open(const struct bench_config *cfg, struct bench **out, struct err *err)
{
	struct bench *b = must_alloc(1, sizeof *b);
	uint32_t n = gpusim_comm_count(*cfg->comm);
	enum rc rc;

	b->cfg = *cfg;
	b->comm = *cfg->comm;
	b->c = cfg->c;
	b->max_bytes = cfg->max_bytes;
	b->base[0] = must_alloc(n, sizeof *b->base[0]);
	b->base[1] = must_alloc(n, sizeof *b->base[1]);
	b->send = must_alloc(n, sizeof *b->send);
	b->recv = must_alloc(n, sizeof *b->recv);
	b->data =
	    (struct bench_data){b->c.coll, b->c.dtype, b->c.redop, n, b->c.root, NULL, 0, 0, 0};
	b->c.scalar = b->scalar = factors(&b->c, n);
	bench_data_init(&b->data);
	rc = fit_buffers(b, err);
	if (rc == RC_OK)
		*out = b;
	else
		bench_close(b, rc);
	return rc;
}

uint64_t
bench_max_bytes(const struct bench *b)
{
	return b->max_bytes;
}

void
bench_close(struct bench *b, enum rc rc)
{
	if (!b)
		return;
	if (rc == RC_OK || rc == RC_FAILED)
		free_buffers(b);
	bench_data_fini(&b->data);
	free(b->base[0]);
	free(b->base[1]);
	free(b->send);
	free(b->recv);
	free(b->scalar);
	free(b);
}
