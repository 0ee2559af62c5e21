/*
 * graph.h - a graph of operations, and the lanes in which its nodes are launched. Pure: no stream, no device.
 */
#ifndef CUDART_GRAPH_H
#define CUDART_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct op;

#define GRAPH_MAGIC 0x6770757367726166ull
#define NODE_MAGIC  0x677075736e6f6465ull

struct CUgraphNode_st {
	uint64_t magic;
	struct CUgraph_st *graph;
	struct op *op;
	int ordinal; /* the device it runs on */
	struct CUgraphNode_st **deps;
	size_t ndeps;
	struct CUgraphNode_st *origin; /* in the graph of which this one is a clone */
	size_t at;		       /* its index in the order; scratch of graph_order */
	void *params;		       /* malloc'd, for queries; NULL: none */
	size_t params_nbytes;
};

struct CUgraph_st {
	uint64_t magic;
	struct CUgraphNode_st **nodes;
	size_t n, room;
};

struct CUgraph_st *graph_new(void);
void graph_free(struct CUgraph_st *g); /* NULL is legal */

/* Add a node; it takes its own reference on the op. NULL: out of memory, or a dependency of another graph. */
struct CUgraphNode_st *graph_add(struct CUgraph_st *g, struct op *op, int ordinal,
				 struct CUgraphNode_st *const *deps, size_t ndeps);
void graph_remove(struct CUgraphNode_st *node);

/* Add or remove an edge. False: out of memory; it already exists; it does not exist. */
bool graph_link(struct CUgraphNode_st *from, struct CUgraphNode_st *to);
bool graph_unlink(struct CUgraphNode_st *from, struct CUgraphNode_st *to);

/* A copy with the same ops; NULL: out of memory. */
struct CUgraph_st *graph_clone(const struct CUgraph_st *g);

/* The nodes in an order in which each follows its dependencies; node->at is the index. The caller
 * frees it. NULL: a cycle (*circle), or out of memory. */
struct CUgraphNode_st **graph_order(struct CUgraph_st *g, bool *circle);

/* Return true if every node is one of the tips or a dependency of them. */
bool graph_joined(struct CUgraph_st *g, struct CUgraphNode_st *const *tips, size_t ntips);

/* ------------------------------------------------------------------ lanes */

#define LANES_MAX 32

/* One step of a launch. */
struct step {
	struct op *op;
	const struct CUgraphNode_st *node; /* of the graph that was instantiated */
	int ordinal;
	bool disabled;
	size_t *deps; /* indices of steps, all before this one */
	size_t ndeps;
	unsigned lane;
	bool awaited; /* a step of another lane depends on it */
};

/*
 * lanes_plan - put each step in a lane, so that a chain stays in one lane, and independent steps do
 * not wait for each other.
 *
 *	ordinal	[out] of each lane
 *
 * Returns the number of lanes. With more than LANES_MAX chains, some share a lane.
 */
unsigned lanes_plan(struct step *v, size_t n, int ordinal[LANES_MAX]);

#endif
