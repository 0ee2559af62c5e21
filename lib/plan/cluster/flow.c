#include "cluster/flow.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "cluster/flow_impl.h"
#include "coll/hoist.h"

/* ---- connections */

/* Messages between blocks of one rank take no time. */
static struct route
route_of(const struct flow_sim *s, uint32_t from, uint32_t to)
{
	uint32_t a = from / s->blocks, b = to / s->blocks;

	return a == b ? (struct route){0} : links_route(s->links, a, b);
}

static void
make_connections(struct flow_sim *s)
{
	s->conn = must_alloc((size_t)s->meet.nconn + 1, sizeof *s->conn);
	s->message = must_alloc(s->meet.nmessages + 1, sizeof *s->message);
	for (size_t i = 0; i < s->meet.nmessages; i++)
		s->message[i].arrival = NAN;
	for (uint32_t i = 0; i < s->meet.nconn; i++) {
		struct connection *c = &s->conn[i];
		const struct meet_conn *m = &s->meet.conn[i];

		c->first = m->first;
		c->waiter = FLOW_NOBODY;
		c->route = route_of(s, m->from, m->to);
		for (unsigned h = 0; h < c->route.n; h++)
			c->route.link[h] = links_fold(s->links, s->p->nplans, c->route.link[h]);
	}
}

/* ---- messages */

static void
through(struct flow_sim *s, struct connection *c)
{
	struct message *m = &s->message[c->first + c->done++];

	m->through_us = s->now;
	m->arrival = s->now + c->route.latency_us;
	for (unsigned h = 0; h < c->route.n; h++)
		s->lane[c->route.link[h]].use.nbytes += m->nbytes;
	if (c->waiter != FLOW_NOBODY) {
		agenda_due(&s->events, c->waiter, fmax(s->now, m->arrival));
		c->waiter = FLOW_NOBODY;
	}
}

/* The next of the connection's messages that takes time becomes its flow. */
static void
go_on(struct flow_sim *s, uint32_t conn)
{
	struct connection *c = &s->conn[conn];

	for (; c->done < c->posted; through(s, c)) {
		struct message *m = &s->message[c->first + c->done];

		m->begun_us = s->now;
		if (m->nbytes == 0 || c->route.n == 0)
			continue;
		if (!c->flows) {
			c->left = m->nbytes;
			flow_enter(s, conn);
			return;
		}
		c->left = m->nbytes;
		c->since = s->now;
		agenda_due(&s->events, s->nplans + conn, s->now + c->left / c->rate);
		return;
	}
	if (c->flows)
		flow_leave(s, conn);
}

static double
message_bytes(const struct flow_sim *s, const struct plan_step *send)
{
	return (double)send->count * (double)(send->src == PLAN_WIDE ? sizeof(float) : s->p->elem);
}

static void
post(struct flow_sim *s, size_t number, const struct plan_step *step)
{
	uint32_t conn = s->meet.conn_of[number];
	struct connection *c = &s->conn[conn];
	struct message *m = &s->message[c->first + c->posted++];

	m->nbytes = message_bytes(s, step);
	m->posted_us = s->now;
	m->step = number;
	if (!c->flows)
		go_on(s, conn);
}

/* ---- ranks */

/* The time that a step takes the rank, once it can begin. */
static double
work(const struct flow_sim *s, size_t number, const struct plan_step *step)
{
	const struct connection *c;

	switch ((enum plan_step_kind)step->kind) {
	case STEP_SEND:
	case STEP_RECV:
		return s->links->host_us;
	case STEP_RECV_REDUCE:
		c = &s->conn[s->meet.conn_of[number]];
		return s->links->host_us +
		       s->links->reduce_byte_us * s->message[c->first + c->taken].nbytes;
	case STEP_COPY:
	case STEP_REDUCE:
		return s->links->reduce_byte_us * (double)step->count *
		       (double)(step->dst == PLAN_WIDE ? sizeof(float) : s->p->elem);
	default:
		return 0;
	}
}

/* Return true if the step can begin; else the rank waits. */
static bool
can_begin(struct flow_sim *s, uint32_t r, size_t number, const struct plan_step *step)
{
	struct connection *c;
	double arrival;

	if (!meet_receives(step))
		return true;
	c = &s->conn[s->meet.conn_of[number]];
	arrival = s->message[c->first + c->taken].arrival;
	if (isnan(arrival))
		c->waiter = r;
	else if (arrival > s->now)
		agenda_due(&s->events, r, arrival);
	return !isnan(arrival) && arrival <= s->now;
}

static void
take_message(struct flow_sim *s, size_t number)
{
	struct connection *c = &s->conn[s->meet.conn_of[number]];

	if (s->took)
		s->took[number] = c->first + c->taken;
	c->taken++;
}

/* Advance the rank until it waits, or works. begun is NAN until a step begins. */
static void
walk(struct flow_sim *s, uint32_t r)
{
	while (s->pc[r] < s->p->plan[r].nstep) {
		const struct plan_step *step = &s->p->plan[r].step[s->pc[r]];
		size_t number = s->meet.first[r] + s->pc[r];
		double takes;

		if (isnan(s->begun[number])) {
			if (!can_begin(s, r, number, step))
				return;
			s->begun[number] = s->now;
			takes = work(s, number, step);
			if (takes > 0) {
				agenda_due(&s->events, r, s->now + takes);
				return;
			}
		}
		if (step->kind == STEP_SEND)
			post(s, number, step);
		else if (meet_receives(step))
			take_message(s, number);
		if (s->ended)
			s->ended[number] = s->now;
		s->pc[r]++;
	}
}

/* All events of one moment, then the rates that they change. */
static void
moment(struct flow_sim *s)
{
	double until;

	s->now = s->events.due[agenda_first(&s->events)];
	until = s->now * (1 + FLOW_SAME * 1e-3);
	while (s->events.n && s->events.due[agenda_first(&s->events)] <= until) {
		uint32_t event = agenda_first(&s->events);

		agenda_not_due(&s->events, event);
		s->now = fmax(s->now, s->events.due[event]);
		if (event < s->nplans) {
			walk(s, event);
			continue;
		}
		through(s, &s->conn[event - s->nplans]);
		go_on(s, event - s->nplans);
	}
	flow_share(s);
}

static enum rc
run(struct flow_sim *s, struct err *err)
{
	for (uint32_t r = 0; r < s->nplans; r++)
		agenda_due(&s->events, r, 0);
	while (s->events.n)
		moment(s);
	flow_settle(s);
	for (uint32_t r = 0; r < s->nplans; r++)
		if (s->pc[r] < s->p->plan[r].nstep)
			return err_set(err, RC_FAILED, "rank %" PRIu32 " waits forever in step %zu",
				       r / s->blocks, s->pc[r]);
	return RC_OK;
}

/* ---- beginning and end */

static void
make_steps(struct flow_sim *s, bool report)
{
	size_t n = s->meet.nstep;

	s->pc = must_alloc(s->nplans, sizeof *s->pc);
	s->begun = must_alloc(n + 1, sizeof *s->begun);
	s->ended = report ? must_alloc(n + 1, sizeof *s->ended) : NULL;
	s->took = report ? must_alloc(n + 1, sizeof *s->took) : NULL;
	for (size_t i = 0; i < n; i++)
		s->begun[i] = NAN;
}

static void
make_lanes(struct flow_sim *s)
{
	uint32_t n = s->nlanes = links_count(s->links), events = s->nplans + s->meet.nconn;

	s->lane = must_alloc(n + 1, sizeof *s->lane);
	s->dirty = must_alloc(n + 1, sizeof *s->dirty);
	s->found_lane = must_alloc(n + 1, sizeof *s->found_lane);
	s->found_conn = must_alloc(s->meet.nconn + 1, sizeof *s->found_conn);
	s->next = must_alloc((size_t)s->meet.nconn + 1, LINKS_MAX_ROUTE * sizeof *s->next);
	s->prev = must_alloc((size_t)s->meet.nconn + 1, LINKS_MAX_ROUTE * sizeof *s->prev);
	must(agenda_init(&s->events, events));
	for (uint32_t i = 0; i < n; i++) {
		double byte_us = links_byte_us(s->links, i);

		s->lane[i].rate = byte_us > 0 ? 1 / byte_us : INFINITY;
		s->lane[i].head = FLOW_NOBODY;
		s->lane[i].use.link = i;
	}
}

static void
sim_fini(struct flow_sim *s)
{
	void *own[] = {s->pc,	      s->conn, s->message, s->lane,  s->dirty, s->found_lane,
		       s->found_conn, s->next, s->prev,	   s->begun, s->ended, s->took};

	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		free(own[i]);
	agenda_fini(&s->events);
	meet_fini(&s->meet);
}

/* The plan with its sends as early as a device posts them. */
static void
hoist(const struct plan *in, size_t elem, uint32_t nplans, struct plan *out)
{
	uint32_t most = nplans < FLOW_ALL_AHEAD ? FLOW_ALL_AHEAD / nplans : 1,
		 *after = hoist_apart(in, elem, SIMULATE_WORK / nplans,
				      most < FLOW_AHEAD ? most : FLOW_AHEAD);
	size_t posted = 0;

	must(after);
	for (size_t i = 0; i < in->nstep; i++) {
		for (; posted < in->nstep; posted++) {
			if (in->step[posted].kind != STEP_SEND)
				continue;
			if (after[posted] > i)
				break;
			(void)plan_append(out, in->step[posted]);
		}
		if (in->step[i].kind != STEP_SEND)
			(void)plan_append(out, in->step[i]);
	}
	free(after);
	must(out->rc == RC_OK);
}

static enum rc
simulate_ahead(const struct flow_plans *p, const struct links *links, double *us,
	       struct flow_report *report, struct err *err)
{
	struct flow_plans early = *p;
	struct plan *plans = must_alloc(p->nplans, sizeof *plans);
	enum rc rc;

	for (uint32_t r = 0; r < p->nplans; r++)
		hoist(&p->plan[r], p->elem, p->nplans, &plans[r]);
	early.plan = plans;
	early.ahead = false;
	rc = flow_simulate(&early, links, us, report, err);
	plan_free_all(plans, p->nplans);
	return rc;
}

static bool
shift_fits(const struct flow_plans *p, const struct links *l)
{
	return p->nplans > 0 && p->nranks == l->nranks &&
	       (p->nplans == p->nranks ||
		(p->nranks % p->nplans == 0 && p->nplans % links_period(l) == 0));
}

enum rc
flow_simulate(const struct flow_plans *p, const struct links *links, double *us,
	      struct flow_report *report, struct err *err)
{
	uint32_t blocks = p->blocks ? p->blocks : 1;
	struct flow_sim s = {
	    .p = p, .links = links, .blocks = blocks, .nplans = p->nplans * blocks};
	enum rc rc;

	if (p->ahead && p->nplans)
		return simulate_ahead(p, links, us, report, err);
	if (!shift_fits(p, links))
		return err_set(err, RC_INVAL,
			       "a shift by %" PRIu32 " of %" PRIu32
			       " ranks does not map the links onto each other",
			       p->nplans, p->nranks);
	rc = meet_make(p->plan, s.nplans, p->nranks * blocks, &s.meet, err);
	if (rc == RC_OK) {
		make_steps(&s, report);
		make_connections(&s);
		make_lanes(&s);
		rc = run(&s, err);
	}
	if (rc == RC_OK && report)
		flow_explain(&s, s.now, report);
	if (rc == RC_OK)
		*us = s.now;
	sim_fini(&s);
	return rc;
}
