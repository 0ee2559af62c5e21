#include "dev/collective_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dev/injector.h"
#include "dev/taping.h"
#include "mem/dtype.h"
#include "mem/reduce.h"
#include "mem/reduce_many.h"
#include "wire/frame.h"

#define EXPECT_BYTES (16u << 10) /* avoid copying chunks of at least this size */
#define UNKNOWN_KIB  8192u	 /* of the shared cache */

/* Bytes of an element in a buffer. */
static size_t
size_in(const struct inst_coll *c, uint8_t buf)
{
	return buf == PLAN_WIDE ? sizeof(float) : c->elem;
}

/* NULL for a buffer that the rank does not have, and so does not use. */
static unsigned char *
at(const struct inst_coll *c, uint8_t buf, uint64_t off)
{
	return c->base[buf] ? c->base[buf] + off * size_in(c, buf) : NULL;
}

/* Receive a chunk of the planned length from a peer. wide: it has partial sums in f32. */
static enum rc
receive(struct xport_op *o, const struct plan_step *s, size_t elem, bool *wide, const void **data,
	struct err *err)
{
	size_t nbytes = 0;
	enum rc rc = xport_recv(o, s->peer, data, &nbytes, err);

	*wide = *wide && nbytes == s->count * sizeof(float);
	if (rc == RC_OK && nbytes != s->count * elem && !*wide)
		rc = err_set(
		    err, RC_BADDATA,
		    "rank %u sent %zu bytes, expected %zu: the ranks disagree on the operation",
		    s->peer, nbytes, (size_t)s->count * elem);
	return rc;
}

/*
 * The bytes of all ranks' buffers up to which results are stored through the cache that all cores share, where the
 * next operation finds them; larger ones are stored past it. Half of that cache, for others use it too.
 */
static uint64_t
cache_share(void)
{
	static _Atomic uint64_t bytes;
	unsigned kib = UNKNOWN_KIB;
	FILE *f;

	if (bytes)
		return bytes;
	/* sysconf adds up the caches of cores that are not ours. */
	f = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "re");
	if (f && (fscanf(f, "%uK", &kib) != 1 || kib == 0))
		kib = UNKNOWN_KIB;
	if (f)
		fclose(f);
	bytes = (uint64_t)kib * 1024 / 2;
	return bytes;
}

/* Exchange one range of every rank. */
static enum rc
reduce_all(struct xport_op *o, const struct inst_coll *c, const struct plan_step *s,
	   uint32_t nranks, struct err *err)
{
	size_t nbytes = s->count * c->elem;
	void *own = at(c, s->dst, s->dst_off);
	void *const *dst = &own;
	const void *const *src;
	uint32_t ndst = s->peer == PLAN_EVERY ? nranks : 1;
	bool large = (c->shape.in + c->shape.out) * c->elem > cache_share() / nranks;
	enum rc rc = RC_OK;

	if (s->src == PLAN_SHARED)
		rc = xport_shared(o, nbytes, &src, err);
	else
		rc = xport_ins(o, s->src_off * c->elem, nbytes, &src, err);
	if (rc == RC_OK && s->peer == PLAN_EVERY)
		rc = xport_outs(o, s->dst_off * c->elem, nbytes, &dst, err);
	if (rc == RC_OK)
		reduce_many(c->args.dtype, c->args.redop, dst, ndst, src, nranks, s->count,
			    (large ? REDUCE_STREAM : 0) |
				(c->args.canonical ? REDUCE_CANONICAL : 0));
	return rc;
}

/* Reduce every other rank's chunk and src into dst. Chunks stay in place until all have arrived. */
static enum rc
receive_all(struct xport_op *o, const struct inst_coll *c, const struct plan_step *s,
	    struct err *err)
{
	void *dst = at(c, s->dst, s->dst_off);
	struct plan_step one = *s;
	enum rc rc = RC_OK;

	for (uint32_t k = 1; k < c->args.nranks && rc == RC_OK; k++) {
		bool wide = false;

		uint32_t q = (c->args.rank + c->args.nranks - k) % c->args.nranks;

		one.peer = inst_coll_rank(c, q);
		rc = receive(o, &one, c->elem, &wide, &c->from[q], err);
	}
	if (rc != RC_OK)
		return rc;
	c->from[c->args.rank] = at(c, s->src, s->src_off);
	reduce_many(c->args.dtype, c->args.redop, &dst, 1, c->from, c->args.nranks, s->count,
		    REDUCE_CANONICAL);
	for (uint32_t q = 0; q < c->args.nranks; q++)
		if (q != c->args.rank)
			xport_release(o, inst_coll_rank(c, q));
	return RC_OK;
}

/* Reduce the received chunk and src into dst. */
static enum rc
receive_reduce(struct xport_op *o, const struct inst_coll *c, const struct plan_step *s,
	       uint32_t nranks, struct err *err)
{
	void *dst = at(c, s->dst, s->dst_off), *src = at(c, s->src, s->src_off);
	bool wide = c->args.wide;
	const void *data;
	enum rc rc = receive(o, s, c->elem, &wide, &data, err);

	if (rc != RC_OK)
		return rc;
	if (s->last)
		reduce_last(c->args.dtype, c->args.redop, dst, src, s->src == PLAN_WIDE, data, wide,
			    s->count, nranks);
	else if (c->args.wide)
		reduce_wide(c->args.dtype, c->args.redop, dst, src, s->src == PLAN_WIDE, data, wide,
			    s->count);
	else
		reduce_apply(c->args.dtype, c->args.redop, dst, src, data, s->count);
	xport_release(o, s->peer);
	return RC_OK;
}

/* Reduce two local ranges into dst. */
static void
reduce_local(const struct inst_coll *c, const struct plan_step *s, uint32_t nranks)
{
	void *dst = at(c, s->dst, s->dst_off), *src = at(c, s->src, s->src_off),
	     *with = at(c, s->with, s->with_off);
	bool src_wide = s->src == PLAN_WIDE, with_wide = s->with == PLAN_WIDE;

	if (s->last)
		reduce_last(c->args.dtype, c->args.redop, dst, with, with_wide, src, src_wide,
			    s->count, nranks);
	else if (c->args.wide)
		reduce_wide(c->args.dtype, c->args.redop, dst, with, with_wide, src, src_wide,
			    s->count);
	else
		reduce_apply(c->args.dtype, c->args.redop, dst, with, src, s->count);
}

enum rc
collective_step(struct xport_op *o, const struct inst_coll *c, const struct plan_step *s,
		uint32_t nranks, struct err *err)
{
	bool wide = false;
	const void *data;
	enum rc rc;

	switch ((enum plan_step_kind)s->kind) {
	case STEP_SEND:
		return xport_send(o, s->peer, at(c, s->src, s->src_off),
				  s->count * size_in(c, s->src), err);
	case STEP_RECV:
		if (s->count * c->elem >= EXPECT_BYTES)
			xport_expect(o, s->peer, at(c, s->dst, s->dst_off),
				     s->count * size_in(c, s->dst));
		rc = receive(o, s, size_in(c, s->dst), &wide, &data, err);
		if (rc != RC_OK)
			return rc;
		if (s->count && data != at(c, s->dst, s->dst_off))
			memcpy(at(c, s->dst, s->dst_off), data, s->count * size_in(c, s->dst));
		xport_release(o, s->peer);
		return RC_OK;
	case STEP_RECV_REDUCE:
		return receive_reduce(o, c, s, nranks, err);
	case STEP_COPY:
		if (s->count && at(c, s->dst, s->dst_off) != at(c, s->src, s->src_off))
			memmove(at(c, s->dst, s->dst_off), at(c, s->src, s->src_off),
				s->count * size_in(c, s->dst));
		return RC_OK;
	case STEP_REDUCE:
		reduce_local(c, s, nranks);
		return RC_OK;
	case STEP_FINISH:
		reduce_finish(c->args.dtype, c->args.redop, at(c, s->dst, s->dst_off), s->count,
			      nranks);
		return RC_OK;
	case STEP_SYNC:
		return xport_sync(o, err);
	case STEP_SHARE:
		return xport_share(o, at(c, s->src, s->src_off), s->count * c->elem, err);
	case STEP_REDUCE_ALL:
		return reduce_all(o, c, s, nranks, err);
	case STEP_RECV_ALL:
		return receive_all(o, c, s, err);
	}
	return err_set(err, RC_INTERNAL, "unknown step");
}

enum rc
collective_step_traced(struct recorder *m, struct xport_op *o, const struct inst_coll *c, size_t k,
		       uint32_t nranks, struct err *err)
{
	const struct plan_step *s = &c->plan.step[k];
	struct recorder_step r = {.step = (uint32_t)k + 1,
				  .what = s->kind + 1u,
				  .peer = s->kind <= STEP_RECV_REDUCE ? s->peer + 1 : 0,
				  .bytes = s->count * c->elem};
	enum rc rc;

	recorder_trace_begin(m, &r);
	rc = collective_step(o, c, s, nranks, err);
	recorder_trace(m, &r, rc);
	return rc;
}

/* The execution of a plan's steps. */
struct walk {
	struct xport_op *o;
	struct recorder *recorder;
	const struct program *p;
	const struct inst_coll *c;
	uint64_t op;
	uint32_t nranks;
	size_t k;      /* the current step */
	size_t posted; /* all sends before this step are posted */
};

static inline enum rc
do_step(const struct walk *g, size_t k, struct err *err)
{
	if (__builtin_expect(g->recorder && g->recorder->traces, 0))
		return collective_step_traced(g->recorder, g->o, g->c, k, g->nranks, err);
	return collective_step(g->o, g->c, &g->c->plan.step[k], g->nranks, err);
}

/* The number of peers from which a step receives. */
static uint32_t
npeers_of(const struct walk *g, const struct plan_step *s)
{
	if (s->kind == STEP_RECV_ALL)
		return g->nranks - 1;
	return s->kind == STEP_RECV || s->kind == STEP_RECV_REDUCE;
}

/* The k-th of these peers. */
static uint32_t
peer_at(const struct walk *g, const struct plan_step *s, uint32_t k)
{
	return s->kind == STEP_RECV_ALL
		   ? inst_coll_rank(g->c, (g->c->args.rank + g->nranks - 1 - k) % g->nranks)
		   : s->peer;
}

/* The chunk of the next receive has arrived. Then it goes before a send over a slow link that can wait, which
 * would hold the rank until its bytes are out, and leave the receive's peers without an acknowledgement. */
static bool
takes_first(const struct walk *g, uint32_t to)
{
	const struct plan_step *s = &g->c->plan.step[g->k], *end = &g->c->plan.step[g->posted];
	uint32_t n, k = 0;

	if (s == end || !xport_is_slow(g->o, to))
		return false;
	while (s < end && (s->kind == STEP_SEND || plan_step_local(s->kind)))
		s++;
	n = s < end ? npeers_of(g, s) : 0;
	while (k < n && xport_ready(g->o, peer_at(g, s, k), XPORT_RECV))
		k++;
	return n > 0 && k == n;
}

/* Post the sends whose data are ready, as far as the windows have room; the current one may wait. */
static enum rc
post_sends(struct walk *g, struct err *err)
{
	const struct plan *plan = &g->c->plan;
	enum rc rc = RC_OK;

	for (; g->posted < plan->nstep && rc == RC_OK; g->posted++) {
		const struct plan_step *s = &plan->step[g->posted];

		if (s->kind != STEP_SEND)
			continue;
		if (takes_first(g, s->peer))
			break;
		if (g->posted != g->k &&
		    (g->c->after[g->posted] > g->k || !xport_ready(g->o, s->peer, XPORT_SEND)))
			break;
		inject_step(g->p, g->c, g->op, g->posted);
		rc = do_step(g, g->posted, err);
	}
	return rc;
}

/* The next send waits only for room in the window of a slow link. */
static bool
wants_room(const struct walk *g)
{
	return g->posted < g->c->plan.nstep && g->c->after[g->posted] <= g->k &&
	       xport_is_slow(g->o, g->c->plan.step[g->posted].peer);
}

/* Before the current step's chunk has arrived over its slow link, there may be room for sends: use it, or a
 * window would stay empty until then. */
static enum rc
send_meanwhile(struct walk *g, uint32_t peer, struct err *err)
{
	struct xport_op *o = g->o;
	uint64_t deadline = xport_deadline(o), seen = xport_moves(o);
	enum rc rc = RC_OK;

	while (rc == RC_OK && wants_room(g) && !xport_ready(o, peer, XPORT_RECV)) {
		size_t posted = g->posted;

		rc = post_sends(g, err);
		if (rc == RC_OK && g->posted != posted) {
			deadline = xport_deadline(o);
			seen = xport_moves(o);
			continue;
		}
		if (rc == RC_OK)
			rc = xport_wait(o, peer, XPORT_RECV, seen, deadline, err);
		if (rc == RC_OK)
			rc = xport_poll(o, err);
		seen = xport_moves(o);
	}
	return rc;
}

/*
 * Run all steps in order, but sends as early as hoist.h allows and the window has room: step k may wait while
 * chunks are in flight.
 */
static enum rc
run_steps(struct walk *g, struct err *err)
{
	const struct plan *plan = &g->c->plan;
	enum rc rc = RC_OK;

	for (g->k = 0; g->k < plan->nstep && rc == RC_OK; g->k++) {
		const struct plan_step *s = &plan->step[g->k];

		recorder_step(g->recorder, g->k + 1, s->kind + 1u, s->count * g->c->elem);
		rc = post_sends(g, err);
		for (uint32_t k = 0; k < npeers_of(g, s) && rc == RC_OK; k++) {
			uint32_t peer = peer_at(g, s, k);

			if (xport_is_slow(g->o, peer) && wants_room(g))
				rc = send_meanwhile(g, peer, err);
		}
		if (rc == RC_OK && s->kind != STEP_SEND)
			inject_step(g->p, g->c, g->op, g->k);
		if (rc == RC_OK && s->kind != STEP_SEND)
			rc = do_step(g, g->k, err);
	}
	return rc;
}

void
collective_involve(struct xport_op *o, const struct inst_coll *c, size_t from)
{
	for (size_t k = from; k < c->plan.nstep; k++)
		if (c->plan.step[k].kind == STEP_RECV_ALL) {
			for (uint32_t q = 0; q < c->args.nranks; q++)
				if (q != c->args.rank)
					xport_involve(o, inst_coll_rank(c, q));
		} else if (c->plan.step[k].kind <= STEP_RECV_REDUCE) /* others have no one peer */
			xport_involve(o, c->plan.step[k].peer);
}

/* An upper bound on the bytes over the busiest link: a naive algorithm's root receives every rank's
 * vector and sends it back. */
static uint64_t
most_bytes(const struct inst_coll *c)
{
	double elem = (double)(c->args.wide ? sizeof(float) : c->elem);
	double n = 2.0 * (double)c->args.nelem * elem * c->args.nranks;

	return n < (double)(1ull << 62) ? (uint64_t)n : 1ull << 62;
}

void
collective_failure(struct recorder *m, enum rc why, struct failure *out)
{
	*out = (struct failure){0};
	if (!m->coll || (!recorder_at_work(m) && why != RC_ABORTED))
		return;
	out->coll = m->coll;
	out->algo = m->algo;
	out->op = m->shown_seq;
	out->step = m->step;
	out->steps = m->steps;
	out->idle_ns = m->idle_ns;
	out->nmissing = m->nmissing;
	memcpy(out->missing, m->missing, sizeof out->missing);
	recorder_end(m);
}

void
collective_name(struct recorder *m, const struct program *p, const struct inst_coll *c, uint64_t op,
		uint64_t begin)
{
	/* from queueing to the start, in units of 64 ticks */
	uint64_t queued = m->queued && begin > m->queued ? (begin - m->queued) >> 6 : 0;

	m->op.op = (struct flight_op){.kind = FLIGHT_OP,
				      .coll = (uint8_t)c->args.coll,
				      .dtype = (uint8_t)c->args.dtype,
				      .redop = (uint8_t)c->args.redop,
				      .algo = c->algo_number,
				      .flags = p->numbered ? FLIGHT_QUEUED : 0,
				      .group = c->group_number,
				      .begin = begin,
				      .comm = p->comm,
				      .seq = op,
				      .count = c->args.nelem,
				      .epoch = p->epoch,
				      .queued = queued < UINT32_MAX ? (uint32_t)queued : UINT32_MAX,
				      .root = c->args.root,
				      .rank = (uint16_t)p->rank,
				      .nranks = (uint16_t)p->nranks};
}

void
collective_record_begin(struct recorder *m, const struct program *p, const struct inst_coll *c,
			uint64_t op, uint64_t begin, uint8_t ways)
{
	if (!m)
		return;
	m->coll = coll_name(c->args.coll);
	m->algo = c->algo;
	collective_name(m, p, c, op, begin);
	m->op.op.flags |= ways;
	recorder_begin(m, c->plan.nstep);
}

void
collective_record_end(struct recorder *m, const struct inst_coll *c, const struct xport_op *o,
		      enum rc rc)
{
	struct recorder_result how = {
	    .rc = rc,
	    .flags = xport_in_memory(o) ? FLIGHT_BY_MEMORY : 0,
	    .nbytes = c->args.nelem * c->elem,
	    .sent = rc == RC_OK && c->sent > o->sent ? c->sent - o->sent : 0,
	    .received = rc == RC_OK && c->received > o->received ? c->received - o->received : 0};

	if (!m)
		return;
	recorder_clock(m);
	recorder_done(m, &how);
}

/* The message of a failure. A failure reported elsewhere has a whole message already. */
static enum rc
say(const struct inst_coll *c, uint32_t rank, uint64_t op, size_t step, enum rc rc,
    const struct err *why, struct err *err)
{
	if (rc == RC_ABORTED && strstr(why->text, "the ranks disagree") &&
	    !strstr(why->text, c->call))
		return err_set(err, rc, "%s: %s; rank %u calls %s", coll_name(c->args.coll),
			       why->text, rank, c->call);
	if (rc == RC_ABORTED)
		return err_set(err, rc, "%s%s%s: %s", coll_name(c->args.coll),
			       *c->group ? " of " : "", c->group, why->text);
	return err_set(err, rc, "%s%s%s #%llu (%s) step %zu of %zu: %s", coll_name(c->args.coll),
		       *c->group ? " of " : "", c->group, (unsigned long long)frame_op_shown(op),
		       inst_coll_algo(c), step ? step : 1, c->plan.nstep, why->text);
}

static enum rc
run_one(struct xport *x, const struct xport_tickets *tickets, uint64_t ticket,
	const struct program *p, const struct inst_coll *c, uint64_t op, struct recorder *recorder,
	struct err *err)
{
	struct xport_opening how = {.comm = p->comm,
				    .epoch = p->epoch,
				    .op = op,
				    .nbytes = most_bytes(c),
				    .recorder = recorder,
				    .tickets = c->members ? NULL : tickets,
				    .ticket = ticket,
				    .numbered = p->numbered && !c->members,
				    .pair = c->members,
				    .pair_mark = c->kind,
				    .members = c->members,
				    .kind = c->kind,
				    .call = c->call,
				    .in = c->base[PLAN_IN],
				    .out = c->base[PLAN_OUT],
				    .shares = c->plan.mapped};
	struct xport_op o;
	struct walk g = {
	    .o = &o, .recorder = recorder, .p = p, .c = c, .op = op, .nranks = c->args.nranks};
	struct err local = {0};
	enum rc rc;

	collective_record_begin(recorder, p, c, op, recorder ? recorder_now(recorder) : 0, 0);
	if (c->given)
		reduce_scale(c->args.dtype, c->base[PLAN_IN], c->given, c->shape.in, c->scalar);
	rc = xport_begin(x, &how, &o, &local);
	if (rc == RC_INVAL && how.shares)
		err_prefix(&local, "algorithm %s", inst_coll_algo(c));
	if (rc != RC_OK && rc != RC_TIMEOUT) {
		collective_record_end(recorder, c, &o, rc);
		return err_set(err, rc, "%s: %s", coll_name(c->args.coll), local.text);
	}
	if (rc == RC_OK) {
		bool whole = run_steps(&g, &local) == RC_OK;

		if (whole && recorder)
			recorder->what = 0;
		if (!whole)
			collective_involve(&o, c, g.k - 1);
		rc = xport_end(&o, whole ? XPORT_COMPLETE : XPORT_GIVE_UP, &local);
		if (whole && rc == RC_OK)
			inject_end(p, c, op);
	}
	collective_record_end(recorder, c, &o, rc);
	if (rc != RC_OK)
		return say(c, p->rank, op, g.k, rc, &local, err);
	recorder_end(recorder);
	return RC_OK;
}

enum rc
collective_run(struct xport *x, const struct xport_tickets *tickets, uint64_t ticket,
	       const struct program *p, const struct inst_coll *c, uint64_t op,
	       struct recorder *recorder, struct err *err)
{
	uint64_t taped = p->tape ? taping_begin(p, c, op, 0) : 0;
	enum rc rc = run_one(x, tickets, ticket, p, c, op, recorder, err);

	if (taped)
		taping_end(p, c, taped, rc, err);
	return rc;
}

uint64_t *
waits_copy(const uint64_t *waited_ns, uint32_t nranks)
{
	uint64_t *v = waited_ns ? alloc_zeroed(nranks, sizeof *v) : NULL, any = 0;

	for (uint32_t r = 0; v && r < nranks; r++)
		any |= v[r] = __atomic_load_n(&waited_ns[r], __ATOMIC_RELAXED);
	if (any)
		return v;
	free(v);
	return NULL;
}

void
collective_tell(void (*line)(const char *), const struct program *p, const struct inst_coll *c,
		uint64_t op, uint64_t ns)
{
	char text[256];

	snprintf(text, sizeof text,
		 "comm %" PRIu64 " rank %" PRIu32 " of %" PRIu32 ": %s #%" PRIu64 " %s, %" PRIu64
		 " %s, %" PRIu64 " bytes, %.1f us",
		 p->comm, p->rank, p->nranks, coll_name(c->args.coll), frame_op_shown(op),
		 inst_coll_algo(c), c->args.nelem, dtype_name(c->args.dtype),
		 c->args.nelem * c->elem, (double)ns / 1e3);
	line(text);
}
