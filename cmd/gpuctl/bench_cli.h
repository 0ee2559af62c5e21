/*
 * bench_cli.h - from options to lib/clients/bench, and from its rows to text, for gpuctl bench and gpuctl tune.
 */
#ifndef GPUCTL_BENCH_CLI_H
#define GPUCTL_BENCH_CLI_H

#include "base/json.h"
#include "bench/bench.h"
#include "cli.h"

#define BENCH_EXIT_SLOWER 7 /* exit status: --max-slowdown is exceeded */

/* Initialise with cli and a. */
struct bench_cli {
	struct cli *cli;
	const struct args *a;
	const char *algo; /* name, or "auto" */
	struct gpusim_comm *comm;
	struct baseline baseline;
	struct bench_config cfg;
	struct json json; /* with --json */
};

/* Allocate devices and buffers for the collective, by the options. Release with bench_cli_close, also after
 * a failure; rc: the result of the work. */
enum rc bench_cli_open(struct bench_cli *b, enum gpusim_coll coll, struct bench **out,
		       struct err *err);
void bench_cli_close(struct bench_cli *b, struct bench *bench, enum rc rc);

/* Print a table as nccl-tests do, each row as soon as it is measured; with --json one object. */
/* "sendrecv", or the collective's name. */
const char *bench_collective_name(const struct bench_cli *b);
void bench_print_head(struct bench_cli *b, uint64_t max_bytes);
void bench_print_row(void *b, const struct bench_row *row);
void bench_print_foot(struct bench_cli *b, const struct bench_summary *sum);

#endif
