/*
 * bound.h - a lower bound of a collective's time: bytes that must cross a cut of the cluster, over its
 * bandwidth. Pure.
 *
 * Cuts are around a GPU, around the hosts of a domain, and around all below a switch of each level. No
 * prediction is less.
 */
#ifndef CLUSTER_BOUND_H
#define CLUSTER_BOUND_H

#include "cluster/cluster.h"
#include "gpusim.h"

struct cluster_bound_ask {
	enum gpusim_coll coll;
	uint32_t ngpus;
	uint64_t nbytes;       /* as nccl-tests' column `size` */
	bool nvswitch_reduces; /* the algorithm reduces in NVSwitch */
	bool network_reduces;  /* or in the switches between domains */
};

struct cluster_bound {
	double us;
	const char *name;   /* of the cut: "a leaf switch's way up" */
	double nbytes, gbs; /* bytes across the cut in one direction; its bandwidth */
};

/* The slowest cut; us is 0 if nothing must cross one. */
struct cluster_bound cluster_bound(const struct cluster *c, const struct cluster_bound_ask *ask);

/* RC_INTERNAL: the time is less than the bound; rounding aside. */
enum rc cluster_bound_check(const struct cluster_bound *b, double us, struct err *err);

#endif
