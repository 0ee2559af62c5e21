#include "tune_cluster.h"

#include <inttypes.h>
#include <stdio.h>

#include "bench_cli.h"
#include "cluster/cluster.h"

#define SMALL 8
#define LARGE (8u << 20)

struct measured {
	double small_us, large_us;
};

static void
take(void *arg, const struct bench_row *row)
{
	struct measured *m = arg;
	double us = row->result[BENCH_OUT_OF_PLACE].time.p50_us;

	*(row->nbytes < LARGE ? &m->small_us : &m->large_us) = us;
}

static enum rc
measure(struct cli *cli, const struct args *a, struct measured *m, uint32_t *n, struct err *err)
{
	struct args sizes = *a;
	struct bench_cli b = {.cli = cli, .a = &sizes};
	struct bench_summary sum;
	struct bench *bench = NULL;
	enum rc rc;

	sizes.min_bytes = SMALL;
	sizes.max_bytes = LARGE;
	sizes.factor = LARGE / SMALL;
	rc = bench_cli_open(&b, GPUSIM_ALLREDUCE, &bench, err);
	if (rc == RC_OK) {
		*n = gpusim_comm_count(b.comm);
		rc = bench_run(bench, take, m, &sum, err);
	}
	if (rc == RC_OK && sum.nwrong)
		rc = err_set(err, RC_FAILED, "%" PRIu64 " wrong elements", sum.nwrong);
	bench_cli_close(&b, bench, rc);
	return rc;
}

enum rc
tune_cluster(struct cli *cli, const struct args *a, struct err *err)
{
	struct measured m = {0};
	double bytes_us, hops;
	uint32_t n = 0;
	enum rc rc = measure(cli, a, &m, &n, err);

	if (rc == RC_OK && n < 2)
		rc = err_set(err, RC_INVAL, "--cluster: needs at least two devices");
	if (rc == RC_OK && m.large_us <= m.small_us)
		rc = err_set(err, RC_FAILED,
			     "%u bytes took no longer than %d: the machine is too busy to measure",
			     LARGE, SMALL);
	if (rc != RC_OK)
		return rc;
	/* Half of a word's time is the launch, the other half its hops; the rest is bytes. */
	hops = 2.0 * (n - 1);
	bytes_us = m.large_us - m.small_us;
	printf("# by gpuctl tune --cluster: an all-reduce takes %.1f us for %d bytes, %.1f us for "
	       "%u bytes\n"
	       "gpu = process\nhosts = 1\ngpus per host = %" PRIu32 "\n"
	       "launch = %.3fus\ninside simple latency = %.3fus\n"
	       "inside bandwidth = %.4gGB/s\ninside share = 1\n"
	       "inside ll share = 0\ninside ll128 share = 0\n",
	       m.small_us, SMALL, m.large_us, LARGE, n, m.small_us / 2, m.small_us / 2 / hops,
	       hops / n * LARGE / (1000 * bytes_us));
	return RC_OK;
}
