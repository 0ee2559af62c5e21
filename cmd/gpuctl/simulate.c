/* gpuctl simulate - nccl-tests' table of a cluster that is not here. Needs no devices. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli.h"
#include "cluster/predict.h"
#include "coll/plan.h"
#include "mem/dtype.h"
#include "mem/redop.h"
#include "simulate_training.h"

/* All that a row needs. */
struct table {
	const struct args *a;
	struct cluster c;
	struct cluster_ask ask;
	enum gpusim_dtype dtype;
	uint64_t nrows;
};

static const char *
redop(const struct table *t)
{
	return coll_reduces(t->ask.coll) ? redop_name(t->a->redop) : "none";
}

static const char *
collective(const struct table *t)
{
	return coll_is_sendrecv(t->ask.coll) ? "sendrecv" : coll_name(t->ask.coll);
}

static int64_t
root(const struct table *t)
{
	return coll_has_root(t->ask.coll) ? (int64_t)t->a->root : -1;
}

/* Whether the size is that of all ranks' parts. */
static bool
has_parts(enum gpusim_coll coll)
{
	return coll == GPUSIM_ALLGATHER || coll == GPUSIM_REDUCESCATTER ||
	       coll == GPUSIM_ALLTOALL || coll == GPUSIM_GATHER || coll == GPUSIM_SCATTER;
}

/* The size that nccl-tests makes of one that is asked for: parts are multiples of 16 bytes, vectors of an element. */
static uint64_t
whole(const struct table *t, uint64_t nbytes, uint64_t *count)
{
	uint64_t size = dtype_size(t->dtype), n = t->ask.ngpus;

	if (!has_parts(t->ask.coll)) {
		*count = nbytes / size;
		return *count * size;
	}
	*count = nbytes / n / 16 * 16 / size;
	return *count * size * n;
}

static void
print_head(const struct table *t)
{
	const struct cluster *c = &t->c;

	if (t->a->json) {
		printf("{\"collective\":\"%s\",\"cluster\":", collective(t));
		json_string(c->name, stdout);
		printf(",\"gpu\":\"%s\",\"network\":\"%s\",\"nranks\":%" PRIu32
		       ",\"type\":\"%s\",\"redop\":\"%s\",\"root\":%" PRId64 ",\"rows\":[",
		       cluster_gpu_name(c), cluster_network_name(c), t->ask.ngpus,
		       dtype_name(t->dtype), redop(t), root(t));
		return;
	}
	printf("# %s nRanks %" PRIu32 " minBytes %" PRIu64 " maxBytes %" PRIu64 " step: %" PRIu64
	       "(factor), predicted\n# cluster %s: %s, %" PRIu32 " a host, network %s\n#\n",
	       collective(t), t->ask.ngpus, t->a->min_bytes, t->a->max_bytes, t->a->factor, c->name,
	       cluster_gpu_name(c), c->gpus_per_host, cluster_network_name(c));
	printf("# %10s  %12s  %8s  %6s  %6s           out-of-place                       "
	       "in-place          \n",
	       "", "", "", "", "");
	printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s %6s  %7s  %6s  %6s %6s  %8s  %6s  %8s\n",
	       "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time",
	       "algbw", "busbw", "#wrong", "algo", "proto", "channels");
	printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %5s  %7s  %6s  %6s  %5s\n", "(B)",
	       "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)",
	       "");
}

static void
explain(const struct cluster_answer *s)
{
	printf("#   launch %.1f us, latency %.1f us, bytes %.1f us, fill %.1f us; ", s->launch_us,
	       s->latency_us, s->bytes_us, s->fill_us);
	printf("%.3g bytes a byte go through %s, at %.1f GB/s\n", s->bytes_through,
	       cluster_limit_name(s), s->limit_gbs);
}

static void
print_json(struct table *t, uint64_t size, uint64_t count, const struct cluster_answer *s)
{
	printf("%s{\"size\":%" PRIu64 ",\"count\":%" PRIu64
	       ",\"time_us\":%.6g,\"algbw\":%.6g,\"busbw\":%.6g,\"algo\":\"%s\",\"proto\":\"%s\","
	       "\"channels\":%" PRIu32 ",\"launch_us\":%.6g,\"latency_us\":%.6g,\"bytes_us\":%.6g,"
	       "\"fill_us\":%.6g,\"limit\":\"%s\",\"limit_gbs\":%.6g}",
	       t->nrows ? "," : "", size, count, s->us, s->algbw, s->busbw,
	       cluster_algo_name(s->choice.algo), cluster_proto_name(s->choice.proto),
	       s->choice.channels, s->launch_us, s->latency_us, s->bytes_us, s->fill_us,
	       cluster_limit_name(s), s->limit_gbs);
}

static void
print_row(struct table *t, uint64_t size, uint64_t count, const struct cluster_answer *s)
{
	int digits = s->us >= 10000 ? 0 : s->us >= 100 ? 1 : 2;

	printf("%12" PRIu64 "  %12" PRIu64 "  %8s  %6s  %6" PRId64, size, count,
	       dtype_nccl_name(t->dtype), redop(t), root(t));
	for (int in_place = 0; in_place < 2; in_place++)
		if (in_place && t->ask.coll == GPUSIM_ALLTOALL)
			printf("  %7s  %6s  %6s  %5s", "N/A", "N/A", "N/A", "N/A");
		else
			printf("  %7.*f  %6.2f  %6.2f  %5s", digits, s->us, s->algbw, s->busbw,
			       "N/A");
	printf("  %8s  %6s  %8" PRIu32 "\n", cluster_algo_name(s->choice.algo),
	       cluster_proto_name(s->choice.proto), s->choice.channels);
	if (t->a->explain)
		explain(s);
}

static enum rc
rows(struct table *t, struct err *err)
{
	const struct args *a = t->a;
	struct cluster_answer answer;
	uint64_t nbytes = a->min_bytes, count;
	double busbw = 0;
	enum rc rc = RC_OK;

	for (; rc == RC_OK && nbytes <= a->max_bytes; nbytes *= a->factor) {
		t->ask.nbytes = whole(t, nbytes, &count);
		rc = cluster_predict(&t->c, &t->ask, &answer, err);
		if (rc != RC_OK)
			return rc;
		if (!t->nrows)
			print_head(t);
		(a->json ? print_json : print_row)(t, t->ask.nbytes, count, &answer);
		busbw += answer.busbw;
		t->nrows++;
		if (!nbytes || nbytes > UINT64_MAX / a->factor)
			break;
	}
	if (a->json)
		printf("],\"avg_busbw\":%.6g}\n", t->nrows ? busbw / (double)t->nrows : 0);
	else
		printf("# Avg bus bandwidth    : %g\n#\n", t->nrows ? busbw / (double)t->nrows : 0);
	return rc;
}

static enum rc
on_cluster(const struct args *a, struct err *err)
{
	struct table t = {.a = a, .ask = {.proto = a->proto, .channels = a->channels}};
	enum rc rc = cluster_coll(a->rest[0], &t.ask.coll, err);

	t.dtype = a->typed ? a->dtype : GPUSIM_F32;
	if (rc == RC_OK && (args_given(a, count) || args_given(a, nbytes) || args_given(a, chunk)))
		rc = err_set(err, RC_INVAL, "with --cluster sizes are -b, -e and -f");
	if (rc == RC_OK && a->min_bytes > a->max_bytes)
		rc = err_set(err, RC_INVAL, "-b is more than -e");
	if (rc == RC_OK)
		rc = cluster_algo_parse(a->algo && *a->algo ? a->algo : "auto", &t.ask.algo, err);
	if (rc == RC_OK)
		rc = cluster_load(a->cluster, &t.c, err);
	if (rc != RC_OK)
		return rc;
	t.ask.ngpus = a->nranks ? a->nranks : cluster_gpus(&t.c);
	if (coll_has_root(t.ask.coll) && a->root >= t.ask.ngpus)
		return err_set(err, RC_INVAL, "--root %" PRIu32 ": there are %" PRIu32 " ranks",
			       a->root, t.ask.ngpus);
	return rows(&t, err);
}

#define ROW(field) offsetof(struct args, field)

/* Options of the other form of the verb. */
static enum rc
check_form(const struct args *a, bool training, struct err *err)
{
	static const size_t of_training[] = {
	    ROW(params),    ROW(step_ms),	ROW(bucket),	 ROW(overlap),
	    ROW(fail_rate), ROW(detect_ms),	ROW(restart_ms), ROW(recover_ms),
	    ROW(repair_ms), ROW(checkpoint_ms), ROW(checkpoint), ROW(how),
	    ROW(spares),    ROW(days),		ROW(seed),	 ROW(plot)};
	static const size_t of_tables[] = {
	    ROW(min_bytes), ROW(max_bytes), ROW(factor), ROW(algo),    ROW(proto), ROW(channels),
	    ROW(dtype),	    ROW(redop),	    ROW(root),	 ROW(explain), ROW(count), ROW(nbytes)};
	const size_t *at = training ? of_tables : of_training;
	size_t n = training ? sizeof of_tables / sizeof *of_tables
			    : sizeof of_training / sizeof *of_training;

	for (size_t i = 0; i < n; i++)
		if (args_was_given(a, at[i]))
			return err_set(err, RC_INVAL,
				       training
					   ? "an option of collectives is given, not of training"
					   : "an option of training is given, which wants the word "
					     "training for a collective");
	return RC_OK;
}

/* Without a cluster: the plans of gpusim's own algorithms, as `gpuctl plan --simulate` has them. */
enum rc
run_simulate(struct cli *cli, const struct args *a, struct err *err)
{
	struct args plan = *a;

	bool training = strcmp(a->rest[0], "training") == 0;

	if (check_form(a, training, err) != RC_OK)
		return RC_INVAL;
	if (training)
		return simulate_training(a, err);
	if (a->cluster)
		return on_cluster(a, err);
	if (args_given(a, proto) || a->channels || a->explain || args_given(a, min_bytes) ||
	    args_given(a, max_bytes))
		return err_set(err, RC_INVAL,
			       "--proto, --channels, --explain, -b and -e want a --cluster");
	plan.simulate = true;
	return run_plan(cli, &plan, err);
}
