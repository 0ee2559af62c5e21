/* gpuctl tune - measure the algorithms on this machine, and write the winners as a tuner file. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "bench_cli.h"
#include "cluster/cluster.h"
#include "coll/plan.h"
#include "coll/tune.h"

#define WORD 8
#define LONG (8u << 20)

/* Not more messages than fit in a window, so that no stall is measured. */
#define MESSAGES   SIMULATE_WINDOW
#define PART_SMALL 4096u
#define PART_LARGE 262144u

/* ---- the fastest algorithms */

static void
print_rule(void *arg, const struct bench_rule *rule)
{
	struct bench_cli *b = arg;
	const char *name = coll_name(b->cfg.c.coll);
	uint64_t max = rule->max_bytes;

	if (b->a->json) {
		json_put(&b->json, "{collective:%s min_bytes:%" PRIu64, name, rule->min_bytes);
		json_put(&b->json, max == UINT64_MAX ? "max_bytes:null" : "max_bytes:%" PRIu64,
			 max);
		json_put(&b->json, "algo:%s nranks:%" PRIu32 "}", rule->algo,
			 gpusim_comm_count(b->comm));
	} else {
		printf("%s,%" PRIu64 ",%" PRId64 ",%s,-1,-1,-1,%" PRIu32 ",-1,-1\n", name,
		       rule->min_bytes, max == UINT64_MAX ? -1 : (int64_t)max, rule->algo,
		       gpusim_comm_count(b->comm));
	}
	fflush(stdout);
}

static enum rc
tune(struct bench_cli *b, enum gpusim_coll coll, struct err *err)
{
	struct bench *bench = NULL;
	enum rc rc = bench_cli_open(b, coll, &bench, err);

	if (rc == RC_OK)
		rc = bench_tune(bench, print_rule, b, err);
	bench_cli_close(b, bench, rc);
	return rc;
}

/* ---- --cluster: a cluster file for this machine */

struct measured {
	double small_us, large_us;
};

static void
take_ends(void *arg, const struct bench_row *row)
{
	struct measured *m = arg;
	double us = row->result[BENCH_OUT_OF_PLACE].time.p50_us;

	*(row->nbytes < LONG ? &m->small_us : &m->large_us) = us;
}

static enum rc
measure(struct cli *cli, const struct args *a, struct measured *m, uint32_t *n, struct err *err)
{
	struct args sizes = *a;
	struct bench_cli b = {.cli = cli, .a = &sizes};
	struct bench_summary sum;
	struct bench *bench = NULL;
	enum rc rc;

	sizes.min_bytes = WORD;
	sizes.max_bytes = LONG;
	sizes.factor = LONG / WORD;
	rc = bench_cli_open(&b, GPUSIM_ALLREDUCE, &bench, err);
	if (rc == RC_OK) {
		*n = gpusim_comm_count(b.comm);
		rc = bench_run(bench, take_ends, m, &sum, err);
	}
	if (rc == RC_OK && sum.nwrong)
		rc = err_set(err, RC_FAILED, "%" PRIu64 " wrong elements", sum.nwrong);
	bench_cli_close(&b, bench, rc);
	return rc;
}

/* Measure an all-reduce of a word and one of 8 MiB, and print a cluster file; see gpusim-cluster(5). */
static enum rc
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
			     LONG, WORD);
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
	       m.small_us, WORD, m.large_us, LONG, n, m.small_us / 2, m.small_us / 2 / hops,
	       hops / n * LONG / (1000 * bytes_us));
	return RC_OK;
}

/* ---- --calibrate: the cost of messages between these devices */

/* The measurement, with n ranks. */
struct costs {
	struct cli *cli;
	const struct args *a;
	uint32_t n;
	enum tune_transport by;
};

static void
take_least(void *arg, const struct bench_row *row)
{
	*(double *)arg = row->result[BENCH_OUT_OF_PLACE].time.min_us;
}

/* The transport as the coordinator sees it: memory if all ranks reach each other through memory. */
static enum tune_transport
transport_of(const struct gpusim_comm *comm)
{
	size_t n = gpusim_comm_count(comm);
	uint8_t *path = must_alloc(n, n);
	enum tune_transport by = gpusim_comm_paths(comm, path) == GPUSIM_OK ? TUNE_P2P : TUNE_NET;

	for (size_t i = 0; by == TUNE_P2P && i < n * n; i++)
		if (path[i] != GPUSIM_PATH_P2P)
			by = TUNE_NET;
	free(path);
	return by;
}

/* Measure the least time of an operation on nbytes, in messages of at most chunk bytes. */
static enum rc
time_of(struct costs *c, enum gpusim_coll coll, const char *algo, uint64_t nbytes, uint64_t chunk,
	double *us, struct err *err)
{
	struct args as = *c->a;
	struct bench_cli b = {.cli = c->cli, .a = &as};
	struct bench_summary sum;
	struct bench *bench = NULL;
	enum rc rc;

	as.algo = algo;
	as.min_bytes = as.max_bytes = nbytes;
	as.chunk = chunk;
	rc = bench_cli_open(&b, coll, &bench, err);
	if (rc == RC_OK) {
		c->n = gpusim_comm_count(b.comm);
		c->by = transport_of(b.comm);
		rc = c->n < 2 ? err_set(err, RC_INVAL, "--calibrate: needs at least two devices")
			      : bench_run(bench, take_least, us, &sum, err);
	}
	if (rc == RC_OK && sum.nwrong)
		rc = err_set(err, RC_FAILED, "%llu wrong elements", (unsigned long long)sum.nwrong);
	bench_cli_close(&b, bench, rc);
	return rc;
}

/* Measure barriers and broadcasts, and print the costs line of a tuner file (coll/tune.h). RC_FAILED: the
 * times are inconsistent, because the machine is busy.
 *
 * The root of a naive broadcast sends to each rank in turn, so all messages leave through one port: its
 * time grows by the hosts' work per message, and by the time per byte. A barrier takes one latency per
 * round. */
static enum rc
tune_costs(struct cli *cli, const struct args *a, struct err *err)
{
	static const struct {
		uint64_t nbytes, chunk;
	} sent[] = {{MESSAGES * PART_SMALL, MESSAGES * PART_SMALL},
		    {MESSAGES * PART_SMALL, PART_SMALL},
		    {MESSAGES * PART_LARGE, PART_LARGE}};
	struct costs c = {.cli = cli, .a = a};
	struct cost_model m = {0};
	struct buf text = {0};
	double barrier = 0, us[3] = {0}, to;
	enum rc rc = time_of(&c, GPUSIM_BARRIER, "dissemination", 0, 0, &barrier, err);

	for (int i = 0; i < 3 && rc == RC_OK; i++)
		rc = time_of(&c, GPUSIM_BROADCAST, "naive", sent[i].nbytes, sent[i].chunk, &us[i],
			     err);
	if (rc != RC_OK)
		return rc;
	to = c.n - 1;
	m.host_us = fmax(0, (us[1] - us[0]) / (to * (MESSAGES - 1)));
	m.beta_us = (us[2] - us[1]) / (to * MESSAGES * (PART_LARGE - PART_SMALL));
	m.alpha_us = barrier / ceil(log2(c.n)) - 2 * m.host_us;
	if (m.beta_us <= 0 || m.alpha_us <= 0)
		return err_set(err, RC_FAILED,
			       "a barrier took %.1f us, and broadcasts of %u and %u bytes %.1f and "
			       "%.1f us: the machine is too busy to measure",
			       barrier, MESSAGES * PART_SMALL, MESSAGES * PART_LARGE, us[1], us[2]);
	must(tune_show_sent(c.by, &m, &text));
	fwrite(text.data, 1, text.len, stdout);
	buf_fini(&text);
	return RC_OK;
}

/* ---- the verb */

enum rc
run_tune(struct cli *cli, const struct args *a, struct err *err)
{
	enum gpusim_coll coll[GPUSIM_NCOLLS];
	struct bench_cli b = {.cli = cli, .a = a, .json.f = stdout};
	int n = 0;
	enum rc rc = RC_OK;

	if (a->as_cluster)
		return a->nrest || a->json
			   ? err_set(err, RC_INVAL,
				     "--cluster: does not accept a collective or --json")
			   : tune_cluster(cli, a, err);
	if (a->calibrate)
		return a->nrest || a->json
			   ? err_set(err, RC_INVAL,
				     "--calibrate: does not accept a collective or --json")
			   : tune_costs(cli, a, err);
	for (; n < a->nrest && rc == RC_OK; n++)
		rc = coll_parse(a->rest[n], &coll[n], err);
	for (int i = 0; i < n && rc == RC_OK; i++)
		if (coll_is_sendrecv(coll[i]))
			rc = err_set(err, RC_INVAL, "%s is not a collective", coll_name(coll[i]));
	if (rc == RC_OK && a->min_bytes > a->max_bytes)
		rc = err_set(err, RC_INVAL, "-b: must not exceed -e");
	for (int c = 0; c < GPUSIM_NCOLLS && !a->nrest; c++)
		if (bench_has_choice((enum gpusim_coll)c))
			coll[n++] = (enum gpusim_coll)c;
	if (rc == RC_OK && a->json)
		json_put(&b.json, "[");
	else if (rc == RC_OK)
		printf("# collType,minBytes,maxBytes,algorithm,protocol,channels,nNodes,nRanks,"
		       "numPipeOps,regBuff\n");
	for (int i = 0; i < n && rc == RC_OK; i++)
		rc = tune(&b, coll[i], err);
	if (rc == RC_OK && a->json)
		json_put(&b.json, "]\n");
	return rc;
}
