/*
 * bench.h - what the measuring and the printing half of gpuctl bench share.
 */
#ifndef GPUCTL_BENCH_H
#define GPUCTL_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "bench_data.h"
#include "cli.h"

enum bench_place { BENCH_OUT_OF_PLACE, BENCH_IN_PLACE, BENCH_NPLACES };

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
};

struct bench_result {
	bool ran;		 /* alltoall has no in-place form */
	double us, algbw, busbw; /* GB/s, as nccl-tests defines them */
	uint64_t nwrong;
};

struct bench_row {
	uint64_t nbytes, count;
	struct bench_result result[BENCH_NPLACES];
};

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
