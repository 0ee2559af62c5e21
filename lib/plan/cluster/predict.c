#include "cluster/predict.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/nearest.h"
#include "cluster/kinds.h"
#include "coll/plan.h"

#define CHUNK	       (512.0 * 1024) /* bytes of a channel's chunk with Simple */
#define ALLTOALL_SHARE 0.85 /* of the network's bandwidth that messages between all pairs reach */
#define MOST_CHUNKS    32   /* of all channels of a GPU that sends to all others */
#define P2P_SHARE      0.0235 /* of a GPU's bandwidth that one channel of sends fills: 21 of 900 GB/s */

const struct cluster_fit cluster_fit_default = {.inside_hop = 1,
						.net_hop = 1,
						.nvls = 0.9,
						.fill = 3.5,
						.nvls_fill = 3,
						.ll128_fill = 1.5,
						.plateau = 1.5,
						.growth = 0.56,
						.inside_share = 1,
						.nvls_share = 0.98,
						.net_share = 0.96};

/* Shared by all parts of a prediction. */
struct frame {
	const struct cluster *c;
	const struct cluster_ask *ask;
	const struct cluster_fit *fit;
	struct tuning_ranks r;
	struct tuning_choice choice;
	double n, nodes, per_node, size;
	double last; /* ranks of the last node, which may have fewer than the others */
};

/*
 * Bars: 10 % and 90 % of measured over predicted times, over tables that count alike, each predicted with
 * numbers that were fitted without it; rounded outwards (validate prints them). Over NICs the upper ends are
 * those of the blind tables, which were 31 % off below 16 MiB and 27 % from there on in the median, mostly
 * slower; without similar tables, all ends are.
 */
static const struct cluster_bar bars[CLUSTER_NLIKE][2] = {
    [CLUSTER_LIKE_INSIDE] = {{0.88, 1.15}, {0.88, 1.2}},
    [CLUSTER_LIKE_HOSTS] = {{0.78, 1.8}, {0.82, 1.75}},
    [CLUSTER_LIKE_EXCHANGES] = {{0.85, 1.6}, {0.95, 2.4}},
    [CLUSTER_LIKE_NONE] = {{0.7, 2.5}, {0.75, 2.5}}};

struct cluster_bar
cluster_error_bar(enum cluster_likeness like, uint64_t nbytes)
{
	return bars[like][nbytes >= 16u << 20];
}

enum cluster_likeness
cluster_likeness(const struct cluster *c, uint32_t ngpus, const struct tuning_choice *choice)
{
	static const char *const seen[] = {"a100", "h100", "b200", "gb200", "gh200"};
	const char *gpu = cluster_gpu_name(c), *network = cluster_network_name(c);
	bool known = strcmp(gpu, "h200") == 0 && ngpus > c->domain;

	for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
		known |= strcmp(gpu, seen[i]) == 0;
	if (!known || choice->algo == CLUSTER_COLLNET)
		return CLUSTER_LIKE_NONE;
	if (ngpus <= c->domain)
		return strcmp(gpu, "a100") == 0 ? CLUSTER_LIKE_NONE : CLUSTER_LIKE_INSIDE;
	if (choice->algo == CLUSTER_NVLS || c->domain > c->gpus_per_host ||
	    strcmp(network, "tcp") == 0 || strcmp(network, "ethernet") == 0)
		return CLUSTER_LIKE_NONE;
	return choice->algo == CLUSTER_P2P ? CLUSTER_LIKE_EXCHANGES : CLUSTER_LIKE_HOSTS;
}

enum rc
cluster_coll(const char *name, enum gpusim_coll *out, struct err *err)
{
	enum gpusim_coll coll = GPUSIM_SEND;

	if (!nearest_same(name, "sendrecv") && (coll_parse(name, &coll, NULL) != RC_OK ||
						coll == GPUSIM_BARRIER || coll_is_sendrecv(coll)))
		return err_set(
		    err, RC_INVAL,
		    "unknown collective '%.64s': must be allreduce, broadcast, reduce, allgather, "
		    "reduce-scatter, alltoall, gather, scatter or sendrecv",
		    name);
	*out = coll;
	return RC_OK;
}

enum rc
cluster_algo_parse(const char *name, int *out, struct err *err)
{
	const char *own;

	for (unsigned i = 0; (own = cluster_algo_name(i)); i++)
		if (strcasecmp(own, name) == 0) {
			*out = (int)i;
			return RC_OK;
		}
	if (strcasecmp(name, "auto") != 0)
		return err_set(err, RC_INVAL,
			       "unknown algorithm '%.64s': must be ring, tree, nvls, nvlstree, "
			       "collnet, pat or auto",
			       name);
	*out = -1;
	return RC_OK;
}

const char *
cluster_limit_name(const struct cluster_answer *a)
{
	static const char *const levels[] = {"leaf switches", "spine switches", "core switches"};
	static const char *const names[] = {[CLUSTER_BY_GPU] = "a GPU's way into its domain",
					    [CLUSTER_BY_NIC] = "the NICs of a node",
					    [CLUSTER_BY_PROTOCOL] = "the protocol",
					    [CLUSTER_BY_CHANNELS] = "the channels of one transfer",
					    [CLUSTER_BY_NVLS] = "the reduction in NVSwitch"};

	return a->limit == CLUSTER_BY_LEVEL ? levels[a->level] : names[a->limit];
}

/* ---- bandwidths, GB/s */

static double
gpu_gbs(const struct frame *f)
{
	const struct cluster *c = f->c;
	double gbs = c->inside_gbs * c->inside_share * f->fit->inside_share;

	/* A mesh's links to GPUs that take no part are of no use. */
	if (c->inside == CLUSTER_MESH && f->r.n < c->gpus_per_host && f->r.n > 1)
		gbs *= (f->n - 1) / (c->gpus_per_host - 1.0);
	return gbs;
}

/* The NICs that some GPUs of one node use. */
static double
node_nics(const struct frame *f, double ranks)
{
	const struct cluster *c = f->c;
	double used = ranks / fmin(c->gpus_per_host, f->n);

	if (c->domain < c->gpus_per_host) /* domains of a host share them */
		return c->nics * used;
	used = ranks / c->gpus_per_host;
	return c->nics * (used > 1 || c->nics >= c->gpus_per_host ? used : 1);
}

/* Of the node with the fewest GPUs. */
static double
node_gbs(const struct frame *f)
{
	/* GPUs reach NICs through PCIe; without GPUDirect bytes pass a host's memory twice. */
	return node_nics(f, f->last) * f->c->nic_gbs * f->c->nic_share * f->fit->net_share *
	       (f->c->gpudirect ? 1 : 0.7);
}

/* ---- bytes through a link, per byte of the size */

/* Links on the shorter way round to another of n, in the mean. */
static double
ring_hops(double n)
{
	return n > 1 ? floor(n * n / 4) / (n - 1) : 0;
}

/* Into one GPU, inside its domain. */
static double
bytes_gpu(const struct frame *f)
{
	double n = f->n, each = f->per_node;

	switch (f->ask->coll) {
	case GPUSIM_ALLREDUCE:
		if (f->choice.algo == CLUSTER_RING)
			return 2 * (n - 1) / n;
		if (f->choice.algo == CLUSTER_COLLNET)
			return 2 * (each - 1) / each;
		return f->choice.algo == CLUSTER_TREE ? 2 * (each > 1) : 1;
	case GPUSIM_ALLGATHER:
	case GPUSIM_REDUCESCATTER:
	case GPUSIM_GATHER:
	case GPUSIM_SCATTER:
		return (n - 1) / n;
	case GPUSIM_ALLTOALL:
		/* Around a ring it passes other GPUs on its way. */
		return (each - 1) / n *
		       (f->c->inside == CLUSTER_RING_OF_LINKS ? ring_hops(each) : 1);
	default:
		return 1;
	}
}

/* Into one node, through its NICs. */
static double
bytes_node(const struct frame *f)
{
	double n = f->n, nodes = f->nodes, last = f->last, full = fmin(f->c->domain, n);

	if (nodes < 2)
		return 0;
	switch (f->ask->coll) {
	case GPUSIM_ALLREDUCE:
		if (f->choice.algo == CLUSTER_RING)
			return 2 * (n - 1) / n;
		/* Switches reduce. Once up and once down would be 1; NCCL's own estimate counts this, and
		 * tables of SHARP were 1.6 to 2.5 times slower than 1. */
		if (f->choice.algo == CLUSTER_COLLNET)
			return 2 / (0.85 * 1.7) * (n - 1) / n;
		if (f->choice.algo == CLUSTER_NVLS)
			return 2 * (n - 1) / n;
		/* Of two trees, each half of the bytes: up to one, down to two, in one of them. */
		return nodes < 3 ? 1 : nodes < 4 ? 1.5 : 2;
	case GPUSIM_ALLGATHER:
	case GPUSIM_REDUCESCATTER:
		return (n - 1) / n;
	case GPUSIM_GATHER:
	case GPUSIM_SCATTER:
		return 1 - full / n; /* the root's node is whole */
	case GPUSIM_ALLTOALL:
		return fmax(last * (n - last) / node_nics(f, last),
			    full * (n - full) / node_nics(f, full)) *
		       node_nics(f, last) / n / ALLTOALL_SHARE;
	case GPUSIM_SEND:
	case GPUSIM_RECV: /* each rank to the next: one of a node leaves it, by a NIC of its own */
		return f->per_node > 1 ? fmax(1, node_nics(f, f->last)) : 1;
	default:
		return 1;
	}
}

/* Through one switch of a level to above: rings and trees cross it once; all to all with all that leaves
 * it. */
static double
bytes_level(const struct frame *f, const struct cluster_level *l)
{
	double below = l->hosts, hosts = f->n / f->c->gpus_per_host;

	if (hosts <= below)
		return 0;
	if (f->ask->coll == GPUSIM_ALLTOALL)
		return below * f->c->gpus_per_host * (1 - below / hosts) / ALLTOALL_SHARE;
	return coll_is_sendrecv(f->ask->coll) ? 1 : bytes_node(f);
}

static double
level_gbs(const struct frame *f, const struct cluster_level *l)
{
	return cluster_host_gbs(f->c) * l->hosts / l->oversubscription * f->c->nic_share *
	       f->fit->net_share;
}

/* GB/s of the algorithm at which a protocol's own words come. */
static double
protocol_gbs(const struct frame *f)
{
	struct tuning_cost cost;

	if (f->choice.algo == CLUSTER_P2P)
		return INFINITY;
	tuning_cost(f->c, &f->r, f->ask->coll, f->choice.algo, f->choice.proto, 1ull << 40, &cost);
	return cost.gbs;
}

static void
limit(struct cluster_answer *a, double through, double gbs, enum cluster_limit by, unsigned level,
      double size)
{
	double us = through > 0 ? through * size / (1000 * gbs) : 0;

	if (us <= a->bytes_us)
		return;
	a->bytes_us = us;
	a->limit = by;
	a->level = level;
	a->limit_gbs = gbs;
	a->bytes_through = through;
}

static void
bytes(const struct frame *f, struct cluster_answer *a)
{
	const struct cluster *c = f->c;
	bool nvls = f->choice.algo == CLUSTER_NVLS || f->choice.algo == CLUSTER_NVLS_TREE;
	bool all = f->ask->coll == GPUSIM_ALLREDUCE;

	if (nvls && all)
		limit(a, 1, c->inside_gbs * c->nvls_share * f->fit->nvls_share, CLUSTER_BY_NVLS, 0,
		      f->size);
	else if (f->per_node > 1)
		limit(a, bytes_gpu(f), gpu_gbs(f), CLUSTER_BY_GPU, 0, f->size);
	if (f->nodes > 1) {
		limit(a, bytes_node(f), node_gbs(f), CLUSTER_BY_NIC, 0, f->size);
		for (unsigned l = 0; l < CLUSTER_MAX_LEVELS && c->level[l].hosts; l++)
			limit(a, bytes_level(f, &c->level[l]), level_gbs(f, &c->level[l]),
			      CLUSTER_BY_LEVEL, l, f->size);
	}
	if (f->choice.proto != CLUSTER_SIMPLE)
		limit(a, 1, protocol_gbs(f), CLUSTER_BY_PROTOCOL, 0, f->size);
	if (f->choice.algo == CLUSTER_P2P && coll_is_sendrecv(f->ask->coll) && f->nodes == 1)
		limit(a, 1, f->choice.channels * c->inside_gbs * P2P_SHARE, CLUSTER_BY_CHANNELS, 0,
		      f->size);
}

/* ---- hops */

static double
hop_in(const struct frame *f)
{
	return f->c->in[f->choice.proto].us * f->fit->inside_hop;
}

/* A hop of 8 KiB takes longer than one of a word: more threads have to see their flags. */
static double
grown(const struct frame *f)
{
	double ramp = f->size > 16 ? log2(f->size / 16) / 9 : 0;

	return 1 + f->fit->growth * (ramp < 1 ? ramp : 1);
}

/* A message crosses a switch of each level that it must. */
static double
hop_out(const struct frame *f)
{
	const struct cluster *c = f->c;
	double hosts = f->n / c->gpus_per_host, switches = 1;

	for (unsigned l = 0;
	     l < CLUSTER_MAX_LEVELS && c->level[l].hosts && hosts > c->level[l].hosts; l++)
		switches += 2;
	return c->out[f->choice.proto].us * f->fit->net_hop + (switches - 1) * c->switch_us;
}

static double
ring_us(const struct frame *f)
{
	bool twice = f->ask->coll == GPUSIM_ALLREDUCE;
	double steps = (twice ? 2 : 1) * (f->n - 1), crossings = (twice ? 2 : 1) * (f->nodes - 1);
	double us = (steps - crossings) * hop_in(f) + crossings * hop_out(f);
	bool plateau = f->choice.proto == CLUSTER_SIMPLE && f->nodes > 1 &&
		       f->size / (f->choice.channels * f->n) >= 64;

	if (f->ask->coll == GPUSIM_BROADCAST || f->ask->coll == GPUSIM_REDUCE)
		return us; /* one pass around */
	return us * (plateau ? f->fit->plateau : 1);
}

static double
latency(const struct frame *f)
{
	double up = ceil(log2(f->nodes));

	switch (f->choice.algo) {
	case CLUSTER_RING:
		return ring_us(f) * grown(f);
	case CLUSTER_TREE:
		return 2 * ((f->per_node - 1) * hop_in(f) + up * hop_out(f)) * grown(f);
	case CLUSTER_NVLS:
		return 25 * f->fit->nvls + (f->nodes > 1 ? hop_out(f) : 0);
	case CLUSTER_NVLS_TREE:
		return (25 + 2 * up * (6.9 + hop_out(f))) * f->fit->nvls;
	case CLUSTER_COLLNET:
		return 2 * hop_out(f) + 10;
	case CLUSTER_PAT:
		return up * hop_out(f);
	default:
		return ((f->nodes > 1 ? hop_out(f) : 0) + (f->per_node > 1 ? hop_in(f) : 0)) *
		       grown(f);
	}
}

/* Each peer of a group of sends costs the kernel and, through a NIC, the host. */
static double
peers_us(const struct frame *f)
{
	double out = f->n - f->per_node, each = f->c->message_us;

	if (f->choice.algo != CLUSTER_P2P || coll_is_sendrecv(f->ask->coll))
		return 0;
	return out * each + (f->per_node - 1) * 0.1;
}

/* A full pipeline holds a chunk of each channel on each hop that crosses NICs. A tree's chunks are small
 * enough for its depth. */
static double
fill_us(const struct frame *f, double bytes_us)
{
	double held = f->choice.channels * CHUNK, us, up = ceil(log2(f->nodes)), most;
	bool nvls = f->choice.algo == CLUSTER_NVLS;

	if (f->ask->coll == GPUSIM_ALLTOALL && f->per_node > 1)
		return f->fit->nvls_fill * MOST_CHUNKS * CHUNK / (1000 * gpu_gbs(f)) * f->size /
		       (f->size + 2 * MOST_CHUNKS * CHUNK);
	if (f->choice.proto == CLUSTER_LL || f->choice.algo == CLUSTER_P2P)
		return 0;
	us = nvls ? f->fit->nvls_fill * held / (1000 * f->c->inside_gbs * f->c->nvls_share) : 0;
	if (f->nodes > 1)
		us += (f->choice.proto == CLUSTER_LL128 ? f->fit->ll128_fill : f->fit->fill) *
		      held / (1000 * node_gbs(f)) * (f->choice.algo == CLUSTER_RING ? 2 : 2 * up);
	us *= f->size / (f->size + 2 * held);
	most = bytes_us + 4 * up * hop_out(f);
	return f->nodes > 1 && f->choice.algo != CLUSTER_RING && us > most ? most : us;
}

static struct cluster_bound
bound_of(const struct frame *f)
{
	enum cluster_algo algo = f->choice.algo;
	struct cluster_bound_ask a = {
	    .coll = f->ask->coll,
	    .ngpus = f->ask->ngpus,
	    .nbytes = f->ask->nbytes,
	    .nvswitch_reduces = algo == CLUSTER_NVLS || algo == CLUSTER_NVLS_TREE,
	    .network_reduces = algo == CLUSTER_COLLNET || (algo == CLUSTER_NVLS && f->nodes > 1)};

	return cluster_bound(f->c, &a);
}

enum rc
cluster_predict_fit(const struct cluster *c, const struct cluster_ask *ask,
		    const struct cluster_fit *fit, struct cluster_answer *out, struct err *err)
{
	struct frame f = {.c = c, .ask = ask, .fit = fit, .size = (double)ask->nbytes};
	struct cluster_answer a = {0};
	enum rc rc = cluster_check_gpus(c, ask->ngpus, err);

	if (rc != RC_OK)
		return rc;
	tuning_ranks(c, ask->ngpus, &f.r);
	f.n = f.r.n;
	f.nodes = f.r.nodes;
	f.per_node = f.r.per_node;
	f.last = f.n - (f.nodes - 1) * fmin(c->domain, f.n);
	a.launch_us = c->launch_us;
	if (ask->ngpus == 1) {
		a.choice = (struct tuning_choice){.algo = CLUSTER_RING, .proto = CLUSTER_SIMPLE};
		limit(&a, 1, c->copy_gbs, CLUSTER_BY_GPU, 0, f.size);
	} else {
		rc = tuning_choose(c, &f.r, ask->coll, ask->algo, ask->proto, ask->nbytes,
				   &a.choice, err);
		if (rc != RC_OK)
			return rc;
		if (ask->channels)
			a.choice.channels = ask->channels;
		f.choice = a.choice;
		a.latency_us = latency(&f) + peers_us(&f);
		bytes(&f, &a);
		a.fill_us = fill_us(&f, a.bytes_us);
	}
	a.us = a.launch_us + a.latency_us + a.bytes_us + a.fill_us;
	a.bound = bound_of(&f);
	*out = a;
	return RC_OK;
}

enum rc
cluster_predict(const struct cluster *c, const struct cluster_ask *ask, struct cluster_answer *out,
		struct err *err)
{
	struct cluster_answer a;
	enum rc rc = cluster_predict_fit(c, ask, &cluster_fit_default, &a, err);

	if (rc == RC_OK)
		rc = cluster_bound_check(&a.bound, a.us, err);
	if (rc == RC_OK)
		*out = a;
	return rc;
}
