/* cluster.c - clusters from files: the table of keys, and the constants of words. */
#define OPTION_TARGET struct cluster

#include "cluster/cluster.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/option_rows.h"
#include "base/parse.h"
#include "cluster/kinds.h"

#define MAX_GBS 1e6
#define MAX_US	1e9

/* ---- kinds of values */

static double *
real(const struct option_row *o, void *target)
{
	return (double *)option_field(o, target);
}

/* A number followed by a unit; NULL: not a number. */
static const char *
number(const char *text, double *v)
{
	char *end;

	if (!isdigit((unsigned char)*text) && *text != '.')
		return NULL;
	*v = strtod(text, &end);
	return end == text || !isfinite(*v) ? NULL : end + strspn(end, " \t");
}

struct unit {
	const char *name;
	double factor;
};

static const struct unit rates[] = {
    {"GB/s", 1},	{"GB", 1},	  {"TB/s", 1e3},   {"MB/s", 1e-3}, {"Gb/s", 0.125},
    {"Gb", 0.125},	{"Gbit", 0.125},  {"Gbps", 0.125}, {"Tb/s", 125},  {"Tb", 125},
    {"Mb/s", 0.125e-3}, {"Mb", 0.125e-3}, {NULL, 0},
};
static const struct unit flops[] = {{"TFLOP/s", 1}, {"PFLOP/s", 1e3}, {"GFLOP/s", 1e-3}, {NULL, 0}};
static const struct unit sizes[] = {
    {"GB", 1}, {"GiB", 1.073741824}, {"MB", 1e-3}, {"TB", 1e3}, {NULL, 0}};
static const struct unit times[] = {{"ns", 1e-3}, {"us", 1}, {"ms", 1e3}, {"s", 1e6}, {NULL, 0}};

/* A unit. In rates b means bits and B bytes, so case matters. */
static bool
in_unit(const char *unit, const struct unit *units, double *v)
{
	for (; units->name; units++)
		if (strcmp(unit, units->name) == 0) {
			*v *= units->factor;
			return true;
		}
	return false;
}

static enum rc
take_rate(const struct option_row *o, const char *text, void *target, struct err *err)
{
	double v = 0;
	const char *unit = number(text, &v);

	if (!unit || !in_unit(unit, rates, &v))
		return err_set(err, RC_INVAL,
			       "'%.64s' is not a rate, such as 50GB/s (bytes) or 400Gb/s (bits)",
			       text);
	if (v <= 0 || v > MAX_GBS)
		return err_set(err, RC_INVAL, "'%.64s' is out of range (above 0, to 1000000GB/s)",
			       text);
	*real(o, target) = v;
	return RC_OK;
}

static void
print_real(const struct option_row *o, const void *target, const char *unit, struct buf *out)
{
	double v = *(const double *)option_value(o, target);

	if (!isnan(v)) {
		option_add_double(out, v);
		buf_addf(out, "%s", unit);
	}
}

static void
print_rate(const struct option_row *o, const void *target, struct buf *out)
{
	print_real(o, target, "GB/s", out);
}

static enum rc
take_time(const struct option_row *o, const char *text, void *target, struct err *err)
{
	double v = 0;
	const char *unit = number(text, &v);

	if (!unit || !in_unit(unit, times, &v) || v > MAX_US)
		return err_set(err, RC_INVAL, "'%.64s' is not a time, such as 1.5us or 300ns",
			       text);
	*real(o, target) = v;
	return RC_OK;
}

static void
print_time(const struct option_row *o, const void *target, struct buf *out)
{
	print_real(o, target, "us", out);
}

/* More than nothing, to a million of the first unit. */
static enum rc
take_in(const struct option_row *o, const struct unit *units, const char *what, const char *text,
	void *target, struct err *err)
{
	double v = 0;
	const char *unit = number(text, &v);

	if (!unit || !in_unit(unit, units, &v) || v <= 0 || v > 1e6)
		return err_set(err, RC_INVAL, "'%.64s' is not %s", text, what);
	*real(o, target) = v;
	return RC_OK;
}

static enum rc
take_flops(const struct option_row *o, const char *text, void *target, struct err *err)
{
	return take_in(o, flops, "a rate of computing up to 1000PFLOP/s, such as 312TFLOP/s", text,
		       target, err);
}

static void
print_flops(const struct option_row *o, const void *target, struct buf *out)
{
	print_real(o, target, "TFLOP/s", out);
}

static enum rc
take_size(const struct option_row *o, const char *text, void *target, struct err *err)
{
	return take_in(o, sizes, "a memory's size up to 1000TB, such as 80GB", text, target, err);
}

static void
print_size(const struct option_row *o, const void *target, struct buf *out)
{
	print_real(o, target, "GB", out);
}

/* A network's word; -1: none. */
static int
network_named(const char *word)
{
	const char *name;

	for (unsigned i = 0; (name = cluster_network_word(i)); i++)
		if (strcasecmp(name, word) == 0)
			return (int)i;
	return -1;
}

static const struct option_row network_row = {"network", "KIND", "what joins the hosts",
					      AS_NAME(network, cluster_network_word, 0)};

/* "8 x 400 Gb/s", "8 x 400Gb/s ib", "none". */
static enum rc
take_nics(const struct option_row *o, const char *text, void *target, struct err *err)
{
	struct cluster *c = target;
	char unit[16], network[16] = "";
	unsigned n;
	double gbs;
	int used = 0;
	enum rc rc;

	(void)o;
	if (strcmp(text, "0") == 0 || strcmp(text, "none") == 0) {
		c->nics = 0;
		c->network = network_named("none");
		return RC_OK;
	}
	if (sscanf(text, "%4u x %16lf %15s%n", &n, &gbs, unit, &used) != 3 ||
	    !in_unit(unit, rates, &gbs))
		return err_set(err, RC_INVAL,
			       "'%.64s' is not COUNT x RATE [NETWORK], such as 8 x 400Gb/s ib",
			       text);
	if (n < 1 || n > CLUSTER_MAX_NICS || !(gbs > 0) || gbs > MAX_GBS)
		return err_set(err, RC_INVAL, "'%.64s' is out of range (1 to %d NICs)", text,
			       CLUSTER_MAX_NICS);
	(void)sscanf(text + used, " %15s", network);
	rc = network[0] ? network_row.kind->parse(&network_row, network, c, err) : RC_OK;
	if (rc != RC_OK)
		return rc;
	if (strlen(text + used) > strlen(network) + 1 + strspn(text + used, " \t"))
		return err_set(err, RC_INVAL, "text after the network in '%.64s'", text);
	c->nics = n;
	c->nic_gbs = gbs;
	return RC_OK;
}

static void
print_nics(const struct option_row *o, const void *target, struct buf *out)
{
	const struct cluster *c = target;

	(void)o;
	if (!c->nics) {
		buf_addf(out, "none");
		return;
	}
	buf_addf(out, "%u x ", (unsigned)c->nics);
	option_add_double(out, c->nic_gbs);
	buf_addf(out, " GB/s");
}

/* "gen4", "gen5 x8", or a rate. */
static enum rc
take_pcie(const struct option_row *o, const char *text, void *target, struct err *err)
{
	unsigned gen, lanes = 16;
	int used = 0, n = sscanf(text, "gen%1u%n x%2u%n", &gen, &used, &lanes, &used);

	if (n < 1)
		return take_rate(o, text, target, err);
	if (text[used] || gen < 1 || gen > 7 || lanes < 1 || lanes > 32)
		return err_set(err, RC_INVAL, "'%.64s' is not a PCIe slot, such as gen4 x16", text);
	*real(o, target) = ldexp(lanes / 16.0, (int)gen + 1);
	return RC_OK;
}

static const struct option_kind rate = {"rate", take_rate, print_rate},
				time_kind = {"time", take_time, print_time},
				flops_kind = {"rate of computing", take_flops, print_flops},
				size_kind = {"size", take_size, print_size},
				nics = {"nics", take_nics, print_nics},
				pcie = {"slot", take_pcie, print_rate};

static const struct option_word yes_no[] = {{"yes", 1},	  {"true", 1}, {"on", 1}, {"no", 0},
					    {"false", 0}, {"off", 0},  {NULL, 0}};
static const struct option_word cpus[] = {{"intel", CLUSTER_INTEL},
					  {"amd", CLUSTER_AMD},
					  {"arm", CLUSTER_ARM},
					  {"power", CLUSTER_POWER},
					  {NULL, 0}};
static const struct option_word insides[] = {
    {"nvswitch", CLUSTER_NVSWITCH}, {"mesh", CLUSTER_MESH},	{"ring", CLUSTER_RING_OF_LINKS},
    {"pcie", CLUSTER_PCIE},	    {"memory", CLUSTER_MEMORY}, {NULL, 0}};

#define AS_RATE_GBS(field) .kind = &rate, OPTION_AT_(field, double)
#define AS_TIME_US(field)  .kind = &time_kind, OPTION_AT_(field, double)
#define AS_TFLOPS(field)   .kind = &flops_kind, OPTION_AT_(field, double)
#define AS_GB(field)	   .kind = &size_kind, OPTION_AT_(field, double)
#define AS_SHARE(field)	   AS_DOUBLE(field, 0, 1)
#define CLASS_ROWS(where, what, field)                                                            \
	{what " ll latency", "TIME", "a hop with protocol LL", AS_TIME_US(field[CLUSTER_LL].us)}, \
	    {what " ll share", "X", "of the bandwidth that LL reaches; 0: not used",              \
	     AS_SHARE(field[CLUSTER_LL].share)},                                                  \
	    {what " ll128 latency", "TIME", "a hop with LL128",                                   \
	     AS_TIME_US(field[CLUSTER_LL128].us)},                                                \
	    {what " ll128 share", "X", "of the bandwidth, for LL128",                             \
	     AS_SHARE(field[CLUSTER_LL128].share)},                                               \
	    {what " simple latency", "TIME", "a hop with Simple",                                 \
	     AS_TIME_US(field[CLUSTER_SIMPLE].us)},                                               \
	{                                                                                         \
		what " simple share", "X", "of the bandwidth, for Simple",                        \
		    AS_SHARE(field[CLUSTER_SIMPLE].share)                                         \
	}
#define LEVEL_ROWS(what, i)                                                                    \
	{what " hosts", "N", "hosts below one switch of this level",                           \
	 AS_U32(level[i].hosts, 1, CLUSTER_MAX_HOSTS)},                                        \
	{                                                                                      \
		what " oversubscription", "X", "bandwidth from below over bandwidth to above", \
		    AS_DOUBLE(level[i].oversubscription, 0.01, 1000)                           \
	}

static const struct option_row rows[] = {
    {"name", "NAME", "of the cluster, for tables", AS_CHARS(name)},
    {"gpu", "KIND", "the GPU", AS_NAME(gpu, cluster_gpu_word, 0)},
    {"hosts", "N", "hosts", AS_U32(hosts, 1, CLUSTER_MAX_HOSTS), ALSO("nodes")},
    {"gpus per host", "N", "GPUs of a host", AS_U32(gpus_per_host, 1, 1024), ALSO("gpus per node")},
    {"cpu", "KIND", "processors of a host", AS_WORD(cpu, cpus)},
    {"memory", "SIZE", "of a GPU", AS_GB(memory_gb)},
    {"memory bandwidth", "RATE", "of a GPU's memory", AS_RATE_GBS(memory_gbs)},
    {"compute", "RATE", "of a GPU in products of 16-bit matrices, as sold", AS_TFLOPS(tflops)},
    {"matrix share", "X", "of the compute rate that large products reach", AS_SHARE(matrix_share)},
    {"inside", "HOW", "the interconnect of a domain's GPUs", AS_WORD(inside, insides),
     ALSO("nvlink")},
    {"domain", "N", "GPUs that reach each other without NICs", AS_U32(domain, 1, CLUSTER_MAX_GPUS),
     ALSO("nvlink domain")},
    {"inside bandwidth", "RATE", "of a GPU to all others of its domain, one direction",
     AS_RATE_GBS(inside_gbs), ALSO("nvlink bandwidth")},
    {"pcie", "SLOT", "of a GPU, such as gen5 x16", AS_KIND(pcie), OPTION_AT_(pcie_gbs, double)},
    {"nvls", "YES", "NVSwitch reduces", AS_WORD(nvls, yes_no)},
    {"nics", "COUNT x RATE", "NICs of a host; may be followed by the network", AS_KIND(nics),
     AT(nics)},
    {"network", "KIND", "what joins the hosts", AS_NAME(network, cluster_network_word, 0)},
    {"rails", "YES", "NICs of one number share the first level's switches", AS_WORD(rails, yes_no)},
    {"gpudirect", "YES", "NICs read the memory of GPUs", AS_WORD(gpudirect, yes_no)},
    {"sharp", "YES", "switches of the network reduce", AS_WORD(sharp, yes_no)},
    {"switch latency", "TIME", "of a switch that a message crosses", AS_TIME_US(switch_us)},
    LEVEL_ROWS("leaf", 0),
    LEVEL_ROWS("spine", 1),
    LEVEL_ROWS("core", 2),
    {"launch", "TIME", "of a collective: the kernel, and its first and last flag",
     AS_TIME_US(launch_us)},
    {"message", "TIME", "the host's cost of a message on the network", AS_TIME_US(message_us)},
    {"reduce bandwidth", "RATE", "of a GPU that reduces in its memory", AS_RATE_GBS(reduce_gbs)},
    {"copy bandwidth", "RATE", "of a GPU that copies in its memory", AS_RATE_GBS(copy_gbs)},
    CLASS_ROWS(inside, "inside", in),
    CLASS_ROWS(network, "network", out),
    {"inside share", "X", "of the inside bandwidth that large transfers reach",
     AS_SHARE(inside_share)},
    {"network share", "X", "of a NIC's rate that large transfers reach", AS_SHARE(nic_share)},
    {"nvls share", "X", "of the inside bandwidth that reductions in NVSwitch reach",
     AS_SHARE(nvls_share)},
};

/* ---- words to constants */

/* Set all values to "not given". */
static void
blank(struct cluster *c)
{
	*c = (struct cluster){.gpu = -1,
			      .network = -1,
			      .cpu = -1,
			      .inside = -1,
			      .nvls = -1,
			      .rails = -1,
			      .sharp = -1,
			      .gpudirect = -1};
	for (size_t i = 0; i < NROWS(rows); i++)
		if (rows[i].kind == &rate || rows[i].kind == &time_kind || rows[i].kind == &pcie ||
		    rows[i].kind == &flops_kind || rows[i].kind == &size_kind ||
		    rows[i].kind == &option_double)
			*real(&rows[i], c) = NAN;
	c->nic_gbs = NAN;
}

static enum rc
refuse(const char *name, const char *reason, struct err *err)
{
	return err_set(err, RC_INVAL, "%s: %s", name, reason);
}

/* Check that the values are consistent. */
static enum rc
check(const struct cluster *c, const char *name, struct err *err)
{
	uint32_t below = 1;

	if ((uint64_t)c->hosts * c->gpus_per_host > CLUSTER_MAX_GPUS)
		return err_set(err, RC_INVAL, "%s: hosts: more than %d GPUs", name,
			       CLUSTER_MAX_GPUS);
	if (c->domain > c->gpus_per_host && c->domain % c->gpus_per_host != 0)
		return refuse(name, "domain: must be a whole number of hosts", err);
	if (c->domain < c->gpus_per_host && c->gpus_per_host % c->domain != 0)
		return refuse(name, "domain: must divide the GPUs of a host", err);
	if (c->inside == CLUSTER_RING_OF_LINKS && c->domain > CLUSTER_MAX_RING)
		return refuse(name, "inside: a ring can have at most 16 GPUs", err);
	if (c->domain < c->hosts * c->gpus_per_host && c->hosts > 1 && !c->nics)
		return refuse(name, "nics: several hosts need a network", err);
	for (int l = 0; l < CLUSTER_MAX_LEVELS && c->level[l].hosts; l++) {
		if (c->level[l].hosts < below || c->level[l].hosts % below != 0)
			return refuse(name,
				      "a level's hosts must be a multiple of those of "
				      "the level below",
				      err);
		below = c->level[l].hosts;
	}
	for (int l = 1; l < CLUSTER_MAX_LEVELS; l++)
		if (c->level[l].hosts && !c->level[l - 1].hosts)
			return refuse(name, "spine or core hosts need the level below", err);
	if (c->in[CLUSTER_SIMPLE].share <= 0 || (c->nics && c->out[CLUSTER_SIMPLE].share <= 0))
		return refuse(name, "simple share: must not be 0, because Simple carries all sizes",
			      err);
	if (c->inside_share <= 0 || c->matrix_share <= 0 || (c->nics && c->nic_share <= 0))
		return refuse(name, "inside share, network share, matrix share: must not be 0",
			      err);
	return RC_OK;
}

/* The file's name without folder and ".ini". */
static void
name_after(const char *path, char out[64])
{
	const char *slash = strrchr(path, '/'), *stem = slash ? slash + 1 : path;
	size_t len = strcspn(stem, ".");

	snprintf(out, 64, "%.*s", (int)(len < 63 ? len : 63), stem);
}

/* Read the words, which set all constants; then read the constants that are given. */
static enum rc
resolve(struct cluster *words, const char *name, struct err *err)
{
	const struct cluster_gpu_kind *g;

	if (words->gpu < 0)
		return refuse(name, "gpu is missing", err);
	g = cluster_gpu_kind((unsigned)words->gpu);
	if (!words->hosts)
		words->hosts = 1;
	if (words->network < 0)
		words->network = network_named(words->nics ? "ib" : "none");
	if (words->nics && words->network == network_named("none"))
		return refuse(name, "network: none, but there are NICs", err);
	if (!words->nics && words->network != network_named("none"))
		words->nics = 1;
	if (words->network == network_named("efa") && g->cc >= 90)
		words->network = network_named(strcmp(g->name, "h100") == 0 ? "efa2" : "efa3");
	if (!words->name[0])
		name_after(name, words->name);
	cluster_defaults(words, words);
	return check(words, name, err);
}

static struct option_set
set_of(struct cluster *c)
{
	return (struct option_set){.usage = "gpusim-cluster(5)",
				   .rows = rows,
				   .n = NROWS(rows),
				   .target = c,
				   .strict = true};
}

enum rc
cluster_read(const char *text, const char *name, struct cluster *out, struct err *err)
{
	struct cluster c;
	struct option_set set = set_of(&c);
	enum rc rc;

	blank(&c);
	rc = option_file_text(&set, text, name, OPTION_FROM_FILES, err);
	if (rc == RC_OK)
		rc = option_file_check(&set, err);
	if (rc == RC_OK)
		rc = resolve(&c, name, err);
	option_fini(&set); /* no row keeps a text */
	if (rc == RC_OK)
		*out = c;
	return rc;
}

enum rc
cluster_print(const struct cluster *c, struct buf *out, struct err *err)
{
	struct cluster copy = *c;
	struct option_set set = set_of(&copy);

	return option_print(&set, out, err);
}

/* ---- facts */

uint32_t
cluster_gpus(const struct cluster *c)
{
	return c->hosts * c->gpus_per_host;
}

enum rc
cluster_check_gpus(const struct cluster *c, uint32_t n, struct err *err)
{
	if (n >= 1 && n <= cluster_gpus(c))
		return RC_OK;
	return err_set(err, RC_INVAL, "needs %u GPUs; the cluster has %u", n, cluster_gpus(c));
}

struct cluster
cluster_strided(const struct cluster *of, uint32_t stride)
{
	struct cluster c = *of;
	uint32_t each = c.gpus_per_host, apart = stride > each ? stride / each : 1; /* hosts */

	c.gpus_per_host = stride < each ? (each + stride - 1) / stride : 1;
	if (c.domain == each)
		c.domain = c.gpus_per_host;
	else
		c.domain = c.domain / stride ? c.domain / stride : 1;
	c.hosts = (c.hosts + apart - 1) / apart;
	c.nic_gbs *= (double)c.nics * c.gpus_per_host / each;
	c.nics = c.nics > 0;
	if (c.gpus_per_host > 1 && of->nics * c.gpus_per_host % each == 0) {
		c.nics = of->nics * c.gpus_per_host / each;
		c.nic_gbs = of->nic_gbs;
	}
	for (int l = 0; l < CLUSTER_MAX_LEVELS; l++)
		c.level[l].hosts = (c.level[l].hosts + apart - 1) / apart;
	return c;
}

double
cluster_host_gbs(const struct cluster *c)
{
	return c->nics * c->nic_gbs;
}

const char *
cluster_gpu_name(const struct cluster *c)
{
	return cluster_gpu_word((unsigned)c->gpu);
}

const char *
cluster_network_name(const struct cluster *c)
{
	return cluster_network_word((unsigned)c->network);
}
