/*
 * memory NRANKS SIZE[:MOST] ... - the limit of memory for an all-reduce: moving the bytes that must move, and
 * nothing else. Each of n processes reads its n-th part of all n inputs and writes the sum to that
 * part of all n outputs, in memory that all have mapped; no process waits inside. So a
 * process reads and writes one vector's bytes each, and a copy of the vector moves as many.
 *
 * Measured as measure.h says, with plain and with non-temporal stores; the faster of the two is
 * printed, since an output that does not fit the cache need not be read before it is written.
 */
#include "measure.h"
#include "ranks.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define BLOCK 1024 /* elements of the sum held in the first cache */

struct peer {
	struct ranks *ranks;
	char *in, *out; /* nranks vectors each, `stride` bytes apart */
	size_t stride;
	int stream;
};

static void
store_plain(float *restrict dst, const float *restrict src, size_t n)
{
	for (size_t i = 0; i < n; i++)
		dst[i] = src[i];
}

/* dst is aligned to 16 bytes, as parts and blocks are; the rest of a part is stored plainly. */
static void
store_stream(float *restrict dst, const float *restrict src, size_t n)
{
	size_t i = 0;

#ifdef __SSE2__
	for (; i + 4 <= n; i += 4)
		_mm_stream_ps(dst + i, _mm_loadu_ps(src + i));
#endif
	store_plain(dst + i, src + i, n - i);
}

static void
add(float *restrict sum, const float *restrict v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sum[i] += v[i];
}

static float *
vector(const struct peer *p, char *base, int rank)
{
	return (float *)(void *)(base + (size_t)rank * p->stride);
}

static void
allreduce(struct measure *m, float *in, float *out, size_t count)
{
	struct peer *p = m->arg;
	size_t n = (size_t)m->nranks, part = (count + n - 1) / n, n_of_block;
	size_t from, to;
	float sum[BLOCK];

	(void)in;
	(void)out;
	part = (part + 15) / 16 * 16;
	from = part * (size_t)m->rank < count ? part * (size_t)m->rank : count;
	to = from + part < count ? from + part : count;
	for (size_t at = from; at < to; at += n_of_block) {
		n_of_block = to - at < BLOCK ? to - at : BLOCK;
		store_plain(sum, vector(p, p->in, 0) + at, n_of_block);
		for (int r = 1; r < m->nranks; r++)
			add(sum, vector(p, p->in, r) + at, n_of_block);
		for (int r = 0; r < m->nranks; r++)
			(p->stream ? store_stream : store_plain)(vector(p, p->out, r) + at, sum,
								 n_of_block);
	}
#ifdef __SSE2__
	_mm_sfence();
#endif
}

static void
barrier(struct measure *m)
{
	ranks_barrier(((struct peer *)m->arg)->ranks);
}

static double
max(struct measure *m, double mine)
{
	return ranks_max(((struct peer *)m->arg)->ranks, m->rank, mine);
}

/* Seconds of one all-reduce of either kind of store; counts wrong elements. */
static double
best(struct measure *m, size_t nbytes, int most, double *wrong)
{
	struct peer *p = m->arg;
	float *in = vector(p, p->in, m->rank), *out = vector(p, p->out, m->rank);
	size_t count = nbytes / sizeof *out;
	double t[MEASURE_RUNS], least = 0;
	int iters;

	for (p->stream = 0; p->stream < 2; p->stream++) {
		iters = measure_iters(m, in, out, count, most);
		for (int k = 0; k < MEASURE_RUNS; k++)
			t[k] = measure_run(m, in, out, count, iters);
		qsort(t, MEASURE_RUNS, sizeof *t, measure_compare);
		measure_one(m, in, out, count, 2);
		barrier(m); /* others write to this rank's output */
		*wrong += (double)measure_wrong(out, count, m->nranks, 2);
		barrier(m);
		if (least == 0 || t[MEASURE_RUNS / 2] < least)
			least = t[MEASURE_RUNS / 2];
	}
	return least;
}

int
main(int argc, char **argv)
{
	struct measure m = {.allreduce = allreduce, .barrier = barrier, .max = max};
	struct peer p = {0};
	double wrong = 0;
	int status = 0;

	if (argc < 3) {
		fprintf(stderr, "usage: memory NRANKS SIZE[:MOST]...\n");
		return 2;
	}
	m.nranks = atoi(argv[1]);
	m.arg = &p;
	for (int i = 2; i < argc; i++) {
		size_t nbytes = strtoul(argv[i], NULL, 10);

		p.stride = nbytes > p.stride ? nbytes : p.stride;
	}
	p.stride = (p.stride + 4095) / 4096 * 4096;
	p.ranks = ranks_new(m.nranks);
	p.in = ranks_shared((size_t)m.nranks * p.stride);
	p.out = ranks_shared((size_t)m.nranks * p.stride);
	m.rank = ranks_fork(m.nranks, &status);
	if (m.rank < 0)
		return status;
	for (int i = 2; i < argc; i++) {
		const char *colon = strchr(argv[i], ':');
		size_t nbytes = strtoul(argv[i], NULL, 10);
		double t = best(&m, nbytes, colon ? atoi(colon + 1) : MEASURE_MOST, &wrong);

		wrong = max(&m, wrong);
		if (m.rank == 0)
			printf("%zu %.2f %.0f\n", nbytes, t * 1e6, wrong);
	}
	return wrong > 0;
}
