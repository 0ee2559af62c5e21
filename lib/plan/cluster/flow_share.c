/*
 * Max-min sharing, by progressive filling: the link with the least bandwidth per flow sets the rates of its
 * flows, and so on with the rest. Rates can only change for flows that share links, directly or indirectly,
 * with one that began or ended.
 */
#include <math.h>

#include "cluster/flow_impl.h"

static uint32_t
place_of(uint32_t conn, unsigned hop)
{
	return conn * LINKS_MAX_ROUTE + hop;
}

static void
note_use(struct flow_sim *s, struct lane *l)
{
	double took = s->now - l->since;

	if (l->flows)
		l->use.busy_us += took;
	if (l->flows && l->limits)
		l->use.bottleneck_us += took;
	l->since = s->now;
}

static void
soil(struct flow_sim *s, uint32_t lane)
{
	note_use(s, &s->lane[lane]);
	if (!s->lane[lane].dirty)
		s->dirty[s->ndirty++] = lane;
	s->lane[lane].dirty = true;
}

void
flow_enter(struct flow_sim *s, uint32_t conn)
{
	const struct route *r = &s->conn[conn].route;

	for (unsigned h = 0; h < r->n; h++) {
		struct lane *l = &s->lane[r->link[h]];
		uint32_t at = place_of(conn, h);

		soil(s, r->link[h]);
		s->next[at] = l->head;
		s->prev[at] = FLOW_NOBODY;
		if (l->head != FLOW_NOBODY)
			s->prev[l->head] = at;
		l->head = at;
		l->flows++;
	}
	s->conn[conn].flows = true;
	s->conn[conn].rate = 0;
	s->conn[conn].since = s->now;
}

void
flow_leave(struct flow_sim *s, uint32_t conn)
{
	const struct route *r = &s->conn[conn].route;

	for (unsigned h = 0; h < r->n; h++) {
		struct lane *l = &s->lane[r->link[h]];
		uint32_t at = place_of(conn, h);

		soil(s, r->link[h]);
		if (s->prev[at] != FLOW_NOBODY)
			s->next[s->prev[at]] = s->next[at];
		else
			l->head = s->next[at];
		if (s->next[at] != FLOW_NOBODY)
			s->prev[s->next[at]] = s->prev[at];
		l->flows--;
	}
	s->conn[conn].flows = false;
	agenda_not_due(&s->events, s->nplans + conn);
}

void
flow_settle(struct flow_sim *s)
{
	for (uint32_t i = 0; i < s->nlanes; i++)
		note_use(s, &s->lane[i]);
}

/* ---- rates */

static void
find_lane(struct flow_sim *s, uint32_t lane)
{
	struct lane *l = &s->lane[lane];

	if (l->stamp == s->stamp)
		return;
	l->stamp = s->stamp;
	note_use(s, l);
	l->limits = false;
	l->spare = l->rate;
	l->to_set = l->flows;
	s->found_lane[s->nfound_lanes++] = lane;
}

/* Find all flows that the dirty links affect. */
static void
search(struct flow_sim *s)
{
	s->stamp++;
	s->nfound_lanes = s->nfound_conns = 0;
	for (uint32_t i = 0; i < s->ndirty; i++) {
		s->lane[s->dirty[i]].dirty = false;
		find_lane(s, s->dirty[i]);
	}
	s->ndirty = 0;
	for (uint32_t i = 0; i < s->nfound_lanes; i++) {
		for (uint32_t at = s->lane[s->found_lane[i]].head; at != FLOW_NOBODY;
		     at = s->next[at]) {
			struct connection *c = &s->conn[at / LINKS_MAX_ROUTE];

			if (c->stamp == s->stamp)
				continue;
			c->stamp = s->stamp;
			s->found_conn[s->nfound_conns++] = at / LINKS_MAX_ROUTE;
			for (unsigned h = 0; h < c->route.n; h++)
				find_lane(s, c->route.link[h]);
		}
	}
}

static void
set_rate(struct flow_sim *s, uint32_t conn, double rate)
{
	struct connection *c = &s->conn[conn];

	for (unsigned h = 0; h < c->route.n; h++) {
		struct lane *l = &s->lane[c->route.link[h]];

		l->spare = fmax(0, l->spare - rate);
		l->to_set--;
	}
	c->stamp = 0; /* has its rate */
	if (fabs(rate - c->rate) <= FLOW_SAME * rate)
		return;
	c->left = fmax(0, c->left - c->rate * (s->now - c->since));
	c->since = s->now;
	c->rate = rate;
	agenda_due(&s->events, s->nplans + conn, s->now + c->left / rate);
}

/* The link's bandwidth for each flow without a rate. */
static double
fair(const struct lane *l)
{
	return l->to_set ? l->spare / l->to_set : INFINITY;
}

void
flow_share(struct flow_sim *s)
{
	uint32_t left;

	if (!s->ndirty)
		return;
	search(s);
	for (left = s->nfound_lanes; left;) {
		double least = INFINITY;
		uint32_t kept = 0;

		for (uint32_t i = 0; i < left; i++)
			least = fmin(least, fair(&s->lane[s->found_lane[i]]));
		for (uint32_t i = 0; i < left; i++) {
			struct lane *l = &s->lane[s->found_lane[i]];

			if (!l->to_set)
				continue;
			if (fair(l) > least * (1 + FLOW_SAME)) {
				s->found_lane[kept++] = s->found_lane[i];
				continue;
			}
			l->limits = true;
			for (uint32_t at = l->head; at != FLOW_NOBODY; at = s->next[at])
				if (s->conn[at / LINKS_MAX_ROUTE].stamp == s->stamp)
					set_rate(s, at / LINKS_MAX_ROUTE, least);
		}
		left = kept;
	}
}
