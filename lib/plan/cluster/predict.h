/*
 * predict.h - the time of a collective on a cluster, as nccl-tests measures it. Pure.
 *
 * The one answer of gpuctl simulate: NCCL's choice (tuning.h), and a time of our own for it, which is a sum:
 *
 *	launch	  the kernel, NCCL's first and last flag
 *	latency	  the hops that follow one another, each with the latency of its protocol and kind
 *	bytes	  the fullest link's bytes over its bandwidth: the GPU's way into its domain, a host's NICs, a level of
 *		  switches, or the protocol's own limit
 *	fill	  the time until a pipeline of several hops is full; it grows with the size up to one chunk a channel
 *
 * gpusim-cluster(5) has the formulas.
 */
#ifndef CLUSTER_PREDICT_H
#define CLUSTER_PREDICT_H

#include "cluster/bound.h"
#include "cluster/tuning.h"

/* Numbers without a unit, the same for all hardware, fitted over all measured tables together. */
struct cluster_fit {
	double inside_hop; /* times a hop's latency inside a domain */
	double net_hop;	   /* likewise through NICs */
	double nvls;	   /* times NCCL's latency of NVLS and NVLSTree */
	double fill;	   /* chunks that fill a pipeline, a crossing of NICs */
	double nvls_fill;  /* for NVLS, in chunks of a GPU */
	double ll128_fill; /* for LL128, per crossing of NICs */
	/* times a ring's latency of Simple through NICs, above 64 bytes per channel and rank */
	double plateau;
	double growth;				    /* of latency, from a word to 8 KiB */
	double inside_share, nvls_share, net_share; /* times the shares of the catalogue */
};

extern const struct cluster_fit cluster_fit_default;
#define CLUSTER_FIT_NUMBERS (sizeof(struct cluster_fit) / sizeof(double))

struct cluster_ask {
	enum gpusim_coll coll;
	uint32_t ngpus;
	uint64_t nbytes;   /* as nccl-tests' column `size` */
	int algo, proto;   /* -1: as NCCL chooses */
	uint32_t channels; /* 0: as NCCL chooses */
};

enum cluster_limit {
	CLUSTER_BY_GPU, /* its way into its domain */
	CLUSTER_BY_NIC,
	CLUSTER_BY_LEVEL, /* of switches: level */
	CLUSTER_BY_PROTOCOL,
	CLUSTER_BY_CHANNELS,
	CLUSTER_BY_NVLS,
};

struct cluster_answer {
	struct tuning_choice choice;
	double us, launch_us, latency_us, bytes_us, fill_us; /* us is the sum of the others */
	enum cluster_limit limit;
	unsigned level;
	double limit_gbs;     /* of that link */
	double bytes_through; /* the link, per rank's nbytes */
	struct cluster_bound bound;
};

/* Errors: RC_INVAL not possible there; RC_INTERNAL the time is below its bound. */
enum rc cluster_predict(const struct cluster *c, const struct cluster_ask *ask,
			struct cluster_answer *out, struct err *err);

/* As cluster_predict, with other numbers; for fitting. */
enum rc cluster_predict_fit(const struct cluster *c, const struct cluster_ask *ask,
			    const struct cluster_fit *fit, struct cluster_answer *out,
			    struct err *err);

/* The measured tables that a prediction resembles. */
enum cluster_likeness {
	CLUSTER_LIKE_INSIDE,	/* in one domain, GPUs with tables */
	CLUSTER_LIKE_HOSTS,	/* over NICs */
	CLUSTER_LIKE_EXCHANGES, /* sends and receives over NICs */
	CLUSTER_LIKE_NONE, /* no table: SHARP, several domains of several hosts, other GPUs, TCP, gpusim's plans */
	CLUSTER_NLIKE,
};

enum cluster_likeness cluster_likeness(const struct cluster *c, uint32_t ngpus,
				       const struct tuning_choice *choice);

/* About 80 % of measured times are from `low` to `high` times the predicted one. */
struct cluster_bar {
	double low, high;
};

struct cluster_bar cluster_error_bar(enum cluster_likeness like, uint64_t nbytes);

/* A collective by its name here, or by that of nccl-tests ("all_reduce", "sendrecv": GPUSIM_SEND).
 * RC_INVAL. */
enum rc cluster_coll(const char *name, enum gpusim_coll *out, struct err *err);

/* An algorithm of NCCL by its name, without regard to case; "auto" is -1. RC_INVAL. */
enum rc cluster_algo_parse(const char *name, int *out, struct err *err);

/* "NICs of a host", in words; static. */
const char *cluster_limit_name(const struct cluster_answer *a);

#endif
