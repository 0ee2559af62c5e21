/* Random messages on random links: flow.c against a shaper that looks at everything anew at every moment. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/flow.h"
#include "tap.h"

#define MOST_RANKS    12
#define MOST_MESSAGES 48
#define WORLDS	      300

static uint64_t state = 1;

static uint32_t
chance(uint32_t n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33) % n;
}

struct message {
	uint32_t from, to;
	struct route route;
	double left, rate, arrival;
	bool posted, through, taken, flows;
};

struct world {
	struct links l;
	struct plan plan[MOST_RANKS];
	struct message message[MOST_MESSAGES]; /* in the order in which they are posted and taken */
	uint32_t nmessages;
	size_t pc[MOST_RANKS];
	double done[MOST_RANKS]; /* of the step at hand; NAN: it has not begun */
	double now;
};

/* The first message of a connection that is not posted, or not taken. */
static struct message *
first(struct world *w, uint32_t from, uint32_t to, bool sends)
{
	for (uint32_t i = 0; i < w->nmessages; i++) {
		struct message *m = &w->message[i];

		if (m->from == from && m->to == to && !(sends ? m->posted : m->taken))
			return m;
	}
	return NULL;
}

/* Messages of a connection go one behind the other. */
static void
find_flows(struct world *w)
{
	for (uint32_t i = 0; i < w->nmessages; i++) {
		struct message *m = &w->message[i];

		m->flows = m->posted && !m->through;
		for (uint32_t k = 0; k < i; k++)
			if (w->message[k].from == m->from && w->message[k].to == m->to)
				m->flows &= w->message[k].through;
		m->rate = 0;
	}
}

static bool
uses(const struct message *m, uint32_t link)
{
	for (unsigned h = 0; h < m->route.n; h++)
		if (m->route.link[h] == link)
			return true;
	return false;
}

/* All rates rise alike; those on the first full link stay as they are, and so on. */
static void
share(struct world *w)
{
	for (;;) {
		double least = INFINITY;
		uint32_t full = 0;

		for (uint32_t link = 0; link < links_count(&w->l); link++) {
			double spare = 1 / links_byte_us(&w->l, link);
			unsigned rising = 0;

			for (uint32_t i = 0; i < w->nmessages; i++)
				if (w->message[i].flows && uses(&w->message[i], link)) {
					rising += w->message[i].rate == 0;
					spare -= w->message[i].rate;
				}
			if (rising && spare / rising < least) {
				least = spare / rising;
				full = link;
			}
		}
		if (isinf(least))
			return;
		for (uint32_t i = 0; i < w->nmessages; i++)
			if (w->message[i].flows && w->message[i].rate == 0 &&
			    uses(&w->message[i], full))
				w->message[i].rate = least;
	}
}

/* A step begins or ends now; false: neither. */
static bool
step(struct world *w, uint32_t r)
{
	const struct plan_step *s = &w->plan[r].step[w->pc[r]];
	struct message *m;

	if (w->pc[r] == w->plan[r].nstep || w->done[r] > w->now)
		return false;
	if (s->kind == STEP_SEND) {
		if (!isnan(w->done[r]))
			first(w, r, s->peer, true)->posted = true;
	} else if (isnan(w->done[r])) {
		m = first(w, s->peer, r, false);
		if (!m->through || m->arrival > w->now)
			return false;
		m->taken = true;
	}
	if (isnan(w->done[r])) {
		w->done[r] = w->now + w->l.host_us;
		if (s->kind == STEP_RECV_REDUCE)
			w->done[r] += w->l.reduce_byte_us * (double)s->count;
		return true;
	}
	w->done[r] = NAN;
	w->pc[r]++;
	return true;
}

static double
soonest(const struct world *w)
{
	double at = INFINITY;

	for (uint32_t r = 0; r < w->l.nranks; r++)
		if (w->done[r] > w->now)
			at = fmin(at, w->done[r]);
	for (uint32_t i = 0; i < w->nmessages; i++) {
		const struct message *m = &w->message[i];

		if (m->flows)
			at = fmin(at, w->now + m->left / m->rate);
		else if (m->through && m->arrival > w->now)
			at = fmin(at, m->arrival);
	}
	return at;
}

static void
pass(struct world *w, double to)
{
	for (uint32_t i = 0; i < w->nmessages; i++) {
		struct message *m = &w->message[i];

		if (!m->flows)
			continue;
		m->left -= m->rate * (to - w->now);
		if (m->left > 1e-6)
			continue;
		m->through = true;
		m->arrival = to + m->route.latency_us;
	}
	w->now = to;
}

static double
reference(struct world *w)
{
	for (;;) {
		bool moved = true;
		double at;

		while (moved) {
			moved = false;
			for (uint32_t r = 0; r < w->l.nranks; r++)
				moved |= step(w, r);
		}
		find_flows(w);
		share(w);
		at = soonest(w);
		if (isinf(at))
			return w->now;
		pass(w, at);
	}
}

/* Hosts, NICs and switches of random width; messages in an order in which nobody waits for ever. */
static void
draw(struct world *w)
{
	uint32_t domain = 1 + chance(4), n = domain * (2 + chance(MOST_RANKS / domain - 1));

	memset(w, 0, sizeof *w);
	w->l = (struct links){.nranks = n,
			      .domain = domain,
			      .port_byte_us = 0.01 * (1 + chance(3)),
			      .port_latency_us = chance(3),
			      .nics = 1 + chance(domain),
			      .nic_byte_us = 0.01 * (1 + chance(6)),
			      .nic_latency_us = 1 + chance(5),
			      .level = {{2 * domain, 0.01 * (1 + chance(5)), 0},
					{8 * domain, 0.01 * (1 + chance(3)), chance(4)}},
			      .nlevels = chance(3),
			      .host_us = chance(2) ? 0 : 0.25 * chance(4),
			      .reduce_byte_us = 0.001 * chance(3)};
	w->nmessages = 1 + chance(MOST_MESSAGES);
	for (uint32_t i = 0; i < w->nmessages; i++) {
		uint32_t from = chance(n), to = (from + 1 + chance(n - 1)) % n,
			 count = 1 + chance(1000);

		w->message[i] = (struct message){
		    .from = from, .to = to, .left = count, .route = links_route(&w->l, from, to)};
		plan_append(&w->plan[from],
			    (struct plan_step){.kind = STEP_SEND, .peer = to, .count = count});
		plan_append(&w->plan[to],
			    (struct plan_step){.kind = chance(2) ? STEP_RECV : STEP_RECV_REDUCE,
					       .peer = from,
					       .count = count});
	}
	for (uint32_t r = 0; r < n; r++)
		w->done[r] = NAN;
}

int
main(void)
{
	static struct world w;
	unsigned same = 0;

	for (unsigned k = 0; k < WORLDS; k++) {
		struct flow_plans p = {w.plan, 0, 0, 1, 1, false};
		struct flow_report report = {0};
		struct err err = {0};
		double us = NAN, want;

		state = k + 1;
		draw(&w);
		p.nplans = p.nranks = w.l.nranks;
		if (flow_simulate(&p, &w.l, &us, &report, &err) != RC_OK)
			printf("# world %u: %s\n", k, err.text);
		want = reference(&w);
		if (fabs(us - want) <= 1e-6 * want)
			same++;
		else
			printf("# world %u: %.6f us, the reference %.6f\n", k, us, want);
		flow_report_fini(&report);
		for (uint32_t r = 0; r < MOST_RANKS; r++)
			plan_fini(&w.plan[r]);
	}
	ok(same == WORLDS, "%u of %u random worlds take as long as the reference says", same,
	   WORLDS);
	return tap_done();
}
