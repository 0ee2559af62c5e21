/*
 * bench.h - what the measuring and the printing half of gpuctl bench share.
 */
#ifndef GPUCTL_BENCH_H
#define GPUCTL_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "bench_baseline.h"
#include "bench_data.h"
#include "cli.h"

#define BENCH_EXIT_SLOWER 7 /* exit status: --max-slowdown is exceeded */

/* Of several measurements. */
struct bench_time {
	double p50_us, min_us;
};

struct bench {
	struct cli *cli;
	const struct args *a;
	const char *algo; /* its name, or "auto" */
	struct gpusim_comm comm;
	struct gpusim_collective c; /* all but sizes and addresses */
	struct bench_data data;
	uint64_t *base[BENCH_NPLACES]; /* buffers of max_bytes by rank */
	uint64_t *send, *recv;	       /* addresses of the operation at hand */
	uint64_t min_bytes, max_bytes;
	struct baseline baseline;
	double worst;		  /* ratio to the baseline so far; 0: none */
	struct bench_time client; /* of the first size, client_nbytes */
	uint64_t client_nbytes;
	unsigned nrules; /* that tune has printed */
	int recoveries;	 /* so often a size began again */
};

struct bench_result {
	bool ran;		  /* alltoall has no in-place form */
	struct bench_time time;	  /* of an operation, in the devices */
	struct bench_time client; /* of one call, out of place only */
	double algbw, busbw;	  /* GB/s, as nccl-tests defines them */
	double ratio;		  /* time to the baseline's; 0: it has none */
	uint64_t nwrong;
};

struct bench_row {
	uint64_t nbytes, count;
	struct bench_result result[BENCH_NPLACES];
};

/*
 * bench_time - the operation b->c in the devices, of the slowest rank.
 *
 * A graph repeats it --iters times, in up to BENCH_BATCHES runs. With --rewrite each repetition
 * fills the input first and meets the other ranks in a barrier, untimed. What ranks wait for each
 * other at the operation itself is part of its time.
 */
#define BENCH_BATCHES 5
enum rc bench_time(struct bench *b, struct bench_time *out, struct err *err);

/* bench_collective - b->c, once. RC_RECOVERED: it took a recovery. */
enum rc bench_collective(struct bench *b, struct err *err);

/* bench_latency - one call of it, from the client: to the coordinator, the devices and back. */
enum rc bench_latency(struct bench *b, struct bench_time *out, struct err *err);
/* The collective b->c.coll on devices of its own, with buffers of at most b->max_bytes; what else
 * is in b->a. Release with bench_close, also after a failure, whose result it is told. */
enum rc bench_open(struct bench *b, struct err *err);
void bench_close(struct bench *b, enum rc rc);

/* All of one size: check and time the algorithm b->c.algo. */
enum rc bench_size(struct bench *b, uint64_t nbytes, struct bench_row *row, struct err *err);

/* As nccl-tests: a table whose rows come as they are measured; or with --json one object. */
void bench_print_head(const struct bench *b);
void bench_print_row(const struct bench *b, const struct bench_row *row, bool first);
void bench_print_foot(const struct bench *b, double avg_busbw, uint64_t nwrong);

#endif
