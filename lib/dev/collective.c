#include "dev/collective_impl.h"

#include <stdlib.h>
#include <string.h>

#include "mem/reduce.h"

/* NULL for a buffer the rank has not: then nothing of it is used. */
static unsigned char *
at(const struct inst_coll *c, uint8_t buf, uint64_t off)
{
	return c->base[buf] ? c->base[buf] + off * c->elem : NULL;
}

/* A chunk of the length the plan says, from a peer. */
static enum rc
receive(struct xport_op *o, const struct plan_step *s, size_t elem, const void **data,
	struct err *err)
{
	size_t nbytes;
	enum rc rc = xport_recv(o, s->peer, data, &nbytes, err);

	if (rc == RC_OK && nbytes != s->count * elem)
		rc = err_set(
		    err, RC_BADDATA,
		    "rank %u sent %zu bytes, %zu are due: the ranks disagree on the operation",
		    s->peer, nbytes, (size_t)s->count * elem);
	return rc;
}

enum rc
collective_step(struct xport_op *o, const struct inst_coll *c, const struct plan_step *s,
		uint32_t nranks, struct err *err)
{
	const void *data;
	enum rc rc;

	switch ((enum plan_step_kind)s->kind) {
	case STEP_SEND:
		return xport_send(o, s->peer, at(c, s->src, s->src_off), s->count * c->elem, err);
	case STEP_RECV:
		rc = receive(o, s, c->elem, &data, err);
		if (rc != RC_OK)
			return rc;
		if (s->count)
			memcpy(at(c, s->dst, s->dst_off), data, s->count * c->elem);
		xport_release(o, s->peer);
		return RC_OK;
	case STEP_RECV_REDUCE:
		rc = receive(o, s, c->elem, &data, err);
		if (rc != RC_OK)
			return rc;
		reduce_apply(c->dtype, c->op, at(c, s->dst, s->dst_off), at(c, s->src, s->src_off),
			     data, s->count);
		xport_release(o, s->peer);
		return RC_OK;
	case STEP_COPY:
		if (s->count && at(c, s->dst, s->dst_off) != at(c, s->src, s->src_off))
			memmove(at(c, s->dst, s->dst_off), at(c, s->src, s->src_off),
				s->count * c->elem);
		return RC_OK;
	case STEP_FINISH:
		reduce_finish(c->dtype, c->op, at(c, s->dst, s->dst_off), s->count, nranks);
		return RC_OK;
	}
	return err_set(err, RC_INTERNAL, "unknown step");
}

/*
 * All steps in order, but sends as early as ahead.h allows and the window has room: step k may
 * wait, and meanwhile chunks are under way. *k is where it stopped.
 */
static enum rc
run_steps(struct xport_op *o, const struct inst_coll *c, uint32_t nranks, size_t *k,
	  struct err *err)
{
	const struct plan *plan = &c->plan;
	size_t posted = 0; /* all sends before this step are */
	enum rc rc = RC_OK;

	for (*k = 0; *k < plan->nstep && rc == RC_OK; ++*k) {
		for (; posted < plan->nstep && rc == RC_OK; posted++) {
			const struct plan_step *s = &plan->step[posted];

			if (s->kind != STEP_SEND)
				continue;
			if (posted > *k &&
			    (c->after[posted] > *k || !xport_ready(o, s->peer, XPORT_SEND)))
				break;
			rc = collective_step(o, c, s, nranks, err);
		}
		if (rc == RC_OK && plan->step[*k].kind != STEP_SEND)
			rc = collective_step(o, c, &plan->step[*k], nranks, err);
	}
	return rc;
}

void
collective_involve(struct xport_op *o, const struct inst_coll *c, size_t from)
{
	for (size_t k = from; k < c->plan.nstep; k++)
		if (c->plan.step[k].kind != STEP_COPY && c->plan.step[k].kind != STEP_FINISH)
			xport_involve(o, c->plan.step[k].peer);
}

/* Bytes through the busiest link at worst: a naive algorithm's root takes in every rank's vector
 * and gives it back. */
static uint64_t
most_bytes(const struct program *p, const struct inst_coll *c)
{
	double n = 2.0 * (double)c->nelem * (double)c->elem * p->nranks;

	return n < (double)(1ull << 62) ? (uint64_t)n : 1ull << 62;
}

enum rc
collective_run(struct xport *x, const struct program *p, const struct inst_coll *c, uint64_t op,
	       struct err *err)
{
	struct err local = {0};
	struct xport_op *o;
	size_t k = 0;
	enum rc rc = xport_begin(x, p->comm, p->epoch, op, &o, err);

	if (rc != RC_OK)
		return rc;
	xport_allow(o, most_bytes(p, c));
	rc = run_steps(o, c, p->nranks, &k, &local);
	if (rc != RC_OK)
		collective_involve(o, c, k - 1);
	rc = xport_end(o, rc == RC_OK ? XPORT_COMPLETE : XPORT_GIVE_UP, &local);
	if (rc != RC_OK && rc != RC_ABORTED)
		return err_set(err, rc, "operation %llu, %s, step %zu of %zu: %s",
			       (unsigned long long)op, c->algo, k, c->plan.nstep, local.text);
	return rc == RC_OK ? rc : err_set(err, rc, "%s", local.text);
}
