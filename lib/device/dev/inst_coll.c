/*
 * inst_coll.c - one collective, send or receive of a program: its shape, buffers, plan and scratch.
 */
#include "dev/program.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "coll/tune.h"
#include "coll/schedule.h"
#include "coll/shape.h"
#include "mem/dtype.h"
#include "mem/redop.h"
#include "wire/frame.h"

#define CHUNK_DEFAULT (256u << 10) /* bytes */
#define SCRATCH_ALIGN 64

/* The host pointer of a range; an empty range may be anywhere. */
enum rc
inst_range(const struct devmem *mem, const char *what, uint64_t addr, uint64_t nbytes, void **out,
	   struct err *err)
{
	*out = NULL;
	return nbytes == 0 ? RC_OK : devmem_range(mem, what, addr, nbytes, out, err);
}

/* FNV-1a of everything that the ranks must agree on. In alltoall with counts each rank has its own. */
static uint32_t
kind_of(const struct inst_coll *c)
{
	const struct plan_args *a = &c->args;
	const uint64_t of[] = {
	    a->coll, a->dtype, a->redop, a->root, a->recv_part ? UINT64_MAX : a->nelem, a->chunk};
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
		h = (h ^ of[i]) * 0x100000001b3u;
	h = a->canonical ? (h ^ 1) * 0x100000001b3u : h;
	for (uint32_t r = 0; c->members && r < a->nranks; r++)
		h = (h ^ c->members->rank[r]) * 0x100000001b3u;
	for (uint32_t r = 0; a->part && !a->recv_part && r < a->nranks; r++) {
		h = (h ^ a->part[r].off) * 0x100000001b3u;
		h = (h ^ a->part[r].count) * 0x100000001b3u;
	}
	for (const char *s = inst_coll_algo(c); *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3u;
	h = (h ^ c->digest) * 0x100000001b3u;
	return (uint32_t)(h ^ h >> 32);
}

const char *
inst_coll_algo(const struct inst_coll *c)
{
	return c->file_algo[0] ? c->file_algo : c->algo;
}

/* Find its algorithm, and the factor by which messages with partial sums are longer. */
static enum rc
find_algo(struct inst_coll *c, const char *algo, unsigned *widening, struct err *err)
{
	const struct plan_args *a = &c->args;
	const struct plan_algo *row = &plan_algo_file;
	enum rc rc = a->schedule ? schedule_takes(a->schedule, a, err)
				 : plan_algo_find(a->coll, algo, &row, err);

	if (rc != RC_OK)
		return rc;
	c->algo = row->name;
	c->algo_number = (uint8_t)(plan_algo_number(row) + 1);
	if (a->schedule) {
		snprintf(c->file_algo, sizeof c->file_algo, "%s", a->schedule->name);
		c->digest = a->schedule->digest;
		*widening = schedule_widening(a->schedule, *widening);
	} else {
		*widening = cost_widening(a->coll, row->name, a->nranks, *widening);
	}
	return RC_OK;
}

enum rc
inst_coll_shape(struct inst_coll *c, const char *algo, uint64_t chunk_bytes, struct err *err)
{
	struct plan_args *a = &c->args;
	bool reduces = coll_reduces(a->coll);
	unsigned widening = plan_args_widening(a);
	char root[32] = "";
	enum rc rc;

	if (chunk_bytes > FRAME_PAYLOAD_MAX)
		return err_set(err, RC_INVAL, "chunk of %" PRIu64 " bytes: the limit is %u",
			       chunk_bytes, FRAME_PAYLOAD_MAX);
	rc = redop_check(reduces ? a->redop : GPUSIM_SUM, a->dtype, err);
	if (rc != RC_OK)
		return rc;
	c->elem = dtype_size(a->dtype);
	if (a->nelem > UINT64_MAX / c->elem)
		return err_set(err, RC_INVAL, "%" PRIu64 " elements are too many for any memory",
			       a->nelem);
	a->wide = widening > 1;
	a->canonical = a->canonical && a->nranks > 1 && plan_args_ordered(a);
	rc = find_algo(c, algo, &widening, err);
	if (rc != RC_OK)
		return rc;
	c->chunk_bytes = chunk_bytes;
	a->chunk = (chunk_bytes ? chunk_bytes : CHUNK_DEFAULT) / (c->elem * widening);
	if (a->chunk == 0)
		a->chunk = 1;
	a->share = XPORT_SHARE_MAX / c->elem;
	c->shape = shape_of_args(a);
	c->kind = kind_of(c);
	/* "allreduce of 8 f32 sum (ring)", as far as it fits */
	if (coll_has_root(a->coll))
		snprintf(root, sizeof root, " root %u", a->root);
	snprintf(c->call, sizeof c->call, "%s of %" PRIu64 " %s%s%s%s (%s)", coll_name(a->coll),
		 a->nelem, dtype_name(a->dtype), reduces ? " " : "",
		 reduces ? redop_name(a->redop) : "", root, inst_coll_algo(c));
	return RC_OK;
}

enum rc
inst_coll_place(struct inst_coll *c, const struct devmem *mem, uint64_t send, uint64_t recv,
		struct err *err)
{
	void *in, *out;
	enum rc rc = inst_range(mem, "send buffer", send, c->shape.in * c->elem, &in, err);

	if (rc == RC_OK)
		rc = inst_range(mem, "receive buffer", recv, c->shape.out * c->elem, &out, err);
	if (rc == RC_OK)
		rc = shape_place(&c->shape, send, recv, c->elem, err);
	if (rc != RC_OK)
		return rc;
	c->base[PLAN_IN] = in;
	c->base[PLAN_OUT] = out;
	if (coll_reduces(c->args.coll) && c->args.redop == GPUSIM_PREMULSUM)
		c->given = in;
	return RC_OK;
}

/* The bytes of a step to and from peers. One-sided steps are symmetric. */
static void
count_traffic(struct inst_coll *c, const struct plan_step *s, uint32_t nranks)
{
	uint64_t n =
	    s->count * (s->src == PLAN_WIDE && s->kind == STEP_SEND ? sizeof(float) : c->elem);

	if (s->kind == STEP_SEND) {
		c->sent += n;
	} else if (s->kind == STEP_RECV || s->kind == STEP_RECV_REDUCE) {
		c->received += n;
	} else if (s->kind == STEP_RECV_ALL) {
		c->received += n * (nranks - 1);
	} else if (s->kind == STEP_REDUCE_ALL) {
		n *= (nranks - 1ull) * (s->peer == PLAN_EVERY ? 2 : 1);
		c->sent += n;
		c->received += n;
	}
}

enum rc
inst_coll_plan(struct inst_coll *c, struct err *err)
{
	uint32_t nranks = c->args.nranks;
	struct xport_members *m = c->members;
	enum rc rc = plan_build(&c->args, c->algo, &c->plan, err);

	c->args.schedule = NULL;
	c->sent = c->received = 0;
	for (size_t k = 0; k < c->plan.nstep && rc == RC_OK; k++) {
		struct plan_step *s = &c->plan.step[k];

		count_traffic(c, s, nranks);
		if (s->kind <= STEP_RECV_REDUCE)
			s->peer = inst_coll_rank(c, s->peer);
		if (c->plan.step[k].kind != STEP_RECV_ALL || c->from)
			continue;
		c->from = alloc_zeroed(nranks, sizeof *c->from);
		if (!c->from)
			rc = err_set(err, RC_NOMEM, "out of memory");
	}
	if (rc == RC_OK && m && c->plan.mapped) {
		m->shown = alloc_zeroed(nranks, sizeof *m->shown);
		m->at = alloc_zeroed(2 * (size_t)nranks, sizeof *m->at);
		if (!m->shown || !m->at)
			rc = err_set(err, RC_NOMEM, "out of memory");
	}
	return rc;
}

void
inst_coll_fini(struct inst_coll *c)
{
	plan_fini(&c->plan);
	free(c->from);
	c->from = NULL;
	if (!c->members)
		return;
	free((uint32_t *)c->members->rank);
	free(c->members->shown);
	free(c->members->at);
	free(c->members);
	c->members = NULL;
}

uint64_t
inst_coll_pair(const struct inst_coll *c, uint64_t n)
{
	const struct plan_args *a = &c->args;

	return a->coll == GPUSIM_SEND ? FRAME_OP_SENDRECV(a->rank, a->root, n)
				      : FRAME_OP_SENDRECV(a->root, a->rank, n);
}

static uint64_t
aligned(uint64_t nbytes)
{
	return (nbytes + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
}

/* The offset of wide partial sums in a collective's scratch, after the plan's own. */
static uint64_t
wide_at(const struct inst_coll *c)
{
	return aligned(c->plan.ntmp * c->elem);
}

/* The offset of the input times a factor. */
static uint64_t
scaled_at(const struct inst_coll *c)
{
	return wide_at(c) + aligned(c->plan.nwide * sizeof(float));
}

/* The offset of what members share. */
static uint64_t
share_at(const struct inst_coll *c)
{
	return scaled_at(c) + aligned(c->given ? c->shape.in * c->elem : 0);
}

uint64_t
inst_coll_scratch(const struct inst_coll *c)
{
	return share_at(c) + (c->members && c->plan.mapped ? 2 * XPORT_SHARE_MAX : 0);
}

void
inst_coll_place_scratch(struct inst_coll *c, unsigned char *scratch)
{
	c->base[PLAN_TMP] = scratch;
	c->base[PLAN_WIDE] = scratch + wide_at(c);
	if (c->given)
		c->base[PLAN_IN] = scratch + scaled_at(c);
	if (c->members)
		c->members->share = scratch + share_at(c);
}
