/*
 * graph.h - which step of an algorithm happens before which. Pure.
 *
 * A node is a step: those of rank 0 first, block by block, in order. Before a node happen the step before it in its block,
 * the step that it depends on, and the step that sends the message it receives. The k-th send of a connection meets
 * the k-th receive, so the graph is the same for every timing.
 */
#ifndef ALGO_GRAPH_H
#define ALGO_GRAPH_H

#include "algo/algo.h"

struct graph {
	const struct algo *algo;
	uint32_t nnode, nblock, nmessage;
	uint32_t *rank_block; /* nranks + 1: the first block of each rank, over all ranks */
	uint32_t *block_rank; /* by block */
	uint32_t *first;      /* nblock + 1: the first node of each block */
	uint32_t *block_of;   /* by node */
	uint32_t *to,
	    *from; /* by node: who receives what it sends, who sends what it receives; ALGO_NONE */
	uint32_t *send_at;     /* by node: its number among the sends of its block */
	uint32_t *send_first;  /* nblock + 1: into sends */
	uint32_t *sends;       /* the nodes that send, block by block, in order */
	uint32_t *waiter;      /* by node: the first of those that depend on it, then next_waiter */
	uint32_t *next_waiter; /* by node */
	uint32_t *order;       /* the nodes, each after all that happen before it */
	uint32_t *at;	       /* by node: its place in order */
};

/* "rank 1 block 0 step 2", without the block where the rank has one only. */
struct step_name {
	char text[64];
};

/*
 * graph_init - the graph of an algorithm whose shape is good, which stays the caller's.
 *
 * Errors: RC_BADDATA a message that nobody receives, or sends, or with another count; RC_NOMEM. graph_fini releases, also
 * after an error.
 */
enum rc graph_init(struct graph *g, const struct algo *a, struct err *err);
void graph_fini(struct graph *g);

/*
 * graph_sort - fill order and at.
 *
 *	slots	messages that a connection holds: the k-th send comes after receive k - slots; 0: any number
 *
 * Errors: RC_BADDATA some node waits for itself, with the chain; RC_NOMEM.
 */
enum rc graph_sort(struct graph *g, uint32_t slots, struct err *err);

/* Node's step; its index in its block. */
const struct algo_step *graph_step(const struct graph *g, uint32_t node);
uint32_t graph_index(const struct graph *g, uint32_t node);
uint32_t graph_rank(const struct graph *g, uint32_t node);
/* The node that a step depends on, ALGO_NONE. The node before it in its block, ALGO_NONE. */
uint32_t graph_dep(const struct graph *g, uint32_t node);
uint32_t graph_prev(const struct graph *g, uint32_t node);

struct step_name graph_name(const struct graph *g, uint32_t node);
/* The same for a step of a rank that the sentence has named: "block 0 step 2". */
struct step_name graph_short_name(const struct graph *g, uint32_t node);
/* " (line 12)", "" where it is unknown. */
struct step_name graph_line(const struct graph *g, uint32_t node);

#endif
