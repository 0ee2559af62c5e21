#include "cluster/bound.h"

#include <math.h>

#include "coll/plan.h"

/* Bytes that must leave, or reach, m of the n ranks, whichever is more, per byte of the size. Rank 0 is the
 * root. */
static double
crossing(enum gpusim_coll coll, double m, double n, bool root)
{
	switch (coll) {
	case GPUSIM_ALLGATHER:
	case GPUSIM_REDUCESCATTER:
		return fmax(m, n - m) / n;
	case GPUSIM_GATHER:
	case GPUSIM_SCATTER:
		return (root ? n - m : m) / n;
	case GPUSIM_ALLTOALL:
		return m * (n - m) / n;
	default:
		return 1;
	}
}

/* Cuts of one kind. */
struct cuts {
	const char *name;
	double ranks;		     /* most ranks inside a cut */
	double number, gbs, all_gbs; /* how many there are; of one; of all together */
	bool reduces, root; /* a switch inside, or outside of them, adds; the root is in one */
};

/*
 * Each cut by itself. And all together: without switches that add, an element of an all-reduce enters all of
 * k parts but the one that adds last, and a sum leaves for all of them, which is 2(k - 1) times. Source:
 * Patarasuk & Yuan, JPDC 69(2), 2009.
 */
static void
consider(const struct cluster_bound_ask *a, struct cuts k, struct cluster_bound *b)
{
	double size = (double)a->nbytes, one = size * crossing(a->coll, k.ranks, a->ngpus, k.root),
	       us;

	if (k.ranks >= a->ngpus || k.gbs <= 0)
		return;
	if (a->coll == GPUSIM_ALLREDUCE && !k.reduces)
		one = fmax(one, size * 2 * (k.number - 1) * k.gbs / k.all_gbs);
	us = one / (1000 * k.gbs);
	if (us > b->us)
		*b = (struct cluster_bound){us, k.name, one, k.gbs};
}

struct cluster_bound
cluster_bound(const struct cluster *c, const struct cluster_bound_ask *a)
{
	static const char *const levels[CLUSTER_MAX_LEVELS] = {
	    "a leaf switch's way up", "a spine switch's way up", "a core switch's way up"};
	struct cluster_bound b = {0};
	double n = a->ngpus, each = c->gpus_per_host, wire = cluster_host_gbs(c) * c->nic_share,
	       share = fmax(c->inside_share, a->nvswitch_reduces ? c->nvls_share : 0),
	       domain = fmax(c->domain, each), parts = ceil(n / domain), hosts = ceil(n / each),
	       port = c->inside_gbs * share, nics = n > c->domain ? wire : 0,
	       rest = n - (parts - 1) * domain;

	if (a->ngpus < 2)
		return b;
	consider(a,
		 (struct cuts){"all ways into a GPU", 1, n, port + nics, n * port + hosts * nics,
			       a->nvswitch_reduces || a->network_reduces, true},
		 &b);
	consider(a,
		 (struct cuts){"the NICs of a domain's hosts", domain, parts, wire * domain / each,
			       wire * hosts, a->network_reduces, true},
		 &b);
	/* The last domain may have fewer hosts, each with the same NICs. */
	consider(a,
		 (struct cuts){"the NICs of a domain's hosts", rest, parts,
			       wire * ceil(rest / each), wire * hosts, a->network_reduces, false},
		 &b);
	for (unsigned l = 0; l < CLUSTER_MAX_LEVELS && c->level[l].hosts; l++) {
		double ranks = fmax(c->level[l].hosts * each, domain), number = ceil(n / ranks),
		       gbs = wire * ranks / each / fmax(c->level[l].oversubscription, 1);

		consider(a,
			 (struct cuts){levels[l], ranks, number, gbs, number * gbs,
				       a->network_reduces, true},
			 &b);
	}
	return b;
}

enum rc
cluster_bound_check(const struct cluster_bound *b, double us, struct err *err)
{
	if (us >= b->us * (1 - 1e-6))
		return RC_OK;
	return err_set(err, RC_INTERNAL, "%.1f us predicted, but %s needs %.1f us", us, b->name,
		       b->us);
}
