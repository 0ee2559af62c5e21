/* The use of time of simulated plans: the critical path, and the load of the links. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "cluster/flow_impl.h"

const char *
flow_why_name(enum flow_why why)
{
	static const char *const names[FLOW_NWHY] = {"bytes", "latency", "reduce", "host"};

	return why < FLOW_NWHY ? names[why] : "?";
}

void
flow_report_fini(struct flow_report *r)
{
	free(r->hop);
	free(r->link);
	*r = (struct flow_report){0};
}

/* The path as it is walked, last hop first. */
struct trail {
	struct flow_report *out;
	size_t cap;
};

static void
add_hop(struct trail *t, struct flow_hop hop)
{
	struct flow_report *o = t->out;
	struct flow_hop *last = o->nhops ? &o->hop[o->nhops - 1] : NULL;

	if (hop.end_us <= hop.begin_us)
		return;
	o->why_us[hop.why] += hop.end_us - hop.begin_us;
	if (last && last->why == hop.why && last->rank == hop.rank && last->from == hop.from &&
	    last->begin_us == hop.end_us) {
		last->begin_us = hop.begin_us;
		last->step = hop.step;
		return;
	}
	must_room(&o->hop, o->nhops, &t->cap, sizeof *o->hop);
	o->hop[o->nhops++] = hop;
}

/* The plan that a step is of. */
static uint32_t
plan_of(const struct flow_sim *s, size_t number)
{
	uint32_t low = 0, high = s->nplans - 1;

	while (low < high) {
		uint32_t mid = low + (high - low + 1) / 2;

		if (s->meet.first[mid] <= number)
			low = mid;
		else
			high = mid - 1;
	}
	return low;
}

/* The rank's own work in a step. */
static void
add_work(const struct flow_sim *s, struct trail *t, uint32_t r, size_t number,
	 const struct plan_step *step)
{
	struct flow_hop hop = {
	    r / s->blocks, r / s->blocks,    (uint32_t)(number - s->meet.first[r]),
	    FLOW_REDUCE,   s->begun[number], s->ended[number]};
	bool message = step->kind <= STEP_RECV_REDUCE;
	double split = message ? fmin(hop.begin_us + s->links->host_us, hop.end_us) : hop.begin_us;

	hop.begin_us = split;
	add_hop(t, hop);
	hop.end_us = split;
	hop.begin_us = s->begun[number];
	hop.why = FLOW_HOST;
	add_hop(t, hop);
}

/* The message that a rank waited for, after earlier ones on the connection. Returns the step of the first
 * one's sender. */
static size_t
add_message(const struct flow_sim *s, struct trail *t, uint32_t r, uint32_t from, uint32_t step,
	    size_t at)
{
	const struct message *m = &s->message[at];

	add_hop(t, (struct flow_hop){r, from, step, FLOW_LATENCY, m->through_us, m->arrival});
	for (;; m--) {
		add_hop(t,
			(struct flow_hop){r, from, step, FLOW_BYTES, m->begun_us, m->through_us});
		if (m->begun_us <= m->posted_us)
			return m->step;
	}
}

static void
walk_back(struct flow_sim *s, struct trail *t, size_t number)
{
	for (;;) {
		uint32_t r = plan_of(s, number);
		size_t i = number - s->meet.first[r];
		const struct plan_step *step = &s->p->plan[r].step[i];
		double before = i ? s->ended[number - 1] : 0;

		add_work(s, t, r, number, step);
		if (meet_receives(step)) {
			size_t at = s->took[number];

			if (s->message[at].arrival > before) {
				number = add_message(s, t, r / s->blocks, step->peer / s->blocks,
						     (uint32_t)i, at);
				continue;
			}
		}
		if (i == 0)
			return;
		number--;
	}
}

static int
by_bottleneck(const void *x, const void *y)
{
	const struct flow_link *a = x, *b = y;

	if (a->bottleneck_us != b->bottleneck_us)
		return a->bottleneck_us > b->bottleneck_us ? -1 : 1;
	if (a->nbytes != b->nbytes)
		return a->nbytes > b->nbytes ? -1 : 1;
	return a->link < b->link ? -1 : a->link > b->link;
}

static void
reverse(struct flow_report *r)
{
	for (size_t i = 0; i < r->nhops / 2; i++) {
		struct flow_hop h = r->hop[i];

		r->hop[i] = r->hop[r->nhops - 1 - i];
		r->hop[r->nhops - 1 - i] = h;
	}
}

void
flow_explain(struct flow_sim *s, double us, struct flow_report *out)
{
	struct trail t = {.out = out};
	size_t last = SIZE_MAX;

	*out = (struct flow_report){.us = us};
	for (uint32_t r = 0; r < s->nplans; r++) {
		size_t n = s->p->plan[r].nstep;

		if (n && (last == SIZE_MAX || s->ended[s->meet.first[r] + n - 1] > s->ended[last]))
			last = s->meet.first[r] + n - 1;
	}
	if (last != SIZE_MAX)
		walk_back(s, &t, last);
	out->link = must_alloc(s->nlanes + 1, sizeof *out->link);
	for (uint32_t i = 0; i < s->nlanes; i++)
		if (s->lane[i].use.nbytes > 0)
			out->link[out->nlinks++] = s->lane[i].use;
	qsort(out->link, out->nlinks, sizeof *out->link, by_bottleneck);
	reverse(out);
}
