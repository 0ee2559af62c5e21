/* Explain the time of simulated messages: by cause, by step, by link. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/must.h"
#include "simulate_table.h"

#define HOPS  4 /* the longest hops of the critical path that are printed */
#define LINKS 4

/* The name of a link. */
static const char *
link_text(const struct traffic_answer *t, uint32_t link, struct buf *text)
{
	text->len = 0;
	links_name(&t->links, link, text);
	return text->data;
}

static int
longer(const void *x, const void *y)
{
	const struct flow_hop *a = *(const struct flow_hop *const *)x,
			      *b = *(const struct flow_hop *const *)y;
	double d = (b->end_us - b->begin_us) - (a->end_us - a->begin_us);

	return d > 0 ? 1 : d < 0 ? -1 : a->begin_us < b->begin_us ? -1 : 1;
}

static void
by_cause(const struct traffic_answer *t, const struct flow_report *r)
{
	printf("launch %.1f us, then %.1f us on the links:", t->launch_us, r->us);
	for (int w = 0; w < FLOW_NWHY; w++)
		printf("%s %s %.1f %%", w ? "," : "", flow_why_name((enum flow_why)w),
		       r->us > 0 ? 100 * r->why_us[w] / r->us : 0);
	printf(", of the critical path; %" PRIu32 " of %" PRIu32 " ranks simulated%s, messages ",
	       t->simulated, t->nranks,
	       t->extrapolated ? ", extrapolated from part of the steps" : "");
	if (t->message_bytes)
		printf("of at most %" PRIu64 " bytes\n", t->message_bytes);
	else
		puts("whole");
}

/* The link that delayed the message most; NULL: none is a bottleneck. */
static const struct flow_link *
fullest(const struct traffic_answer *t, const struct flow_report *r, const struct flow_hop *h)
{
	struct route way = links_route(&t->links, h->from, h->rank);
	const struct flow_link *best = NULL;

	for (unsigned k = 0; k < way.n; k++) {
		uint32_t link = links_fold(&t->links, t->simulated, way.link[k]);

		for (size_t i = 0; i < r->nlinks; i++)
			if (r->link[i].link == link &&
			    (!best || r->link[i].bottleneck_us > best->bottleneck_us))
				best = &r->link[i];
	}
	return best;
}

static void
show_hop(const struct traffic_answer *t, const struct flow_report *r, const struct flow_hop *h,
	 struct buf *name)
{
	const struct flow_link *link;

	printf("#   step %" PRIu32 " of rank %" PRIu32 ", from %.1f us: %s %.1f us", h->step,
	       h->rank, h->begin_us, flow_why_name(h->why), h->end_us - h->begin_us);
	if (h->from != h->rank)
		printf(", for messages from rank %" PRIu32, h->from);
	link = h->why == FLOW_BYTES ? fullest(t, r, h) : NULL;
	if (link)
		printf(" by %s", link_text(t, link->link, name));
	puts("");
}

static void
by_step(const struct traffic_answer *t, const struct flow_report *r)
{
	const struct flow_hop **hop = must_alloc(r->nhops + 1, sizeof *hop);
	struct buf name = {0};

	for (size_t i = 0; i < r->nhops; i++)
		hop[i] = &r->hop[i];
	qsort(hop, r->nhops, sizeof *hop, longer);
	for (size_t i = 0; i < r->nhops && i < HOPS; i++)
		show_hop(t, r, hop[i], &name);
	free(hop);
	buf_fini(&name);
}

static void
by_link(const struct traffic_answer *t, const struct flow_report *r)
{
	struct buf name = {0};

	for (size_t i = 0; i < r->nlinks && i < LINKS; i++) {
		const struct flow_link *l = &r->link[i];

		printf("#   %s: %.0f bytes, busy %.1f %% of the time, the bottleneck %.1f %% of "
		       "the time\n",
		       link_text(t, l->link, &name), l->nbytes, 100 * l->busy_us / r->us,
		       100 * l->bottleneck_us / r->us);
	}
	buf_fini(&name);
}

void
explain_traffic(const struct traffic_answer *t, const struct flow_report *r)
{
	printf("#   by messages of %s: ", t->algo);
	by_cause(t, r);
	by_step(t, r);
	by_link(t, r);
}

void
explain_traffic_json(struct json *j, const struct traffic_answer *t, const struct flow_report *r)
{
	struct buf name = {0};

	json_put(j, "messages:%s links_us:{launch:%.6g", t->algo, t->launch_us);
	for (int w = 0; w < FLOW_NWHY; w++)
		json_put(j, "%s:%.6g", flow_why_name((enum flow_why)w), r->why_us[w]);
	json_put(j, "} simulated:%" PRIu32 " extrapolated:%hhu message_bytes:%" PRIu64 " busiest:[",
		 t->simulated, t->extrapolated, t->message_bytes);
	for (size_t i = 0; i < r->nlinks && i < LINKS; i++)
		json_put(j, "{link:%s bytes:%.6g busy_us:%.6g bottleneck_us:%.6g}",
			 link_text(t, r->link[i].link, &name), r->link[i].nbytes,
			 r->link[i].busy_us, r->link[i].bottleneck_us);
	json_put(j, "]");
	buf_fini(&name);
}
