/*
 * bench_impl.h - shared by the checks, the clock and the tuner.
 */
#ifndef BENCH_BENCH_IMPL_H
#define BENCH_BENCH_IMPL_H

#include "bench/bench.h"
#include "coll/shape.h"

struct bench {
	struct bench_config cfg;
	struct gpusim_comm *comm;
	struct gpusim_collective c; /* the current operation */
	struct bench_data data;
	struct gpusim_addr *base[BENCH_NPLACES]; /* buffers of max_bytes by rank */
	struct gpusim_addr *send, *recv;	 /* those of the operation at hand */
	void *scalar;				 /* by rank, of premulsum */
	uint64_t max_bytes;
	int recoveries;
};

/* What a rank reads and writes. Of sendrecv: it sends to the next rank and receives from the one before. */
struct shape bench_shape(const struct bench *b, uint32_t rank);

/* Append the operation to a list. */
void bench_add(const struct bench *b, struct gpusim_ops *ops);

/* Wrong elements of one operation: the number of ranks, and the first element of the first rank. */
struct bench_wrong {
	bool any;
	uint32_t nranks, rank;
	uint64_t elem;
};

/* RC_BADDATA, with a message that names the faulty rank if it can be found (verify.c). */
enum rc bench_blame(struct bench *b, const struct bench_wrong *w, struct err *err);

/*
 * bench_time - time the operation b->c in the devices, at the slowest rank.
 *
 * A graph repeats it cfg.iters times, in up to BENCH_BATCHES runs. The time that ranks wait for each
 * other at the operation itself is part of it.
 */
#define BENCH_BATCHES 5
enum rc bench_time(struct bench *b, struct bench_time *out, struct err *err);

/* b->c, once. RC_RECOVERED: it recovered, so the time is not valid. */
enum rc bench_collective(struct bench *b, struct err *err);

/* Time one call of it, from the client: to the coordinator, the devices and back. */
enum rc bench_latency(struct bench *b, struct bench_time *out, struct err *err);

/* Check and time the algorithm b->c.algo at one size. */
enum rc bench_size(struct bench *b, uint64_t nbytes, struct bench_row *row, struct err *err);

/* The size after nbytes; 0: there is none. */
uint64_t bench_next(const struct bench *b, uint64_t nbytes);

#endif
