/*
 * data.h - the input of each rank of a checked collective and its expected output, to the bit.
 *
 * Elements are small whole numbers: every type holds every sum, product and average of them. They repeat
 * after a prime number of elements, so a part at a wrong place shows, and making them is mostly copying.
 */
#ifndef BENCH_DATA_H
#define BENCH_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "mem/number.h"

/* Initialise with bench_data_init. */
struct bench_data {
	enum gpusim_coll coll;
	enum gpusim_dtype dtype;
	enum gpusim_redop redop;
	uint32_t nranks, root;
	char *room;	 /* elements of sequence `which` from 0 on */
	uint32_t which;	 /* a rank's, or BENCH_REDUCED */
	uint64_t filled; /* elements of room that are set */
	uint64_t most;	 /* elements that one request may be for */
};

#define BENCH_PIECE   ((size_t)1 << 20) /* bytes of a request, at most */
#define BENCH_REDUCED UINT32_MAX /* the sequence that the reduction of all ranks' sequences gives */

/* Elements [at, at + nelem) of a rank's output are elements [from, ...) of sequence `which`. */
struct bench_segment {
	uint32_t which;
	uint64_t at, from, nelem;
};

/* coll, dtype, op, nranks, root are set by the caller. */
void bench_data_init(struct bench_data *d);
void bench_data_fini(struct bench_data *d);

/* nelem <= d->most elements of a sequence, from `from` on. Valid until the next call. */
const char *bench_data_get(struct bench_data *d, uint32_t which, uint64_t from, uint64_t nelem);

/* A rank's factor of premulsum. */
union number bench_factor(enum gpusim_dtype dtype, uint32_t rank);

/* The i-th segment of a rank's output when the whole vector has nelem elements; 0: no more. */
int bench_segment(const struct bench_data *d, uint64_t nelem, uint32_t rank, uint32_t i,
		  struct bench_segment *out);

#endif
