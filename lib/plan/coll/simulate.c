/*
 * simulate.c - a discrete-event run of plans, as devices with shaped links run them.
 *
 * A rank works, sends, or waits. An event is a rank's next move, and the soonest comes first, so
 * messages reach their receivers' inbound links in order of time.
 */
#include "coll/simulate.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "coll/hoist.h"
#include "coll/meet.h"

enum doing { READY, SENDING, WORKING };

struct rank {
	enum doing doing;
	size_t step;	 /* current */
	size_t posted;	 /* all sends before this step have been posted */
	double in;	 /* when the inbound link is free */
	uint32_t *after; /* see hoist.h */
};

struct stream {
	uint32_t sent, taken, acked; /* messages */
};

struct sim {
	const struct plan *plans;
	uint32_t nplans;
	size_t elem;
	const struct cost_model *m;
	struct meet meet;
	struct rank *rank;
	struct stream *stream; /* by connection */
	double *arrival;       /* by message; NAN until it has left */
	double *nbytes;	       /* by message */
	struct agenda ranks;
	double now;
};

/* Let a waiting rank look again at a time. */
static void
wake(struct sim *s, uint32_t r, double at)
{
	bool due = s->ranks.place[r] != AGENDA_NONE;

	if (s->rank[r].doing == READY && (!due || s->ranks.due[r] > at))
		agenda_due(&s->ranks, r, at);
}

/* Partial sums are f32. */
static double
step_bytes(const struct sim *s, const struct plan_step *step, uint8_t buf)
{
	return (double)step->count * (double)(buf == PLAN_WIDE ? sizeof(float) : s->elem);
}

static uint32_t
conn_of(const struct sim *s, uint32_t r, size_t step)
{
	return s->meet.conn_of[s->meet.first[r] + step];
}

static const struct plan_step *
step_at(const struct sim *s, uint32_t r, size_t step)
{
	return &s->plans[r].step[step];
}

/* A message leaves its sender: its bytes have arrived meanwhile, unless other ranks' messages delay them. */
static void
leave(struct sim *s, uint32_t r)
{
	struct rank *rank = &s->rank[r], *to;
	const struct plan_step *step = step_at(s, r, rank->posted);
	uint32_t c = conn_of(s, r, rank->posted), peer = step->peer % s->nplans;
	size_t message = s->meet.conn[c].first + s->stream[c].sent++;
	double nbytes = step_bytes(s, step, step->src);

	to = &s->rank[peer];
	to->in = fmax(to->in + s->m->beta_us * nbytes, s->now);
	s->nbytes[message] = nbytes;
	s->arrival[message] = to->in + s->m->alpha_us;
	rank->posted++;
	rank->doing = READY;
	wake(s, peer, s->arrival[message]);
}

/* The current step is done. */
static void
finish(struct sim *s, uint32_t r)
{
	struct rank *rank = &s->rank[r];

	if (meet_receives(step_at(s, r, rank->step))) {
		uint32_t c = conn_of(s, r, rank->step);
		struct stream *t = &s->stream[c];

		t->taken++;
		if (t->taken - t->acked >= SIMULATE_WINDOW / 2) {
			t->acked = t->taken;
			wake(s, s->meet.conn[c].from, s->now);
		}
	}
	rank->step++;
	rank->doing = READY;
}

static void
be_at(struct sim *s, uint32_t r, enum doing doing, double us)
{
	s->rank[r].doing = doing;
	agenda_due(&s->ranks, r, s->now + us);
}

/* Begin the first send that is not posted, if its data are ready and the window has room. */
static bool
begin_send(struct sim *s, uint32_t r)
{
	struct rank *rank = &s->rank[r];
	const struct plan_step *step;
	const struct stream *t;

	while (rank->posted < s->plans[r].nstep && step_at(s, r, rank->posted)->kind != STEP_SEND)
		rank->posted++;
	if (rank->posted == s->plans[r].nstep)
		return false;
	step = step_at(s, r, rank->posted);
	t = &s->stream[conn_of(s, r, rank->posted)];
	if (rank->after[rank->posted] > rank->step || t->sent - t->acked >= SIMULATE_WINDOW)
		return false;
	be_at(s, r, SENDING, s->m->host_us + s->m->beta_us * step_bytes(s, step, step->src));
	return true;
}

/* The time that the current step takes the rank; false: it has to wait, and is woken later. */
static bool
can_work(struct sim *s, uint32_t r, double *us)
{
	const struct rank *rank = &s->rank[r];
	const struct plan_step *step = step_at(s, r, rank->step);
	uint32_t c;
	size_t message;

	*us = 0;
	switch ((enum plan_step_kind)step->kind) {
	case STEP_SEND:
		return rank->posted > rank->step;
	case STEP_RECV:
	case STEP_RECV_REDUCE:
		c = conn_of(s, r, rank->step);
		message = s->meet.conn[c].first + s->stream[c].taken;
		if (isnan(s->arrival[message]))
			return false;
		if (s->arrival[message] > s->now) {
			agenda_due(&s->ranks, r, s->arrival[message]);
			return false;
		}
		*us = s->m->host_us;
		if (step->kind == STEP_RECV_REDUCE)
			*us += s->m->gamma_us * s->nbytes[message];
		return true;
	case STEP_COPY:
	case STEP_REDUCE:
		*us = s->m->gamma_us * step_bytes(s, step, step->dst);
		return true;
	default:
		return true;
	}
}

/* Return true if the message of the next receive has arrived. It precedes a send, which would occupy
 * the rank and leave the receive's peer without an acknowledgement. */
static bool
takes_first(const struct sim *s, uint32_t r)
{
	const struct rank *rank = &s->rank[r];
	size_t k = rank->step;
	uint32_t c;

	while (k < rank->posted && !meet_receives(step_at(s, r, k)))
		k++;
	if (k >= rank->posted)
		return false;
	c = conn_of(s, r, k);
	return s->arrival[s->meet.conn[c].first + s->stream[c].taken] <= s->now; /* NAN: no */
}

/* Advance a rank until it takes time, or waits. */
static void
walk(struct sim *s, uint32_t r)
{
	struct rank *rank = &s->rank[r];

	if (rank->doing == SENDING)
		leave(s, r);
	else if (rank->doing == WORKING)
		finish(s, r);
	while (rank->step < s->plans[r].nstep) {
		double us;

		if ((!takes_first(s, r) && begin_send(s, r)) || !can_work(s, r, &us))
			return;
		if (us > 0) {
			be_at(s, r, WORKING, us);
			return;
		}
		finish(s, r);
	}
}

static enum rc
run(struct sim *s, double *us, struct err *err)
{
	for (uint32_t r = 0; r < s->nplans; r++)
		agenda_due(&s->ranks, r, 0);
	while (s->ranks.n) {
		uint32_t r = agenda_first(&s->ranks);

		s->now = s->ranks.due[r];
		agenda_not_due(&s->ranks, r);
		walk(s, r);
	}
	for (uint32_t r = 0; r < s->nplans; r++)
		if (s->rank[r].step < s->plans[r].nstep)
			return err_set(err, RC_FAILED, "rank %" PRIu32 " waits forever in step %zu",
				       r, s->rank[r].step);
	*us = s->now;
	return RC_OK;
}

static bool
prepare(struct sim *s)
{
	size_t n = s->meet.nmessages;

	s->rank = alloc_zeroed(s->nplans, sizeof *s->rank);
	s->stream = alloc_zeroed((size_t)s->meet.nconn + 1, sizeof *s->stream);
	s->arrival = alloc_zeroed(n + 1, sizeof *s->arrival);
	s->nbytes = alloc_zeroed(n + 1, sizeof *s->nbytes);
	if (!s->rank || !s->stream || !s->arrival || !s->nbytes ||
	    !agenda_init(&s->ranks, s->nplans))
		return false;
	for (size_t i = 0; i < n; i++)
		s->arrival[i] = NAN;
	for (uint32_t r = 0; r < s->nplans; r++) {
		s->rank[r].after = hoist_apart(&s->plans[r], s->elem, SIMULATE_WORK / s->nplans,
					       s->plans[r].nstep);
		if (!s->rank[r].after)
			return false;
	}
	return true;
}

enum rc
plan_simulate_shifted(const struct plan *plans, uint32_t nplans, uint32_t nranks, size_t elem,
		      const struct cost_model *m, double *us, struct err *err)
{
	struct sim s = {.plans = plans, .nplans = nplans, .elem = elem, .m = m};
	enum rc rc;

	if (nplans == 0 || nranks % nplans != 0)
		return err_set(err, RC_INVAL,
			       "%" PRIu32 " plans cannot represent %" PRIu32 " ranks", nplans,
			       nranks);
	rc = meet_make(plans, nplans, nranks, &s.meet, err);
	if (rc == RC_OK && !prepare(&s))
		rc = err_set(err, RC_NOMEM, "no memory to simulate %" PRIu32 " ranks", nranks);
	if (rc == RC_OK)
		rc = run(&s, us, err);
	for (uint32_t r = 0; s.rank && r < nplans; r++)
		free(s.rank[r].after);
	free(s.rank);
	free(s.stream);
	free(s.arrival);
	free(s.nbytes);
	agenda_fini(&s.ranks);
	meet_fini(&s.meet);
	return rc;
}

enum rc
plan_simulate(const struct plan *plans, uint32_t nranks, size_t elem, const struct cost_model *m,
	      double *us, struct err *err)
{
	return plan_simulate_shifted(plans, nranks, nranks, elem, m, us, err);
}
