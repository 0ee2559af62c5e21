/* gpuctl allgatherv ... alltoallv - run v-variants as filters: on vectors, or parts of them, of any
 * length. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/must.h"
#include "coll/plan.h"
#include "counts.h"
#include "filter.h"
#include "io.h"
#include "mem/dtype.h"
#include "mem/vectext.h"

struct vector {
	const struct args *a;
	enum gpusim_coll coll;
	struct buf in;	  /* the vectors, one after another */
	uint64_t *counts; /* as in gpusim_collective */
	size_t ncounts;
	uint64_t *len; /* text: elements of each line */
	size_t nvec, cap;
	uint64_t *begin; /* offset of each vector, and of the end */
	uint32_t nranks;
	struct ranks ranks;
	struct results out;
};

static bool
joins(const struct vector *f)
{
	return f->coll == GPUSIM_ALLGATHER || f->coll == GPUSIM_GATHER;
}

/* ---- input */

static enum rc
add_line(struct vector *f, const char *line, size_t nbytes, struct err *err)
{
	struct vectext text = {0};
	enum rc rc;

	if (f->nvec == PLAN_MAX_RANKS)
		return err_set(err, RC_FAILED, "more than %u vectors", PLAN_MAX_RANKS);
	must_room(&f->len, f->nvec, &f->cap, sizeof *f->len);
	rc = vectext_parse(f->a->dtype, line, nbytes, f->nvec + 1, &text, err);
	if (rc == RC_OK)
		must_add(&f->in, text.data, text.nelem * dtype_size(f->a->dtype));
	if (rc == RC_OK)
		f->len[f->nvec++] = text.nelem;
	vectext_fini(&text);
	return rc;
}

static enum rc
read_text(struct vector *f, struct err *err)
{
	struct buf b = {0};
	enum rc rc = io_read_all(STDIN_FILENO, FILTER_STDIN, &b, err);

	for (size_t at = 0, n; rc == RC_OK && at < b.len; at += n) {
		const char *nl = memchr(b.data + at, '\n', b.len - at);

		n = nl ? (size_t)(nl + 1 - b.data) - at : b.len - at;
		rc = add_line(f, b.data + at, n, err);
	}
	buf_fini(&b);
	if (rc == RC_OK && f->nvec == 0)
		rc = err_set(err, RC_BADDATA, "no vectors on " FILTER_STDIN);
	if (rc == RC_OK && ranks_take_one(f->coll) && f->nvec != 1)
		rc = err_set(err, RC_BADDATA,
			     "needs one vector, the root's; " FILTER_STDIN " has %zu", f->nvec);
	return rc;
}

/* ---- counts */

static enum rc
find_nranks(struct vector *f, struct err *err)
{
	size_t n = f->ncounts;

	if (f->coll == GPUSIM_ALLTOALL) {
		for (n = 0; n * n < f->ncounts; n++)
			;
		if (n * n != f->ncounts)
			return err_set(err, RC_INVAL,
				       "--counts: %zu numbers are not a square matrix", f->ncounts);
	}
	if (n > PLAN_MAX_RANKS)
		return err_set(err, RC_INVAL, "--counts: must be for at most %u ranks",
			       PLAN_MAX_RANKS);
	f->nranks = (uint32_t)n;
	if (f->a->nranks && f->a->nranks != f->nranks)
		return err_set(err, RC_INVAL, "--counts: for %zu ranks, but -n is %" PRIu32, n,
			       f->a->nranks);
	return RC_OK;
}

/* Parse the counts, before stdin is read. */
static enum rc
take_counts(struct vector *f, struct err *err)
{
	enum rc rc = counts_parse("--counts", f->a->counts, &f->ncounts, &f->counts, err);

	if (rc != RC_OK)
		return rc;
	if (!f->counts && (f->a->raw || !joins(f)))
		return err_set(err, RC_INVAL, "--counts N,... is missing");
	return f->counts ? find_nranks(f, err) : RC_OK;
}

static enum rc
count_lines(struct vector *f, struct err *err)
{
	f->counts = must_alloc(f->nvec, sizeof *f->counts);
	memcpy(f->counts, f->len, f->nvec * sizeof *f->counts);
	f->ncounts = f->nvec;
	return find_nranks(f, err);
}

/* The number of elements of vector v, by the counts. */
static uint64_t
length_of(const struct vector *f, uint32_t v)
{
	uint64_t sum = 0;
	size_t first = f->coll == GPUSIM_ALLTOALL ? (size_t)v * f->nranks : 0;

	if (joins(f))
		return f->counts[v];
	for (uint32_t r = 0; r < f->nranks; r++)
		if (__builtin_add_overflow(sum, f->counts[first + r], &sum))
			return UINT64_MAX;
	return sum;
}

/* Find where each vector begins; the lines must match the counts. */
static enum rc
cut(struct vector *f, struct err *err)
{
	uint32_t n = ranks_take_one(f->coll) ? 1 : f->nranks;
	size_t size = dtype_size(f->a->dtype);

	f->begin = must_alloc(n + 1, sizeof *f->begin);
	if (!f->a->raw && f->nvec != n)
		return err_set(err, RC_BADDATA,
			       "%zu vector%s, but --counts are for %" PRIu32 " rank%s", f->nvec,
			       f->nvec == 1 ? "" : "s", n, n == 1 ? "" : "s");
	for (uint32_t v = 0; v < n; v++) {
		uint64_t len = length_of(f, v);

		if (!f->a->raw && f->len[v] != len)
			return err_set(err, RC_BADDATA,
				       "line %" PRIu32 ": %" PRIu64
				       " elements, but --counts expect %" PRIu64,
				       v + 1, f->len[v], len);
		if (len > SIZE_MAX / size || f->begin[v] > SIZE_MAX / size - len)
			return err_set(err, RC_INVAL, "--counts: exceed any memory");
		f->begin[v + 1] = f->begin[v] + len;
	}
	if (f->begin[n] * size != f->in.len)
		return err_set(err, RC_BADDATA,
			       "%zu bytes on " FILTER_STDIN ", but --counts expect %" PRIu64,
			       f->in.len, f->begin[n] * size);
	return RC_OK;
}

static enum rc
read_input(struct vector *f, struct err *err)
{
	enum rc rc =
	    f->a->raw ? io_read_all(STDIN_FILENO, FILTER_STDIN, &f->in, err) : read_text(f, err);

	if (rc == RC_OK && !f->counts)
		rc = count_lines(f, err);
	return rc == RC_OK ? cut(f, err) : rc;
}

/* ---- the filter */

enum rc
filter_vector(struct cli *cli, enum gpusim_coll coll, const struct args *a, struct err *err)
{
	struct vector f = {.a = a, .coll = coll};
	enum rc rc = ranks_init(&f.ranks, cli, coll, a, err);

	if (rc == RC_OK)
		rc = take_counts(&f, err);
	if (rc == RC_OK)
		rc = read_input(&f, err);
	if (rc == RC_OK)
		rc = filter_take(&f.ranks, f.nranks, err);
	if (rc == RC_OK) {
		uint32_t nvec = ranks_take_one(coll) ? 1 : f.nranks;

		f.ranks.counts = f.counts;
		f.ranks.begin = f.begin;
		rc = ranks_do(&f.ranks, f.in.data, f.begin[nvec], &f.in, &f.out, err);
	}
	ranks_release(&f.ranks, rc);
	if (rc == RC_OK)
		rc = filter_print(a, &f.out, err);
	results_fini(&f.out);
	buf_fini(&f.in);
	free(f.counts);
	free(f.len);
	free(f.begin);
	return rc;
}
