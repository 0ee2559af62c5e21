/* NCCL's choices and predicted times: what must hold whatever the numbers are, and figures that are known. */
#include <math.h>
#include <string.h>

#include "chance.h"
#include "cluster/predict.h"
#include "coll/plan.h"
#include "tap.h"

static struct cluster c;

static void
take(const char *text)
{
	struct err err = {0};

	if (cluster_read(text, "f.ini", &c, &err) != RC_OK)
		tap_bail(err.text);
}

static struct cluster_answer
ask(enum gpusim_coll coll, uint32_t n, uint64_t nbytes, int algo, int proto)
{
	struct cluster_ask q = {
	    .coll = coll, .ngpus = n, .nbytes = nbytes, .algo = algo, .proto = proto};
	struct cluster_answer a = {.us = NAN};
	struct err err = {0};

	(void)cluster_predict(&c, &q, &a, &err);
	return a;
}

static bool
refuses(enum gpusim_coll coll, uint32_t n, int algo, int proto, const char *want)
{
	struct cluster_ask q = {
	    .coll = coll, .ngpus = n, .nbytes = 1 << 20, .algo = algo, .proto = proto};
	struct cluster_answer a;
	struct err err = {0};
	bool good = cluster_predict(&c, &q, &a, &err) == RC_INVAL && strstr(err.text, want);

	if (!good)
		printf("# %s\n", err.text);
	return good;
}

/* The choices that NCCL's log and sources tell. */
static void
test_choice(void)
{
	struct cluster_answer a;

	take("gpu = h100\nhosts = 2\nnics = 8 x 400Gb/s ib\n");
	a = ask(GPUSIM_ALLREDUCE, 8, 8, -1, -1);
	ok(a.choice.proto == CLUSTER_LL && a.choice.channels == 1, "a word: LL, one channel");
	a = ask(GPUSIM_ALLREDUCE, 8, 1 << 30, -1, -1);
	ok(a.choice.algo == CLUSTER_NVLS, "one host, 1 GiB: NVLS");
	a = ask(GPUSIM_ALLREDUCE, 16, 1 << 30, -1, -1);
	ok(a.choice.algo == CLUSTER_NVLS_TREE, "two hosts, 1 GiB: NVLSTree");
	a = ask(GPUSIM_ALLGATHER, 16, 1 << 30, -1, -1);
	ok(a.choice.algo == CLUSTER_RING && a.choice.proto == CLUSTER_SIMPLE,
	   "all-gather: a ring, Simple");
	a = ask(GPUSIM_ALLTOALL, 16, 1 << 30, -1, -1);
	ok(a.choice.algo == CLUSTER_P2P && isnan(a.choice.us), "all-to-all: no choice");
	ok(refuses(GPUSIM_BROADCAST, 8, CLUSTER_TREE, -1, "broadcast TREE"), "no such tree");
	ok(refuses(GPUSIM_ALLREDUCE, 8, CLUSTER_NVLS, CLUSTER_LL, "with LL"), "NVLS is Simple");
	ok(refuses(GPUSIM_ALLREDUCE, 17, -1, -1, "the cluster has 16"), "too many GPUs");
	ok(refuses(GPUSIM_ALLTOALL, 16, CLUSTER_RING, -1, "it has no algorithms"),
	   "no algorithm of an all-to-all");
	take("gpu = a100\nhosts = 2\nnics = 4 x 100Gb/s efa\n");
	a = ask(GPUSIM_ALLREDUCE, 16, 8, -1, -1);
	ok(a.choice.proto == CLUSTER_SIMPLE, "p4d: Simple alone");
	a = ask(GPUSIM_ALLREDUCE, 16, 1 << 30, -1, -1);
	ok(a.choice.channels == 8, "p4d: 8 channels, as its log");
	ok(a.choice.algo == CLUSTER_TREE,
	   "two hosts: a tree, which has twice the NICs' bandwidth inside");
}

static void
test_tuning(void)
{
	struct tuning_ranks r;
	struct tuning_cost cost;

	take("gpu = a100\nhosts = 1\n");
	tuning_ranks(&c, 8, &r);
	tuning_cost(&c, &r, GPUSIM_ALLREDUCE, CLUSTER_RING, CLUSTER_LL, 8, &cost);
	ok(fabs(cost.lat_us - (6.6 + 14 * 0.6)) < 1e-9, "a ring's latency: 6.6 + 14 hops of 0.6");
	tuning_cost(&c, &r, GPUSIM_ALLREDUCE, CLUSTER_RING, CLUSTER_SIMPLE, 8, &cost);
	ok(fabs(cost.gbs - 240 * 8 / 14.0) < 1e-9, "its bandwidth: 12 links of 20 GB/s");
	tuning_cost(&c, &r, GPUSIM_ALLREDUCE, CLUSTER_TREE, CLUSTER_LL128, 8, &cost);
	ok(fabs(cost.lat_us - (14 + 2 * 7 * 1.25)) < 1e-9, "a tree's");
	tuning_cost(&c, &r, GPUSIM_ALLREDUCE, CLUSTER_NVLS, CLUSTER_SIMPLE, 8, &cost);
	ok(cost.gbs == 0, "an A100 has no NVLS");
}

static const enum gpusim_coll colls[] = {GPUSIM_ALLREDUCE, GPUSIM_BROADCAST,	 GPUSIM_REDUCE,
					 GPUSIM_ALLGATHER, GPUSIM_REDUCESCATTER, GPUSIM_ALLTOALL,
					 GPUSIM_GATHER,	   GPUSIM_SCATTER,	 GPUSIM_SEND};

/* For all kinds: a number, a sum of its parts, bus bandwidth at most what the hardware has. */
static void
test_all(void)
{
	static const char *const files[] = {
	    "gpu=v100\nhosts=64\nnics=4 x 100Gb/s ib",
	    "gpu=a100\nhosts=64\nnics=8 x 200Gb/s ib\nleaf hosts=8\nleaf oversubscription=4",
	    "gpu=h100\nhosts=64\nnics=8 x 400Gb/s roce\nsharp=yes",
	    "gpu=h200\nhosts=64\nnics=16 x 200Gb/s efa",
	    "gpu=gb200\nhosts=36\nnics=4 x 400Gb/s ib",
	    "gpu=gh200\nhosts=64\nnics=4 x 200Gb/s tcp",
	    "gpu=l40s\nhosts=8\ngpus per host=1\nnics=1 x 25Gb/s tcp",
	    "gpu=process\ngpus per host=8"};
	bool good = true, grows = true;

	for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
		take(files[f]);
		for (size_t k = 0; k < sizeof colls / sizeof *colls; k++)
			for (uint32_t n = 1; n <= cluster_gpus(&c); n = n * 3 / 2 + 1) {
				double last = 0;

				for (uint64_t size = 0; size <= 1ull << 40; size = size * 64 + 64) {
					struct cluster_answer a = ask(colls[k], n, size, -1, -1);
					double sum =
					    a.launch_us + a.latency_us + a.bytes_us + a.fill_us;

					good = good && isfinite(a.us) && a.us > 0 &&
					       fabs(sum - a.us) <= 1e-9 * a.us;
					grows = grows && a.us > 0.7 * last;
					last = a.us;
				}
			}
	}
	ok(good, "every collective, number and size has a time, the sum of its parts");
	ok(grows, "which grows with the size");
}

/* Rings in hosts joined by slow networks take at least as long as the wire. */
static void
test_limits(void)
{
	struct cluster_answer a, b;

	take("gpu=h100\nhosts=4\nnics=8 x 400Gb/s ib\nleaf hosts=2\nleaf oversubscription=8");
	a = ask(GPUSIM_ALLTOALL, 32, 1 << 30, -1, -1);
	ok(a.limit == CLUSTER_BY_LEVEL && a.level == 0,
	   "8:1 above the leaves limits an all-to-all");
	take("gpu=h100\nhosts=4\nnics=8 x 400Gb/s ib");
	b = ask(GPUSIM_ALLTOALL, 32, 1 << 30, -1, -1);
	ok(b.limit == CLUSTER_BY_NIC && b.us < a.us / 2, "without it, the NICs");
	ok(b.bytes_us > 0.75 * (1 << 30) / 400e3 * 8, "it is no faster than the wire");
	a = ask(GPUSIM_ALLREDUCE, 32, 1 << 30, -1, -1);
	take("gpu=h100\nhosts=4\nnics=8 x 400Gb/s ib\nsharp=yes");
	b = ask(GPUSIM_ALLREDUCE, 32, 1 << 30, -1, -1);
	ok(b.us < a.us, "switches that reduce help");
	ok(fabs(coll_bus_factor(GPUSIM_ALLREDUCE, 8) - 1.75) < 1e-12 &&
	       fabs(coll_bus_factor(GPUSIM_ALLTOALL, 8) - 0.875) < 1e-12 &&
	       coll_bus_factor(GPUSIM_SEND, 8) == 1,
	   "factors of bus bandwidth");
}

/* No prediction is below what the cuts of the cluster need, whatever the cluster is. */
static void
test_bounds(void)
{
	static const char *const gpus[] = {"v100",  "a100", "h100", "b200",
					   "gb200", "l40s", "gh200"};
	uint64_t seed = 22, asked = 0, held = 0, tight = 0;

	for (int i = 0; i < 400; i++) {
		uint32_t leaf = 1u + (uint32_t)(xorshift(&seed) % 8);
		char text[400];

		snprintf(
		    text, sizeof text,
		    "gpu = %s\nhosts = %u\nnics = %u x %uGb/s %s\nleaf hosts = %u\n"
		    "leaf oversubscription = %u\nspine hosts = %u\nspine oversubscription = %u\n"
		    "sharp = %s\nnvls share = 0.%u\ninside share = 0.%u\n",
		    gpus[(xorshift(&seed) % 7)], 1u << (xorshift(&seed) % 8),
		    1u + (uint32_t)(xorshift(&seed) % 10), 100u << (xorshift(&seed) % 4),
		    (xorshift(&seed) % 2) ? "ib" : "tcp", leaf,
		    1u + (uint32_t)(xorshift(&seed) % 32), 4 * leaf,
		    1u + (uint32_t)(xorshift(&seed) % 8), (xorshift(&seed) % 2) ? "yes" : "no",
		    1 + (unsigned)(xorshift(&seed) % 9), 1 + (unsigned)(xorshift(&seed) % 9));
		if (xorshift(&seed) % 2)
			snprintf(text + strlen(text), sizeof text - strlen(text), "domain = %u\n",
				 1u << (xorshift(&seed) % 4));
		take(text);
		for (int k = 0; k < 60; k++) {
			struct cluster_ask q = {
			    .coll = colls[(xorshift(&seed) % 9)],
			    .ngpus = 2 + (uint32_t)(xorshift(&seed) % cluster_gpus(&c)),
			    .nbytes = 1ull << (xorshift(&seed) % 38),
			    .algo = (int)(xorshift(&seed) % 7) - 1,
			    .proto = (int)(xorshift(&seed) % 4) - 1};
			struct cluster_answer a;
			struct err err = {0};
			enum rc rc = cluster_predict(&c, &q, &a, &err);

			if (rc == RC_INVAL)
				continue;
			asked++;
			held += rc == RC_OK && a.us >= a.bound.us;
			tight += rc == RC_OK && a.us < 1.5 * a.bound.us;
			if (rc != RC_OK && asked - held < 5)
				printf("# %s %u GPUs %llu bytes: %s\n# %s\n", coll_name(q.coll),
				       q.ngpus, (unsigned long long)q.nbytes, err.text, text);
		}
	}
	ok(asked > 5000 && held == asked && tight > asked / 50,
	   "bounds: none of %llu predictions is below its own, %llu are near",
	   (unsigned long long)asked, (unsigned long long)tight);
}

/* What must cross a cut, by hand. */
static void
test_bound(void)
{
	struct cluster_bound_ask q = {.coll = GPUSIM_ALLTOALL, .ngpus = 64, .nbytes = 64000000};
	struct cluster_bound b;

	take("gpu=h100\nhosts=8\nnics=8 x 400Gb/s ib\nnetwork share=1\ninside share=1\n"
	     "inside bandwidth=900GB/s\n"
	     "leaf hosts=4\nleaf oversubscription=8\n");
	b = cluster_bound(&c, &q);
	ok(strcmp(b.name, "a leaf switch's way up") == 0 && b.nbytes == 1024e6 && b.gbs == 200 &&
	       fabs(b.us - 5120) < 1e-6,
	   "bound: of an all-to-all half of 32 GPUs' bytes cross the uplinks");
	q.ngpus = 8;
	b = cluster_bound(&c, &q);
	ok(strcmp(b.name, "all ways into a GPU") == 0 && b.nbytes == 56e6 && b.gbs == 900,
	   "bound: on a host a GPU's way");
	q.coll = GPUSIM_ALLREDUCE;
	b = cluster_bound(&c, &q);
	ok(b.nbytes == 112e6, "bound: an all-reduce enters a GPU 2(n-1)/n times");
	q.nvswitch_reduces = true;
	b = cluster_bound(&c, &q);
	ok(b.nbytes == 64e6, "bound: once where NVSwitch reduces");
	q.ngpus = 32;
	q.nvswitch_reduces = false;
	b = cluster_bound(&c, &q);
	ok(strcmp(b.name, "the NICs of a domain's hosts") == 0 && b.nbytes == 96e6 && b.gbs == 400,
	   "bound: 4 hosts, 2 x 3/4");
	q.network_reduces = true;
	ok(cluster_bound(&c, &q).nbytes == 64e6, "bound: once where the network reduces");
	ok(cluster_bound_check(&b, b.us, NULL) == RC_OK &&
	       cluster_bound_check(&b, b.us * 0.99, NULL) == RC_INTERNAL,
	   "bound: less is an error");
}

int
main(void)
{
	test_bound();
	test_bounds();
	test_choice();
	test_tuning();
	test_all();
	test_limits();
	return tap_done();
}
