/*
 * One operation of chaos: given to the devices, its result read and checked.
 *
 * Design notes. The set of ranks that took part is known unless ranks were lost on the way; then a result
 * is right if it is right for the remaining ranks and any set of the lost ones.
 *
 * Only algorithms that do not store into peers are used: a rank that was frozen in the middle of another
 * one may later write to buffers that then belong to another operation.
 */
#include "chaos/chaos_impl.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "coll/shape.h"
#include "mem/dtype.h"

#define MAX_SUBSETS 10 /* lost ranks that may have taken part */

/* The buffers of each rank. */
struct places {
	struct gpusim_addr send[CHAOS_MAX_RANKS], recv[CHAOS_MAX_RANKS];
	struct shape shape[CHAOS_MAX_RANKS];
};

static void
place(struct chaos *c, const struct chaos_op *o, struct places *p)
{
	size_t size = dtype_size(o->dtype);

	for (uint32_t r = 0; r < o->nranks; r++) {
		const struct chaos_slot *s = chaos_slot_of(c, gpusim_comm_device(c->comm, r));

		p->shape[r] = shape_of(o->coll, o->nelem, o->nranks, o->root, r);
		if (o->coll == GPUSIM_SEND)
			p->shape[r].in = p->shape[r].out = o->nelem;
		p->send[r] =
		    o->in_place ? gpusim_addr_add(s->recv, p->shape[r].in_at * size) : s->send;
		p->recv[r] = gpusim_addr_add(s->recv, o->in_place ? p->shape[r].out_at * size : 0);
		if (!p->shape[r].in)
			p->send[r].addr = 0;
		if (!p->shape[r].out)
			p->recv[r].addr = 0;
	}
}

static enum rc
feed(struct chaos *c, const struct chaos_op *o, const struct places *p, struct err *err)
{
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < o->nranks && rc == RC_OK; r++) {
		uint64_t n = p->shape[r].in;

		chaos_fill(o, r, c->room, n);
		if (n)
			rc = api(gpusim_memcpy_h2d(c->side, gpusim_comm_device(c->comm, r),
						   p->send[r], c->room, n * dtype_size(o->dtype)),
				 err);
	}
	return rc;
}

/* Each rank sends to the next, and receives from the one before. */
static enum gpusim_rc
submit_ring(struct chaos *c, struct gpusim_collective *k, const struct places *p)
{
	struct gpusim_ops *ops = gpusim_ops_new(gpusim_comm_count(c->comm));
	uint32_t n = gpusim_comm_count(c->comm);
	enum gpusim_rc rc;

	for (uint32_t r = 0; r < n; r++) {
		k->rank = r;
		k->coll = GPUSIM_SEND;
		k->root = (r + 1) % n;
		k->send = &p->send[r];
		k->recv = NULL;
		gpusim_ops_collective(ops, k);
		k->coll = GPUSIM_RECV;
		k->root = (r + n - 1) % n;
		k->send = NULL;
		k->recv = &p->recv[r];
		gpusim_ops_collective(ops, k);
	}
	rc = gpusim_submit(c->comm, ops, GPUSIM_SYNC, NULL);
	gpusim_ops_free(ops);
	return rc;
}

static enum rc
submit(struct chaos *c, const struct chaos_op *o, const struct places *p, struct err *err)
{
	struct gpusim_collective k = {GPUSIM_COLLECTIVE_INIT, .coll = o->coll,
				      .dtype = o->dtype,      .redop = o->redop,
				      .algo = o->algo,	      .nelem = o->nelem,
				      .root = o->root,	      .send = p->send,
				      .recv = p->recv,	      .chunk_bytes = o->chunk_bytes};
	unsigned char scalar[8 * CHAOS_MAX_RANKS];

	for (uint32_t r = 0; r < o->nranks; r++)
		chaos_factor(o, r, scalar + r * dtype_size(o->dtype));
	k.scalar = scalar;
	return api(o->coll == GPUSIM_SEND ? submit_ring(c, &k, p)
					  : gpusim_collective(c->comm, &k, GPUSIM_SYNC),
		   err);
}

/* Results as read, by the rank at the operation's begin. */
struct results {
	bool there[CHAOS_MAX_RANKS]; /* the result was read */
	bool left[CHAOS_MAX_RANKS];  /* the rank is still a member */
};

/* Read the output of every remaining rank. A rank that cannot be read has just been lost. */
static void
read_results(struct chaos *c, const struct chaos_op *o, const struct places *p,
	     const struct gpusim_device *devices, struct results *res)
{
	*res = (struct results){0};
	for (uint32_t r = 0; r < o->nranks; r++) {
		uint64_t n = p->shape[r].out * dtype_size(o->dtype);
		struct gpusim_device now = {0};

		for (uint32_t q = 0; q < gpusim_comm_count(c->comm); q++)
			if (gpusim_comm_device(c->comm, q).id == devices[r].id ||
			    (gpusim_comm_count(c->comm) == o->nranks && q == r))
				now = gpusim_comm_device(c->comm, q);
		res->left[r] = now.id != 0;
		res->there[r] =
		    now.id && (n == 0 || gpusim_memcpy_d2h(c->side, c->room + r * CHAOS_BYTES, now,
							   p->recv[r], n) == GPUSIM_OK);
	}
}

/* Return true if all results are right, if these ranks took part. */
static bool
is_right(struct chaos *c, const struct chaos_op *o, const struct results *res, const bool *took)
{
	uint32_t list[CHAOS_MAX_RANKS], n = 0;

	for (uint32_t r = 0; r < o->nranks; r++)
		if (took[r])
			list[n++] = r;
	for (uint32_t k = 0; k < n; k++)
		if (res->there[list[k]] &&
		    !chaos_check(o, list, n, k, c->room + list[k] * CHAOS_BYTES))
			return false;
	return true;
}

/* Return true if they are right for the remaining ranks and any set of the lost ones. */
static bool
is_right_for_some(struct chaos *c, const struct chaos_op *o, const struct results *res)
{
	uint32_t lost[CHAOS_MAX_RANKS], n = 0;
	bool took[CHAOS_MAX_RANKS];

	for (uint32_t r = 0; r < o->nranks; r++)
		if (!res->left[r])
			lost[n++] = r;
	if (n > MAX_SUBSETS)
		n = MAX_SUBSETS;
	for (uint32_t set = 0; set < 1u << n; set++) {
		memcpy(took, res->left, sizeof took);
		for (uint32_t k = 0; k < n; k++)
			took[lost[k]] = set >> k & 1;
		if (is_right(c, o, res, took))
			return true;
	}
	return false;
}

/* Check the result of a successful operation. */
static void
check(struct chaos *c, uint64_t i, const struct chaos_op *o, const struct places *p,
      const struct gpusim_device *devices)
{
	bool noted = *gpusim_note() != '\0', right;
	bool all[CHAOS_MAX_RANKS];
	struct results res;
	struct err err = {0};
	char text[GPUSIM_TEXT];

	c->sum->recovered += noted;
	if (noted)
		chaos_say(c, CHAOS_DETAIL, "operation %" PRIu64 ": %s", i, gpusim_note());
	if (chaos_refresh(c, &err) != RC_OK) {
		c->sum->failed++;
		chaos_drop(c);
		return;
	}
	read_results(c, o, p, devices, &res);
	memset(all, true, sizeof all);
	right = noted ? is_right_for_some(c, o, &res) : is_right(c, o, &res, all);
	c->sum->good += right;
	if (right)
		return;
	c->sum->wrong++;
	chaos_show_op(o, text, sizeof text);
	chaos_say(c, CHAOS_ALARM, "operation %" PRIu64 ": wrong result: %s", i, text);
}

void
chaos_operate(struct chaos *c, uint64_t i)
{
	struct gpusim_device devices[CHAOS_MAX_RANKS];
	uint64_t began, ns;
	struct chaos_op o;
	struct places p;
	struct err err = {0};
	char text[GPUSIM_TEXT];
	enum rc rc = chaos_refresh(c, &err);

	chaos_draw_op(c->cfg->seed, i, gpusim_comm_count(c->comm), c->by_memory, &o);
	chaos_show_op(&o, text, sizeof text);
	chaos_say(c, CHAOS_OPERATION, "operation %" PRIu64 ": %s", i, text);
	for (uint32_t r = 0; r < o.nranks; r++)
		devices[r] = gpusim_comm_device(c->comm, r);
	place(c, &o, &p);
	began = clock_now_ns();
	if (rc == RC_OK)
		rc = feed(c, &o, &p, &err);
	if (rc == RC_OK)
		rc = submit(c, &o, &p, &err);
	ns = clock_now_ns() - began;
	c->sum->ops++;
	if (ns > c->sum->slowest_ns)
		c->sum->slowest_ns = ns;
	if (rc == RC_OK)
		check(c, i, &o, &p, devices);
	else {
		bool stuck = ns >= c->bound_ns;

		c->sum->failed++;
		c->sum->stuck += stuck;
		chaos_say(c, stuck ? CHAOS_ALARM : CHAOS_DETAIL,
			  "operation %" PRIu64 " %s after %.3fs: %s", i,
			  stuck ? "was stuck, given up" : "failed", (double)ns / 1e9, err.text);
		chaos_mend(c);
	}
}
