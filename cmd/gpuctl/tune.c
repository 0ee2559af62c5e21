/* gpuctl tune - measure the algorithms on this machine, and write the winners as a tuner file. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench_cli.h"
#include "coll/plan.h"
#include "tune_cluster.h"
#include "tune_costs.h"

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
