/*
 * measure.h - the measurement of an all-reduce, the same for each peer.
 *
 * f32, sum. Sizes of 1 MiB and more: before each operation every rank rewrites its input, waits
 * at a barrier, and only then starts its clock, so that no operation finds its data in another
 * core's cache by luck. Smaller ones: a loop without barrier and without writing, as a graph
 * repeats an operation. A rank's time is the sum over a run's operations divided by their number,
 * that of the run is the slowest rank's, and the median of MEASURE_RUNS runs is printed: what
 * gpuctl bench does. Before the clock and after it every element of an operation's result is
 * compared; inputs are small integers, so sums are exact in any order.
 *
 * For C and C++. A program supplies its functions and calls measure_args.
 */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MEASURE_REWRITE (1u << 20) /* bytes from which inputs are written between operations */
#define MEASURE_WARMUP	3	   /* operations that only determine how many to time */
#define MEASURE_RUNS	5
#define MEASURE_BUDGET	0.08 /* seconds a run, unless one operation takes longer */
#define MEASURE_MOST	1000 /* operations a run */

struct measure {
	int rank, nranks;
	int in_place; /* the operation works in `out`; in is NULL */
	/* Prepare a size, or NULL. in and out hold count elements. */
	void (*prepare)(struct measure *m, float *in, float *out, size_t count);
	void (*allreduce)(struct measure *m, float *in, float *out, size_t count);
	void (*barrier)(struct measure *m);
	double (*max)(struct measure *m, double mine); /* of all ranks, on each */
	void *arg;				       /* the program's */
};

static inline double
measure_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Element i of a rank's input; turn distinguishes operations. */
static inline float
measure_value(size_t i, int rank, unsigned turn)
{
	return (float)((7 * i + 3 * (unsigned)rank + turn) & 15);
}

static inline void
measure_fill(float *v, size_t count, int rank, unsigned turn)
{
	float period[16];

	for (size_t i = 0; i < 16; i++)
		period[i] = measure_value(i, rank, turn);
	for (size_t i = 0; i < count; i++)
		v[i] = period[i & 15];
}

/* Elements that are not the sum of all ranks' inputs. */
static inline size_t
measure_wrong(const float *got, size_t count, int nranks, unsigned turn)
{
	float period[16];
	size_t wrong = 0;

	for (size_t i = 0; i < 16; i++) {
		period[i] = 0;
		for (int r = 0; r < nranks; r++)
			period[i] += measure_value(i, r, turn);
	}
	for (size_t i = 0; i < count; i++)
		wrong += got[i] != period[i & 15];
	return wrong;
}

/* One operation on a fresh input, after a barrier: its seconds on this rank. */
static inline double
measure_one(struct measure *m, float *in, float *out, size_t count, unsigned turn)
{
	double begin;

	measure_fill(m->in_place ? out : in, count, m->rank, turn);
	m->barrier(m);
	begin = measure_now();
	m->allreduce(m, in, out, count);
	return measure_now() - begin;
}

static inline double
measure_loop(struct measure *m, float *in, float *out, size_t count, int iters)
{
	double begin;

	if (m->in_place) /* sums of sums must not overflow */
		memset(out, 0, count * sizeof *out);
	m->barrier(m);
	begin = measure_now();
	for (int i = 0; i < iters; i++)
		m->allreduce(m, in, out, count);
	return measure_now() - begin;
}

/* Operations a run. */
static inline int
measure_iters(struct measure *m, float *in, float *out, size_t count, int most)
{
	double t = 0;

	for (unsigned i = 0; i < MEASURE_WARMUP; i++)
		t = measure_one(m, in, out, count, i);
	t = m->max(m, t);
	if (t * most <= MEASURE_BUDGET)
		return most;
	return t < MEASURE_BUDGET ? (int)(MEASURE_BUDGET / t) : 1;
}

/* Seconds of an operation, of the slowest rank. */
static inline double
measure_run(struct measure *m, float *in, float *out, size_t count, int iters)
{
	double t = 0;

	if (count * sizeof *out < MEASURE_REWRITE)
		t = measure_loop(m, in, out, count, iters);
	else
		for (int i = 0; i < iters; i++)
			t += measure_one(m, in, out, count, (unsigned)i);
	return m->max(m, t / iters);
}

static inline int
measure_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* One operation on fresh input: its wrong elements. */
static inline size_t
measure_check(struct measure *m, float *in, float *out, size_t count, unsigned turn)
{
	memset(out, 0xff, count * sizeof *out);
	measure_one(m, in, out, count, turn);
	return measure_wrong(out, count, m->nranks, turn);
}

/* Prints BYTES MICROSECONDS WRONG OPERATIONS. Returns the wrong elements. */
static inline double
measure_size(struct measure *m, float *in, float *out, size_t nbytes, int most)
{
	size_t count = nbytes / sizeof *out;
	double t[MEASURE_RUNS], wrong;
	int iters;

	if (m->prepare)
		m->prepare(m, in, out, count);
	wrong = (double)measure_check(m, in, out, count, 1);
	iters = measure_iters(m, in, out, count, most);
	for (int k = 0; k < MEASURE_RUNS; k++)
		t[k] = measure_run(m, in, out, count, iters);
	qsort(t, MEASURE_RUNS, sizeof *t, measure_compare);
	wrong += (double)measure_check(m, in, out, count, 2);
	wrong = m->max(m, wrong);
	if (m->rank == 0) {
		printf("%zu %.2f %.0f %d\n", nbytes, t[MEASURE_RUNS / 2] * 1e6, wrong,
		       iters * MEASURE_RUNS);
		fflush(stdout);
	}
	return wrong;
}

/* Allocate nbytes, in pages that are present. */
static inline float *
measure_alloc(size_t nbytes)
{
	void *p = NULL;

	if (posix_memalign(&p, 4096, nbytes ? nbytes : 1))
		return NULL;
	memset(p, 0, nbytes);
	return (float *)p;
}

/* Each argument is BYTES[:MOST-OPERATIONS-A-RUN]. The program's exit status: 0, 1 wrong sums, 2
 * usage. */
static inline int
measure_args(struct measure *m, int nsizes, char **sizes)
{
	size_t most_bytes = 0;
	double wrong = 0;
	float *in, *out;

	for (int i = 0; i < nsizes; i++) {
		size_t nbytes = strtoul(sizes[i], NULL, 10);

		most_bytes = nbytes > most_bytes ? nbytes : most_bytes;
	}
	in = m->in_place ? NULL : measure_alloc(most_bytes);
	out = measure_alloc(most_bytes);
	if (most_bytes < sizeof *out || !out || (!in && !m->in_place)) {
		fprintf(stderr, "measure: no sizes, or no room for them\n");
		return 2;
	}
	for (int i = 0; i < nsizes; i++) {
		const char *colon = strchr(sizes[i], ':');
		int most = colon ? atoi(colon + 1) : MEASURE_MOST;

		wrong += measure_size(m, in, out, strtoul(sizes[i], NULL, 10), most > 0 ? most : 1);
	}
	free(in);
	free(out);
	return wrong > 0;
}

#endif
