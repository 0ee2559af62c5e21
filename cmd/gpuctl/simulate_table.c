/* Print nccl-tests' table of a simulated cluster: head, rows and end. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "coll/plan.h"
#include "mem/dtype.h"
#include "mem/redop.h"
#include "simulate_table.h"

static const char *
redop(const struct table *t)
{
	return coll_reduces(t->ask.coll) ? redop_name(t->a->redop) : "none";
}

static int64_t
root(const struct table *t)
{
	return coll_has_root(t->ask.coll) ? (int64_t)t->a->root : -1;
}

uint64_t
table_size(const struct table *t, uint64_t nbytes, uint64_t *count)
{
	uint64_t size = dtype_size(t->dtype), n = t->ask.ngpus;

	if (!coll_has_parts(t->ask.coll)) {
		*count = nbytes / size;
		return *count * size;
	}
	*count = nbytes / n / 16 * 16 / size;
	return *count * size * n;
}

static void
print_head(struct table *t)
{
	const struct cluster *c = &t->c;

	if (t->a->json) {
		json_put(&t->json,
			 "{collective:%s cluster:%s gpu:%s network:%s nranks:%" PRIu32
			 " type:%s redop:%s root:%" PRId64 " rows:[",
			 t->coll, c->name, cluster_gpu_name(c), cluster_network_name(c),
			 t->ask.ngpus, dtype_name(t->dtype), redop(t), root(t));
		return;
	}
	printf("# %s nRanks %" PRIu32 " minBytes %" PRIu64 " maxBytes %" PRIu64 " step: %" PRIu64
	       "(factor), predicted\n# cluster %s: %s, %" PRIu32 " per host, network %s\n#\n",
	       t->coll, t->ask.ngpus, t->a->min_bytes, t->a->max_bytes, t->a->factor, c->name,
	       cluster_gpu_name(c), c->gpus_per_host, cluster_network_name(c));
	printf("# %10s  %12s  %8s  %6s  %6s           out-of-place                       "
	       "in-place          \n",
	       "", "", "", "", "");
	printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s %6s  %7s  %6s  %6s %6s  %8s  %6s  %8s  "
	       "%9s\n",
	       "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time",
	       "algbw", "busbw", "#wrong", "algo", "proto", "channels", "error");
	printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %5s  %7s  %6s  %6s  %5s\n", "(B)",
	       "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)",
	       "");
}

static void
explain(const struct cluster_answer *s)
{
	printf("#   launch %.1f us, latency %.1f us, bytes %.1f us, fill %.1f us; ", s->launch_us,
	       s->latency_us, s->bytes_us, s->fill_us);
	printf("%.3g bytes per byte go through %s, at %.1f GB/s\n", s->bytes_through,
	       cluster_limit_name(s), s->limit_gbs);
}

static void
print_json(struct json *j, const struct row *r, double algbw, double busbw)
{
	const struct cluster_answer *s = &r->model;

	json_put(j,
		 "{size:%" PRIu64 " count:%" PRIu64
		 " time_us:%.6g algbw:%.6g busbw:%.6g algo:%s proto:%s channels:%" PRIu32
		 " model:%s time_low_us:%.6g time_high_us:%.6g",
		 r->size, r->count, r->us, algbw, busbw, r->algo, r->proto, r->channels,
		 s->us > 0 ? "nccl" : "links", r->us * r->bar.low, r->us * r->bar.high);
	if (r->bound.us > 0)
		json_put(j, "bound_us:%.6g bound:%s", r->bound.us, r->bound.name);
	if (s->us > 0)
		json_put(j,
			 "launch_us:%.6g latency_us:%.6g bytes_us:%.6g fill_us:%.6g limit:%s "
			 "limit_gbs:%.6g",
			 s->launch_us, s->latency_us, s->bytes_us, s->fill_us,
			 cluster_limit_name(s), s->limit_gbs);
	if (r->traffic.algo)
		explain_traffic_json(j, &r->traffic, &r->report);
	json_put(j, "}");
}

static void
print_text(const struct table *t, const struct row *r, double algbw, double busbw)
{
	int digits = r->us >= 10000 ? 0 : r->us >= 100 ? 1 : 2;

	printf("%12" PRIu64 "  %12" PRIu64 "  %8s  %6s  %6" PRId64, r->size, r->count,
	       dtype_nccl_name(t->dtype), redop(t), root(t));
	for (int in_place = 0; in_place < 2; in_place++)
		if (in_place && t->ask.coll == GPUSIM_ALLTOALL)
			printf("  %7s  %6s  %6s  %5s", "N/A", "N/A", "N/A", "N/A");
		else
			printf("  %7.*f  %6.2f  %6.2f  %5s", digits, r->us, algbw, busbw, "N/A");
	printf("  %8s  %6s  %8" PRIu32 "  %+3.0f/%+.0f%%\n", r->algo, r->proto, r->channels,
	       100 * (r->bar.low - 1), 100 * (r->bar.high - 1));
	if (!t->a->explain)
		return;
	if (r->model.us > 0)
		explain(&r->model);
	if (r->bound.us > 0)
		printf("#   at least %.1f us: %.4g bytes must cross %s, at %.1f GB/s\n",
		       r->bound.us, r->bound.nbytes, r->bound.name, r->bound.gbs);
	if (r->traffic.algo)
		explain_traffic(&r->traffic, &r->report);
}

void
table_row(struct table *t, const struct row *row)
{
	double algbw = row->us > 0 ? (double)row->size / (1000 * row->us) : 0,
	       busbw = algbw * coll_bus_factor(t->ask.coll, t->ask.ngpus);

	if (!t->nrows)
		print_head(t);
	if (t->a->json)
		print_json(&t->json, row, algbw, busbw);
	else
		print_text(t, row, algbw, busbw);
	t->busbw += busbw;
	t->nrows++;
}

void
table_end(struct table *t)
{
	double avg = t->nrows ? t->busbw / (double)t->nrows : 0;

	if (t->a->json)
		json_put(&t->json, "] avg_busbw:%.6g}\n", avg);
	else
		printf("# Avg bus bandwidth    : %g\n#\n", avg);
}
