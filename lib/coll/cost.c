/*
 * cost.c - the closed forms, each from its algorithm's comment.
 *
 * tests/unit/t_simulate.c holds them against plan_simulate, for 2 to 33 ranks. Where p is a power of
 * two they are within 0.1 % of it, else within 25 %. The trees' messages wait for each other in ways
 * that no short formula has: within 30 %, and 50 %. The slow algorithms, which are never chosen, and
 * those over peer memory, which have no messages, are not simulated. Reading a peer's memory costs
 * beta a byte, reducing from it gamma, and a point where all wait for all a quarter of a message
 * for each rank.
 *
 * Where partial sums are wide, forms take all messages of a round for as long as its longest. Powers of two
 * are as exact then; others are estimated up to 75 % too high, and the trees to twice that.
 *
 * README.md says why formulas decide, and not the simulation itself.
 */
#include "coll/cost.h"

#include <math.h>
#include <string.h>

/* A closed form: an expression of the arguments a and the model m. */
#define FORM(name, us)                                                            \
	static double name(const struct cost_args *a, const struct cost_model *m) \
	{                                                                         \
		return us;                                                        \
	}

static double
widening(const struct cost_args *a)
{
	return a->widening > 1 ? a->widening : 1;
}

/* Messages that x bytes take. */
static double
pieces(const struct cost_args *a, double x)
{
	return x > 0 ? fmax(1, ceil(x * widening(a) / a->chunk_bytes)) : 0;
}

/* x bytes to a peer, one message behind the other. */
static double
move(const struct cost_args *a, const struct cost_model *m, double x)
{
	return m->alpha_us * pieces(a, x) + m->beta_us * x;
}

/* A round in which ranks exchange x bytes and reduce each message before the next is sent. */
static double
combine(const struct cost_args *a, const struct cost_model *m, double x)
{
	return move(a, m, x) + m->gamma_us * x;
}

/* The same where the x bytes are of partial results. */
static double
combine_wide(const struct cost_args *a, const struct cost_model *m, double x)
{
	return m->alpha_us * pieces(a, x) + (m->beta_us + m->gamma_us) * widening(a) * x;
}

/* One of the messages of x bytes: under way, and reduced. */
struct one {
	double t, g;
};

static struct one
one_of(const struct cost_args *a, const struct cost_model *m, double x)
{
	double c = x / pieces(a, x);

	return (struct one){m->alpha_us + m->beta_us * c, m->gamma_us * c};
}

static struct one
one_wide(const struct cost_args *a, const struct cost_model *m, double x)
{
	double c = x * widening(a) / pieces(a, x);

	return (struct one){m->alpha_us + m->beta_us * c, m->gamma_us * c};
}

/* Message after message of x bytes in all, `times` over, comes and is reduced meanwhile. */
static double
stream(const struct cost_args *a, const struct cost_model *m, double x, double times)
{
	struct one o = one_of(a, m, x);

	return o.t + (pieces(a, x) * times - 1) * fmax(o.t, o.g) + o.g;
}

static double
log2_up(uint32_t p)
{
	return ceil(log2(p));
}

/* Half of x, a quarter, ... of a power of two of the ranks. */
static double
halvings(const struct cost_args *a, const struct cost_model *m, double x)
{
	double us = 0;

	for (uint32_t d = 2; d <= a->nranks; d *= 2)
		us += move(a, m, x / d);
	return us;
}

static bool folds(const struct cost_args *a);

/* The same, reduced: the first are inputs, unless ranks folded theirs before. */
static double
reductions(const struct cost_args *a, const struct cost_model *m, double x)
{
	double us = 0;

	for (uint32_t d = 2; d <= a->nranks; d *= 2)
		us += d == 2 && !folds(a) ? combine(a, m, x / d) : combine_wide(a, m, x / d);
	return us;
}

/* From `begin` on 1, 2, 4 ... parts of x bytes, the last as many as there are. */
static double
doublings(const struct cost_args *a, const struct cost_model *m, uint32_t begin, double x)
{
	double us = 0;

	for (uint32_t d = begin; d < a->nranks; d *= 2)
		us += move(a, m, fmin(d, a->nranks - d) * x);
	return us;
}

static bool
folds(const struct cost_args *a)
{
	return (a->nranks & (a->nranks - 1)) != 0;
}

/* The extra rounds of p that is no power of two: a neighbour's vector in, x bytes back. */
static double
fold(const struct cost_args *a, const struct cost_model *m, double x)
{
	return folds(a) ? stream(a, m, a->nbytes, 1) + move(a, m, x) : 0;
}

static double
part(const struct cost_args *a)
{
	return a->nbytes / a->nranks;
}

/* p-1 ranks one after the other, x bytes each. */
static double
in_turn(const struct cost_args *a, const struct cost_model *m, double x)
{
	return (a->nranks - 1) * move(a, m, x);
}

/* The root has posted everything, and copies its x bytes while they are on their way. */
static double
own_copy(const struct cost_model *m, double x)
{
	return m->gamma_us * x;
}

/* ---- allreduce */

/* A part comes p-1 times: first as an input, then as a partial sum. */
static double
parts_round(const struct cost_args *a, const struct cost_model *m)
{
	return combine(a, m, part(a)) + (a->nranks - 2) * combine_wide(a, m, part(a));
}

FORM(allreduce_ring, parts_round(a, m) + (a->nranks - 1) * move(a, m, part(a)))
FORM(allreduce_pairwise, (a->nranks - 1) * (combine(a, m, part(a)) + move(a, m, part(a))))

static double
allreduce_ring_chunked(const struct cost_args *a, const struct cost_model *m)
{
	struct cost_args slice = *a;
	double k = fmax(1, pieces(a, part(a)));

	slice.nbytes = a->nbytes / k;
	return k * allreduce_ring(&slice, m);
}

FORM(allreduce_naive, stream(a, m, a->nbytes, a->nranks - 1) + in_turn(a, m, a->nbytes))
FORM(allreduce_halving_doubling,
     fold(a, m, a->nbytes) + reductions(a, m, a->nbytes) + halvings(a, m, a->nbytes))
/* The first round sends inputs: copies, or folded with a neighbour's. */
FORM(allreduce_recursive_doubling, (folds(a) ? fold(a, m, a->nbytes) + combine_wide(a, m, a->nbytes)
					     : m->gamma_us * a->nbytes + combine(a, m, a->nbytes)) +
				       (floor(log2(a->nranks)) - 1) * combine_wide(a, m, a->nbytes))

/*
 * On the way up and down again a message passes twice at each level but one, for a node has two
 * children. Behind it a rank has 2 messages in and 2 out for each that follows. With three levels
 * or more some of those wait for the other tree's: 2/3 of a message more, as measured in the
 * simulation.
 */
static double
allreduce_tree(const struct cost_args *a, const struct cost_model *m)
{
	double n = pieces(a, a->nbytes / 2), levels = log2(a->nranks);
	double each = a->nranks > 4 ? 4 + 2.0 / 3 : 4;
	struct one o = one_of(a, m, a->nbytes / 2), up = one_wide(a, m, a->nbytes / 2);

	if (a->nranks == 2)
		return n * (2 * o.t + o.g);
	return (2 * levels - 1) * (up.t + o.t + up.g) +
	       (n - 1) * (each / 2 * (up.t + o.t) + 2 * up.g);
}

static double
sync_all(const struct cost_args *a, const struct cost_model *m)
{
	return a->nranks * m->alpha_us / 4;
}

FORM(allreduce_oneshot, sync_all(a, m) + a->nranks * m->gamma_us * a->nbytes)
FORM(allreduce_twoshot, 2 * sync_all(a, m) + (a->nranks - 1) * (m->gamma_us + m->beta_us) * part(a))

/* ---- broadcast, reduce */

FORM(broadcast_ring, fmax(own_copy(m, a->nbytes),
			  (a->nranks - 2 + pieces(a, a->nbytes)) * one_of(a, m, a->nbytes).t))
FORM(broadcast_naive, fmax(own_copy(m, a->nbytes), in_turn(a, m, a->nbytes)))
FORM(broadcast_tree, fmax(own_copy(m, a->nbytes), log2_up(a->nranks) * move(a, m, a->nbytes)))
FORM(broadcast_scatter_allgather,
     fmax(own_copy(m, a->nbytes), in_turn(a, m, part(a)) + doublings(a, m, 1, part(a))))

static double
reduce_ring(const struct cost_args *a, const struct cost_model *m)
{
	struct one o = one_of(a, m, a->nbytes), on = a->nranks > 2 ? one_wide(a, m, a->nbytes) : o;

	return o.t + o.g + (a->nranks - 2) * (on.t + on.g) +
	       (pieces(a, a->nbytes) - 1) * fmax(on.t, on.g);
}

FORM(reduce_naive, stream(a, m, a->nbytes, a->nranks - 1))

static double
reduce_tree(const struct cost_args *a, const struct cost_model *m)
{
	double n = pieces(a, a->nbytes);
	double levels = log2_up(a->nranks), inner = floor(log2(a->nranks)) - 1;
	struct one leaf = one_of(a, m, a->nbytes), o = one_wide(a, m, a->nbytes);

	if (a->nranks == 2)
		return stream(a, m, a->nbytes, 1);
	if (inner < 1)
		o = leaf;
	return (levels - inner) * (leaf.t + leaf.g) + inner * (o.t + o.g) +
	       levels * (n - 1) * (o.g > o.t ? o.g + o.t / 2 : o.t);
}

/* ---- allgather, reduce-scatter */

FORM(allgather_ring, in_turn(a, m, part(a)) + m->gamma_us * part(a))
FORM(allgather_naive, in_turn(a, m, part(a)) + in_turn(a, m, a->nbytes))
FORM(allgather_bruck, m->gamma_us *(part(a) + a->nbytes) + doublings(a, m, 1, part(a)))

static double
allgather_recursive_doubling(const struct cost_args *a, const struct cost_model *m)
{
	double us = folds(a) ? move(a, m, part(a)) + move(a, m, a->nbytes) : 0;

	for (uint32_t d = 1; 2 * d <= a->nranks; d *= 2)
		us += move(a, m, (folds(a) ? fmin(2 * d, a->nranks - d) : d) * part(a));
	return us + m->gamma_us * part(a);
}

FORM(reducescatter_ring, parts_round(a, m))
FORM(reducescatter_pairwise, (a->nranks - 1) * combine(a, m, part(a)))
FORM(reducescatter_naive, stream(a, m, a->nbytes, a->nranks - 1) + in_turn(a, m, part(a)))
FORM(reducescatter_halving, fold(a, m, part(a)) + reductions(a, m, a->nbytes))

/* ---- the rest */

static double
alltoall_bruck(const struct cost_args *a, const struct cost_model *m)
{
	double us = m->gamma_us * a->nbytes;

	for (uint32_t d = 1; d < a->nranks; d *= 2) {
		uint32_t n = a->nranks / (2 * d) * d, rest = a->nranks % (2 * d);

		us += combine(a, m, (n + (rest > d ? rest - d : 0)) * part(a));
	}
	return us;
}

FORM(linear, fmax(own_copy(m, part(a)), in_turn(a, m, part(a))))
/* Ranks inside copy their own part while that of a leaf is on its way. */
FORM(subtrees, fmax(move(a, m, part(a)), own_copy(m, part(a))) + doublings(a, m, 2, part(a)))
FORM(barrier_dissemination, log2_up(a->nranks) * m->alpha_us)
FORM(transfer, move(a, m, a->nbytes))

enum { SHARED = 1, PIPELINED = 2, SLOW = 4, INPUTS = 8 };
#define ROW(coll, name, us, flags)                                                    \
	{                                                                             \
		GPUSIM_##coll, name, ((flags)&SHARED) != 0, ((flags)&PIPELINED) != 0, \
		    ((flags)&SLOW) != 0, ((flags)&INPUTS) != 0, us                    \
	}

/* clang-format off */
const struct cost_algo cost_algos[] = {
	ROW(ALLREDUCE, "twoshot", allreduce_twoshot, SHARED | INPUTS),
	ROW(ALLREDUCE, "oneshot", allreduce_oneshot, SHARED | INPUTS),
	ROW(ALLREDUCE, "halving-doubling", allreduce_halving_doubling, 0),
	ROW(ALLREDUCE, "ring-chunked", allreduce_ring_chunked, 0),
	ROW(ALLREDUCE, "ring", allreduce_ring, 0),
	ROW(ALLREDUCE, "pairwise", allreduce_pairwise, INPUTS),
	ROW(ALLREDUCE, "recursive-doubling", allreduce_recursive_doubling, 0),
	ROW(ALLREDUCE, "tree", allreduce_tree, PIPELINED),
	ROW(ALLREDUCE, "naive", allreduce_naive, SLOW | INPUTS | INPUTS),
	ROW(BROADCAST, "ring", broadcast_ring, PIPELINED),
	ROW(BROADCAST, "scatter-allgather", broadcast_scatter_allgather, 0),
	ROW(BROADCAST, "tree", broadcast_tree, 0),
	ROW(BROADCAST, "naive", broadcast_naive, SLOW),
	ROW(REDUCE, "ring", reduce_ring, PIPELINED),
	ROW(REDUCE, "tree", reduce_tree, PIPELINED),
	ROW(REDUCE, "naive", reduce_naive, SLOW),
	ROW(ALLGATHER, "ring", allgather_ring, 0),
	ROW(ALLGATHER, "recursive-doubling", allgather_recursive_doubling, 0),
	ROW(ALLGATHER, "bruck", allgather_bruck, 0),
	ROW(ALLGATHER, "naive", allgather_naive, SLOW),
	ROW(REDUCESCATTER, "ring", reducescatter_ring, 0),
	ROW(REDUCESCATTER, "pairwise", reducescatter_pairwise, INPUTS),
	ROW(REDUCESCATTER, "halving", reducescatter_halving, 0),
	ROW(REDUCESCATTER, "naive", reducescatter_naive, SLOW | INPUTS),
	ROW(ALLTOALL, "pairwise", allgather_ring, 0),
	ROW(ALLTOALL, "bruck", alltoall_bruck, 0),
	ROW(GATHER, "linear", linear, 0),
	ROW(GATHER, "tree", subtrees, 0),
	ROW(SCATTER, "linear", linear, 0),
	ROW(SCATTER, "tree", subtrees, 0),
	ROW(BARRIER, "dissemination", barrier_dissemination, 0),
	ROW(SEND, "direct", transfer, 0),
	ROW(RECV, "direct", transfer, 0),
	{0},
};
/* clang-format on */

unsigned
cost_widening(enum gpusim_coll coll, const char *algo, uint32_t nranks, unsigned widening)
{
	const struct cost_algo *row = cost_find(coll, algo);

	/* Of two ranks each has the other's input when it has its sum. */
	return nranks > 2 && coll_reduces(coll) && !(row && row->inputs) ? widening : 1;
}

const struct cost_algo *
cost_find(enum gpusim_coll coll, const char *name)
{
	const struct cost_algo *row = cost_algos;

	while (row->name && (row->coll != coll || strcmp(row->name, name) != 0))
		row++;
	return row->name ? row : NULL;
}
