/*
 * kinds.h - the words of cluster files, and the constants that each stands for. Pure.
 */
#ifndef CLUSTER_KINDS_H
#define CLUSTER_KINDS_H

#include "cluster/cluster.h"

/* A GPU as its maker describes it. */
struct cluster_gpu_kind {
	const char *name;
	int cc;		   /* compute capability, 90 is 9.0; 0: a process */
	uint32_t links;	   /* NVLinks; 0: none */
	double link_gbs;   /* of one, in one direction, as sold */
	double pcie_gbs;   /* of its slot, in one direction, as sold */
	double memory_gbs; /* of its own memory */
	double tflops;	   /* of products of 16-bit matrices */
	double memory_gb;
	int inside;	   /* enum cluster_inside of its usual board */
	uint32_t per_host; /* GPUs of its usual host */
	uint32_t domain;   /* of its usual rack; 0: a host's */
	int cpu;	   /* enum cluster_cpu beside it */
};

struct cluster_network_kind {
	const char *name;
	struct cluster_class out[CLUSTER_NPROTOS];
	double share;	   /* of the wire's rate that large messages reach */
	double most_gbs;   /* of one NIC, by its host's processor; 0: no limit */
	double message_us; /* the host's cost of a message */
	double switch_us;
	bool gpudirect;
};

const struct cluster_gpu_kind *cluster_gpu_kind(unsigned i); /* NULL after the last */

/* The names, for tables of options; NULL after the last. */
const char *cluster_gpu_word(unsigned i);
const char *cluster_network_word(unsigned i);

/* Set every constant of *out that follows from the words in *c; the words are copied. A word that was not
 * given is NAN, 0 or -1, by its type. */
void cluster_defaults(const struct cluster *c, struct cluster *out);

/* GPUs of a domain reach each other by links of their own, not through a host. */
bool cluster_by_nvlink(const struct cluster *c);

#endif
