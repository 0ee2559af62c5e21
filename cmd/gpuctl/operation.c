#include "operation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "algo.h"
#include "base/parse.h"
#include "coll/plan.h"
#include "mem/dtype.h"
#include "mem/num.h"
#include "mem/redop.h"
#include "coll/parts.h"
#include "coll/shape.h"
#include "counts.h"

#define ADDR_CHARS 24 /* longest address, and its NUL */
#define MAX_STREAM 63

enum rc
operation_algo(enum gpusim_coll coll, const char *name, struct err *err)
{
	size_t len = strlen(coll_name(coll));
	enum rc rc = algo_check(coll, name, err);

	if (rc != RC_OK && strncmp(err->text, coll_name(coll), len) == 0 && err->text[len] == ':')
		memmove(err->text, err->text + len + 2, strlen(err->text + len + 2) + 1);
	return rc;
}

static enum rc
check_rank(const char *option, uint32_t rank, uint32_t nranks, struct err *err)
{
	if (rank < nranks)
		return RC_OK;
	return err_set(err, RC_INVAL,
		       "--%s: no rank %" PRIu32 " in a communicator of %" PRIu32 " ranks", option,
		       rank, nranks);
}

/* Check that the reduction supports the type, and that factors are given if they are used. */
static enum rc
check_redop(enum gpusim_coll coll, const struct args *a, struct err *err)
{
	bool scaled = coll_reduces(coll) && a->redop == GPUSIM_PREMULSUM;

	if (coll_reduces(coll) && redop_check(a->redop, a->dtype, err) != RC_OK)
		return err_prefix(err, "--op");
	if (scaled && !a->scalar)
		return err_set(err, RC_INVAL, "--op premulsum: --scalar X[,...] is missing");
	if (!scaled && a->scalar)
		return err_set(err, RC_INVAL, "--scalar: only for --op premulsum");
	return RC_OK;
}

enum rc
operation_scalars(const struct gpusim_collective *c, const struct args *a, uint32_t nranks,
		  void **out, struct err *err)
{
	size_t size = dtype_size(c->dtype), len;
	uint32_t k = 0;
	char *v;

	*out = NULL;
	if (!coll_reduces(c->coll) || c->redop != GPUSIM_PREMULSUM)
		return RC_OK;
	v = must_alloc(nranks, size);
	for (const char *p = a->scalar; p && k <= nranks; k++, p = p[len] ? p + len + 1 : NULL) {
		len = strcspn(p, ",");
		if (k < nranks && num_parse(c->dtype, p, len, v + k * size) != NUM_OK) {
			free(v);
			return err_set(err, RC_INVAL, "--scalar: '%.*s' is not a number of type %s",
				       (int)(len < 64 ? len : 64), p, dtype_name(c->dtype));
		}
	}
	if (k != 1 && k != nranks) {
		free(v);
		return err_set(err, RC_INVAL, "--scalar: has %s factors than the %" PRIu32 " ranks",
			       k > nranks ? "more" : "fewer", nranks);
	}
	for (; k < nranks; k++)
		memcpy(v + k * size, v, size);
	*out = v;
	return RC_OK;
}

enum rc
operation_common(enum gpusim_coll coll, const struct args *a, uint32_t nranks,
		 struct gpusim_collective *c, struct err *err)
{
	enum rc rc = operation_algo(coll, a->algo, err);

	if (rc == RC_OK)
		rc = check_redop(coll, a, err);
	if (rc == RC_OK && coll_has_root(coll))
		rc = check_rank("root", a->root, nranks, err);
	if (rc == RC_OK && coll_is_sendrecv(coll))
		rc = check_rank("rank", a->rank, nranks, err);
	if (rc == RC_OK && coll_is_sendrecv(coll))
		rc = check_rank("peer", a->peer, nranks, err);
	if (rc != RC_OK)
		return rc;
	if (coll_is_sendrecv(coll) && a->rank == a->peer)
		return err_set(err, RC_INVAL, "--peer: rank %" PRIu32 " is its own peer", a->peer);
	if (a->stream > MAX_STREAM)
		return err_set(err, RC_INVAL, "--stream: %" PRIu64 " is not in the range 0 to %d",
			       a->stream, MAX_STREAM);
	*c = (struct gpusim_collective){
	    GPUSIM_COLLECTIVE_INIT,  .coll = coll,
	    .dtype = a->dtype,	     .redop = a->redop,
	    .algo = a->algo,	     .root = coll_is_sendrecv(coll) ? a->peer : a->root,
	    .rank = a->rank,	     .stream = {a->stream},
	    .chunk_bytes = a->chunk, .deterministic = a->deterministic};
	return RC_OK;
}

enum rc
operation_addrs(const char *option, const char *text, uint32_t n, struct gpusim_addr **out,
		struct err *err)
{
	struct gpusim_addr *v = must_alloc(n, sizeof *v);
	char word[ADDR_CHARS];
	uint32_t k = 0;
	enum rc rc = RC_OK;

	for (const char *p = text; rc == RC_OK && p; k++) {
		size_t len = strcspn(p, ",");

		snprintf(word, sizeof word, "%.*s", (int)(len < ADDR_CHARS ? len : ADDR_CHARS), p);
		if (k < n)
			rc = parse_u64(word, 0, UINT64_MAX, &v[k].addr, err);
		p = p[len] ? p + len + 1 : NULL;
	}
	if (rc == RC_OK && k != n)
		rc = err_set(err, RC_INVAL, "%" PRIu32 " address%s for %" PRIu32 " rank%s", k,
			     k == 1 ? "" : "es", n, n == 1 ? "" : "s");
	if (rc == RC_OK) {
		*out = v;
		return rc;
	}
	free(v);
	return err_prefix(err, "%s", option);
}

/* Place the input and the output of each rank in its one buffer. */
static enum rc
place(struct operation *o, uint32_t nranks, struct err *err)
{
	struct plan_args all = {
	    .coll = o->c.coll, .nranks = nranks, .root = o->c.root, .nelem = o->c.nelem};
	uint64_t size = dtype_size(o->c.dtype);
	struct plan_part *parts = NULL;
	enum rc rc;

	if (o->c.coll == GPUSIM_ALLTOALL)
		return err_set(err, RC_INVAL,
			       "--addr: alltoall has no in-place form; use --send and --recv");
	o->recv = must_alloc(nranks, sizeof *o->recv);
	rc = parts_take_all(&all, o->counts, o->displs, NULL, &parts, err);
	for (uint32_t r = 0; r < nranks && rc == RC_OK; r++) {
		struct plan_args mine = all;
		struct shape s;
		uint64_t base = o->send[r].addr;

		mine.rank = r;
		s = shape_of_args(&mine);
		o->send[r].addr = s.in && base ? base + s.in_at * size : 0;
		o->recv[r].addr = s.out && base ? base + s.out_at * size : 0;
	}
	free(parts);
	return rc;
}

static enum rc
take_counts(struct operation *o, const struct args *a, uint32_t nranks, struct err *err)
{
	size_t n = o->c.coll == GPUSIM_ALLTOALL ? (size_t)nranks * nranks : nranks;
	enum rc rc = counts_parse("--counts", a->counts, &n, &o->counts, err);

	if (rc == RC_OK)
		rc = counts_parse("--displs", a->displs, &n, &o->displs, err);
	if (rc == RC_OK)
		rc = counts_parse("--recv-displs", a->recv_displs, &n, &o->recv_displs, err);
	o->c.counts = o->counts;
	o->c.displs = o->displs;
	o->c.recv_displs = o->recv_displs;
	return rc;
}

static enum rc
addresses(struct operation *o, const struct args *a, uint32_t nranks, struct err *err)
{
	enum rc rc;

	if (a->addr && (a->send || a->recv))
		return err_set(err, RC_INVAL, "--addr: cannot be combined with --send or --recv");
	if (a->addr) {
		rc = operation_addrs("--addr", a->addr, nranks, &o->send, err);
		return rc == RC_OK ? place(o, nranks, err) : rc;
	}
	if (!a->send || !a->recv)
		return err_set(err, RC_INVAL,
			       "the buffers are missing: use --addr, or --send and --recv");
	rc = operation_addrs("--send", a->send, nranks, &o->send, err);
	return rc == RC_OK ? operation_addrs("--recv", a->recv, nranks, &o->recv, err) : rc;
}

enum rc
operation_make(enum gpusim_coll coll, const struct args *a, struct gpusim_comm *comm,
	       struct operation *out, struct err *err)
{
	struct operation o = {0};
	enum rc rc = operation_common(coll, a, gpusim_comm_count(comm), &o.c, err);

	if (rc == RC_OK && a->counts)
		rc = take_counts(&o, a, gpusim_comm_count(comm), err);
	else if (rc == RC_OK && coll != GPUSIM_BARRIER && !args_given(a, count))
		rc = err_set(err, RC_INVAL, "--count N is missing");
	else if (rc == RC_OK && coll != GPUSIM_BARRIER)
		rc = shape_nelem(coll, a->count, gpusim_comm_count(comm), &o.c.nelem, err);
	if (rc == RC_OK && coll_is_sendrecv(coll))
		rc = operation_addrs("--addr", a->addr, 1, coll == GPUSIM_SEND ? &o.send : &o.recv,
				     err);
	else if (rc == RC_OK && coll != GPUSIM_BARRIER)
		rc = addresses(&o, a, gpusim_comm_count(comm), err);
	if (rc == RC_OK)
		rc = operation_scalars(&o.c, a, gpusim_comm_count(comm), &o.scalar, err);
	if (rc != RC_OK) {
		operation_fini(&o);
		return rc;
	}
	o.c.scalar = o.scalar;
	o.c.send = o.send;
	o.c.recv = o.recv;
	*out = o;
	return RC_OK;
}

void
operation_fini(struct operation *o)
{
	free(o->send);
	free(o->recv);
	free(o->scalar);
	free(o->counts);
	free(o->displs);
	free(o->recv_displs);
	*o = (struct operation){0};
}

enum rc
operation_run(enum gpusim_coll coll, const struct args *a, struct gpusim_comm *comm,
	      struct err *err)
{
	struct operation o = {0};
	enum rc rc = operation_make(coll, a, comm, &o, err);

	if (rc == RC_OK)
		rc = api(gpusim_collective(comm, &o.c, a->async ? GPUSIM_ASYNC : GPUSIM_SYNC), err);
	if (rc == RC_OK)
		cli_note();
	operation_fini(&o);
	return rc;
}
