#include "xport/fault.h"

#include "base/clock.h"
#include "xport/xport_impl.h"

/* splitmix64: any seed works, 0 too. */
static uint64_t
draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Lock held. */
static void
take_out(struct xport_faults *s, unsigned i)
{
	unsigned n = s->n - 1;

	for (; i < n; i++)
		s->v[i] = s->v[i + 1];
	s->n = n;
}

/* Lock held. Remove expired cuts. */
static void
expire(struct xport_faults *s)
{
	uint64_t now = clock_now_ns();

	for (unsigned i = 0; i < s->n; i++)
		if (s->v[i].f.kind == GPUSIM_FAULT_CUT && now >= s->v[i].until_ns)
			take_out(s, i--);
}

static bool
is_about(const struct gpusim_fault *f, const struct comm *c, uint32_t peer)
{
	return (!f->comm.id || f->comm.id == c->id) && (!f->to_peer || f->peer == peer);
}

static bool
is_hit(struct xport_fault *v)
{
	/* 53 bits of it make a number below 1. */
	return v->f.p == 0 || (double)(draw(&v->chance) >> 11) * 0x1p-53 < v->f.p;
}

enum frame_fate
faults_of_frame(struct xport_faults *s, const struct comm *c, uint32_t peer,
		const struct frame *head, size_t *byte)
{
	bool chunk = head->kind == FRAME_DATA;
	enum frame_fate fate = FRAME_GOES;

	expire(s);
	for (unsigned i = 0; i < s->n && fate == FRAME_GOES; i++) {
		struct xport_fault *v = &s->v[i];
		bool corrupt = v->f.kind == GPUSIM_FAULT_CORRUPT;

		if (!is_about(&v->f, c, peer) || (corrupt && (!chunk || head->nbytes == 0)) ||
		    (v->f.kind != GPUSIM_FAULT_CUT && !is_hit(v)))
			continue;
		fate = corrupt ? FRAME_IS_DAMAGED : FRAME_IS_LOST;
		if (corrupt)
			*byte = draw(&v->chance) % head->nbytes;
		if (v->f.kind != GPUSIM_FAULT_CUT && v->f.count && --v->f.count == 0)
			take_out(s, i);
	}
	return fate;
}

bool
faults_cut_off(struct xport_faults *s, const struct comm *c, uint32_t peer)
{
	expire(s);
	for (unsigned i = 0; i < s->n; i++)
		if (s->v[i].f.kind == GPUSIM_FAULT_CUT && is_about(&s->v[i].f, c, peer))
			return true;
	return false;
}

/* A communicator of the fault has a peer that is reached by sockets. *any: such a communicator exists. */
static bool
has_wire(struct xport *x, const struct gpusim_fault *f, bool *any)
{
	*any = false;
	for (const struct comm *c = x->comms; c; c = c->next)
		for (uint32_t r = 0; r < c->nranks; r++) {
			if (r == c->rank || !is_about(f, c, r))
				continue;
			*any = true;
			if (c->peer[r].via == &xport_frames)
				return true;
		}
	return false;
}

/* Lock held. */
static enum rc
check(struct xport *x, const struct gpusim_fault *f, struct err *err)
{
	bool any;

	if (f->kind != GPUSIM_FAULT_DROP && f->kind != GPUSIM_FAULT_CORRUPT &&
	    f->kind != GPUSIM_FAULT_CUT)
		return err_set(err, RC_INVAL, "not a fault of frames");
	if (has_wire(x, f, &any) || (!any && !f->to_peer && !f->comm.id))
		return RC_OK;
	if (!any)
		return err_set(err, RC_NOTFOUND, "not in a communicator with such a peer");
	return err_set(err, RC_INVAL,
		       "reaches its peers by peer memory, without frames to lose or damage: "
		       "start the devices with GPUSIM_P2P_DISABLE=1");
}

enum rc
xport_fault_check(struct xport *x, const struct gpusim_fault *f, struct err *err)
{
	enum rc rc;

	pthread_mutex_lock(&x->lock);
	rc = check(x, f, err);
	pthread_mutex_unlock(&x->lock);
	return rc;
}

/* Lock held. Close the fault's connections, in both directions. */
static void
close_connections(struct xport *x, const struct gpusim_fault *f)
{
	for (struct comm *c = x->comms; c; c = c->next)
		for (uint32_t r = 0; r < c->nranks; r++) {
			if (r == c->rank || !is_about(f, c, r))
				continue;
			if (c->peer[r].push)
				net_push_break(c->peer[r].push);
			net_pull_break(x->pull, c->peer[r].device_id);
		}
}

enum rc
xport_fault_set(struct xport *x, const struct gpusim_fault *f, struct err *err)
{
	struct xport_faults *s = &x->faults;
	enum rc rc;
	unsigned n;

	pthread_mutex_lock(&x->lock);
	expire(s);
	rc = check(x, f, err);
	n = s->n;
	if (rc == RC_OK && n == XPORT_FAULTS)
		rc = err_set(err, RC_BUSY, "%d faults of frames are set, which is the limit",
			     XPORT_FAULTS);
	if (rc == RC_OK && (f->kind != GPUSIM_FAULT_CUT || f->for_ns)) {
		s->v[n] = (struct xport_fault){.f = *f, .chance = f->seed};
		if (f->kind == GPUSIM_FAULT_CUT)
			s->v[n].until_ns = clock_now_ns() + f->for_ns;
		s->n = n + 1;
	}
	if (rc == RC_OK && f->kind == GPUSIM_FAULT_CUT)
		close_connections(x, f);
	pthread_mutex_unlock(&x->lock);
	return rc;
}

void
xport_fault_clear(struct xport *x)
{
	pthread_mutex_lock(&x->lock);
	x->faults.n = 0;
	pthread_mutex_unlock(&x->lock);
}

size_t
xport_fault_list(struct xport *x, struct gpusim_fault *out, size_t max)
{
	struct xport_faults *s = &x->faults;
	size_t n = 0;

	pthread_mutex_lock(&x->lock);
	expire(s);
	for (; n < s->n && n < max; n++)
		out[n] = s->v[n].f;
	pthread_mutex_unlock(&x->lock);
	return n;
}
