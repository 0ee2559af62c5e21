/*
 * bound.h - what a collective cannot be faster than: bytes that must cross a cut of the cluster, over the cut's bandwidth. Pure.
 *
 * Cuts are around a GPU, around the hosts of a domain, and around all below a switch of each level. No prediction is less.
 */
#ifndef CLUSTER_BOUND_H
#define CLUSTER_BOUND_H

#include "cluster/cluster.h"
#include "gpusim.h"

struct cluster_bound_ask {
	enum gpusim_coll coll;
	uint32_t ngpus;
	uint64_t nbytes;       /* as nccl-tests' column `size` */
	bool nvswitch_reduces; /* the algorithm lets it */
	bool network_reduces;  /* the same of the switches between domains */
};

struct cluster_bound {
	double us;
	const char *name;   /* of the cut: "a leaf switch's way up" */
	double nbytes, gbs; /* that cross the cut, in one direction; at */
};

/* The cut that takes longest; us is 0 where nothing must cross one. */
struct cluster_bound cluster_bound(const struct cluster *c, const struct cluster_bound_ask *ask);

/* RC_INTERNAL: the time is less than the bound; rounding aside. */
enum rc cluster_bound_check(const struct cluster_bound *b, double us, struct err *err);

#endif
