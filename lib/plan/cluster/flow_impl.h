/*
 * flow_impl.h - shared by flow.c, flow_share.c and flow_report.c.
 *
 * A connection carries the messages from one rank to another one; at most the first that is posted and not
 * yet through is a flow on the connection's links. Events are steps of ranks and ends of flows, on one
 * agenda.
 */
#ifndef CLUSTER_FLOW_IMPL_H
#define CLUSTER_FLOW_IMPL_H

#include "cluster/flow.h"
#include "coll/meet.h"

#define FLOW_NOBODY UINT32_MAX
#define FLOW_SAME   1e-9 /* times and rates that differ by less, in proportion, are the same */

struct connection {
	uint32_t posted, done, taken; /* messages */
	size_t first;		      /* of its messages among all */
	uint32_t waiter;	      /* FLOW_NOBODY: none */
	struct route route;	      /* folded */
	bool flows;
	uint32_t stamp;	   /* of the last search that has seen it */
	double left, rate; /* bytes, bytes a microsecond */
	double since;	   /* time of `left` */
};

struct message {
	double nbytes, arrival; /* arrival NAN: not yet through */
	double posted_us, begun_us, through_us;
	size_t step; /* among all: its send's */
};

/* A link while plans run. */
struct lane {
	double rate;	 /* bytes a microsecond */
	uint32_t flows;	 /* on it */
	uint32_t head;	 /* of their places, see sim.next */
	double spare;	 /* bandwidth left during sharing */
	uint32_t to_set; /* flows without a rate yet, during sharing */
	uint32_t stamp;
	bool dirty, limits;
	struct flow_link use;
	double since; /* time of `use` */
};

struct flow_sim {
	const struct flow_plans *p;
	const struct links *links;
	uint32_t blocks, nplans; /* of a rank; of all ranks that are simulated */
	double now;
	size_t *pc; /* by plan */
	struct meet meet;
	struct connection *conn; /* as in meet */
	struct message *message;
	struct lane *lane;
	uint32_t nlanes;
	uint32_t *next, *prev; /* by place: connection * LINKS_MAX_ROUTE + hop */
	uint32_t *dirty, ndirty;
	uint32_t *found_lane, nfound_lanes, *found_conn, nfound_conns; /* by a search */
	uint32_t stamp;
	struct agenda events; /* plans, then connections */
	double *begun;	      /* by step; NAN: not yet */
	/* by step, for a report, else NULL: when it was done; the message that it took */
	double *ended;
	size_t *took;
};

/* A connection's message enters its links, or the last one has left them. */
void flow_enter(struct flow_sim *s, uint32_t conn);
void flow_leave(struct flow_sim *s, uint32_t conn);

/* Set the rates of all affected flows. */
void flow_share(struct flow_sim *s);

/* Update the use of the links up to now. */
void flow_settle(struct flow_sim *s);

void flow_explain(struct flow_sim *s, double us, struct flow_report *out);

#endif
