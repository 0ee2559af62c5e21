/* A training step: numbers worked out by hand, and how they change with each kind of parallelism. */
#include <math.h>
#include <string.h>

#include "cluster/predict.h"
#include "step/step_impl.h"
#include "tap.h"

#define G 1073741824.0 /* 2^30 */
#define M 1048576.0    /* 2^20 */

static struct cluster c;
static struct err err;

/* A GPU of 5e11 operations and 1e15 bytes a second. */
static const char hardware[] =
    "gpu = h100\nhosts = 64\nnics = 8 x 400Gb/s ib\ncompute = 1TFLOP/s\n"
    "matrix share = 0.5\nmemory bandwidth = 1000000GB/s\nmemory = 80GB\n";

/* One layer; all sizes are 1024. */
static const struct step_ask one = {.layers = 1,
				    .hidden = 1024,
				    .heads = 16,
				    .seq = 1024,
				    .vocab = 1024,
				    .batch = 1,
				    .micro = 1,
				    .tp = 1,
				    .pp = 1,
				    .dp = 1,
				    .interleave = 1,
				    .schedule = "1f1b"};

/* Seconds of 2^30 `ops` operations in products whose results are 2^20 `bytes`. */
static double
products(double ops, double bytes)
{
	return ops * G / 5e11 + bytes * M / 1e15;
}

static bool
near(double a, double b)
{
	return fabs(a - b) <= 1e-9 * fabs(b);
}

static struct step_answer
predict(struct step_ask a)
{
	struct step_answer got = {0};

	err = (struct err){0};
	if (step_predict(&c, &a, &got, &err) != RC_OK)
		tap_bail(err.text);
	return got;
}

/* Microseconds of a collective over the first n GPUs of a cluster. */
static double
us(const struct cluster *of, enum gpusim_coll coll, uint32_t n, uint64_t nbytes)
{
	struct cluster_ask ask = {
	    .coll = coll, .ngpus = n, .nbytes = nbytes, .algo = -1, .proto = -1};
	struct cluster_answer got;

	if (cluster_predict(of, &ask, &got, &err) != RC_OK)
		tap_bail(err.text);
	return got.us;
}

static void
test_one_gpu(void)
{
	struct step_ask a = one;
	struct step_answer got = predict(a);

	/* A layer forward: 24 s h^2 and 4 s^2 h operations, with results of 9 s h, s h and 16 s^2; back
	 * twice that; the head 6 s h V, with 3 s V. */
	ok(near(got.matrix_s, products(3 * 28 + 6, 3 * 52 + 6)), "products: %.9g s", got.matrix_s);
	/* 22 + 46 and 32 + 42 bytes an element, 9 + 11 of 16 times as many scores; the head's 60 and 20 */
	ok(near(got.elementwise_s, (68 + 74 + 20 * 16 + 60 + 20) * M / 1e15),
	   "between them: %.9g s", got.elementwise_s);
	ok(near(got.optimizer_s, 60 * (12 * M + 13 * 1024 + M) / 1e15), "the optimizer: %.9g s",
	   got.optimizer_s);
	ok(got.tp_s == 0 && got.pp_s == 0 && got.dp_s == 0 && got.bubble_s == 0 &&
	       got.hidden_s == 0,
	   "one GPU sends nothing and never waits");
	ok(near(got.s, got.matrix_s + got.elementwise_s + got.optimizer_s), "that is all");
	/* 72 (1 + 1/6 + 1/12) = 90 */
	ok(near(got.flops, 90 * G) && near(got.model_flops, 90 * G),
	   "operations of the paper's formula");
	ok(near(got.params, 12 * M + 13 * 1024 + 2 * M), "parameters, with positions");
	a.recompute = STEP_RECOMPUTE_FULL; /* 96 (1 + 1/6 + 1/16) = 118 */
	got = predict(a);
	ok(near(got.flops, 118 * G) && near(got.model_flops, 90 * G) &&
	       near(got.matrix_s, products(118, 214)),
	   "with full recomputation");
	ok(near(got.elementwise_s, (68 + 22 + 74 + 32 + 29 * 16 + 80) * M / 1e15),
	   "which passes memory again");
	a.recompute = STEP_RECOMPUTE_SELECTIVE;
	got = predict(a);
	ok(near(got.flops, 94 * G) && near(got.matrix_s, products(94, 196)),
	   "with that of attention alone");
	a = one;
	a.layers = 2;
	ok(near(predict(a).matrix_s, products(2 * 3 * 28 + 6, 2 * 3 * 52 + 6)),
	   "twice the layers, twice their time");
	a.layers = 1;
	a.batch = 3;
	got = predict(a);
	ok(got.nmicro == 3 && near(got.matrix_s, 3 * products(90, 162)), "three microbatches");
}

static void
test_tensor(void)
{
	struct step_ask a = one;
	struct step_answer got;
	double reduce, split;

	a.tp = 4;
	a.layers = 3;
	a.batch = 2;
	got = predict(a);
	reduce = us(&c, GPUSIM_ALLREDUCE, 4, 2 * 1024 * 1024);
	ok(near(got.tp_s, 2 * (3 * 4 + 2) * reduce / 1e6),
	   "4 all-reduces a layer, 2 of the ends, a microbatch");
	ok(near(got.matrix_s, 2 * products((3 * 84 + 6) / 4., 3 * 3 * 16 + 6 / 4.)),
	   "a quarter of the products; two of their results, which are summed, are whole");
	/* norms and dropouts are of every rank: 68 whole, 74 and the scores in quarters */
	ok(near(got.elementwise_s,
		2 * (3 * (68 + 74 / 4. + 20 * 16 / 4.) + 60 / 4. + 20) * M / 1e15),
	   "of what is between them, a part");
	a.recompute = STEP_RECOMPUTE_FULL;
	ok(near(predict(a).tp_s, 2 * (3 * 6 + 2) * reduce / 1e6), "6 with full recomputation");
	a.recompute = STEP_RECOMPUTE_NONE;
	a.sequence_parallel = true;
	split = us(&c, GPUSIM_ALLGATHER, 4, 2 * 1024 * 1024) +
		us(&c, GPUSIM_REDUCESCATTER, 4, 2 * 1024 * 1024);
	got = predict(a);
	ok(near(got.tp_s, 2 * (3 * 4 + 2) * split / 1e6),
	   "an all-gather and a reduce-scatter for each");
	ok(near(got.elementwise_s, 2 * (3 * (68 + 74 + 20 * 16) / 4. + 60 / 4. + 20) * M / 1e15),
	   "and all between the products is in quarters");
}

static void
test_pipeline(void)
{
	struct step_ask a = one;
	struct step_answer got;
	struct cluster apart;
	double layer, send;

	layer = products(84, 3 * 52 + 68 + 74 + 320);
	a.layers = 8;
	a.batch = 8;
	a.pp = 4;
	a.dp = 1;
	got = predict(a);
	send = us(&c, GPUSIM_SEND, 4, 2 * 1024 * 1024) / 1e6;
	apart = cluster_strided(&c, 3);
	ok(near(got.bubble_s, 3 * (2 * layer + 2 * send)),
	   "1F1B: (p - 1) passes of a stage of two layers");
	ok(near(got.pp_s, 8 * 2 * send + us(&apart, GPUSIM_ALLREDUCE, 2, 2 * 1024 * 1024) / 1e6),
	   "two sends a microbatch, and the embedding's gradient");
	ok(near(got.matrix_s, 8 * products(2 * 84 + 6, 2 * 3 * 52 + 6)), "the rank with the head");
	a.schedule = "gpipe";
	ok(near(predict(a).bubble_s, got.bubble_s), "GPipe's bubble is as long");
	a.schedule = "1f1b";
	a.interleave = 2;
	ok(near(predict(a).bubble_s, 3 * (layer + 2 * send)), "interleaved: half of it");
	a.interleave = 1;
	a.schedule = "zb-h1"; /* F + B - W, where F and W are 28 and 24, and B 32, of products */
	ok(near(predict(a).bubble_s, 3 * (2 * layer + 2 * send - 2 * 2 * products(24, 18))),
	   "ZB-H1: less two W");
	a.schedule = "zb-v"; /* the embedding is the head's */
	got = predict(a);
	ok(got.nstages == 8 && near(got.pp_s, 8 * 2 * 2 * send),
	   "ZB-V: two stages a rank, and one embedding");
}

/* Groups of any size, in a host and beyond: no cluster of a group has too few GPUs. */
static void
test_groups(void)
{
	struct step_ask a = one;
	bool all = true;

	a.layers = 1024 * 9 * 5 * 7;
	for (uint32_t dp = 1; dp < 40; dp++)
		for (uint32_t i = 0; i < 12; i++) {
			static const uint32_t pps[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14};
			struct step_answer got;

			a.dp = a.batch = dp;
			a.tp = 1u << dp % 4;
			a.pp = pps[i];
			a.zero = dp % 4;
			if (a.tp * a.pp * dp > 512)
				continue;
			all &= step_predict(&c, &a, &got, &err) == RC_OK && got.s > 0 &&
			       got.memory.total > 0;
		}
	ok(all, "tp 1 to 8, dp 1 to 39, pp 1 to 14 on 64 hosts: %s", err.text);
	if (cluster_read("gpu = h100", "g.ini", &c, &err) != RC_OK)
		tap_bail(err.text);
	a.tp = 1;
	a.dp = a.batch = 3;
	a.pp = 2;
	ok(predict(a).pp_s > 0, "six GPUs of one host, without a network");
}

/* The formulas are what the schedules themselves give. */
static void
test_formulas(void)
{
	static const struct pipeline_costs costs = {.f = 3, .b = 4, .w = 2};
	static const char *const names[] = {"gpipe", "1f1b", "interleaved=2", "interleaved=3"};
	static struct pipeline_facts facts;
	struct step_ask a = one;
	struct step_pipe pipe;
	struct pipeline *p;
	struct pipeline_times times;

	for (uint32_t i = 0; i < 4 * 6 * 5; i++) {
		double bubble;
		bool same = true;

		a.schedule = names[i % 4];
		a.pp = 2 + i / 4 % 6;
		a.batch = a.pp * (1 + i / 24);
		a.layers = 6 * a.pp;
		if (step_pipe_open(&a, &pipe, &err) != RC_OK ||
		    step_pipe_bubble(&pipe, &costs, &bubble, &err) != RC_OK ||
		    pipeline_named(a.schedule, a.pp, a.batch, &p, &err) != RC_OK ||
		    pipeline_check(p, &facts, &err) != RC_OK ||
		    pipeline_time(p, &costs, &times, &err) != RC_OK)
			tap_bail(err.text);
		for (uint32_t r = 0; r < a.pp; r++)
			same &= step_pipe_peak(&pipe, r) == facts.peak[r];
		ok(same && near(bubble, times.bubble) && pipe.nstages == p->nstages &&
		       pipe.last == p->rank_of[p->nstages - 1],
		   "%s of %u ranks, %u microbatches: peaks and bubble", a.schedule, a.pp, a.batch);
		pipeline_times_fini(&times);
		pipeline_free(p);
		step_pipe_close(&pipe);
	}
}

static void
test_data(void)
{
	struct step_ask a = one;
	struct step_answer got;
	uint64_t bytes = 2 * (12 * 1048576 + 13 * 1024 + 1048576);
	double gather, reduce;

	a.dp = 4;
	a.batch = 8;
	got = predict(a);
	ok(near(got.dp_s, us(&c, GPUSIM_ALLREDUCE, 4, bytes) / 1e6) && got.nmicro == 2,
	   "an all-reduce of gradients");
	gather = us(&c, GPUSIM_ALLGATHER, 4, bytes) / 1e6;
	reduce = us(&c, GPUSIM_REDUCESCATTER, 4, bytes) / 1e6;
	a.zero = 1;
	ok(near(predict(a).dp_s, gather + reduce), "ZeRO 1: reduce-scatter and all-gather");
	ok(near(predict(a).optimizer_s, got.optimizer_s / 4),
	   "and a quarter of the optimizer's work");
	a.zero = 2;
	ok(near(predict(a).dp_s, gather + 2 * reduce), "ZeRO 2: gradients after each microbatch");
	a.zero = 3;
	a.flat = true;
	gather = us(&c, GPUSIM_ALLGATHER, 4, bytes - 2097152) / 1e6;
	reduce = us(&c, GPUSIM_REDUCESCATTER, 4, bytes - 2097152) / 1e6;
	reduce +=
	    (2 * us(&c, GPUSIM_ALLGATHER, 4, 2097152) + us(&c, GPUSIM_REDUCESCATTER, 4, 2097152)) /
	    1e6;
	ok(near(predict(a).dp_s, 2 * (2 * gather + reduce)),
	   "ZeRO 3: two gathers and a reduction a microbatch");
	a.recompute = STEP_RECOMPUTE_FULL;
	ok(near(predict(a).dp_s, 2 * (3 * gather + reduce)),
	   "three gathers with full recomputation");
	a.overlap = 0.75;
	got = predict(a);
	ok(near(got.dp_s, got.hidden_s / 3), "what computing hides");
}

/* 7.5e9 parameters: the paper's figure 1 has 120, 31.4, 16.6, 1.9 GB on 64 GPUs. */
static void
test_memory(void)
{
	static const double share[] = {16, 4 + 12 / 64., 2 + 14 / 64., 16 / 64.};
	struct step_ask a = one;
	struct step_memory m;
	double params = 12 * M + 13 * 1024 + 2 * M;

	a.dp = 64;
	a.batch = 64;
	for (a.zero = 0; a.zero < 4; a.zero++) {
		m = predict(a).memory;
		ok(near(m.parameters + m.gradients + m.optimizer, share[a.zero] * params),
		   "ZeRO %u: %g bytes a parameter", a.zero, share[a.zero]);
	}
	a = one;
	a.layers = 4;
	/* s b h (34 + 5 a s / h) = 114 M; the head's 4 s b h (1 + V / h) */
	ok(near(predict(a).memory.activations, (4 * 114 + 8) * M), "activations");
	a.recompute = STEP_RECOMPUTE_FULL;
	m = predict(a).memory;
	ok(near(m.activations, (4 * 2 + 8) * M) && near(m.buffers, 114 * M),
	   "of layers' inputs alone; one is in work");
	a.recompute = STEP_RECOMPUTE_SELECTIVE;
	a.tp = 4;
	ok(near(predict(a).memory.activations, (4 * (10 + 24 / 4.) + 8 / 4.) * M), "tp, selective");
	a.sequence_parallel = true;
	ok(near(predict(a).memory.activations, (4 * 34 + 8) / 4. * M),
	   "tp, sequence parallel, selective");
	a.recompute = STEP_RECOMPUTE_NONE;
	ok(near(predict(a).memory.activations, (4 * 114 + 8) / 4. * M), "tp, sequence parallel");
	a = one;
	a.layers = 40;
	a.hidden = 16384;
	ok(!predict(a).fits, "129 billion parameters do not fit a GPU");
}

static void
refused(struct step_ask a, const char *want)
{
	struct step_answer got;
	enum rc rc;

	err = (struct err){0};
	rc = step_predict(&c, &a, &got, &err);
	if (!ok(rc == RC_INVAL && strstr(err.text, want), "refused: %s", want))
		printf("# %d %s\n", rc, err.text);
}

static void
test_refused(void)
{
	struct step_ask a = one;

	a.layers = 12;
	a.pp = 5;
	refused(a, "12 layers are not a multiple of pp 5 x 1 stages; pp x stages can be 1, "
		   "2, 3, 4, 6, 12");
	a.pp = 4;
	a.interleave = 3;
	a.batch = 6;
	refused(a, "interleave 3 needs microbatches in groups of pp 4, and there are 6; pp can be "
		   "1, 2, 3, 6");
	a.pp = 1;
	refused(a, "interleave 3 needs a pipeline, and pp is 1; it can be 1");
	a.pp = 3;
	a.schedule = "gpipe";
	refused(a, "interleave 3 and schedule gpipe contradict each other");
	a.schedule = "zb-h1";
	refused(a, "interleave 3 and schedule zb-h1 contradict each other");
	a.interleave = 1;
	a.schedule = "zb-h3";
	refused(a, "the schedules are gpipe, 1f1b, interleaved=V, zb-h1, zb-h2, zb-v");
	a.schedule = "interleaved=4000000000";
	refused(a, "the schedules are");
	a.schedule = "interleaved=4000";
	a.pp = 6;
	refused(a, "12 layers are not a multiple of pp 6 x 4000 stages; pp x stages can be 1, 2, "
		   "3, 4, 6, 12");
	a = one;
	a.tp = 3;
	refused(a, "tp 3 does not divide the 16 heads; tp can be 1, 2, 4, 8, 16");
	a.tp = 16;
	a.heads = 48;
	refused(a, "heads 48 do not divide hidden 1024; heads can be 1, 2, 4, 8,");
	a.hidden = 48 * 64;
	a.tp = 12;
	refused(a, "tp 12 must divide a host's 8 GPUs");
	a = one;
	a.batch = 12;
	a.dp = 5;
	refused(a,
		"batch 12 is not a multiple of dp 5 x micro-batch 1; dp can be 1, 2, 3, 4, 6, 12");
	a.dp = 2;
	a.micro = 4;
	refused(a, "with dp 2 micro-batch can be 1, 2, 3, 6");
	a = one;
	a.batch = a.dp = 1024;
	refused(a, "needs 1024 GPUs; the cluster has 512");
	a.batch = a.dp = 4000000;
	refused(a, "more than 1048576 GPUs");
	a = one;
	a.heads = 0;
	refused(a, "is 0");
	a = one;
	a.seq = 100000000;
	a.hidden = 10000000;
	a.heads = 10;
	a.batch = a.micro = 2;
	refused(a, "more than 10^15");
	a = one;
	a.layers = 1000000;
	a.hidden = 100000;
	refused(a, "more than 10^15 parameters");
	a = one;
	a.seq = 1023;
	a.tp = 2;
	a.sequence_parallel = true;
	refused(a, "tp can be 1, 3, 11");
}

int
main(void)
{
	if (cluster_read(hardware, "f.ini", &c, &err) != RC_OK)
		tap_bail(err.text);
	test_one_gpu();
	test_tensor();
	test_pipeline();
	test_formulas();
	test_data();
	test_memory();
	test_refused();
	test_groups();
	return tap_done();
}
