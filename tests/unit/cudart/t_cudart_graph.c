/* Graphs' order and lanes: random graphs against the constraints of any launch. */
#include <string.h>

#include "chance.h"
#include "cudart/cuda_impl.h"
#include "cudart/graph.h"
#include "tap.h"

#define MOST 40

static uint64_t seed = 7;

static unsigned
below(unsigned n)
{
	return (unsigned)(xorshift_star(&seed) % n);
}

/* A graph without cycles whose nodes are not in order. */
static struct CUgraph_st *
random_graph(struct op *o, unsigned n)
{
	struct CUgraph_st *g = graph_new();
	unsigned rank[MOST];

	for (unsigned i = 0; i < n; i++) {
		graph_add(g, o, (int)below(3), NULL, 0);
		rank[i] = i;
	}
	for (unsigned i = n; i-- > 1;) {
		unsigned k = below(i + 1), t = rank[i];

		rank[i] = rank[k];
		rank[k] = t;
	}
	for (unsigned e = 0; e < 2 * n; e++) {
		unsigned a = below(n), b = below(n);

		if (rank[a] < rank[b])
			graph_link(g->nodes[a], g->nodes[b]);
	}
	return g;
}

/* Return true if step a must have ended when b runs: before it in b's lane, or waited for. */
static bool
follows(const struct step *v, size_t b, size_t a)
{
	if (a >= b)
		return false;
	if (v[a].lane == v[b].lane)
		return true;
	for (size_t k = 0; k < v[b].ndeps; k++)
		if (v[b].deps[k] == a)
			return v[a].awaited;
	return false;
}

static bool
check_lanes(struct CUgraph_st *g, struct CUgraphNode_st **order)
{
	struct step v[MOST] = {0};
	size_t deps[MOST][MOST];
	int ordinal[LANES_MAX];
	unsigned lanes;
	bool good = true;

	for (size_t i = 0; i < g->n; i++) {
		v[i].ordinal = order[i]->ordinal;
		v[i].deps = deps[i];
		for (size_t k = 0; k < order[i]->ndeps; k++)
			deps[i][v[i].ndeps++] = order[i]->deps[k]->at;
	}
	lanes = lanes_plan(v, g->n, ordinal);
	for (size_t i = 0; i < g->n; i++) {
		good &= v[i].lane < lanes;
		good &= lanes == LANES_MAX || ordinal[v[i].lane] == v[i].ordinal;
		for (size_t k = 0; k < v[i].ndeps; k++)
			good &= follows(v, i, v[i].deps[k]);
	}
	return good;
}

static void
test_random(void)
{
	struct op *o = op_empty();
	bool ordered = true, lanes = true, cloned = true, circles = true, circle;

	for (int round = 0; round < 2000; round++) {
		struct CUgraph_st *g = random_graph(o, 1 + below(MOST)), *c = graph_clone(g);
		struct CUgraphNode_st **order = graph_order(g, &circle);

		for (size_t i = 0; order && i < g->n; i++) {
			ordered &= order[i]->at == i;
			for (size_t k = 0; k < order[i]->ndeps; k++)
				ordered &= order[i]->deps[k]->at < i;
		}
		ordered &= order && !circle;
		lanes &= order && check_lanes(g, order);
		cloned &= c->n == g->n;
		for (size_t i = 0; i < g->n; i++)
			cloned &= c->nodes[i]->ndeps == g->nodes[i]->ndeps &&
				  c->nodes[i]->origin == g->nodes[i];
		free(order);
		if (g->n > 1 && g->nodes[0]->ndeps &&
		    graph_link(g->nodes[0], g->nodes[0]->deps[0])) {
			order = graph_order(g, &circle);
			circles &= !order && circle;
		}
		while (c->n)
			graph_remove(c->nodes[below((unsigned)c->n)]);
		graph_free(g);
		graph_free(c);
	}
	ok(ordered, "the order has each node after those it depends on");
	ok(lanes, "each step is sure to follow those it depends on, in a lane of its device");
	ok(cloned, "a clone has the same nodes and edges");
	ok(circles, "a circle is found");
	ok(atomic_load(&o->users) == 1, "no reference is left");
	op_drop(o);
}

static void
test_chain(void)
{
	size_t deps[10];
	struct step v[10] = {0};
	int ordinal[LANES_MAX];

	for (size_t i = 1; i < 10; i++) {
		deps[i] = i - 1;
		v[i].deps = &deps[i];
		v[i].ndeps = 1;
	}
	ok(lanes_plan(v, 10, ordinal) == 1, "a chain has one lane");
	for (size_t i = 0; i < 10; i++)
		v[i].ndeps = 0;
	ok(lanes_plan(v, 10, ordinal) == 10, "what is independent has a lane each");
}

static void
test_joined(void)
{
	struct op *o = op_empty();
	struct CUgraph_st *g = graph_new(), *other = graph_new();
	struct CUgraphNode_st *a = graph_add(g, o, 0, NULL, 0), *b = graph_add(g, o, 0, &a, 1),
			      *c = graph_add(g, o, 0, &a, 1), *both[2] = {b, c};

	ok(!graph_joined(g, &b, 1), "a node that no tip depends on is not joined");
	ok(graph_joined(g, both, 2), "two tips");
	ok(!graph_add(other, o, 0, &a, 1), "a dependency of another graph is refused");
	ok(!graph_link(a, b), "an edge that is there is refused");
	ok(graph_unlink(a, b) && !graph_unlink(a, b), "an edge is removed once");
	graph_free(g);
	graph_free(other);
	op_drop(o);
}

int
main(void)
{
	test_random();
	test_chain();
	test_joined();
	return tap_done();
}
