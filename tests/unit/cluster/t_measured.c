/* Tables of nccl-tests in all their forms, and constants fitted to them. */
#include "cluster/measured.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "tap.h"

static struct measured m;

static bool
reads(const char *text, const char *name, uint32_t ngpus, enum gpusim_coll coll, uint32_t n,
      uint32_t npoints)
{
	struct err err = {0};
	enum rc rc = measured_read(text, name, ngpus, &m, &err);

	if (rc != RC_OK)
		printf("# %s\n", err.text);
	return rc == RC_OK && m.coll == coll && m.ngpus == n && m.npoints == npoints;
}

static bool
refuses(const char *text, const char *name, const char *want)
{
	struct err err = {0};

	return measured_read(text, name, 0, &m, &err) == RC_BADDATA && strstr(err.text, want) &&
	       !strchr(err.text, '\n');
}

static void
test_forms(void)
{
	ok(reads("# nThread 1 nGpus 2 minBytes 8\n#  Rank  0 Pid 1 on a device  0 [0x07] NVIDIA "
		 "H100\n"
		 "#  Rank  1 Pid 1 on a device  1 [0x0a] NVIDIA H100\n"
		 "#       size         count      type   redop    root     time   algbw   busbw "
		 "#wrong\n"
		 "           8             2     float     sum      -1    11.20    0.00    0.00    "
		 "  0    11.01    0.00    0.00      0\n"
		 "  1048576     262144     float     sum      -1    100.0   10.49   10.49      0   "
		 " 99.0   10.59   10.59      0\n"
		 "# Avg bus bandwidth    : 5\n",
		 "log", 0, GPUSIM_ALLREDUCE, 2, 2) &&
	       m.size[1] == 1048576 && m.us[1] == 100 && m.us[0] == 11.2,
	   "with ranks and root; out of place counts");
	ok(reads(" 1073741824 268435456 float sum 4000.0 268.44 503.32 1e-06 4001.0 268.37 503.19 "
		 "1e-06\n",
		 "x", 0, GPUSIM_ALLREDUCE, 16, 1),
	   "an old version: no root, no ranks; 16 of the factor");
	ok(reads("[1,0]<stdout>:  1073741824  16777216  float  none  -1  6000 178.96 156.59 0 6001 "
		 "178.93 156.56 0\n",
		 "x", 0, GPUSIM_ALLGATHER, 8, 1),
	   "behind mpirun's mark: an all-gather of 8");
	ok(reads(" 1073741824  16777216  float  none  -1  6000 178.96 156.59 0 N/A N/A N/A N/A\n",
		 "x", 0, GPUSIM_ALLTOALL, 8, 1),
	   "not in place: an all-to-all");
	ok(reads(" 1073741824  16777216  float  none  -1  6000 178.96 156.59 0 6001 178.93 156.56 "
		 "0\n",
		 "dir/alltoall_perf.txt", 0, GPUSIM_ALLTOALL, 8, 1),
	   "the file's name tells");
	ok(reads("# Collective test starting: sendrecv_perf\n 1048576 262144 float none -1 100.0 "
		 "10.49 10.49 0\n",
		 "x", 4, GPUSIM_SEND, 4, 1),
	   "the line of new versions, and -n");
	ok(reads("# collective: reduce_scatter\n# n_gpus: 8\n8388608\t100\t83.89\t73.40\tNA\n", "x",
		 0, GPUSIM_REDUCESCATTER, 8, 1),
	   "columns of tabs");
	ok(refuses("", "e.txt", "no row") && refuses("hello\n1 2 3 4\n", "e", "no row") &&
	       refuses("1e300 1 float sum -1 1e300 0 0\nnan nan nan nan nan\n", "e", "no row"),
	   "no table: refused");
	ok(refuses("1048576 262144 float sum -1 100.0 10.49 10.49 0\n", "e",
		   "unknown number of GPUs") &&
	       refuses("# allreduce nRanks 8\n1048576 262144 float sum -1 100.0 10.49 10.49 0\n",
		       "e", "busbw is 1.000 times algbw"),
	   "a table that does not match its number of GPUs is rejected");
	ok(refuses("1073741824 2 float sum -1 4000.0 268.44 503.32 0\n"
		   "1073741824 2 float none -1 6000 178.96 156.59 0\n",
		   "all_reduce", "use a file for each"),
	   "two collectives in one file are refused");
	ok(refuses("1073741824 2 float 0 6000 178.96 156.59 0\n", "e", "unknown collective"),
	   "a gather or a scatter: refused");
}

/* Changed text never crashes, and what is read is in its bounds. */
static void
test_hostile(void)
{
	static const char good[] = "# allreduce nRanks 16\n[1,0]<stdout>: 1073741824 268435456 "
				   "float sum -1 4000.0 268.44 503.32 0 N/A\n"
				   "8 2 float sum -1 11.20 0.00 0.00 0\n";
	uint64_t seed = 5;
	bool sane = true;

	for (int i = 0; i < 20000; i++) {
		char text[sizeof good];

		memcpy(text, good, sizeof good);
		for (uint64_t k = xorshift(&seed) % 6; k; k--)
			text[xorshift(&seed) % (sizeof good - 1)] =
			    (char)(1 + xorshift(&seed) % 255);
		if (measured_read(text, "x", 0, &m, NULL) != RC_OK)
			continue;
		sane &= m.npoints >= 1 && m.npoints <= MEASURED_MAX_POINTS && m.ngpus >= 2;
		for (uint32_t k = 0; k < m.npoints; k++)
			sane &= m.us[k] > 0 && isfinite(m.us[k]) && m.size[k] >= 1;
	}
	ok(sane, "20,000 changed tables");
}

static struct cluster
cluster(const char *more)
{
	struct cluster c = {0};
	struct err err = {0};
	char text[400];

	snprintf(text, sizeof text, "gpu=h100\nhosts=8\nnics=8 x 400Gb/s ib\n%s", more);
	if (cluster_read(text, "x", &c, &err) != RC_OK)
		tap_bail(err.text);
	return c;
}

static void
measure(const struct cluster *c, enum gpusim_coll coll, uint32_t n, uint64_t from,
	struct measured *out)
{
	*out = (struct measured){.coll = coll, .ngpus = n};
	for (uint64_t size = from; size <= 1ull << 32; size *= 4) {
		struct cluster_ask ask = {
		    .coll = coll, .ngpus = n, .nbytes = size, .algo = -1, .proto = -1};
		struct cluster_answer a;

		if (cluster_predict(c, &ask, &a, NULL) == RC_OK) {
			out->size[out->npoints] = (double)size;
			out->us[out->npoints++] = a.us;
		}
	}
}

static void
test_fit(void)
{
	static struct measured t[3], other;
	struct cluster base = cluster(""),
		       real = cluster("network share=0.7\nlaunch=12us\nnvls share=0.4\n"
				      "network ll latency=10us\nnetwork ll128 latency=17us\n"
				      "network simple latency=28us");
	struct measured_fit fit;
	struct err err = {0};

	measure(&real, GPUSIM_ALLREDUCE, 8, 1024, &t[0]);
	measure(&real, GPUSIM_ALLREDUCE, 32, 1024, &t[1]);
	measure(&real, GPUSIM_ALLGATHER, 16, 1024, &t[2]);
	ok(measured_fit(t, 3, &base, &fit, &err) == RC_OK && !fit.one_number, "three tables fit");
	ok(fabs(fit.c.nic_share / 0.7 - 1) < 0.05 && fabs(fit.c.launch_us / 12 - 1) < 0.15 &&
	       fabs(fit.c.nvls_share / 0.4 - 1) < 0.05 &&
	       fabs(fit.c.out[CLUSTER_SIMPLE].us / 28 - 1) < 0.1,
	   "what they were made with comes out: %.2f, %.1f us, %.2f, %.1f us", fit.c.nic_share,
	   fit.c.launch_us, fit.c.nvls_share, fit.c.out[CLUSTER_SIMPLE].us);
	ok(!fit.constant[3].told && fit.constant[3].now == base.message_us && fit.constant[5].told,
	   "no all-to-all: what a message costs is not told");
	measure(&real, GPUSIM_REDUCESCATTER, 64, 65536, &other);
	ok(measured_median(&other, &base, true, true, NULL) > 0.15 &&
	       measured_median(&other, &fit.c, true, true, NULL) < 0.05 &&
	       measured_median(&other, &fit.c, false, true, NULL) < 0.1,
	   "another collective of more GPUs is predicted: %.0f %% off before, now %.0f %%",
	   100 * measured_median(&other, &base, true, true, NULL),
	   100 * measured_median(&other, &fit.c, true, true, NULL));
	measure(&real, GPUSIM_ALLREDUCE, 8, 1024, &t[1]);
	ok(measured_fit(t, 2, &base, &fit, &err) == RC_OK && fit.one_number &&
	       !fit.constant[2].told && !fit.constant[5].told && fit.c.nic_share == base.nic_share,
	   "of one host: nothing of the network is told");
	t[0].ngpus = 1000;
	ok(measured_fit(t, 1, &base, &fit, &err) == RC_INVAL &&
	       strstr(err.text, "the cluster has 64"),
	   "more GPUs than there are");
}

int
main(void)
{
	test_forms();
	test_hostile();
	test_fit();
	return tap_done();
}
