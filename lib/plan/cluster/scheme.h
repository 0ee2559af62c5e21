/*
 * scheme.h - the layout of rings, trees and exchanges over a cluster's hosts and NICs: plans of thread
 * blocks. Pure.
 *
 * Channels are alike: each begins with another GPU of a domain, and so has its own NIC, its rail. One
 * channel represents all, and has its share of every link. The repeated parts of a scheme are its units: a
 * round of a ring, a piece of a tree's vector. A scheme may be built with fewer units than it has, because
 * the time grows with each unit alike.
 */
#ifndef CLUSTER_SCHEME_H
#define CLUSTER_SCHEME_H

#include "cluster/flow.h"
#include "gpusim.h"

#define SCHEME_CHUNK (512u << 10) /* bytes of a channel's chunk with Simple, as NCCL has it */

#define SCHEME_MOST_STEPS  (1u << 20) /* of all ranks that are simulated */
#define SCHEME_LEAST_HOSTS 16u	      /* of a tree whose further levels are extrapolated */
#define SCHEME_MOST_PIECES 256u	      /* of such a tree's vector */

struct scheme_ask {
	enum gpusim_coll coll; /* the scheme's */
	uint32_t nranks;
	uint64_t nbytes;   /* of the whole vector */
	uint32_t channels; /* at least 1; those of schemes that have but one are ignored */
	bool simple;	   /* the protocol is Simple: chunks go in two slices */
};

struct scheme_size {
	uint32_t nplans, blocks; /* ranks that are built, see flow_plans; blocks of a rank */
	uint64_t units,
	    every;	   /* all; only multiples of `every` end at the same place of the pattern */
	double unit_steps; /* of all ranks that are built */
	uint64_t message_bytes; /* that a unit brings a rank */
	unsigned slices;	/* messages that they go in; 0: one */
	uint32_t channels;	/* for which one stands */
	uint32_t hosts_of; /* ranks of a host of a tree, the levels of which cost alike; 0: none */
	double port_share,
	    nic_share; /* a byte's time is scaled by this, because of the other channels */
};

struct scheme {
	const char *name;
	enum gpusim_coll coll; /* GPUSIM_SEND: all ranks send to the next one */
	bool far;	       /* most messages cross all levels of switches: treat all so */
	/* out has the values of one block and channel that repeats one unit. */
	void (*size)(const struct scheme_ask *a, const struct links *l, struct scheme_size *out);
	/* Append the steps of rank r's blocks, blocks of them, for a number of units. Elements are bytes. */
	void (*build)(const struct scheme_ask *a, const struct links *l,
		      const struct scheme_size *s, uint64_t units, uint32_t r, struct plan *blocks);
};

/* NULL-name terminated. */
extern const struct scheme schemes[];

/* NULL: not found. */
const struct scheme *scheme_find(enum gpusim_coll coll, const char *name);

/* The parent of a host in NCCL's first or second tree over n hosts (UINT32_MAX: none), and its children.
 * Returns their number. */
unsigned scheme_tree(uint32_t n, uint32_t host, unsigned tree, uint32_t *parent, uint32_t child[2]);

#endif
