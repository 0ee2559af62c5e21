#include "verify.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coll/shape.h"
#include "mem/crc64.h"
#include "mem/dtype.h"
#include "mem/number.h"
#include "mem/redop.h"
#include "mem/vectext.h"

#define PIECE_BYTES (1u << 20)

struct verify {
	const struct ranks *r;
	const char *data;
	uint64_t nelem, step; /* one element in so many is looked at */
	uint32_t n;	      /* ranks */
	bool exact;	      /* every bit is known */
};

enum rc
verify_init(struct gpusim_collective *c, const struct args *a, struct err *err)
{
	const struct plan_algo *row;

	if (!a->verify)
		return RC_OK;
	if (!coll_reduces(c->coll))
		return err_set(err, RC_INVAL, "--verify is for allreduce, reduce, reduce-scatter");
	if (!a->algo || strcmp(a->algo, "auto") == 0 ||
	    (plan_algo_find(c->coll, a->algo, &row, NULL) == RC_OK && plan_algo_canonical(row)))
		c->deterministic = 1;
	return RC_OK;
}

/* ---- one element */

static const char *
input_at(const struct verify *v, uint32_t rank, uint64_t i)
{
	return v->data + (v->r->vector[rank] * v->nelem + i) * v->r->size;
}

/* A rank's element, times its factor where there is one. */
static union number
contribution(const struct verify *v, uint32_t rank, uint64_t i)
{
	enum gpusim_dtype t = v->r->c.dtype;
	union number x = number_get(t, input_at(v, rank, i));

	if (v->r->c.redop != GPUSIM_PREMULSUM)
		return x;
	return number_scale(t, x,
			    number_get(t, (const char *)v->r->scalar + (size_t)rank * v->r->size));
}

/* By the canonical tree (coll/plan.h); *sum: of magnitudes, for the bound of an error. */
static union number
reduce(const struct verify *v, uint32_t first, uint32_t n, uint64_t i, double *sum)
{
	uint32_t left = 1;
	union number x;

	if (n == 1) {
		x = contribution(v, first, i);
		*sum += dtype_is_float(v->r->c.dtype) ? fabs(x.real) : 0;
		return x;
	}
	while (2 * left < n)
		left *= 2;
	x = reduce(v, first, left, i, sum);
	return number_fold(v->r->c.dtype, v->r->c.redop, x,
			   reduce(v, first + left, n - left, i, sum));
}

/* Element i of the result, and by how much another order may differ. */
static void
expect(const struct verify *v, uint64_t i, unsigned char out[8], double *within)
{
	enum gpusim_dtype t = v->r->c.dtype;
	double sum = 0, unit = t == GPUSIM_F64 ? 0x1p-53 : 0x1p-24, x;
	union number n = number_finish(t, v->r->c.redop, reduce(v, 0, v->n, i, &sum), v->n);

	if (dtype_is_float(t) && isnan(n.real))
		n.real = (double)NAN;
	number_put(t, out, n);
	if (v->n == 1)
		memcpy(out, input_at(v, 0, i), v->r->size);
	x = dtype_is_float(t) ? fabs(number_get(t, out).real) : 0;
	if (v->r->c.redop == GPUSIM_PROD)
		sum = x;
	/* Twice gpusim(7)'s bound, and a unit of a short float's last place. */
	*within = 2 * v->n * unit * sum + (dtype_is_half(t) ? x * (t == GPUSIM_F16    ? 0x1p-10
								   : t == GPUSIM_BF16 ? 0x1p-7
										      : 0x1p-2)
							    : 0);
}

static bool
is_right(const struct verify *v, const unsigned char *got, const unsigned char *want, double within)
{
	union number a, b;

	if (memcmp(got, want, v->r->size) == 0)
		return true;
	if (v->exact || !dtype_is_float(v->r->c.dtype))
		return false;
	a = number_get(v->r->c.dtype, got);
	b = number_get(v->r->c.dtype, want);
	return (isnan(a.real) && isnan(b.real)) || fabs(a.real - b.real) <= within ||
	       !isfinite(within);
}

/* ---- sentences */

static enum rc
lies(const struct verify *v, uint32_t rank, const char *what, uint64_t i, const void *got,
     const void *want, struct err *err)
{
	struct buf text = {0};
	enum rc rc = vectext_format(v->r->c.dtype, got, 1, &text, err);

	if (rc == RC_OK) {
		text.len--;
		rc = buf_addf(&text, ", not ") ? vectext_format(v->r->c.dtype, want, 1, &text, err)
					       : err_set(err, RC_NOMEM, "out of memory");
	}
	if (rc == RC_OK)
		rc = err_set(err, RC_BADDATA,
			     "verify: rank %" PRIu32 " (device %016" PRIx64
			     ") lies: element %" PRIu64 " of its %s is %.*s",
			     rank, gpusim_comm_device(v->r->comm, rank).id, i, what,
			     (int)text.len - 1, text.data);
	buf_fini(&text);
	return rc;
}

static enum rc
copy_out(const struct verify *v, uint32_t rank, struct gpusim_addr from, uint64_t at, size_t nbytes,
	 void *to, struct err *err)
{
	return api(gpusim_memcpy_d2h(v->r->cli->g, to, gpusim_comm_device(v->r->comm, rank),
				     gpusim_addr_add(from, at), nbytes),
		   err);
}

/* ---- inputs */

/* The first element of a rank's input that is not what it was given. */
static enum rc
find_changed(const struct verify *v, uint32_t rank, unsigned char *room, struct err *err)
{
	size_t size = v->r->size, most = PIECE_BYTES / size;
	enum rc rc = RC_OK;

	for (uint64_t at = 0, n; at < v->nelem && rc == RC_OK; at += n) {
		n = v->nelem - at < most ? v->nelem - at : most;
		rc = copy_out(v, rank, v->r->send[rank], at * size, n * size, room, err);
		for (uint64_t i = 0; i < n && rc == RC_OK; i++)
			if (memcmp(room + i * size, input_at(v, rank, at + i), size) != 0)
				rc = lies(v, rank, "input", at + i, room + i * size,
					  input_at(v, rank, at + i), err);
	}
	return rc;
}

/* The devices still have what they were given. */
static enum rc
check_inputs(const struct verify *v, unsigned char *room, struct err *err)
{
	size_t nbytes = v->nelem * v->r->size;
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < v->n && rc == RC_OK; r++) {
		uint64_t crc = 0;

		rc = api(gpusim_checksum(v->r->cli->g, gpusim_comm_device(v->r->comm, r),
					 v->r->send[r], nbytes, &crc),
			 err);
		if (rc == RC_OK && crc != crc64(0, input_at(v, r, 0), nbytes))
			rc = find_changed(v, r, room, err);
	}
	return rc;
}

/* ---- results */

/* What is wrong with rank's element i, if it is not wrong alone: of the vector as all ranks have it, the rank that
 * reduced that part is to blame, where the algorithm has one. */
static enum rc
blame(const struct verify *v, uint32_t rank, uint64_t i, uint64_t at, const unsigned char *got,
      const unsigned char *want, struct err *err)
{
	unsigned char other[8];
	uint32_t agree = 0, owner = 0;
	enum rc rc = RC_OK;

	if (v->r->c.coll != GPUSIM_ALLREDUCE || v->n == 1)
		return lies(v, rank, "result", i, got, want, err);
	for (uint32_t r = 0; r < v->n && rc == RC_OK; r++) {
		rc = copy_out(v, r, v->r->recv[r], at * v->r->size, v->r->size, other, err);
		agree += rc == RC_OK && memcmp(other, got, v->r->size) == 0;
	}
	if (rc != RC_OK || agree < v->n)
		return rc == RC_OK ? lies(v, rank, "result", i, got, want, err) : rc;
	for (uint32_t r = 0; r < v->n; r++) {
		struct shape s =
		    shape_of(GPUSIM_REDUCESCATTER, v->nelem, v->n, 0, r); /* its part */

		owner = i >= s.out_at && i < s.out_at + s.out ? r : owner;
	}
	if (v->r->a->algo && strcmp(v->r->a->algo, "naive") == 0)
		owner = 0;
	else if (!v->r->c.deterministic)
		return err_set(err, RC_BADDATA,
			       "verify: element %" PRIu64
			       " of all results is wrong, and all inputs "
			       "are right: a rank lies about a partial sum; --deterministic, which "
			       "has none, names it",
			       i);
	return lies(v, owner, "part, which it reduced for all,", i, got, want, err);
}

static enum rc
check_result(const struct verify *v, uint32_t rank, unsigned char *room, struct err *err)
{
	struct shape s =
	    shape_of(v->r->c.coll, v->nelem, v->n, v->r->c.root, rank); /* out_at: of the vector */
	uint64_t first = v->r->c.coll == GPUSIM_REDUCESCATTER ? s.out_at : 0;
	size_t size = v->r->size, most = PIECE_BYTES / size;
	enum rc rc = RC_OK;

	for (uint64_t at = 0, n; at < s.out && rc == RC_OK; at += n) {
		n = s.out - at < most ? s.out - at : most;
		rc = copy_out(v, rank, v->r->recv[rank], at * size, n * size, room, err);
		for (uint64_t i = (v->step - at % v->step) % v->step; i < n && rc == RC_OK;
		     i += v->step) {
			unsigned char want[8];
			double within;

			expect(v, first + at + i, want, &within);
			if (!is_right(v, room + i * size, want, within))
				rc = blame(v, rank, first + at + i, at + i, room + i * size, want,
					   err);
		}
	}
	return rc;
}

/* The first rank whose checksum fewer ranks have than another's; v->n: all have the same. */
static uint32_t
odd_one(const struct verify *v, const uint64_t *crc)
{
	uint32_t most = 0, odd = v->n;

	for (int pass = 0; pass < 2; pass++)
		for (uint32_t r = v->n; r-- > 0;) {
			uint32_t n = 0;

			for (uint32_t q = 0; q < v->n; q++)
				n += crc[q] == crc[r];
			if (pass == 0 && n > most)
				most = n;
			if (pass == 1 && (n < most || (n < v->n && crc[r] != crc[0])))
				odd = r;
		}
	return odd;
}

/* All ranks have the same result, also where no sample is. */
static enum rc
check_equal(const struct verify *v, struct err *err)
{
	uint64_t *crc = alloc_zeroed(v->n, sizeof *crc);
	enum rc rc = crc ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
	uint32_t odd;

	for (uint32_t r = 0; r < v->n && rc == RC_OK; r++)
		rc = api(gpusim_checksum(v->r->cli->g, gpusim_comm_device(v->r->comm, r),
					 v->r->recv[r], v->nelem * v->r->size, &crc[r]),
			 err);
	odd = rc == RC_OK ? odd_one(v, crc) : v->n;
	if (odd < v->n)
		rc = err_set(err, RC_BADDATA,
			     "verify: rank %" PRIu32 " (device %016" PRIx64
			     ") lies: its result is not the one that the other ranks have",
			     odd, gpusim_comm_device(v->r->comm, odd).id);
	free(crc);
	return rc;
}

enum rc
verify_ranks(const struct ranks *r, const char *data, uint64_t nelem, struct err *err)
{
	struct verify v = {.r = r,
			   .data = data,
			   .nelem = nelem,
			   .step = nelem / VERIFY_ALL + 1,
			   .n = gpusim_comm_count(r->comm),
			   .exact = r->c.deterministic != 0};
	unsigned char *room = malloc(PIECE_BYTES);
	enum rc rc = room ? check_inputs(&v, room, err) : err_set(err, RC_NOMEM, "out of memory");

	for (uint32_t i = 0; i < v.n && rc == RC_OK; i++)
		rc = check_result(&v, i, room, err);
	if (rc == RC_OK && r->c.coll == GPUSIM_ALLREDUCE)
		rc = check_equal(&v, err);
	free(room);
	return rc;
}
