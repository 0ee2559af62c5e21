/* Schemes on a cluster's links: their trees, one channel for all, and times extrapolated from a part. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/traffic_impl.h"
#include "tap.h"

static struct cluster
read_cluster(const char *text)
{
	struct cluster c = {0};
	struct err err = {0};

	if (cluster_read(text, "test", &c, &err) != RC_OK)
		printf("# %s\n", err.text);
	return c;
}

static const char hosts8[] = "gpu = h100\nhosts = 256\nnics = 8 x 400Gb/s ib\n"
			     "leaf hosts = 4\nspine hosts = 256\n";

/* A scheme's time on the links; most_steps INFINITY: all of it. */
static double
time_of(const struct cluster *c, enum gpusim_coll coll, const char *name, uint32_t n,
	uint64_t nbytes, double most_steps, bool *extrapolated)
{
	struct scheme_ask a = {.nranks = n, .nbytes = nbytes, .channels = 16, .simple = true};
	struct traffic_answer t = {.links = links_of_cluster(c, n, CLUSTER_SIMPLE)};
	struct err err = {0};

	t.us = NAN;
	if (traffic_scheme(scheme_find(coll, name), &a, most_steps, &t, NULL, &err) != RC_OK)
		printf("# %s\n", err.text);
	*extrapolated = t.extrapolated;
	return t.us;
}

/* In both of NCCL's trees every host hangs below one root, and is a child where it says who its parent is. */
static void
test_trees(void)
{
	bool good = true, leaves = true;

	for (uint32_t n = 1; n <= 70; n++)
		for (unsigned tree = 0; tree < 2; tree++)
			for (uint32_t h = 0; h < n; h++) {
				uint32_t parent, child[2], up = h, above, kids[2], hops = 0;
				unsigned k = scheme_tree(n, h, tree, &parent, child), found = 0;

				for (unsigned i = 0; i < k; i++) {
					scheme_tree(n, child[i], tree, &above, kids);
					good &= child[i] < n && above == h;
				}
				while (scheme_tree(n, up, tree, &above, kids), above != UINT32_MAX)
					up = above, hops++;
				good &= hops <= 1 + (uint32_t)ceil(log2(n));
				if (parent != UINT32_MAX) {
					unsigned m = scheme_tree(n, parent, tree, &above, kids);

					for (unsigned i = 0; i < m; i++)
						found += kids[i] == h;
					good &= found == 1;
				}
				leaves &= n % 2 || k == 0 ||
					  scheme_tree(n, h, !tree, &parent, child) == 0 || n < 3;
			}
	ok(good, "trees: parents and children agree, the depth is logarithmic");
	ok(leaves, "trees: of an even number of hosts each has children in one of the two alone");
}

/* All channels of rings, one by one, against one that stands for all. */
static double
all_rings(const struct links *l, uint32_t per, uint32_t channels, uint64_t nbytes)
{
	uint32_t n = l->nranks;
	uint64_t part = nbytes / channels / n / 2;
	struct plan *plan = calloc((size_t)n * channels, sizeof *plan);
	struct flow_plans p = {plan, n, n, 1, channels, false};
	struct err err = {0};
	double us = NAN;

	for (uint32_t h = 0; h < n / per; h++)
		for (uint32_t j = 0; j < per; j++)
			for (uint32_t c = 0; c < channels; c++) {
				uint32_t r = h * per + (j + c) % per, next = r, prev = r, b;
				struct plan *x = &plan[r * channels + c];

				/* place j of host h; odd hosts are gone through backwards */
				b = h % 2 ? per - 1 - j : j;
				next = b + 1 < per ? h * per + (h % 2 ? j - 1 : j + 1) + 0
						   : (h + 1) * per % n + (h % 2 ? 0 : per - 1);
				prev = b > 0 ? h * per + (h % 2 ? j + 1 : j - 1)
					     : (h * per + n - per) % n + (h % 2 ? per - 1 : 0);
				next = next / per * per + (next % per + c) % per;
				prev = prev / per * per + (prev % per + c) % per;
				for (uint32_t u = 0; u < 4 * (n - 1); u++) {
					plan_append(x,
						    (struct plan_step){.kind = STEP_SEND,
								       .peer = next * channels + c,
								       .count = part});
					if (u % 2 == 0)
						continue;
					for (int k = 0; k < 2; k++)
						plan_append(x, (struct plan_step){
								   .kind = u % 4 == 1
									       ? STEP_RECV_REDUCE
									       : STEP_RECV,
								   .peer = prev * channels + c,
								   .count = part});
				}
			}
	if (flow_simulate(&p, l, &us, NULL, &err) != RC_OK)
		printf("# %s\n", err.text);
	for (uint32_t i = 0; i < n * channels; i++)
		plan_fini(&plan[i]);
	free(plan);
	return us;
}

static void
test_channels(void)
{
	struct cluster c = read_cluster(hosts8);
	struct links l = links_of_cluster(&c, 32, CLUSTER_SIMPLE);
	bool cut;
	double one = time_of(&c, GPUSIM_ALLREDUCE, "ring-rails", 32, 64 << 20, INFINITY, &cut), all;

	l.reduce_byte_us *= 16;
	all = all_rings(&l, 8, 16, 64 << 20);
	ok(fabs(one - all) <= 0.1 * all, "sixteen rings, one by one: %.1f us; one for all: %.1f",
	   all, one);
}

/* A part of the steps says what all say. */
static void
test_predicted(void)
{
	static const struct {
		enum gpusim_coll coll;
		const char *name;
		uint32_t n;
		uint64_t nbytes;
		double steps, within;
	} rows[] = {
	    {GPUSIM_ALLREDUCE, "ring-rails", 64, 64 << 20, 5e3, 0.01},
	    {GPUSIM_ALLREDUCE, "ring-rails", 256, 1 << 20, 2e4, 0.01},
	    {GPUSIM_ALLREDUCE, "ring-rails", 200, 16 << 20, 4e4, 0.01},
	    {GPUSIM_ALLREDUCE, "ring-hierarchical", 256, 256 << 20, 5e3, 0.01},
	    {GPUSIM_BROADCAST, "ring-rails", 64, 256 << 20, 2e3, 0.001},
	    {GPUSIM_ALLTOALL, "group", 512, 64 << 20, 4e3, 0.05},
	    {GPUSIM_ALLTOALL, "hierarchical", 1024, 64 << 20, 1e3, 0.05},
	    {GPUSIM_ALLREDUCE, "tree-rails", 512, 8 << 20, 2e4, 0.01},
	    {GPUSIM_ALLREDUCE, "tree-rails", 512, 64 << 20, 3e4, 0.05},
	    {GPUSIM_ALLREDUCE, "tree-rails", 800, 16 << 20, 4e4, 0.02},
	    {GPUSIM_ALLREDUCE, "tree-rails", 520, 1 << 20, 2e3, 0.02},
	};
	struct cluster c = read_cluster(hosts8);

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		bool cut, whole;
		double part = time_of(&c, rows[i].coll, rows[i].name, rows[i].n, rows[i].nbytes,
				      rows[i].steps, &cut),
		       all = time_of(&c, rows[i].coll, rows[i].name, rows[i].n, rows[i].nbytes,
				     INFINITY, &whole);

		ok(cut && !whole && fabs(part - all) <= rows[i].within * all,
		   "%s on %u: %.1f us from a part, %.1f from all, within %g %%", rows[i].name,
		   rows[i].n, part, all, 100 * rows[i].within);
	}
}

/* What NCCL chooses is there as messages, near its closed form where bytes rule. */
static void
test_choices(void)
{
	static const struct {
		enum gpusim_coll coll;
		int algo;
	} rows[] = {{GPUSIM_ALLREDUCE, CLUSTER_RING}, {GPUSIM_ALLREDUCE, CLUSTER_TREE},
		    {GPUSIM_ALLGATHER, CLUSTER_RING}, {GPUSIM_REDUCESCATTER, CLUSTER_RING},
		    {GPUSIM_BROADCAST, CLUSTER_RING}, {GPUSIM_REDUCE, CLUSTER_RING},
		    {GPUSIM_ALLTOALL, CLUSTER_P2P},   {GPUSIM_SEND, CLUSTER_P2P}};
	struct cluster c = read_cluster(hosts8);

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct cluster_ask ask = {.coll = rows[i].coll,
					  .ngpus = 32,
					  .nbytes = 1u << 30,
					  .algo = rows[i].algo,
					  .proto = CLUSTER_SIMPLE};
		struct cluster_answer model = {0};
		struct traffic_answer links = {0};
		struct flow_report r = {0};
		struct err err = {0};
		double sum = 0;

		if (cluster_predict(&c, &ask, &model, &err) != RC_OK ||
		    traffic_of_choice(&c, &ask, &model.choice, &links, &r, &err) != RC_OK)
			printf("# %s\n", err.text);
		for (int w = 0; w < FLOW_NWHY; w++)
			sum += r.why_us[w];
		ok(links.us > 0.6 * model.us && links.us < 1.4 * model.us &&
		       fabs(sum - r.us) <= 1e-6 * r.us && r.nlinks > 0,
		   "%s by %s: %.0f us on links, %.0f by the model", coll_name(rows[i].coll),
		   links.algo, links.us, model.us);
		flow_report_fini(&r);
	}
}

/* Nor are times of messages below the bound, whole or extrapolated from few of them, if most messages do not leave a switch. */
static void
test_bounds(void)
{
	static const char *const names[] = {"group", "hierarchical"};
	struct cluster c = read_cluster("gpu = h100\nhosts = 32\nnics = 8 x 400Gb/s ib\n"
					"leaf hosts = 8\nleaf oversubscription = 8\n");
	struct cluster_bound_ask ask = {.coll = GPUSIM_ALLTOALL, .ngpus = 256, .nbytes = 64u << 20};
	struct cluster_bound b = cluster_bound(&c, &ask);
	struct traffic_answer t;

	/* Of two hosts rings go through one backwards, and no host stands for the other. */
	for (uint32_t n = 8; n <= 64; n += 8) {
		bool part;

		ok(time_of(&c, GPUSIM_ALLREDUCE, "ring-rails", n, 1 << 20, INFINITY, &part) > 0,
		   "a ring over %u GPUs", n);
	}
	c = read_cluster("gpu = a100\nhosts = 4\nnics = 1 x 400Gb/s ib\ndomain = 1\n");
	ask.ngpus = 32;
	ok(traffic_time(&c,
			&(struct traffic_ask){.coll = ask.coll,
					      .ngpus = 32,
					      .nelem = 32 << 20,
					      .elem = 1,
					      .algo = "group",
					      .proto = CLUSTER_SIMPLE},
			&t, NULL, NULL) == RC_OK,
	   "domains of a host share its NIC");
	c = read_cluster("gpu = h100\nhosts = 32\nnics = 8 x 400Gb/s ib\n"
			 "leaf hosts = 8\nleaf oversubscription = 8\n");
	for (size_t i = 0; i < 2; i++) {
		const double most = i ? 1100 : 16000;
		bool part, whole;
		double us = time_of(&c, ask.coll, names[i], 256, ask.nbytes, INFINITY, &whole),
		       few = time_of(&c, ask.coll, names[i], 256, ask.nbytes, most, &part);

		ok(!whole && part && us >= b.us && few > 0.95 * us && few < 1.1 * us,
		   "%s: bound %.0f us, time %.0f us, from a part of the steps %.0f us", names[i],
		   b.us, us, few);
	}
}

int
main(void)
{
	test_bounds();
	test_trees();
	test_channels();
	test_predicted();
	test_choices();
	return tap_done();
}
