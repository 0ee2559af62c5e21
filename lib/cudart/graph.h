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
	struct CUgraphNode_st *origin; /* in the graph that this one is a clone of */
	size_t at;		       /* its place in the order; scratch of graph_order */
	void *params;		       /* malloc'd, for who asks for them; NULL: none */
	size_t params_nbytes;
};

struct CUgraph_st {
	uint64_t magic;
	struct CUgraphNode_st **nodes;
	size_t n, room;
};

struct CUgraph_st *graph_new(void);
void graph_free(struct CUgraph_st *g); /* NULL is legal */

/* Add a node; it takes a reference of its own on the op. NULL: out of memory, or a dependency of another graph. */
struct CUgraphNode_st *graph_add(struct CUgraph_st *g, struct op *op, int ordinal,
				 struct CUgraphNode_st *const *deps, size_t ndeps);
void graph_remove(struct CUgraphNode_st *node);

/* An edge. False: out of memory; it is there already; it is not there. */
bool graph_link(struct CUgraphNode_st *from, struct CUgraphNode_st *to);
bool graph_unlink(struct CUgraphNode_st *from, struct CUgraphNode_st *to);

/* A copy with the same ops; NULL: out of memory. */
struct CUgraph_st *graph_clone(const struct CUgraph_st *g);

/* Its nodes so that each follows those it depends on; node->at is the place. The caller's to free. NULL: there is a
 * circle (*circle), or out of memory. */
struct CUgraphNode_st **graph_order(struct CUgraph_st *g, bool *circle);

/* Whether every node is one of the tips or one that they depend on. */
bool graph_joined(struct CUgraph_st *g, struct CUgraphNode_st *const *tips, size_t ntips);

/* ------------------------------------------------------------------ lanes */

#define LANES_MAX 32

/* One step of a launch. */
struct step {
	struct op *op;
	const struct CUgraphNode_st *node; /* of the graph that was instantiated */
	int ordinal;
	bool disabled;
	size_t *deps; /* places of steps, all before it */
	size_t ndeps;
	unsigned lane;
	bool awaited; /* a step of another lane depends on it */
};

/*
 * lanes_plan - put each step in a lane, so that a chain stays in one, and what does not depend on each other does not
 * wait for each other.
 *
 *	ordinal	[out] of each lane
 *
 * Returns how many lanes there are. With more than LANES_MAX chains some share one.
 */
unsigned lanes_plan(struct step *v, size_t n, int ordinal[LANES_MAX]);

#endif
