/*
 * links.h - the links of a cluster, and the routes of messages. Pure.
 *
 * Ranks are numbered domain by domain. A rank has one port each way into its domain: NVSwitch, or memory. A
 * domain has NICs each way, and switches above the domains have ways up and down: groups of equally many
 * ranks, nested. A message takes the sender's port out and the receiver's port in where one domain has both;
 * else a NIC out, a way up and a way down at each level that it has to climb, and a NIC in. Nothing is stored
 * per pair of ranks, so that a million ranks cost nothing.
 *
 * In a domain that is a ring each rank has a link to the next one and one to the one before; a message takes
 * the shorter way round, by all links on it.
 */
#ifndef CLUSTER_LINKS_H
#define CLUSTER_LINKS_H

#include "base/buf.h"
#include "base/rc.h"
#include "cluster/cluster.h"
#include "coll/simulate.h"

#define LINKS_MAX_LEVELS CLUSTER_MAX_LEVELS
#define LINKS_MAX_ROUTE	 (2 + 2 * LINKS_MAX_LEVELS)

/* Switches: each joins `ranks` ranks. Costs in microseconds. */
struct links_level {
	uint32_t ranks; /* a multiple of those of the level below, or of a domain's */
	double byte_us; /* a byte on a switch's way up, as on its way down; 0: never a bottleneck */
	double latency_us; /* in addition to the level below */
};

struct links {
	uint32_t nranks;
	uint32_t domain;	/* ranks of a domain, at least 1 */
	bool ring;		/* of at most CLUSTER_MAX_RING ranks a domain */
	double port_byte_us;	/* 0: no bottleneck */
	double port_latency_us; /* of a message inside a domain */
	uint32_t nics;		/* of a domain; 0: there is only one domain */
	uint32_t host_nics;	/* of a host, for names; 0: a domain's */
	double nic_byte_us;
	double nic_latency_us; /* of a message between domains, without levels */
	struct links_level level[LINKS_MAX_LEVELS];
	unsigned nlevels;
	double host_us;	       /* a message occupies its sender, and its receiver, for this long */
	double reduce_byte_us; /* per byte reduced, or copied from buffer to buffer */
};

/* Links by number: ports out, ports in (of a ring: to the next, to the one before), NICs out, NICs in, then
 * level by level ways up and ways down. */
struct route {
	uint32_t link[LINKS_MAX_ROUTE];
	unsigned n;
	double latency_us;
};

/* Equal ranks, each with one link each way: as with gpudev --latency --bandwidth, or a network of equal
 * hosts. */
struct links links_flat(uint32_t nranks, const struct cost_model *m);

/*
 * links_of_cluster - the links of the first nranks GPUs of a cluster.
 *
 *	proto	the protocol whose latencies and shares apply
 */
struct links links_of_cluster(const struct cluster *c, uint32_t nranks, enum cluster_proto proto);

uint32_t links_count(const struct links *l);
double links_byte_us(const struct links *l, uint32_t link);

/* The way from one rank to another one. Links that are never a bottleneck are left out. */
struct route links_route(const struct links *l, uint32_t from, uint32_t to);

/* "GPU 3's way into its domain", "host 2's NIC 1 in", "leaf switch 0's way up". False: out of memory. */
void links_name(const struct links *l, uint32_t link, struct buf *out);

/*
 * A shift of all ranks by links_period ranks maps the links onto each other. So two ranks whose numbers
 * differ by a multiple of it are equivalent. At most nranks.
 */
uint32_t links_period(const struct links *l);

/* The equivalent link of the first period. */
uint32_t links_fold(const struct links *l, uint32_t period, uint32_t link);

#endif
