#include "cudart/graph.h"

#include <stdlib.h>
#include <string.h>

#include "cudart/cuda_impl.h"

struct op *
op_new(enum cudaGraphNodeType type, int ordinal,
       cudaError_t (*issue)(struct op *, struct CUstream_st *))
{
	struct op *o = calloc(1, sizeof *o);

	if (!o)
		return NULL;
	o->type = type;
	o->ordinal = ordinal;
	o->issue = issue;
	atomic_init(&o->users, 1);
	return o;
}

struct op *
op_hold(struct op *o)
{
	atomic_fetch_add(&o->users, 1);
	return o;
}

void
op_drop(struct op *o)
{
	if (!o || atomic_fetch_sub(&o->users, 1) != 1)
		return;
	if (o->fini)
		o->fini(o);
	free(o);
}

struct CUgraph_st *
graph_new(void)
{
	struct CUgraph_st *g = calloc(1, sizeof *g);

	if (g)
		g->magic = GRAPH_MAGIC;
	return g;
}

static void
node_free(struct CUgraphNode_st *n)
{
	n->magic = 0;
	op_drop(n->op);
	free(n->deps);
	free(n->params);
	free(n);
}

void
graph_free(struct CUgraph_st *g)
{
	if (!g)
		return;
	g->magic = 0;
	for (size_t i = 0; i < g->n; i++)
		node_free(g->nodes[i]);
	free(g->nodes);
	free(g);
}

static bool
make_room(struct CUgraph_st *g)
{
	size_t room = g->room ? 2 * g->room : 16;
	struct CUgraphNode_st **v;

	if (g->n < g->room)
		return true;
	v = realloc(g->nodes, room * sizeof *v);
	if (!v)
		return false;
	g->nodes = v;
	g->room = room;
	return true;
}

struct CUgraphNode_st *
graph_add(struct CUgraph_st *g, struct op *op, int ordinal, struct CUgraphNode_st *const *deps,
	  size_t ndeps)
{
	struct CUgraphNode_st *n;

	for (size_t i = 0; i < ndeps; i++)
		if (!deps[i] || deps[i]->magic != NODE_MAGIC || deps[i]->graph != g)
			return NULL;
	n = calloc(1, sizeof *n);
	if (!n || !make_room(g) || (ndeps && !(n->deps = malloc(ndeps * sizeof *n->deps)))) {
		free(n);
		return NULL;
	}
	n->magic = NODE_MAGIC;
	n->graph = g;
	n->op = op_hold(op);
	n->ordinal = ordinal;
	if (ndeps)
		memcpy(n->deps, deps, ndeps * sizeof *deps);
	n->ndeps = ndeps;
	g->nodes[g->n++] = n;
	return n;
}

static size_t
find_dep(const struct CUgraphNode_st *to, const struct CUgraphNode_st *from)
{
	size_t i = 0;

	while (i < to->ndeps && to->deps[i] != from)
		i++;
	return i;
}

bool
graph_link(struct CUgraphNode_st *from, struct CUgraphNode_st *to)
{
	struct CUgraphNode_st **v;

	if (from->graph != to->graph || find_dep(to, from) < to->ndeps)
		return false;
	v = realloc(to->deps, (to->ndeps + 1) * sizeof *v);
	if (!v)
		return false;
	to->deps = v;
	v[to->ndeps++] = from;
	return true;
}

bool
graph_unlink(struct CUgraphNode_st *from, struct CUgraphNode_st *to)
{
	size_t i = find_dep(to, from);

	if (i == to->ndeps)
		return false;
	to->ndeps--;
	memmove(&to->deps[i], &to->deps[i + 1], (to->ndeps - i) * sizeof *to->deps);
	return true;
}

void
graph_remove(struct CUgraphNode_st *node)
{
	struct CUgraph_st *g = node->graph;
	size_t at = 0;

	for (size_t i = 0; i < g->n; i++) {
		graph_unlink(node, g->nodes[i]);
		if (g->nodes[i] == node)
			at = i;
	}
	g->n--;
	memmove(&g->nodes[at], &g->nodes[at + 1], (g->n - at) * sizeof *g->nodes);
	node_free(node);
}

struct CUgraph_st *
graph_clone(const struct CUgraph_st *g)
{
	struct CUgraph_st *c = graph_new();

	for (size_t i = 0; c && i < g->n; i++) {
		struct CUgraphNode_st *from = g->nodes[i];
		struct CUgraphNode_st *n = graph_add(c, from->op, from->ordinal, NULL, 0);

		from->at = i;
		if (n && from->params && (n->params = malloc(from->params_nbytes))) {
			n->params_nbytes = from->params_nbytes;
			memcpy(n->params, from->params, from->params_nbytes);
		}
		if (!n) {
			graph_free(c);
			return NULL;
		}
		n->origin = from;
	}
	for (size_t i = 0; c && i < g->n; i++)
		for (size_t k = 0; k < g->nodes[i]->ndeps; k++)
			if (!graph_link(c->nodes[g->nodes[i]->deps[k]->at], c->nodes[i])) {
				graph_free(c);
				return NULL;
			}
	return c;
}

/* ------------------------------------------------------------------ order */

#define UNSEEN SIZE_MAX

/* Append the nodes that can follow; called until all are placed or none can be. Captured graphs are
 * in order, so one round is enough. */
static size_t
place(struct CUgraph_st *g, struct CUgraphNode_st **order, size_t placed)
{
	for (size_t i = 0; i < g->n; i++) {
		struct CUgraphNode_st *n = g->nodes[i];
		bool ready = n->at == UNSEEN;

		for (size_t k = 0; ready && k < n->ndeps; k++)
			ready = n->deps[k]->at != UNSEEN;
		if (ready) {
			n->at = placed;
			order[placed++] = n;
		}
	}
	return placed;
}

struct CUgraphNode_st **
graph_order(struct CUgraph_st *g, bool *circle)
{
	struct CUgraphNode_st **order = malloc((g->n + 1) * sizeof *order);
	size_t placed = 0, before;

	*circle = false;
	if (!order)
		return NULL;
	for (size_t i = 0; i < g->n; i++)
		g->nodes[i]->at = UNSEEN;
	while (placed < g->n) {
		before = placed;
		placed = place(g, order, placed);
		if (placed == before) {
			*circle = true;
			free(order);
			return NULL;
		}
	}
	return order;
}

bool
graph_joined(struct CUgraph_st *g, struct CUgraphNode_st *const *tips, size_t ntips)
{
	for (size_t i = 0; i < g->n; i++)
		g->nodes[i]->at = 0;
	for (size_t i = 0; i < ntips; i++)
		tips[i]->at = 1;
	/* Nodes of a capture come after those they depend on. */
	for (size_t i = g->n; i-- > 0;) {
		if (!g->nodes[i]->at)
			return false;
		for (size_t k = 0; k < g->nodes[i]->ndeps; k++)
			g->nodes[i]->deps[k]->at = 1;
	}
	return true;
}

/* ------------------------------------------------------------------ lanes */

/* A lane whose last step is a dependency of this step. */
static unsigned
lane_of_dep(const struct step *v, const struct step *s, const size_t *last, const int *ordinal,
	    unsigned n)
{
	for (size_t k = 0; k < s->ndeps; k++) {
		unsigned lane = v[s->deps[k]].lane;

		if (last[lane] == s->deps[k] && ordinal[lane] == s->ordinal)
			return lane;
	}
	return n;
}

/* Choose a lane when no more can be added. */
static unsigned
any_lane(const struct step *s, const int *ordinal, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (ordinal[i] == s->ordinal)
			return i;
	return 0;
}

unsigned
lanes_plan(struct step *v, size_t n, int ordinal[LANES_MAX])
{
	size_t last[LANES_MAX];
	unsigned lanes = 0;

	for (size_t i = 0; i < n; i++) {
		struct step *s = &v[i];
		unsigned lane = lane_of_dep(v, s, last, ordinal, lanes);

		if (lane == lanes && lanes == LANES_MAX)
			lane = any_lane(s, ordinal, lanes);
		if (lane == lanes)
			ordinal[lanes++] = s->ordinal;
		s->lane = lane;
		last[lane] = i;
	}
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < v[i].ndeps; k++)
			if (v[v[i].deps[k]].lane != v[i].lane)
				v[v[i].deps[k]].awaited = true;
	return lanes;
}
