#include "cluster/tuning.h"

#include <math.h>

#include "cluster/kinds.h"
#include "coll/plan.h"

#define MAX_CHANNELS 32

enum { INTRA_NVLINK, INTRA_PCIE, THROUGH_NET };

static const char *const algo_names[] = {"TREE",     "RING", "COLLNET", "NVLS",
					 "NVLSTREE", "PAT",  "P2P"};
static const char *const proto_names[] = {"LL", "LL128", "SIMPLE"};

/* Base latency by algorithm and protocol. */
static const double base_us[CLUSTER_NALGOS][CLUSTER_NPROTOS] = {
    [CLUSTER_TREE] = {6.8, 14, 8.4}, [CLUSTER_RING] = {6.6, 14, 8.4}, [CLUSTER_PAT] = {8, 8, 8}};

/* Latency of a hop: of NVLink, PCIe, a NIC. */
static const double tree_us[3][CLUSTER_NPROTOS] = {{0.6, 1.25, 4}, {1, 1.9, 4}, {5, 8.5, 14}};
static const double ring_us[3][CLUSTER_NPROTOS] = {{0.6, 1.9, 3.4}, {1, 2.5, 5.7}, {2.7, 4, 14}};

/* Limits in GB/s, by generation and number of nodes: 1, 2, more. */
static const double ll_max[4][3] = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}};
static const double ring_ll128_max[4] = {20, 20, 36.7, 40}; /* a channel */
static const double tree_ll128_max[4][3] = {
    {20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}};
static const double tree_max[4][3] = {
    {26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}};
static const double nvls_tree_max[4][3] = {
    {26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96, 80}};
static const double nvls_share[4] = {0, 0, 0.85, 0.74};

/* Of a tree's bandwidth, by log2(bytes / 64). */
static const double tree_part[CLUSTER_NPROTOS][24] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
     .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};

/* The bandwidths of a channel that NCCL tries, inside a node and between. */
static const double intra_80[] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 0};
static const double intra_90[] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3, 0};
static const double intra_100[] = {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18, 0};
static const double inter_all[] = {96, 86, 80, 48, 45, 42, 40, 30, 28, 24,  22,	 20,  18,  17.5,
				   15, 12, 10, 9,  7,  6,  5,  4,  3,  2.4, 1.2, .24, .12, 0};

const char *
cluster_algo_name(unsigned algo)
{
	return algo < CLUSTER_NALGOS ? algo_names[algo] : NULL;
}

const char *
cluster_proto_name(unsigned proto)
{
	return proto < CLUSTER_NPROTOS ? proto_names[proto] : NULL;
}

/* ---- the ranks: what NCCL's search of the topology finds */

/* Of one GPU inside its node, as NCCL counts it. */
static double
inside_gbs(const struct cluster *c, int cc)
{
	const struct cluster_gpu_kind *g = cluster_gpu_kind((unsigned)c->gpu);
	double link = cc >= 100 ? 40.1 : cc >= 90 ? 20.6 : 20;

	if (cluster_by_nvlink(c))
		return c->inside_gbs * (g->links ? link / g->link_gbs : 0.82);
	return c->inside_gbs * 0.75; /* PCIe 3 x16 is 12 of 16 */
}

/* Channels of a bandwidth that fill `total`; the bandwidth with the largest sum, and of those most
 * channels. */
static uint32_t
fill(const double *speeds, double total, uint32_t most, double *each)
{
	uint32_t n = 1;
	double best = 0;

	*each = total;
	for (; *speeds > 0; speeds++) {
		uint32_t k = (uint32_t)(total / *speeds + 1e-9);

		k = k > most ? most : k;
		if (k && k * *speeds >= best - 1e-9) {
			best = k * *speeds;
			*each = *speeds;
			n = k;
		}
	}
	return n;
}

/* A NIC as NCCL counts it, and channels: so many for each NIC that all its bandwidth is used. */
static void
channels_between(const struct cluster *c, double inside, struct tuning_ranks *r)
{
	double each, nic = c->nic_gbs * 0.96, node = c->nics * nic * r->per_node / c->gpus_per_host;
	uint32_t nics = c->nics;

	if (r->per_node < c->gpus_per_host && c->nics > r->per_node)
		nics = (uint32_t)(c->nics * r->per_node / c->gpus_per_host + 0.5);
	nics = nics ? nics : 1;
	node = node < inside ? node : inside;
	fill(inter_all, node / nics, 1, &each);
	r->channels = nics;
	r->inter_gbs = each;
	r->intra_gbs = each;
}

void
tuning_ranks(const struct cluster *c, uint32_t n, struct tuning_ranks *out)
{
	int cc = cluster_gpu_kind((unsigned)c->gpu)->cc;
	uint32_t each = c->domain < n ? c->domain : n;
	struct tuning_ranks r = {.n = n, .nodes = (n + each - 1) / each, .cc = cc};
	double inside = inside_gbs(c, cc);

	r.per_node = (double)n / r.nodes;
	r.column = r.nodes == 1 ? 0 : r.nodes == 2 ? 1 : 2;
	r.generation = cc < 80 ? 0 : cc < 90 ? 1 : cc < 100 ? 2 : 3;
	if (c->inside == CLUSTER_MESH && n < c->gpus_per_host && c->gpus_per_host > 1)
		inside *= (n - 1.0) / (c->gpus_per_host - 1);
	if (r.nodes == 1) {
		r.channels = fill(cc >= 100  ? intra_100
				  : cc >= 90 ? intra_90
					     : intra_80,
				  inside, 16, &r.intra_gbs);
		r.inter_gbs = r.intra_gbs;
	} else {
		channels_between(c, inside, &r);
	}
	/* Two halves of a channel hide each other's latency. */
	if (r.channels <= MAX_CHANNELS / 2 &&
	    (r.intra_gbs >= 25 || r.channels <= 4 || r.nodes > 1 || cc < 90)) {
		r.channels *= 2;
		r.intra_gbs /= 2;
		r.inter_gbs /= 2;
	}
	*out = r;
}

/* ---- the estimate */

static int
inside_row(const struct cluster *c)
{
	return cluster_by_nvlink(c) ? INTRA_NVLINK : INTRA_PCIE;
}

/* The NIC's latency as its plug-in reports it: that of a hop, beyond the built-in transport's. */
static double
nic_us(const struct cluster *c, enum cluster_proto p)
{
	double more = c->out[p].us - tree_us[THROUGH_NET][p];

	return more > 0 ? more : 0;
}

static double
inter_us(const struct cluster *c, const struct tuning_ranks *r, enum cluster_algo a,
	 enum cluster_proto p)
{
	const double(*t)[CLUSTER_NPROTOS] =
	    a == CLUSTER_RING && r->per_node > 1 ? ring_us : tree_us;

	return t[THROUGH_NET][p] + nic_us(c, p);
}

static double
ring_latency(const struct cluster *c, const struct tuning_ranks *r, enum gpusim_coll coll,
	     enum cluster_proto p)
{
	double post = (c->cpu == CLUSTER_AMD ? 2 : 1) * (p == CLUSTER_SIMPLE ? 3 : 1);
	double steps = coll == GPUSIM_ALLREDUCE ? 2.0 * (r->n - 1) : r->n - 1.0, crossings;
	double hop = ring_us[inside_row(c)][p];

	if (coll == GPUSIM_BROADCAST || coll == GPUSIM_REDUCE)
		return base_us[CLUSTER_RING][p] +
		       (r->nodes == 1 ? hop : inter_us(c, r, CLUSTER_RING, p));
	if (r->nodes == 1)
		return base_us[CLUSTER_RING][p] + steps * hop;
	crossings = (coll == GPUSIM_ALLREDUCE ? 2.0 : 1.0) * (r->nodes - 1);
	return base_us[CLUSTER_RING][p] + (steps - crossings) * (hop > post ? hop : post) +
	       crossings * inter_us(c, r, CLUSTER_RING, p);
}

static double
latency(const struct cluster *c, const struct tuning_ranks *r, enum gpusim_coll coll,
	enum cluster_algo a, enum cluster_proto p)
{
	double inside = floor(r->per_node) - 1, up = floor(log2(r->nodes));
	double hop = tree_us[inside_row(c)][p];

	switch (a) {
	case CLUSTER_RING:
		return ring_latency(c, r, coll, p);
	case CLUSTER_TREE:
		return base_us[a][p] + 2 * (inside * hop + up * inter_us(c, r, a, p));
	case CLUSTER_COLLNET:
		return 2 * (3.7 * (inside > 0) + 0.4 * inside) + 31 + nic_us(c, p);
	case CLUSTER_NVLS:
		return r->nodes > 1 ? 43 + nic_us(c, p) : 25;
	case CLUSTER_NVLS_TREE:
		return 25 + 2 * up * (20.9 + nic_us(c, p));
	default:
		return base_us[a][p] + up * inter_us(c, r, CLUSTER_TREE, p) / 3.5 + 2.8 * r->n;
	}
}

static double
ring_bus(const struct tuning_ranks *r, double bus, double ll, enum cluster_proto p)
{
	if (p == CLUSTER_LL)
		return fmin(ll, bus * 0.5);
	if (p == CLUSTER_LL128)
		return fmin(bus * 0.92, r->channels * ring_ll128_max[r->generation]);
	return bus;
}

static double
tree_bus(const struct tuning_ranks *r, double bus, double ll, enum cluster_proto p)
{
	bus = fmin(bus * 0.92, r->channels * tree_max[r->generation][r->column]);
	if (p == CLUSTER_LL)
		return fmin(bus / 3.8, ll);
	if (p == CLUSTER_LL128)
		return fmin(bus * (r->nodes == 1 ? 7.0 / 9 : 120.0 / 128),
			    r->channels * tree_ll128_max[r->generation][r->column]);
	return bus;
}

/* NVSwitch's share, and of several nodes the network's. */
static double
nvls_bus(const struct cluster *c, const struct tuning_ranks *r, enum gpusim_coll coll,
	 enum cluster_algo a)
{
	double inside = inside_gbs(c, r->cc) * nvls_share[r->generation] * 15 / 16;
	double between = r->channels * r->inter_gbs;

	inside *= coll == GPUSIM_ALLREDUCE ? 2 : (r->per_node - 1) / r->per_node;
	if (r->nodes == 1)
		return inside;
	if (a == CLUSTER_NVLS_TREE && r->nodes <= 2)
		between *= 2;
	if (a == CLUSTER_NVLS_TREE)
		inside = fmin(inside, 16 * nvls_tree_max[r->generation][r->column]);
	return fmin(inside, between);
}

/* A tree crosses a NIC once up and once down, so that its NICs let twice as much through inside the node. */
static double
bus_inside(const struct cluster *c, const struct tuning_ranks *r, enum cluster_algo a)
{
	double bus = r->channels * r->intra_gbs;

	if (r->nodes == 1 || a != CLUSTER_TREE || r->nodes > 2)
		return bus;
	return fmin(2 * bus, inside_gbs(c, r->cc));
}

static double
bandwidth(const struct cluster *c, const struct tuning_ranks *r, enum gpusim_coll coll,
	  enum cluster_algo a, enum cluster_proto p)
{
	bool all = coll == GPUSIM_ALLREDUCE;
	double bus = bus_inside(c, r, a), n = r->n;
	double steps = all ? 2 * (n - 1) : n - 1;
	double ll =
	    r->nodes == 1 ? ll_max[r->generation][0] : ll_max[c->cpu == CLUSTER_AMD][r->column];

	switch (a) {
	case CLUSTER_RING:
		bus = ring_bus(r, bus, ll, p);
		return coll == GPUSIM_BROADCAST || coll == GPUSIM_REDUCE ? bus : bus * n / steps;
	case CLUSTER_TREE:
		return tree_bus(r, bus, ll, p) * 0.5;
	case CLUSTER_NVLS:
	case CLUSTER_NVLS_TREE:
		return nvls_bus(c, r, coll, a) * n / steps;
	case CLUSTER_COLLNET:
		return fmin(bus, inside_gbs(c, r->cc) * 0.85) * 0.5 * 1.7;
	default:
		return bus * 0.75;
	}
}

/* Return true if NCCL considers the pair there. */
static bool
possible(const struct cluster *c, const struct tuning_ranks *r, enum gpusim_coll coll,
	 enum cluster_algo a, enum cluster_proto p)
{
	bool all = coll == GPUSIM_ALLREDUCE;
	bool parts = coll == GPUSIM_ALLGATHER || coll == GPUSIM_REDUCESCATTER;
	bool nvls = c->nvls && r->generation >= 2 && r->per_node > 2;

	if (r->n < 2 || c->in[p].share <= 0 || (r->nodes > 1 && c->out[p].share <= 0))
		return false;
	if (p == CLUSTER_LL128 && inside_row(c) != INTRA_NVLINK && r->per_node > 1)
		return false;
	switch (a) {
	case CLUSTER_RING:
		return all || parts || coll == GPUSIM_BROADCAST || coll == GPUSIM_REDUCE;
	case CLUSTER_TREE:
		return all;
	case CLUSTER_COLLNET:
		return all && c->sharp && r->nodes > 1 && p == CLUSTER_SIMPLE;
	case CLUSTER_NVLS:
		return (all || parts) && nvls && p == CLUSTER_SIMPLE &&
		       (r->nodes == 1 || (c->sharp && all));
	case CLUSTER_NVLS_TREE: /* not over several domains of MNNVL: src/graph/tuning.cc says so */
		return all && nvls && p == CLUSTER_SIMPLE && r->nodes > 1 &&
		       c->domain <= c->gpus_per_host;
	case CLUSTER_PAT:
		return parts && r->per_node <= 1 && r->nodes > 1;
	default:
		return false;
	}
}

void
tuning_cost(const struct cluster *c, const struct tuning_ranks *r, enum gpusim_coll coll,
	    enum cluster_algo a, enum cluster_proto p, uint64_t nbytes, struct tuning_cost *out)
{
	int k = nbytes < 64 ? -1 : (int)floor(log2((double)nbytes / 64));
	bool all = coll == GPUSIM_ALLREDUCE;

	*out = (struct tuning_cost){0};
	if (!possible(c, r, coll, a, p))
		return;
	out->lat_us = latency(c, r, coll, a, p);
	out->gbs = bandwidth(c, r, coll, a, p);
	if (a == CLUSTER_TREE && all && k >= 0 && k < 23)
		out->gbs *= tree_part[p][k];
	if (a == CLUSTER_NVLS_TREE && r->cc >= 100 && c->cpu != CLUSTER_ARM && k >= 0 && k < 24)
		out->gbs *= tree_part[CLUSTER_SIMPLE][k];
	if (a == CLUSTER_RING && p == CLUSTER_SIMPLE && all && r->nodes > 1 &&
	    nbytes / ((uint64_t)r->channels * r->n) >= 64)
		out->lat_us *= r->cc < 80 ? 1.9 : 1.4;
}

/* ---- the choice */

/* Channels that a small message leaves unused; bytes that a thread is worth. */
static uint32_t
channels_for(const struct tuning_ranks *r, enum cluster_algo a, enum cluster_proto p,
	     uint64_t nbytes)
{
	static const uint32_t threads[] = {512, 640, 512}, bytes[] = {8, 8, 64};
	uint64_t each = (uint64_t)threads[p] * bytes[p];
	uint32_t n = a == CLUSTER_NVLS || a == CLUSTER_NVLS_TREE ? 16 : r->channels;

	if (a == CLUSTER_RING && p == CLUSTER_LL)
		each *= r->n;
	while (a != CLUSTER_NVLS && a != CLUSTER_NVLS_TREE && n > 1 && nbytes < n * each)
		n--;
	return n;
}

/* NCCL has no choice: sends and receives, in a group. */
static bool
is_p2p(enum gpusim_coll coll)
{
	return coll != GPUSIM_ALLREDUCE && coll != GPUSIM_ALLGATHER &&
	       coll != GPUSIM_REDUCESCATTER && coll != GPUSIM_BROADCAST && coll != GPUSIM_REDUCE;
}

/* Channels of one pair: few, until a channel's part is over 16 MiB; of several nodes 512 KiB. */
static uint32_t
p2p_channels(const struct tuning_ranks *r, uint64_t pair_bytes)
{
	uint64_t part = r->nodes > 1 ? 512u << 10 : 16u << 20,
		 least_part = r->nodes > 1 ? 256u << 10 : 64u << 10;
	uint32_t most = r->nodes > 1 ? 8 : MAX_CHANNELS, n = MAX_CHANNELS;
	uint64_t wanted = (pair_bytes + least_part - 1) / least_part;

	while (n > 1 && (uint64_t)n * r->n > MAX_CHANNELS)
		n /= 2;
	n = n > wanted ? (wanted ? (uint32_t)wanted : 1) : n;
	while (n * 2 <= most && (pair_bytes + n - 1) / n > part)
		n *= 2;
	return n;
}

static enum rc
choose_p2p(const struct tuning_ranks *r, enum gpusim_coll coll, int algo, int proto,
	   uint64_t nbytes, struct tuning_choice *out, struct err *err)
{
	uint64_t pair = coll_is_sendrecv(coll) ? nbytes : nbytes / r->n;

	if (algo >= 0 && algo != CLUSTER_P2P)
		return err_set(err, RC_INVAL,
			       "%s is made of sends and receives, so it has no algorithms",
			       coll_name(coll));
	*out = (struct tuning_choice){.algo = CLUSTER_P2P, .us = NAN};
	out->proto = proto >= 0				      ? (enum cluster_proto)proto
		     : pair <= 8192 && coll_is_sendrecv(coll) ? CLUSTER_LL
							      : CLUSTER_SIMPLE;
	out->channels = p2p_channels(r, pair);
	return RC_OK;
}

enum rc
tuning_choose(const struct cluster *c, const struct tuning_ranks *r, enum gpusim_coll coll,
	      int algo, int proto, uint64_t nbytes, struct tuning_choice *out, struct err *err)
{
	struct tuning_choice best = {.us = INFINITY};
	struct tuning_cost cost;

	if (is_p2p(coll))
		return choose_p2p(r, coll, algo, proto, nbytes, out, err);
	for (unsigned a = 0; a < CLUSTER_NALGOS; a++)
		for (unsigned p = 0; p < CLUSTER_NPROTOS; p++) {
			double us;

			if ((algo >= 0 && (unsigned)algo != a) ||
			    (proto >= 0 && (unsigned)proto != p))
				continue;
			tuning_cost(c, r, coll, (enum cluster_algo)a, (enum cluster_proto)p, nbytes,
				    &cost);
			us = cost.gbs > 0 ? cost.lat_us + (double)nbytes / (1000 * cost.gbs)
					  : INFINITY;
			if (us < best.us)
				best = (struct tuning_choice){.algo = (enum cluster_algo)a,
							      .proto = (enum cluster_proto)p,
							      .us = us};
		}
	if (isinf(best.us))
		return err_set(err, RC_INVAL, "%s %s with %s: not on %u GPUs of this cluster",
			       coll_name(coll), algo < 0 ? "by any algorithm" : algo_names[algo],
			       proto < 0 ? "any protocol" : proto_names[proto], (unsigned)r->n);
	best.channels = channels_for(r, best.algo, best.proto, nbytes);
	*out = best;
	return RC_OK;
}
