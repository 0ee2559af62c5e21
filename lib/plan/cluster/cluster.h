/*
 * cluster.h - the model of a cluster of GPUs, described by a file.
 *
 * A file names hardware in words; kinds.h has the constants that each word stands for. After cluster_read
 * every constant has a value. gpusim-cluster(5) has the format.
 *
 * Units: GB/s are 10^9 bytes a second in one direction; us are microseconds. Hosts, GPUs and NICs are
 * numbered from 0; GPU g is on host g / gpus_per_host, as ranks are.
 */
#ifndef CLUSTER_CLUSTER_H
#define CLUSTER_CLUSTER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/option.h"

#define CLUSTER_MAX_HOSTS  65536
#define CLUSTER_MAX_GPUS   1048576 /* of the whole cluster */
#define CLUSTER_MAX_NICS   64	   /* of a host */
#define CLUSTER_MAX_LEVELS 3
#define CLUSTER_MAX_RING   16 /* GPUs of a domain that is a ring */

/* NCCL's protocols, which differ in how data and their flags travel together. */
enum cluster_proto { CLUSTER_LL, CLUSTER_LL128, CLUSTER_SIMPLE, CLUSTER_NPROTOS };

enum cluster_cpu { CLUSTER_INTEL, CLUSTER_AMD, CLUSTER_ARM, CLUSTER_POWER };

/* The interconnect of the GPUs of a domain. */
enum cluster_inside {
	CLUSTER_NVSWITCH,      /* full speed between any two */
	CLUSTER_MESH,	       /* NVLinks shared out between the other GPUs of the host */
	CLUSTER_RING_OF_LINKS, /* to the next one and to the one before */
	CLUSTER_PCIE,
	CLUSTER_MEMORY, /* processes of one host */
};

/* A protocol on one kind of hop. */
struct cluster_class {
	double us;    /* a hop */
	double share; /* of the link's bandwidth, 0..1; 0: unused */
};

/* Switches between hosts, from the hosts up. */
struct cluster_level {
	uint32_t hosts;		 /* below one switch of this level; 0: no such level */
	double oversubscription; /* bandwidth from below over bandwidth to above; 1: none */
};

struct cluster {
	char name[64];
	int gpu, network; /* rows of kinds.h */
	int cpu;	  /* enum cluster_cpu */
	uint32_t hosts, gpus_per_host;

	/* of a GPU */
	double memory_gb, memory_gbs; /* 10^9 bytes; a second, reading and writing together */
	double tflops;		      /* of products of 16-bit matrices, as sold */
	double matrix_share;	      /* of tflops that large products reach */

	/* inside a domain */
	int inside; /* enum cluster_inside */
	/* GPUs that reach each other without NICs: of a host, or of more in MNNVL */
	uint32_t domain;
	double inside_gbs; /* of one GPU to all others together */
	double pcie_gbs;   /* of a GPU */
	int nvls;	   /* NVSwitch reduces: 0 or 1 */

	/* between domains */
	uint32_t nics; /* of a host */
	double nic_gbs;
	int rails; /* 1: NICs of one number share the first level's switches */
	struct cluster_level level[CLUSTER_MAX_LEVELS];
	double switch_us; /* a switch that a message crosses */
	int sharp;	  /* 1: switches reduce */
	int gpudirect;	  /* 1: NICs read GPUs' memory */

	/* costs */
	double launch_us;			   /* of a collective: kernel and first flag */
	double message_us;			   /* the host's cost of a message on the network */
	double reduce_gbs, copy_gbs;		   /* of a GPU, in its memory */
	struct cluster_class in[CLUSTER_NPROTOS];  /* hops inside a domain */
	struct cluster_class out[CLUSTER_NPROTOS]; /* hops through NICs */

	/* the share of a link's bandwidth that large transfers reach */
	double inside_share, nic_share, nvls_share;
};

/*
 * cluster_read - parse a file's text.
 *
 *	name	of the file, for sentences
 *	out	[out] every constant has a value
 *
 * Errors: RC_INVAL "FILE:LINE: key: reason".
 */
enum rc cluster_read(const char *text, const char *name, struct cluster *out, struct err *err);

/*
 * cluster_load - read a file by its path, or a built-in one by its name ("h100-ib400").
 *
 * A word with a "/" or that ends with ".ini" is a path. A name is searched in the folders of
 * $GPUSIM_CLUSTERS (between ":"), in ../share/gpusim/clusters from the program's folder, and in
 * examples/clusters of a source tree.
 * Errors: as cluster_read; RC_FAILED the file cannot be read; RC_INVAL unknown name.
 */
enum rc cluster_load(const char *word, struct cluster *out, struct err *err);

/* The path of a file that cluster_load would read; kind: "clusters", or a folder next to it, such as
 * "failures". */
enum rc cluster_find(const char *kind, const char *word, char path[PATH_MAX], struct err *err);

/* Append the names of the built-in files of a kind, separated by ", ". */
void cluster_names(const char *kind, struct buf *out);

/* Append all constants as a file that gives an equal cluster. */
enum rc cluster_print(const struct cluster *c, struct buf *out, struct err *err);

uint32_t cluster_gpus(const struct cluster *c);
/* RC_INVAL: it has fewer than n. */
enum rc cluster_check_gpus(const struct cluster *c, uint32_t n, struct err *err);

/*
 * cluster_strided - the cluster as a group of every stride-th GPU has it, while all such groups communicate.
 *
 * The groups of a host share its NICs. A stride that does not divide a host's GPUs counts as if the host had
 * so many more.
 */
struct cluster cluster_strided(const struct cluster *c, uint32_t stride);

/* GB/s of the wire, all NICs of a host together. */
double cluster_host_gbs(const struct cluster *c);

/* The name of the GPU's kind, of the network's. Static. */
const char *cluster_gpu_name(const struct cluster *c);
const char *cluster_network_name(const struct cluster *c);

#endif
