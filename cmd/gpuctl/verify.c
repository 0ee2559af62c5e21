#include "verify.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "mem/crc64.h"
#include "mem/dtype.h"
#include "mem/number.h"
#include "mem/rounding.h"
#include "mem/vectext.h"

#define PIECE_BYTES (1u << 20)

struct verify {
	const struct ranks *r;
	const char *data;
	uint64_t nelem, step; /* one element in `step` is checked */
	uint32_t n;	      /* ranks */
	bool exact;	      /* every bit is determined */
	union number *x;      /* room for an element of each rank */
};

enum rc
verify_init(struct gpusim_collective *c, const struct args *a, struct err *err)
{
	const struct plan_algo *row;

	if (!a->verify)
		return RC_OK;
	if (!coll_reduces(c->coll))
		return err_set(err, RC_INVAL,
			       "--verify: only for allreduce, reduce and reduce-scatter");
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

/* Set v->x to the values with which the ranks' elements enter the reduction. */
static void
enter(const struct verify *v, uint64_t i)
{
	enum gpusim_dtype t = v->r->c.dtype;
	const char *factor = v->r->scalar;

	for (uint32_t r = 0; r < v->n; r++)
		v->x[r] = number_enter(
		    t, v->r->c.redop, number_get(t, input_at(v, r, i)),
		    number_get(t, factor ? factor + (size_t)r * v->r->size : input_at(v, r, i)));
}

/* Reduce v->x by the canonical tree (coll/plan.h). */
static union number
reduce(const struct verify *v, uint32_t first, uint32_t n)
{
	uint32_t left = 1;

	if (n == 1)
		return v->x[first];
	while (2 * left < n)
		left *= 2;
	return number_fold(v->r->c.dtype, v->r->c.redop, reduce(v, first, left),
			   reduce(v, first + left, n - left));
}

/* Check element i of a result. want: [out] its value by the canonical tree. */
static bool
is_right(const struct verify *v, uint64_t i, const unsigned char *got, unsigned char want[8])
{
	enum gpusim_dtype t = v->r->c.dtype;
	union number n;

	enter(v, i);
	n = number_finish(t, v->r->c.redop, reduce(v, 0, v->n), v->n);
	if (dtype_is_float(t) && isnan(n.real))
		n.real = (double)NAN;
	number_put(t, want, n);
	return memcmp(got, want, v->r->size) == 0 ||
	       (!v->exact && dtype_is_float(t) &&
		rounding_explains(t, v->r->c.redop, v->x, v->n, got));
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
		must_addf(&text, ", not ");
		rc = vectext_format(v->r->c.dtype, want, 1, &text, err);
	}
	if (rc == RC_OK)
		rc = err_set(err, RC_BADDATA,
			     "verify: rank %" PRIu32 " (device %016" PRIx64
			     ") is faulty: element %" PRIu64 " of its %s is %.*s",
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

/* Report the first element of a rank's input that has changed. */
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

/* Report rank's wrong element i. If all ranks have the same wrong value, blame the rank that reduced that
 * part, where the algorithm has one. */
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
			       "are right: a rank's partial sum is wrong; --deterministic, which "
			       "has none, finds the rank",
			       i);
	return lies(v, owner, "part, which it reduced for all,", i, got, want, err);
}

static enum rc
check_result(const struct verify *v, uint32_t rank, unsigned char *room, struct err *err)
{
	struct shape s = ranks_shape(v->r, rank); /* out_at: of the vector */
	uint64_t first = v->r->c.coll == GPUSIM_REDUCESCATTER ? s.out_at : 0;
	size_t size = v->r->size, most = PIECE_BYTES / size;
	enum rc rc = RC_OK;

	for (uint64_t at = 0, n; at < s.out && rc == RC_OK; at += n) {
		n = s.out - at < most ? s.out - at : most;
		rc = copy_out(v, rank, v->r->recv[rank], at * size, n * size, room, err);
		for (uint64_t i = (v->step - at % v->step) % v->step; i < n && rc == RC_OK;
		     i += v->step) {
			unsigned char want[8];

			if (!is_right(v, first + at + i, room + i * size, want))
				rc = blame(v, rank, first + at + i, at + i, room + i * size, want,
					   err);
		}
	}
	return rc;
}

/* The first rank whose checksum is not the most common one; v->n: all are equal. */
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

/* Check that all ranks have the same result, also between samples. */
static enum rc
check_equal(const struct verify *v, struct err *err)
{
	uint64_t *crc = must_alloc(v->n, sizeof *crc);
	enum rc rc = RC_OK;
	uint32_t odd;

	for (uint32_t r = 0; r < v->n && rc == RC_OK; r++)
		rc = api(gpusim_checksum(v->r->cli->g, gpusim_comm_device(v->r->comm, r),
					 v->r->recv[r], v->nelem * v->r->size, &crc[r]),
			 err);
	odd = rc == RC_OK ? odd_one(v, crc) : v->n;
	if (odd < v->n)
		rc = err_set(err, RC_BADDATA,
			     "verify: rank %" PRIu32 " (device %016" PRIx64
			     ") is faulty: its result differs from the other ranks'",
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
			   .exact = r->c.deterministic && gpusim_comm_count(r->comm) > 1};
	unsigned char *room = must_alloc(1, PIECE_BYTES);
	enum rc rc;

	v.x = must_alloc(v.n, sizeof *v.x);
	rc = check_inputs(&v, room, err);
	for (uint32_t i = 0; i < v.n && rc == RC_OK; i++)
		rc = check_result(&v, i, room, err);
	if (rc == RC_OK && r->c.coll == GPUSIM_ALLREDUCE)
		rc = check_equal(&v, err);
	free(room);
	free(v.x);
	return rc;
}
