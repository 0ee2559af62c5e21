/* The table of gpuctl bench has the columns of nccl-tests, so that parsers of their output read it, too. */
#include <inttypes.h>
#include <stdio.h>

#include "bench_cli.h"
#include "coll/plan.h"
#include "mem/dtype.h"
#include "mem/redop.h"

const char *
bench_collective_name(const struct bench_cli *b)
{
	return b->cfg.c.coll == GPUSIM_SEND ? "sendrecv" : coll_name(b->cfg.c.coll);
}

static const char *
redop(const struct bench_cli *b)
{
	return coll_reduces(b->cfg.c.coll) ? redop_name(b->cfg.c.redop) : "none";
}

static int64_t
root(const struct bench_cli *b)
{
	return coll_has_root(b->cfg.c.coll) ? (int64_t)b->cfg.c.root : -1;
}

static void
print_head_json(struct bench_cli *b)
{
	json_put(&b->json,
		 "{collective:%s algo:%s nranks:%" PRIu32 " type:%s redop:%s root:%" PRId64
		 " iters:%" PRIu64 " warmup:%" PRIu64 " rewrite:%hhu rows:[",
		 bench_collective_name(b), b->algo, gpusim_comm_count(b->comm),
		 dtype_name(b->cfg.c.dtype), redop(b), root(b), b->a->iters, b->a->warmup,
		 b->a->rewrite);
}

void
bench_print_head(struct bench_cli *b, uint64_t max_bytes)
{
	if (b->a->json) {
		print_head_json(b);
		return;
	}
	printf("# %s algo %s nRanks %" PRIu32 " minBytes %" PRIu64 " maxBytes %" PRIu64
	       " step: %" PRIu64 "(factor) warmup iters: %" PRIu64 " iters: %" PRIu64
	       " validation: 1 graph: 1\n",
	       bench_collective_name(b), b->algo, gpusim_comm_count(b->comm), b->cfg.min_bytes,
	       max_bytes, b->a->factor, b->a->warmup, b->a->iters);
	printf("# time: of the slowest rank, on the devices, while a graph repeats the operation; "
	       "without client round trips%s\n#\n# Using devices\n",
	       b->a->rewrite ? " or rewriting of inputs" : "");
	for (uint32_t r = 0; r < gpusim_comm_count(b->comm); r++)
		printf("#  Rank %2" PRIu32 " Pid %6" PRIu32 " device %2" PRIu32 " [%016" PRIx64
		       "] %s\n",
		       r, gpusim_comm_device_info(b->comm, r)->pid,
		       gpusim_comm_device_info(b->comm, r)->ordinal,
		       gpusim_comm_device(b->comm, r).id,
		       gpusim_comm_device_info(b->comm, r)->address);
	printf("#\n# %10s  %12s  %8s  %6s  %6s           out-of-place                       "
	       "in-place          \n",
	       "", "", "", "", "");
	printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s %6s  %7s  %6s  %6s %6s\n", "size",
	       "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time",
	       "algbw", "busbw", "#wrong");
	printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %5s  %7s  %6s  %6s  %5s\n", "(B)",
	       "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)",
	       "");
	fflush(stdout);
}

static void
print_row_json(struct bench_cli *b, const struct bench_row *row)
{
	static const char *const name[] = {"out_of_place", "in_place"};

	json_put(&b->json, "{size:%" PRIu64 " count:%" PRIu64 " type:%s redop:%s root:%" PRId64,
		 row->nbytes, row->count, dtype_name(b->cfg.c.dtype), redop(b), root(b));
	for (int p = 0; p < BENCH_NPLACES; p++) {
		const struct bench_result *r = &row->result[p];

		if (!r->ran) {
			json_put(&b->json, "%s:null", name[p]);
			continue;
		}
		json_put(&b->json,
			 "%s:{time_us:%.6g min_us:%.6g algbw:%.6g busbw:%.6g wrong:%" PRIu64,
			 name[p], r->time.p50_us, r->time.min_us, r->algbw, r->busbw, r->nwrong);
		if (r->ratio > 0)
			json_put(&b->json, "ratio:%.4g", r->ratio);
		json_put(&b->json, "}");
	}
	json_put(&b->json, "client:{p50_us:%.6g min_us:%.6g}}",
		 row->result[BENCH_OUT_OF_PLACE].client.p50_us,
		 row->result[BENCH_OUT_OF_PLACE].client.min_us);
}

/* Print the ratios to the baseline in a comment, which parsers of the table skip. */
static void
print_ratios(const struct bench_cli *b, const struct bench_row *row)
{
	const struct bench_result *r = row->result;

	if (!b->a->baseline)
		return;
	printf("# %10" PRIu64 "  times the baseline:", row->nbytes);
	for (int p = 0; p < BENCH_NPLACES; p++)
		if (r[p].ratio > 0)
			printf("  %s %.3f", p == BENCH_IN_PLACE ? "in-place" : "out-of-place",
			       r[p].ratio);
		else
			printf("  %s N/A", p == BENCH_IN_PLACE ? "in-place" : "out-of-place");
	putchar('\n');
}

void
bench_print_row(void *arg, const struct bench_row *row)
{
	struct bench_cli *b = arg;

	if (b->a->json) {
		print_row_json(b, row);
		return;
	}
	printf("%12" PRIu64 "  %12" PRIu64 "  %8s  %6s  %6" PRId64, row->nbytes, row->count,
	       dtype_nccl_name(b->cfg.c.dtype), redop(b), root(b));
	for (int p = 0; p < BENCH_NPLACES; p++) {
		const struct bench_result *r = &row->result[p];
		double us = r->time.p50_us;
		int digits = us >= 10000 ? 0 : us >= 100 ? 1 : 2;

		if (r->ran)
			printf("  %7.*f  %6.2f  %6.2f  %5" PRIu64, digits, us, r->algbw, r->busbw,
			       r->nwrong);
		else
			printf("  %7s  %6s  %6s  %5s", "N/A", "N/A", "N/A", "N/A");
	}
	putchar('\n');
	print_ratios(b, row);
	fflush(stdout);
}

void
bench_print_foot(struct bench_cli *b, const struct bench_summary *sum)
{
	if (b->a->json)
		json_put(&b->json, "] avg_busbw:%.6g wrong:%" PRIu64 "}\n", sum->avg_busbw,
			 sum->nwrong);
	else
		printf("# client-side latency: one call of %" PRIu64
		       " bytes: p50 %.1f us, min %.1f us\n"
		       "# Out of bounds values : %" PRIu64 " %s\n# Avg bus bandwidth    : %g\n#\n",
		       sum->client_nbytes, sum->client.p50_us, sum->client.min_us, sum->nwrong,
		       sum->nwrong ? "FAILED" : "OK", sum->avg_busbw);
}
