/* gpuctl tune - measure the algorithms on this machine, and write what won as a tuner file. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "coll/cost.h"

#define SIZES_MAX 64 /* of one sweep: a factor of 2 over all 64 bits */

/* Sizes as they are printed: lines of the same winner are one. */
struct winner {
	uint64_t from_bytes;
	const char *algo; /* NULL: none yet */
};

/* Unless said otherwise: enough to tell algorithms apart, in some seconds. */
static struct args
with_defaults(const struct args *a)
{
	struct args b = *a;

	if (!args_has(a, OPT(MIN_BYTES)))
		b.min_bytes = 256;
	if (!args_has(a, OPT(MAX_BYTES)))
		b.max_bytes = 4u << 20;
	if (!args_has(a, OPT(FACTOR)))
		b.factor = 8;
	if (!args_has(a, OPT(ITERS)))
		b.iters = 10;
	if (!args_has(a, OPT(WARMUP)))
		b.warmup = 3;
	return b;
}

static void
print_rule(struct bench *b, const struct winner *w, const char *max_bytes)
{
	if (args_has(b->a, OPT(JSON)))
		printf("%s{\"collective\":\"%s\",\"min_bytes\":%" PRIu64
		       ",\"max_bytes\":%s,\"algo\":\"%s\",\"nranks\":%" PRIu32 "}",
		       b->nrules++ ? "," : "", coll_name(b->c.coll), w->from_bytes,
		       strcmp(max_bytes, "-1") == 0 ? "null" : max_bytes, w->algo, b->comm.nranks);
	else
		printf("%s,%" PRIu64 ",%s,%s,-1,-1,-1,%" PRIu32 ",-1,-1\n", coll_name(b->c.coll),
		       w->from_bytes, max_bytes, w->algo, b->comm.nranks);
	fflush(stdout);
}

/* The fastest at one size. What needs memory that the ranks do not share is no candidate. */
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

static enum rc
sweep(struct bench *b, struct err *err)
{
	struct winner w = {0};
	char max[24];
	uint64_t nbytes = b->min_bytes;
	enum rc rc = RC_OK;

	for (int i = 0; i < SIZES_MAX && rc == RC_OK && nbytes <= b->max_bytes; i++) {
		const char *algo;

		rc = find_winner(b, nbytes, &algo, err);
		if (rc == RC_OK && w.algo != algo) {
			snprintf(max, sizeof max, "%" PRIu64, nbytes - 1);
			if (w.algo)
				print_rule(b, &w, max);
			w = (struct winner){w.algo ? nbytes : 0, algo};
		}
		if (b->c.coll == GPUSIM_BARRIER || nbytes > UINT64_MAX / b->a->factor)
			break;
		nbytes = nbytes ? nbytes * b->a->factor : 1;
	}
	if (rc == RC_OK && w.algo)
		print_rule(b, &w, "-1");
	return rc;
}

static enum rc
tune(struct cli *cli, const struct args *a, enum gpusim_coll coll, unsigned *nrules,
     struct err *err)
{
	struct bench b = {.cli = cli,
			  .a = a,
			  .min_bytes = a->min_bytes,
			  .max_bytes = a->max_bytes,
			  .nrules = *nrules};
	enum rc rc;

	b.c.coll = coll;
	rc = bench_open(&b, err);
	if (rc == RC_OK)
		rc = sweep(&b, err);
	bench_close(&b, rc);
	*nrules = b.nrules;
	return rc;
}

/* More than one algorithm to choose from? */
static bool
has_choice(enum gpusim_coll coll)
{
	int n = 0;

	for (const struct cost_algo *row = cost_algos; row->name; row++)
		n += row->coll == coll && !row->slow && !row->shared;
	return n > 1;
}

enum rc
run_tune(struct cli *cli, const struct args *given, struct err *err)
{
	struct args a = with_defaults(given);
	enum gpusim_coll coll[GPUSIM_NCOLLS];
	unsigned nrules = 0;
	int n = 0;
	enum rc rc = RC_OK;

	for (; n < a.nrest && rc == RC_OK; n++)
		rc = coll_parse(a.rest[n], &coll[n], err);
	for (int i = 0; i < n && rc == RC_OK; i++)
		if (coll_is_p2p(coll[i]))
			rc = err_set(err, RC_INVAL, "%s is no collective", coll_name(coll[i]));
	if (rc == RC_OK && a.min_bytes > a.max_bytes)
		rc = err_set(err, RC_INVAL, "-b is more than -e");
	for (int c = 0; c < GPUSIM_NCOLLS && !a.nrest; c++)
		if (has_choice((enum gpusim_coll)c))
			coll[n++] = (enum gpusim_coll)c;
	if (rc == RC_OK && args_has(&a, OPT(JSON)))
		fputs("[", stdout);
	else if (rc == RC_OK)
		printf("# collType,minBytes,maxBytes,algorithm,protocol,channels,nNodes,nRanks,"
		       "numPipeOps,regBuff\n");
	for (int i = 0; i < n && rc == RC_OK; i++)
		rc = tune(cli, &a, coll[i], &nrules, err);
	if (rc == RC_OK && args_has(&a, OPT(JSON)))
		puts("]");
	return rc;
}
