#include "cluster/flow.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/flow_impl.h"

/* ---- the heap of events */

static bool
sooner(const struct flow_sim *s, uint32_t a, uint32_t b)
{
	return s->due[a] < s->due[b] || (s->due[a] == s->due[b] && a < b);
}

static void
put(struct flow_sim *s, uint32_t at, uint32_t event)
{
	s->heap[at] = event;
	s->place[event] = at;
}

static void
sift(struct flow_sim *s, uint32_t i, uint32_t event)
{
	uint32_t k;

	for (; i && sooner(s, event, s->heap[(i - 1) / 2]); i = (i - 1) / 2)
		put(s, i, s->heap[(i - 1) / 2]);
	for (; (k = 2 * i + 1) < s->nheap; i = k) {
		if (k + 1 < s->nheap && sooner(s, s->heap[k + 1], s->heap[k]))
			k++;
		if (!sooner(s, s->heap[k], event))
			break;
		put(s, i, s->heap[k]);
	}
	put(s, i, event);
}

void
flow_due(struct flow_sim *s, uint32_t event, double at)
{
	s->due[event] = at;
	if (s->place[event] == FLOW_NOBODY)
		sift(s, s->nheap++, event);
	else
		sift(s, s->place[event], event);
}

void
flow_not_due(struct flow_sim *s, uint32_t event)
{
	uint32_t at = s->place[event], last;

	if (at == FLOW_NOBODY)
		return;
	s->place[event] = FLOW_NOBODY;
	last = s->heap[--s->nheap];
	if (last != event)
		sift(s, at, last);
}

/* ---- connections */

static bool
receives(const struct plan_step *step)
{
	return step->kind == STEP_RECV || step->kind == STEP_RECV_REDUCE;
}

/* Of the message that a step of plan r sends or takes. */
static uint64_t
key_of(const struct flow_sim *s, uint32_t r, const struct plan_step *step)
{
	uint32_t n = s->p->nranks, from = receives(step) ? step->peer : r,
		 to = receives(step) ? r : step->peer;

	return (uint64_t)(from % s->p->nplans) << 32 | (to + n - from) % n;
}

static uint32_t *
find_bucket(const struct flow_sim *s, uint64_t key)
{
	uint32_t i = (uint32_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (s->nbuckets - 1);

	while (s->bucket[i] != FLOW_NOBODY && s->conn[s->bucket[i]].key != key)
		i = (i + 1) & (s->nbuckets - 1);
	return &s->bucket[i];
}

static bool
grow(struct flow_sim *s)
{
	uint32_t cap = s->cconn ? 2 * s->cconn : 64;
	struct connection *conn = alloc_resize(s->conn, cap, sizeof *conn);
	uint32_t *bucket;

	if (!conn)
		return false;
	s->conn = conn;
	bucket = alloc_resize(s->bucket, 2 * (size_t)cap, sizeof *bucket);
	if (!bucket)
		return false;
	s->bucket = bucket;
	s->cconn = cap;
	s->nbuckets = 2 * cap;
	memset(bucket, 0xff, s->nbuckets * sizeof *bucket);
	for (uint32_t i = 0; i < s->nconn; i++)
		*find_bucket(s, conn[i].key) = i;
	return true;
}

/* FLOW_NOBODY: out of memory. */
static uint32_t
connect(struct flow_sim *s, uint32_t r, const struct plan_step *step)
{
	uint64_t key = key_of(s, r, step);
	uint32_t *at;

	if (s->nconn == s->cconn && !grow(s))
		return FLOW_NOBODY;
	at = find_bucket(s, key);
	if (*at == FLOW_NOBODY) {
		struct connection *c = &s->conn[s->nconn];

		*c = (struct connection){
		    .key = key, .from = r, .to = step->peer, .waiter = FLOW_NOBODY};
		c->route = links_route(s->links, r, step->peer);
		for (unsigned h = 0; h < c->route.n; h++)
			c->route.link[h] = links_fold(s->links, s->p->nplans, c->route.link[h]);
		*at = s->nconn++;
	}
	return *at;
}

static enum rc
unfit(struct err *err)
{
	return err_set(err, RC_FAILED, "sends do not meet receives");
}

/* Sends make connections; receives find theirs. */
static enum rc
connect_steps(struct flow_sim *s, struct err *err)
{
	size_t sent = 0, taken = 0;

	for (uint32_t r = 0; r < s->p->nplans; r++)
		for (size_t i = 0; i < s->p->plan[r].nstep; i++) {
			const struct plan_step *step = &s->p->plan[r].step[i];
			uint32_t c;

			if (step->kind >= STEP_SYNC)
				return err_set(err, RC_INVAL,
					       "one-sided steps send no messages over links");
			if (step->kind != STEP_SEND)
				continue;
			if (step->peer >= s->p->nranks || step->peer == r)
				return unfit(err);
			c = connect(s, r, step);
			if (c == FLOW_NOBODY)
				return err_set(err, RC_NOMEM,
					       "no memory to simulate %" PRIu32 " ranks",
					       s->p->nranks);
			s->conn_of[s->first[r] + i] = c;
			s->conn[c].total++;
			sent++;
		}
	for (uint32_t r = 0; r < s->p->nplans; r++)
		for (size_t i = 0; i < s->p->plan[r].nstep; i++) {
			const struct plan_step *step = &s->p->plan[r].step[i];
			uint32_t c;

			if (!receives(step))
				continue;
			c = s->nconn ? *find_bucket(s, key_of(s, r, step)) : FLOW_NOBODY;
			if (c == FLOW_NOBODY || s->conn[c].taken == s->conn[c].total)
				return unfit(err);
			s->conn_of[s->first[r] + i] = c;
			s->conn[c].taken++;
			taken++;
		}
	return sent == taken ? RC_OK : unfit(err);
}

/* Messages one behind the other, connection by connection. */
static bool
lay_out(struct flow_sim *s)
{
	size_t n = 0;

	for (uint32_t i = 0; i < s->nconn; i++) {
		s->conn[i].first = n;
		s->conn[i].taken = 0;
		n += s->conn[i].total;
	}
	s->message = alloc_zeroed(n + 1, sizeof *s->message);
	for (size_t i = 0; s->message && i < n; i++)
		s->message[i].arrival = NAN;
	return s->message != NULL;
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
		flow_due(s, c->waiter, fmax(s->now, m->arrival));
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
		flow_due(s, s->p->nplans + conn, s->now + c->left / c->rate);
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
	uint32_t conn = s->conn_of[number];
	struct connection *c = &s->conn[conn];
	struct message *m = &s->message[c->first + c->posted++];

	m->nbytes = message_bytes(s, step);
	m->posted_us = s->now;
	m->step = number;
	if (!c->flows)
		go_on(s, conn);
}

/* ---- ranks */

/* How long the rank is at work with the step, once it can begin. */
static double
work(const struct flow_sim *s, size_t number, const struct plan_step *step)
{
	const struct connection *c;

	switch ((enum plan_step_kind)step->kind) {
	case STEP_SEND:
	case STEP_RECV:
		return s->links->host_us;
	case STEP_RECV_REDUCE:
		c = &s->conn[s->conn_of[number]];
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

/* Is there what the step needs? Else the rank waits. */
static bool
can_begin(struct flow_sim *s, uint32_t r, size_t number, const struct plan_step *step)
{
	struct connection *c;
	double arrival;

	if (!receives(step))
		return true;
	c = &s->conn[s->conn_of[number]];
	arrival = s->message[c->first + c->taken].arrival;
	if (isnan(arrival))
		c->waiter = r;
	else if (arrival > s->now)
		flow_due(s, r, arrival);
	return !isnan(arrival) && arrival <= s->now;
}

static void
take_message(struct flow_sim *s, size_t number)
{
	struct connection *c = &s->conn[s->conn_of[number]];

	if (s->took)
		s->took[number] = c->first + c->taken;
	c->taken++;
}

static void
finish(struct flow_sim *s, uint32_t r, size_t number, const struct plan_step *step)
{
	if (step->kind == STEP_SEND)
		post(s, number, step);
	else if (receives(step))
		take_message(s, number);
	if (s->ended)
		s->ended[number] = s->now;
	s->pc[r]++;
}

/* The rank goes on until it waits, or is at work. begun is NAN until a step begins. */
static void
walk(struct flow_sim *s, uint32_t r)
{
	while (s->pc[r] < s->p->plan[r].nstep) {
		const struct plan_step *step = &s->p->plan[r].step[s->pc[r]];
		size_t number = s->first[r] + s->pc[r];
		double takes;

		if (isnan(s->begun[number])) {
			if (!can_begin(s, r, number, step))
				return;
			s->begun[number] = s->now;
			takes = work(s, number, step);
			if (takes > 0) {
				flow_due(s, r, s->now + takes);
				return;
			}
		}
		finish(s, r, number, step);
	}
}

/* All events of one moment, then the rates that they change. */
static void
moment(struct flow_sim *s)
{
	double until;

	s->now = s->due[s->heap[0]];
	until = s->now * (1 + FLOW_SAME * 1e-3);
	while (s->nheap && s->due[s->heap[0]] <= until) {
		uint32_t event = s->heap[0];

		flow_not_due(s, event);
		s->now = fmax(s->now, s->due[event]);
		if (event < s->p->nplans) {
			walk(s, event);
			continue;
		}
		through(s, &s->conn[event - s->p->nplans]);
		go_on(s, event - s->p->nplans);
	}
	flow_share(s);
}

static enum rc
run(struct flow_sim *s, struct err *err)
{
	for (uint32_t r = 0; r < s->p->nplans; r++)
		flow_due(s, r, 0);
	while (s->nheap)
		moment(s);
	flow_settle(s);
	for (uint32_t r = 0; r < s->p->nplans; r++)
		if (s->pc[r] < s->p->plan[r].nstep)
			return err_set(err, RC_FAILED,
				       "rank %" PRIu32 " waits for ever in step %zu", r, s->pc[r]);
	return RC_OK;
}

/* ---- beginning and end */

static enum rc
no_memory(const struct flow_sim *s, struct err *err)
{
	return err_set(err, RC_NOMEM, "no memory to simulate %" PRIu32 " ranks", s->p->nranks);
}

static bool
make_steps(struct flow_sim *s, bool report)
{
	uint32_t n = s->p->nplans;
	size_t nstep = 0;

	s->first = alloc_zeroed(n, sizeof *s->first);
	s->pc = alloc_zeroed(n, sizeof *s->pc);
	for (uint32_t r = 0; s->first && r < n; r++) {
		s->first[r] = nstep;
		nstep += s->p->plan[r].nstep;
	}
	s->conn_of = alloc_zeroed(nstep + 1, sizeof *s->conn_of);
	s->begun = alloc_zeroed(nstep + 1, sizeof *s->begun);
	s->ended = report ? alloc_zeroed(nstep + 1, sizeof *s->ended) : NULL;
	s->took = report ? alloc_zeroed(nstep + 1, sizeof *s->took) : NULL;
	for (size_t i = 0; s->begun && i < nstep; i++)
		s->begun[i] = NAN;
	return s->first && s->pc && s->conn_of && s->begun && ((s->ended && s->took) || !report);
}

static bool
make_lanes(struct flow_sim *s)
{
	uint32_t n = s->nlanes = links_count(s->links), events = s->p->nplans + s->nconn;

	s->lane = alloc_zeroed(n + 1, sizeof *s->lane);
	s->dirty = alloc_zeroed(n + 1, sizeof *s->dirty);
	s->found_lane = alloc_zeroed(n + 1, sizeof *s->found_lane);
	s->found_conn = alloc_zeroed(s->nconn + 1, sizeof *s->found_conn);
	s->next = alloc_zeroed((size_t)s->nconn + 1, LINKS_MAX_ROUTE * sizeof *s->next);
	s->prev = alloc_zeroed((size_t)s->nconn + 1, LINKS_MAX_ROUTE * sizeof *s->prev);
	s->due = alloc_zeroed(events, sizeof *s->due);
	s->heap = alloc_zeroed(events, sizeof *s->heap);
	s->place = alloc_zeroed(events, sizeof *s->place);
	if (!s->lane || !s->dirty || !s->found_lane || !s->found_conn || !s->next || !s->prev ||
	    !s->due || !s->heap || !s->place)
		return false;
	memset(s->place, 0xff, events * sizeof *s->place);
	for (uint32_t i = 0; i < n; i++) {
		double byte_us = links_byte_us(s->links, i);

		s->lane[i].rate = byte_us > 0 ? 1 / byte_us : INFINITY;
		s->lane[i].head = FLOW_NOBODY;
		s->lane[i].use.link = i;
	}
	return true;
}

static void
sim_fini(struct flow_sim *s)
{
	void *own[] = {s->first, s->pc,	   s->conn_of,	  s->conn,  s->bucket, s->message,
		       s->lane,	 s->dirty, s->found_lane, s->next,  s->prev,   s->found_conn,
		       s->due,	 s->heap,  s->place,	  s->begun, s->ended,  s->took};

	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		free(own[i]);
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
	struct flow_sim s = {.p = p, .links = links};
	enum rc rc;

	if (!shift_fits(p, links))
		return err_set(err, RC_INVAL,
			       "a shift by %" PRIu32 " of %" PRIu32
			       " ranks does not map the links onto each other",
			       p->nplans, p->nranks);
	rc = make_steps(&s, report) ? connect_steps(&s, err) : no_memory(&s, err);
	if (rc == RC_OK && !(lay_out(&s) && make_lanes(&s)))
		rc = no_memory(&s, err);
	if (rc == RC_OK)
		rc = run(&s, err);
	if (rc == RC_OK && report)
		rc = flow_explain(&s, s.now, report, err);
	if (rc == RC_OK)
		*us = s.now;
	sim_fini(&s);
	return rc;
}
