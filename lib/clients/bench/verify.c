/* Find the rank that corrupts data, if results are wrong. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/api.h"
#include "base/must.h"
#include "bench/bench_impl.h"
#include "coll/shape.h"
#include "mem/dtype.h"

static enum rc
lies(const struct bench *b, uint32_t rank, const char *what, uint64_t i, struct err *err)
{
	return err_set(err, RC_BADDATA,
		       "verify: rank %" PRIu32 " (device %016" PRIx64 ") lies: element %" PRIu64
		       " of its %s is wrong",
		       rank, gpusim_comm_device(b->comm, rank).id, i, what);
}

/* The first element of an input that is not what the rank was given. */
static enum rc
check_input(struct bench *b, uint32_t rank, char *room, struct err *err)
{
	uint64_t size = dtype_size(b->c.dtype), n;
	uint64_t total = bench_shape(b, rank).in;
	enum rc rc = RC_OK;

	for (uint64_t at = 0; at < total && rc == RC_OK; at += n) {
		const char *want;

		n = total - at < b->data.most ? total - at : b->data.most;
		rc = api(gpusim_memcpy_d2h(b->cfg.g, room, gpusim_comm_device(b->comm, rank),
					   gpusim_addr_add(b->send[rank], at * size), n * size),
			 err);
		want = bench_data_get(&b->data, rank, at, n);
		for (uint64_t i = 0; i < n && rc == RC_OK; i++)
			if (memcmp(room + i * size, want + i * size, size) != 0)
				rc = lies(b, rank, "input", at + i, err);
	}
	return rc;
}

enum rc
bench_blame(struct bench *b, const struct bench_wrong *w, struct err *err)
{
	uint32_t n = gpusim_comm_count(b->comm);
	char *room = must_alloc(1, BENCH_PIECE);
	enum rc rc = RC_OK;

	/* Out of place the inputs are unchanged. */
	for (uint32_t r = 0; r < n && rc == RC_OK; r++)
		if (b->send[r].addr == b->base[0][r].addr)
			rc = check_input(b, r, room, err);
	free(room);
	if (rc != RC_OK)
		return rc;
	if (w->nranks == 1)
		return lies(b, w->rank, "result", w->elem, err);
	for (uint32_t r = 0; r < n && b->c.coll == GPUSIM_ALLREDUCE && b->c.deterministic; r++) {
		struct shape s = shape_of(GPUSIM_REDUCESCATTER, b->c.nelem, n, 0, r);

		if (b->send[r].addr == b->base[0][r].addr && w->elem >= s.out_at &&
		    w->elem < s.out_at + s.out)
			return lies(b, r, "part, which it reduced for all,", w->elem, err);
	}
	return err_set(err, RC_BADDATA,
		       "verify: element %" PRIu64 " of the results of %" PRIu32
		       " ranks is wrong: a rank lies about what it passes on",
		       w->elem, w->nranks);
}
