/*
 * tuning.h - the algorithm, protocol and channels that NCCL chooses. Pure.
 *
 * NCCL estimates each pair's time as latency + bytes / bandwidth and takes the least. The estimate is for
 * choosing, and not good as a time (predict.h has that). Source of formulas and constants: NVIDIA/nccl
 * 5067397 (2.30), src/graph/tuning.cc, src/graph/search.cc, src/graph/topo.h, src/enqueue.cc.
 */
#ifndef CLUSTER_TUNING_H
#define CLUSTER_TUNING_H

#include "cluster/cluster.h"
#include "gpusim.h"

enum cluster_algo {
	CLUSTER_TREE,
	CLUSTER_RING,
	CLUSTER_COLLNET, /* by switches of the network that reduce */
	CLUSTER_NVLS,	 /* by NVSwitch */
	CLUSTER_NVLS_TREE,
	CLUSTER_PAT,
	CLUSTER_P2P, /* sends and receives in a group */
	CLUSTER_NALGOS,
};

const char *cluster_algo_name(unsigned algo);	/* "RING"; NULL: none */
const char *cluster_proto_name(unsigned proto); /* "LL128" */

/* The first n GPUs of a cluster, as NCCL sees them. */
struct tuning_ranks {
	uint32_t n, nodes; /* a domain of NVLink is one node */
	double per_node;
	int cc;
	int column;		     /* of NCCL's tables: 0 one node, 1 two, 2 more */
	int generation;		     /* their row: 0 Volta, 1 Ampere, 2 Hopper, 3 Blackwell */
	double intra_gbs, inter_gbs; /* of one ring's channel inside a node, between nodes */
	uint32_t channels;
};

void tuning_ranks(const struct cluster *c, uint32_t n, struct tuning_ranks *out);

/* NCCL's estimate of one pair. */
struct tuning_cost {
	double lat_us, gbs; /* gbs: of the algorithm; 0: the pair is not available */
};

void tuning_cost(const struct cluster *c, const struct tuning_ranks *r, enum gpusim_coll coll,
		 enum cluster_algo algo, enum cluster_proto proto, uint64_t nbytes,
		 struct tuning_cost *out);

struct tuning_choice {
	enum cluster_algo algo;
	enum cluster_proto proto;
	uint32_t channels;
	double us; /* NCCL's estimate; NAN: it makes none */
};

/*
 * tuning_choose - NCCL's choice, or the best one for a given algorithm or protocol.
 *
 *	algo, proto	-1: NCCL chooses
 *	nbytes		the size that nccl-tests prints
 *
 * Errors: RC_INVAL the pair is not available there.
 */
enum rc tuning_choose(const struct cluster *c, const struct tuning_ranks *r, enum gpusim_coll coll,
		      int algo, int proto, uint64_t nbytes, struct tuning_choice *out,
		      struct err *err);

#endif
