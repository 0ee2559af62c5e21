/*
 * graph.h - the happens-before order of an algorithm's steps. Pure.
 *
 * A node is a step: those of rank 0 first, block by block, in order. Before a node happen the step before it
 * in its block, the step that it depends on, and the step that sends the message it receives. The k-th send
 * of a connection matches the k-th receive, so the graph is the same for every interleaving.
 */
#ifndef ALGO_GRAPH_H
#define ALGO_GRAPH_H

#include "algo/algo.h"

struct graph {
	const struct algo *algo;
	uint32_t nnode, nblock, nmessage;
	uint32_t ncell, nsent; /* of all ranks, see cells.h; chunks in all messages */
	uint32_t *first_cell;  /* by rank: its first cell among all */
	uint32_t *rank_block;  /* nranks + 1: the first block of each rank, over all ranks */
	uint32_t *block_rank;  /* by block */
	uint32_t *first;       /* nblock + 1: the first node of each block */
	uint32_t *block_of;    /* by node */
	uint32_t *to, *from;   /* by node: the receiver of its message, the sender; ALGO_NONE */
	uint32_t *send_at;     /* by node: its number among the sends of its block */
	uint32_t *sent_at;     /* by node that sends: its first chunk among all that are sent */
	uint32_t *send_first;  /* nblock + 1: into sends */
	uint32_t *sends;       /* the nodes that send, block by block, in order */
	uint32_t *waiter;      /* by node: the first node that depends on it, then next_waiter */
	uint32_t *next_waiter; /* by node */
	uint32_t *order;       /* the nodes, each after all that happen before it */
	uint32_t *at;	       /* by node: its place in order */
};

/* "rank 1 block 0 step 2", without the block if the rank has only one. */
struct step_name {
	char text[64];
};

/*
 * graph_init - make the graph of an algorithm with a valid shape, which stays the caller's.
 *
 * Errors: RC_BADDATA a message without a receiver or sender, or with another count; RC_NOMEM. graph_fini
 * releases, also after an error.
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
/* The name without the rank: "block 0 step 2". */
struct step_name graph_short_name(const struct graph *g, uint32_t node);
/* " (line 12)"; "" if it is unknown. */
struct step_name graph_line(const struct graph *g, uint32_t node);

/* ---- find conflicting accesses to a chunk without a fixed order */

/*
 * race_find - look for two steps of a rank that touch the same chunk, one of which writes, and of which
 * neither happens before the other.
 *
 *	g	sorted without slots: an order that only full connections enforce does not count
 *
 * Errors: RC_BADDATA with the first race; RC_INVAL it would need more time or memory than allowed; RC_NOMEM.
 */
enum rc race_find(const struct graph *g, struct err *err);

#endif
