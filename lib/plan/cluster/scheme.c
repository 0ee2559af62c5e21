/*
 * scheme.c - rings, trees and exchanges over hosts and NICs.
 *
 * A domain has `per` ranks. Rings and trees fill whole domains; where the ranks do not, a ring goes from rank
 * to rank, and all ranks are hosts of one rank to a tree.
 */
#include "cluster/scheme.h"

#include <math.h>
#include <string.h>

#define NOBODY	     UINT32_MAX
#define SLICED_BYTES 65536 /* chunks of at least this size go in slices */
#define SLICES	     2u	   /* of NCCL's chunk */
#define WIDE	     4u	   /* channels of a hierarchical ring, which take turns on its NIC */
#define AHEAD	     8u	   /* rounds of an exchange that a rank's sends go ahead */
#define GROUPED	     64u   /* likewise for sends and receives in a group */
#define LEAST_PIECE  32768 /* of a tree's vector */

static void
put(struct plan *plan, enum plan_step_kind kind, uint32_t peer, uint64_t nbytes)
{
	(void)plan_append(plan,
			  (struct plan_step){.kind = (uint8_t)kind, .peer = peer, .count = nbytes});
}

static uint64_t
divide(uint64_t x, uint64_t by)
{
	return (x + by - 1) / by;
}

/* Ranks of a domain; 1: they do not fill whole domains. */
static uint32_t
per_domain(const struct scheme_ask *a, const struct links *l)
{
	if (a->nranks <= l->domain)
		return a->nranks;
	return a->nranks % l->domain ? 1 : l->domain;
}

/* The least number of ranks, a multiple of `base`, that represent all. */
static uint32_t
fold(const struct scheme_ask *a, const struct links *l, uint32_t base)
{
	uint32_t p = links_period(l);

	while (p % base && p < a->nranks)
		p *= 2;
	return p % base == 0 && p < a->nranks && a->nranks % p == 0 ? p : a->nranks;
}

/* A channel's share of a link: the GPUs of a domain take turns at its ends, as do the NICs. */
static void
share(const struct links *l, uint32_t per, double channels, struct scheme_size *out)
{
	bool alone = l->nranks <= l->domain;

	out->port_share = fmax(1, alone ? channels : channels * (per - 1.0) / per);
	out->nic_share = fmax(1, l->nics ? channels / l->nics : 1);
}

/* ---- rings: one a channel, from domain to domain by NICs of one number where the domains are even in
 * number */

/* Return true if every other domain is traversed backwards, so that a NIC's peer has its number. */
static bool
zigzag(const struct scheme_ask *a, uint32_t per)
{
	return per > 1 && per < a->nranks && a->nranks / per % 2 == 0;
}

/* The rank at a place of the ring; it is its own inverse. */
static uint32_t
turned(const struct scheme_ask *a, uint32_t per, uint32_t at)
{
	at %= a->nranks;
	return zigzag(a, per) && at / per % 2 ? at / per * per + per - 1 - at % per : at;
}

/* The amount that goes around at a time, from a rank; the rest follows when it is through. */
static void
cut(const struct scheme_ask *a, uint64_t part, unsigned channels, unsigned passes, uint32_t ranks,
    struct scheme_size *out)
{
	uint64_t most = SCHEME_CHUNK * (uint64_t)channels,
		 loops = part > most ? divide(part, most) : 1;

	out->units = passes * (uint64_t)(ranks - 1) * loops;
	out->message_bytes = divide(part, loops);
	out->slices = a->simple && out->message_bytes >= SLICED_BYTES ? channels * SLICES : 1;
	out->unit_steps = 2.0 * out->slices * out->nplans;
}

static void
size_ring(const struct scheme_ask *a, const struct links *l, struct scheme_size *out)
{
	uint32_t per = per_domain(a, l), base = zigzag(a, per) ? 2 * per : per;

	out->nplans = fold(a, l, zigzag(a, per) || base < a->nranks ? base : 1);
	out->every = 2 * (uint64_t)base;
	cut(a, divide(a->nbytes, (uint64_t)a->channels * a->nranks), 1,
	    a->coll == GPUSIM_ALLREDUCE ? 2 : 1, a->nranks, out);
	out->channels = a->channels;
	share(l, per, a->channels, out);
}

/* Return true if a round's receive reduces, as half of an all-reduce's do. They alternate, so that few
 * rounds represent all. */
static bool
reduces(enum gpusim_coll coll, uint64_t round)
{
	return coll == GPUSIM_ALLREDUCE ? round % 2 == 0 : coll_reduces(coll);
}

/* Rounds with a neighbour each side. */
static void
rounds(enum gpusim_coll coll, const struct scheme_size *s, uint64_t units, uint32_t next,
       uint32_t prev, struct plan *plan)
{
	unsigned n = s->slices;
	uint64_t nbytes = divide(s->message_bytes, n);

	for (unsigned k = 0; k < n && units; k++)
		put(plan, STEP_SEND, next, nbytes);
	for (uint64_t u = 0; u < units; u++)
		for (unsigned k = 0; k < n; k++) {
			put(plan, reduces(coll, u) ? STEP_RECV_REDUCE : STEP_RECV, prev, nbytes);
			if (u + 1 < units)
				put(plan, STEP_SEND, next, nbytes);
		}
}

static void
build_ring(const struct scheme_ask *a, const struct links *l, const struct scheme_size *s,
	   uint64_t units, uint32_t r, struct plan *blocks)
{
	uint32_t per = per_domain(a, l), at = turned(a, per, r);

	rounds(a->coll, s, units, turned(a, per, at + 1), turned(a, per, at + a->nranks - 1),
	       blocks);
}

/* ---- a ring that begins at one rank: a pipeline */

static void
size_chain(const struct scheme_ask *a, const struct links *l, struct scheme_size *out)
{
	uint32_t per = per_domain(a, l);
	uint64_t part = divide(a->nbytes, a->channels);

	out->nplans = a->nranks;
	out->units = part ? divide(part, SCHEME_CHUNK / SLICES) : 1;
	out->message_bytes = divide(part, out->units);
	out->unit_steps = 2.0 * a->nranks;
	out->channels = a->channels;
	share(l, per, a->channels, out);
}

/* From the first place of the ring to the last, or back. */
static void
build_chain(const struct scheme_ask *a, const struct links *l, const struct scheme_size *s,
	    uint64_t units, uint32_t r, struct plan *blocks)
{
	bool reduce = a->coll == GPUSIM_REDUCE;
	uint32_t per = per_domain(a, l), n = a->nranks, place = turned(a, per, r),
		 at = reduce ? n - 1 - place : place, up = turned(a, per, place + 1),
		 down = turned(a, per, place + n - 1);

	for (uint64_t u = 0; u < units; u++) {
		if (at > 0)
			put(blocks, reduce ? STEP_RECV_REDUCE : STEP_RECV, reduce ? up : down,
			    s->message_bytes);
		if (at + 1 < n)
			put(blocks, STEP_SEND, reduce ? down : up, s->message_bytes);
	}
}

/* ---- parts inside domains, a ring of equal GPUs over the domains, parts inside again */

static void
size_hierarchical_ring(const struct scheme_ask *a, const struct links *l, struct scheme_size *out)
{
	uint32_t per = per_domain(a, l);

	out->nplans = fold(a, l, per < a->nranks ? per : 1);
	out->every = 2;
	cut(a, divide(a->nbytes, a->nranks), WIDE, 2, a->nranks / per, out);
}

/* To and from all others of the domain. */
static void
inside(uint32_t per, uint32_t r, enum plan_step_kind recv, uint64_t nbytes, struct plan *plan)
{
	uint32_t first = r / per * per;

	for (uint32_t k = 1; k < per; k++)
		put(plan, STEP_SEND, first + (r + k) % per, nbytes);
	for (uint32_t k = 1; k < per; k++)
		put(plan, recv, first + (r + per - k) % per, nbytes);
}

static void
build_hierarchical_ring(const struct scheme_ask *a, const struct links *l,
			const struct scheme_size *s, uint64_t units, uint32_t r,
			struct plan *blocks)
{
	uint32_t per = per_domain(a, l), n = a->nranks;

	inside(per, r, STEP_RECV_REDUCE, divide(a->nbytes, per), blocks);
	rounds(a->coll, s, units, (r + per) % n, (r + n - per) % n, blocks);
	inside(per, r, STEP_RECV, divide(a->nbytes, per), blocks);
}

/* ---- trees: two over the hosts for each pair of channels, each with half of the bytes; chains inside */

/* The tree in which a host's children differ from it by its lowest bit, as NCCL has it; source: NVIDIA/nccl,
 * src/graph/trees.cc. */
static unsigned
first_tree(uint32_t n, uint32_t r, uint32_t *parent, uint32_t child[2])
{
	uint32_t bit = 1, low;
	unsigned k = 0;

	while (bit < n && !(bit & r))
		bit *= 2;
	*parent = NOBODY;
	if (r == 0) {
		if (n > 1)
			child[k++] = bit / 2;
		return k;
	}
	*parent = (r ^ bit) | (bit * 2);
	if (*parent >= n)
		*parent = r ^ bit;
	low = bit / 2;
	if (low)
		child[k++] = r - low;
	while (low && r + low >= n)
		low /= 2;
	if (low)
		child[k++] = r + low;
	return k;
}

/* The second is the first one mirrored, or moved by one where the hosts are odd in number. */
static uint32_t
moved(uint32_t n, uint32_t r, bool back)
{
	if (r == NOBODY || n % 2 == 0)
		return r == NOBODY ? r : n - 1 - r;
	return back ? (r + 1) % n : (r + n - 1) % n;
}

unsigned
scheme_tree(uint32_t n, uint32_t host, unsigned tree, uint32_t *parent, uint32_t child[2])
{
	unsigned k = first_tree(n, tree ? moved(n, host, false) : host, parent, child);

	for (unsigned i = 0; i < k && tree; i++)
		child[i] = moved(n, child[i], true);
	*parent = tree ? moved(n, *parent, true) : *parent;
	return k;
}

static uint32_t
pairs(const struct scheme_ask *a)
{
	return a->channels > 1 ? a->channels / 2 : 1;
}

static void
size_tree(const struct scheme_ask *a, const struct links *l, struct scheme_size *out)
{
	uint32_t per = per_domain(a, l), hosts = a->nranks / per;
	uint64_t all = divide(a->nbytes, 2 * (uint64_t)pairs(a)), piece = SCHEME_CHUNK;
	double depth = ceil(log2(hosts)) + 1;

	/* A deep tree needs small pieces. */
	while (piece > LEAST_PIECE && (double)divide(all, piece) < 4 * depth)
		piece /= 2;
	out->nplans = a->nranks;
	out->hosts_of = per;
	out->blocks = 4;
	out->units = all ? divide(all, piece) : 1;
	out->message_bytes = divide(all, out->units);
	out->unit_steps = 8.0 * a->nranks;
	out->channels = a->channels;
	share(l, per, pairs(a), out);
	if (l->nics > pairs(a)) /* the two trees of a pair have a NIC each */
		out->nic_share = fmax(0.5, (double)pairs(a) / l->nics);
}

/* A rank's place in one of the trees. Numbers are of blocks. */
struct branch {
	uint32_t from_up[3], nfrom; /* blocks that send it partial sums */
	uint32_t to_up;		    /* block that gets its own; NOBODY: it is the root */
	uint32_t from_down;
	uint32_t to_down[3], nto;
};

/* Blocks of rank r: up and down in the first tree, up and down in the second. The root's block up sends down,
 * too. */
static uint32_t
block(uint32_t r, unsigned tree, bool down)
{
	return 4 * r + 2 * tree + down;
}

static bool
is_root(uint32_t hosts, uint32_t host, unsigned tree)
{
	uint32_t parent, child[2];

	scheme_tree(hosts, host, tree, &parent, child);
	return parent == NOBODY;
}

static struct branch
find_branch(uint32_t hosts, uint32_t per, uint32_t r, unsigned tree)
{
	uint32_t host = r / per, at = r % per, parent, above, child[2];
	unsigned n = scheme_tree(hosts, host, tree, &parent, child);
	struct branch b = {.to_up = NOBODY, .from_down = NOBODY};

	if (at + 1 < per) {
		b.from_up[b.nfrom++] = block(r + 1, tree, false);
		b.to_down[b.nto++] = block(r + 1, tree, true);
	}
	for (unsigned k = 0; k < n && at == 0; k++) {
		b.from_up[b.nfrom++] = block(child[k] * per, tree, false);
		b.to_down[b.nto++] = block(child[k] * per, tree, true);
	}
	if (at == 0 && parent == NOBODY)
		return b;
	above = at ? r - 1 : parent * per;
	b.to_up = block(above, tree, false);
	b.from_down = block(above, tree, above % per || !is_root(hosts, above / per, tree));
	return b;
}

static void
build_tree(const struct scheme_ask *a, const struct links *l, const struct scheme_size *s,
	   uint64_t units, uint32_t r, struct plan *blocks)
{
	uint32_t per = per_domain(a, l);

	for (unsigned tree = 0; tree < 2; tree++) {
		struct branch b = find_branch(a->nranks / per, per, r, tree);
		struct plan *up = &blocks[2 * tree], *down = up + 1;

		for (uint64_t u = 0; u < units; u++) {
			for (uint32_t k = 0; k < b.nfrom; k++)
				put(up, STEP_RECV_REDUCE, b.from_up[k], s->message_bytes);
			if (b.to_up != NOBODY) {
				put(up, STEP_SEND, b.to_up, s->message_bytes);
				put(down, STEP_RECV, b.from_down, s->message_bytes);
			}
			for (uint32_t k = 0; k < b.nto; k++)
				put(b.to_up == NOBODY ? up : down, STEP_SEND, b.to_down[k],
				    s->message_bytes);
		}
	}
}

/* Steps of a unit of an exchange. All flows share the switches, so that each event costs time for each flow:
 * of many ranks fewer units are built, but twice those that a rank's sends go ahead, unless there are too
 * many steps then. */
static double
exchange_steps(uint32_t nplans, unsigned ahead)
{
	double steps = 2.0 * nplans, most = SCHEME_MOST_STEPS / (2.0 * ahead) / steps;

	return steps * fmax(1, fmin(nplans * ahead / 1024.0, most));
}

/* ---- all to all by rails: inside a domain to the GPU of the receiver's number, then from domain to
 * domain */

static void
size_exchange(const struct scheme_ask *a, const struct links *l, struct scheme_size *out)
{
	uint32_t per = per_domain(a, l);

	out->nplans = fold(a, l, per < a->nranks ? per : 1);
	out->units = a->nranks / per - 1;
	out->message_bytes = divide(a->nbytes, a->nranks) * per;
	out->unit_steps = exchange_steps(out->nplans, AHEAD);
}

/* The distance of the k-th partner. A sample of the units has near and far partners like all of them, so
 * that the same share of bytes crosses each level of switches. */
static uint64_t
distance(const struct scheme_size *s, uint64_t units, uint64_t k)
{
	return 1 + (2 * k - 1) * s->units / (2 * units);
}

/* With the ranks that are `stride` apart, sends ahead of receives. */
static void
exchange(uint32_t n, uint32_t stride, const struct scheme_size *s, uint64_t units, uint32_t r,
	 unsigned ahead, struct plan *plan)
{
	uint64_t sent = 0, nbytes = s->message_bytes;

	for (uint64_t k = 1; k <= units; k++) {
		while (sent < units && sent < k - 1 + ahead) {
			uint64_t to = distance(s, units, ++sent) * stride;

			put(plan, STEP_SEND, (uint32_t)((r + to) % n), nbytes);
		}
		put(plan, STEP_RECV, (uint32_t)((r + n - distance(s, units, k) * stride) % n),
		    nbytes);
	}
}

static void
build_exchange(const struct scheme_ask *a, const struct links *l, const struct scheme_size *s,
	       uint64_t units, uint32_t r, struct plan *blocks)
{
	uint32_t per = per_domain(a, l);

	inside(per, r, STEP_RECV, divide(a->nbytes, per), blocks);
	exchange(a->nranks, per, s, units, r, AHEAD, blocks);
}

/* ---- all to all, as NCCL groups sends and receives */

static void
size_group(const struct scheme_ask *a, const struct links *l, struct scheme_size *out)
{
	out->nplans = fold(a, l, 1);
	out->units = a->nranks - 1;
	out->message_bytes = divide(a->nbytes, a->nranks);
	out->unit_steps = exchange_steps(out->nplans, GROUPED);
}

static void
build_group(const struct scheme_ask *a, const struct links *l, const struct scheme_size *s,
	    uint64_t units, uint32_t r, struct plan *blocks)
{
	(void)l;
	exchange(a->nranks, 1, s, units, r, GROUPED, blocks);
}

/* ---- each rank to the next: a group of one */

static void
size_next(const struct scheme_ask *a, const struct links *l, struct scheme_size *out)
{
	out->nplans = fold(a, l, 1);
	out->message_bytes = a->nbytes;
	out->unit_steps = 2.0 * out->nplans;
}

const struct scheme schemes[] = {
    {"ring-rails", GPUSIM_ALLREDUCE, false, size_ring, build_ring}, /* a ring a channel */
    {"ring-rails", GPUSIM_ALLGATHER, false, size_ring, build_ring},
    {"ring-rails", GPUSIM_REDUCESCATTER, false, size_ring, build_ring},
    {"ring-rails", GPUSIM_BROADCAST, false, size_chain, build_chain},
    {"ring-rails", GPUSIM_REDUCE, false, size_chain, build_chain},
    {"ring-hierarchical", GPUSIM_ALLREDUCE, false, size_hierarchical_ring, build_hierarchical_ring},
    {"tree-rails", GPUSIM_ALLREDUCE, false, size_tree, build_tree},
    {"hierarchical", GPUSIM_ALLTOALL, true, size_exchange, build_exchange},
    {"group", GPUSIM_ALLTOALL, true, size_group, build_group},
    {"next", GPUSIM_SEND, false, size_next, build_group},
    {.name = NULL},
};

const struct scheme *
scheme_find(enum gpusim_coll coll, const char *name)
{
	for (const struct scheme *s = schemes; s->name; s++)
		if (s->coll == coll && strcmp(s->name, name) == 0)
			return s;
	return NULL;
}
