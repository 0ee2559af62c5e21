/*
 * kinds.c - the catalogue. A GPU's columns are from its maker's data sheet. Latencies and shares of
 * networks have their sources below; fitted ones are fitted over all measured tables together (make
 * validate-clusters).
 */
#include "cluster/kinds.h"

#include <math.h>
#include <string.h>

#include "base/option_rows.h"

#define GB_OF_BITS(gb) ((gb) / 8.0)

/* Of the tensor cores' rate that large products of matrices reach. Fitted on two rows of a table of
 * trainings on A100, tests/unit/step/t_step_published.c; other GPUs are taken to reach as much. */
#define MATRIX_SHARE 0.679

/*
 * Links, bandwidths and memory: NVIDIA's data sheets of each product (NVLink 2 and 3: 25 GB/s a
 * link and direction, NVLink 4: 25, NVLink 5: 50; PCIe 3, 4, 5 and 6 x16: 16, 32, 64, 128 GB/s).
 * TFLOP/s are those of tensor cores with 16-bit inputs and f32 sums, without sparsity; of V100 and
 * T4 f16 alone.
 */
static const struct cluster_gpu_kind gpus[] = {
    /* name, cc, links, GB/s, PCIe, memory's GB/s, TFLOP/s, GB, inside, per host, domain, CPU */
    {"v100", 70, 6, 25, 16, 900, 125, 32, CLUSTER_MESH, 8, 0, CLUSTER_INTEL},
    {"a100", 80, 12, 25, 32, 1555, 312, 40, CLUSTER_NVSWITCH, 8, 0, CLUSTER_AMD},
    {"a800", 80, 8, 25, 32, 1555, 312, 40, CLUSTER_NVSWITCH, 8, 0, CLUSTER_AMD},
    {"h100", 90, 18, 25, 64, 3350, 989, 80, CLUSTER_NVSWITCH, 8, 0, CLUSTER_INTEL},
    {"h800", 90, 8, 25, 64, 3350, 989, 80, CLUSTER_NVSWITCH, 8, 0, CLUSTER_INTEL},
    {"h200", 90, 18, 25, 64, 4800, 989, 141, CLUSTER_NVSWITCH, 8, 0, CLUSTER_INTEL},
    {"h20", 90, 18, 25, 64, 4000, 148, 96, CLUSTER_NVSWITCH, 8, 0, CLUSTER_INTEL},
    {"gh200", 90, 18, 25, 64, 4000, 989, 96, CLUSTER_MESH, 4, 0, CLUSTER_ARM},
    {"b200", 100, 18, 50, 64, 8000, 2250, 180, CLUSTER_NVSWITCH, 8, 0, CLUSTER_INTEL},
    {"b300", 103, 18, 50, 128, 8000, 2250, 288, CLUSTER_NVSWITCH, 8, 0, CLUSTER_INTEL},
    {"gb200", 100, 18, 50, 64, 8000, 2500, 186, CLUSTER_NVSWITCH, 4, 72, CLUSTER_ARM},
    {"gb300", 103, 18, 50, 128, 8000, 2500, 288, CLUSTER_NVSWITCH, 4, 72, CLUSTER_ARM},
    {"a100-pcie", 80, 0, 0, 32, 1935, 312, 80, CLUSTER_PCIE, 8, 0, CLUSTER_AMD},
    {"h100-pcie", 90, 0, 0, 64, 2000, 756, 80, CLUSTER_PCIE, 8, 0, CLUSTER_INTEL},
    {"h100-nvl", 90, 0, 0, 64, 3900, 835, 94, CLUSTER_PCIE, 8, 0, CLUSTER_INTEL},
    {"h200-nvl", 90, 0, 0, 64, 4800, 835, 141, CLUSTER_PCIE, 8, 0, CLUSTER_INTEL},
    {"t4", 75, 0, 0, 16, 320, 65, 16, CLUSTER_PCIE, 4, 0, CLUSTER_INTEL},
    {"a10", 86, 0, 0, 32, 600, 125, 24, CLUSTER_PCIE, 8, 0, CLUSTER_AMD},
    {"a40", 86, 0, 0, 32, 696, 149.7, 48, CLUSTER_PCIE, 8, 0, CLUSTER_AMD},
    {"l4", 89, 0, 0, 16, 300, 121, 24, CLUSTER_PCIE, 8, 0, CLUSTER_AMD},
    {"l40s", 89, 0, 0, 32, 864, 362, 48, CLUSTER_PCIE, 8, 0, CLUSTER_INTEL},
    {"rtx3090", 86, 0, 0, 32, 936, 71, 24, CLUSTER_PCIE, 4, 0, CLUSTER_AMD},
    {"rtx4090", 89, 0, 0, 32, 1008, 165, 24, CLUSTER_PCIE, 8, 0, CLUSTER_AMD},
    {"rtx5090", 120, 0, 0, 64, 1792, 209.5, 32, CLUSTER_PCIE, 8, 0, CLUSTER_AMD},
    {"rtx6000", 120, 0, 0, 64, 1597, 503.8, 96, CLUSTER_PCIE, 8, 0, CLUSTER_INTEL},
    {"process", 0, 0, 0, 8, 8, 0.05, 1, CLUSTER_MEMORY, 2, 0, CLUSTER_INTEL},
};

/*
 * ib: NCCL's own constants of a hop through a NIC (src/graph/tuning.cc, hwLat NET of trees; nccl 5067397).
 * roce: the same, and a microsecond more for Ethernet's switches.
 * efa: p4d, 75 us (aws-ofi-nccl 01666ec src/platform-aws.cpp, latency); it has neither LL nor LL128, for
 * which its plug-in
 *   promises no order. efa2: p5, efa3: p5en and later (the same table has 35 us for those).
 * slingshot: as ib; its plug-in promises no order of 128 bytes, so that NCCL does not use LL128.
 * tcpxo, tcpx: GPUDirect-TCPXO and -TCPX of Google's A3 Mega and A3 High: of tests/data/clusters, and for
 * tcpx also of
 *   SkyPilot's table of two A3 High (67 GB/s of four NICs of 25).
 * tcp: about 20 us between sockets of two hosts; threads of the host move the bytes, twice through its
 * memory, at about
 *   3 GB/s a NIC: 2.6 between two RTX 5090, 5 of A3 High's NICs (the same table).
 */
static const struct cluster_network_kind networks[] = {
    {"ib", {{5.0, 0.5}, {8.5, 0.92}, {14, 1}}, 0.96, 0, 1, 0.3, true},
    {"roce", {{6.0, 0.5}, {9.5, 0.92}, {15, 1}}, 0.94, 0, 1, 0.6, true},
    {"efa", {{75, 0}, {75, 0}, {75, 1}}, 0.88, 0, 4, 0.6, true},
    {"efa2", {{30, 0.5}, {33, 0.92}, {45, 1}}, 0.88, 0, 3, 0.6, true},
    {"efa3", {{20, 0.5}, {23, 0.92}, {35, 1}}, 0.90, 0, 2, 0.6, true},
    {"slingshot", {{5.0, 0.5}, {8.5, 0}, {14, 1}}, 0.92, 0, 2, 0.4, true},
    {"tcpxo", {{45, 0.5}, {50, 0.92}, {75, 1}}, 0.94, 0, 4, 0.6, true},
    {"tcpx", {{75, 0.5}, {75, 0}, {100, 1}}, 0.6, 0, 8, 0.6, true},
    {"tcp", {{25, 0.5}, {30, 0}, {50, 1}}, 0.9, 3, 10, 1, false},
    {"ethernet", {{25, 0.5}, {30, 0}, {50, 1}}, 0.9, 3, 10, 1, false},
    {"none", {{0, 0}, {0, 0}, {0, 0}}, 1, 0, 0, 0, false},
};

const struct cluster_gpu_kind *
cluster_gpu_kind(unsigned i)
{
	return i < NROWS(gpus) ? &gpus[i] : NULL;
}

const char *
cluster_gpu_word(unsigned i)
{
	return i < NROWS(gpus) ? gpus[i].name : NULL;
}

const char *
cluster_network_word(unsigned i)
{
	return i < NROWS(networks) ? networks[i].name : NULL;
}

/* The costs of a generation of GPUs. */
struct generation {
	int cc;		  /* and above, up to the next */
	double launch_us; /* the kernel, and NCCL's first and last flag */
	struct cluster_class in[CLUSTER_NPROTOS];
	double inside_share, nvls_share;
};

static const struct generation generations[] = {
    {0, 10, {{1.0, 0.25}, {1.9, 0.9}, {3.0, 1}}, 0.8, 0},
    {70, 10, {{0.8, 0.25}, {1.4, 0.8}, {2.5, 1}}, 0.87, 0},
    {80, 9, {{0.6, 0.25}, {1.2, 0.8}, {2.5, 1}}, 0.78, 0},
    {90, 7, {{0.45, 0.25}, {0.9, 0.8}, {2.0, 1}}, 0.82, 0.58},
    {100, 8, {{0.95, 0.25}, {1.3, 0.8}, {2.0, 1}}, 0.75, 0.52},
};

/* A hop through PCIe takes longer than one of NVLink (NCCL's hwLat PCI); consumers' GPUs have no peer-to-peer
 * there, and their bytes pass host memory. */
static const struct cluster_class pcie_in[CLUSTER_NPROTOS] = {{1.2, 0.25}, {2.2, 0.8}, {5, 1}};
#define PCIE_SHARE    0.65
#define NO_PEER_SHARE 0.35

static const struct generation *
generation(int cc)
{
	size_t i = NROWS(generations) - 1;

	while (generations[i].cc > cc)
		i--;
	return &generations[i];
}

static double
either(double given, double dflt)
{
	return isnan(given) ? dflt : given;
}

bool
cluster_by_nvlink(const struct cluster *c)
{
	return c->inside == CLUSTER_NVSWITCH || c->inside == CLUSTER_MESH ||
	       c->inside == CLUSTER_RING_OF_LINKS;
}

static void
inside(const struct cluster_gpu_kind *g, struct cluster *c)
{
	if (c->inside < 0)
		c->inside = g->inside;
	c->pcie_gbs = either(c->pcie_gbs, g->pcie_gbs);
	c->inside_gbs = either(
	    c->inside_gbs, cluster_by_nvlink(c) && g->links ? g->links * g->link_gbs : c->pcie_gbs);
	if (!c->domain)
		c->domain = g->domain > c->gpus_per_host ? g->domain : c->gpus_per_host;
	if (c->nvls < 0)
		c->nvls = c->inside == CLUSTER_NVSWITCH && g->cc >= 90;
}

static void
between(const struct cluster_network_kind *n, struct cluster *c)
{
	c->nic_gbs = either(c->nic_gbs, GB_OF_BITS(100));
	c->nic_share = either(c->nic_share, n->most_gbs > 0 && n->most_gbs < c->nic_gbs * n->share
						? n->most_gbs / c->nic_gbs
						: n->share);
	c->message_us = either(c->message_us, n->message_us);
	c->switch_us = either(c->switch_us, n->switch_us);
	if (c->gpudirect < 0)
		c->gpudirect = n->gpudirect;
	if (c->sharp < 0)
		c->sharp = 0;
	if (c->rails < 0)
		c->rails = c->nics > 1;
	for (int p = 0; p < CLUSTER_NPROTOS; p++) {
		c->out[p].us = either(c->out[p].us, n->out[p].us);
		c->out[p].share = either(c->out[p].share, n->out[p].share);
	}
	for (int l = 0; l < CLUSTER_MAX_LEVELS; l++)
		c->level[l].oversubscription = either(c->level[l].oversubscription, 1);
}

void
cluster_defaults(const struct cluster *words, struct cluster *out)
{
	const struct cluster_gpu_kind *g;
	const struct generation *gen;

	*out = *words;
	g = &gpus[out->gpu];
	gen = generation(g->cc);
	if (out->cpu < 0)
		out->cpu = g->cpu;
	if (!out->gpus_per_host)
		out->gpus_per_host = g->per_host;
	inside(g, out);
	between(&networks[out->network], out);
	out->launch_us = either(out->launch_us, gen->launch_us);
	out->memory_gb = either(out->memory_gb, g->memory_gb);
	out->memory_gbs = either(out->memory_gbs, g->memory_gbs);
	out->tflops = either(out->tflops, g->tflops);
	out->matrix_share = either(out->matrix_share, MATRIX_SHARE);
	out->reduce_gbs = either(out->reduce_gbs, out->memory_gbs / 3);
	out->copy_gbs = either(out->copy_gbs, out->memory_gbs / 2);
	out->inside_share = either(
	    out->inside_share, out->inside != CLUSTER_PCIE ? gen->inside_share
			       : strncmp(g->name, "rtx", 3) == 0 && strcmp(g->name, "rtx6000") != 0
				   ? NO_PEER_SHARE
				   : PCIE_SHARE);
	out->nvls_share = either(out->nvls_share, gen->nvls_share);
	for (int p = 0; p < CLUSTER_NPROTOS; p++) {
		const struct cluster_class *in =
		    out->inside == CLUSTER_PCIE ? &pcie_in[p] : &gen->in[p];

		out->in[p].us = either(out->in[p].us, in->us);
		out->in[p].share = either(out->in[p].share, in->share);
	}
}
