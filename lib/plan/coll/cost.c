/*
 * cost.c - the closed forms, each from its algorithm's comment.
 *
 * Latencies overlap in the model, sends go as early as their data allow, and the window makes long
 * pipelines wait: no short formula has all of that. tests/unit/coll/t_simulate.c holds the forms
 * against plan_simulate, for 4 to 33 ranks, and has a table of how near each is: most within 5 to 30 %.
 * They say which algorithm is the fastest, and plan_simulate how long it takes. The slow algorithms,
 * which are never chosen, and those over peer memory, which have no messages, are not compared. Reading
 * a peer's memory costs beta a byte, reducing from it gamma, and a point where all wait for all a
 * quarter of a message for each rank.
 *
 * README.md says why formulas decide, and not the simulation itself.
 */
#include "coll/tune.h"

#include <math.h>
#include <string.h>

/* A closed form: an expression of the arguments a and the model m. */
#define FORM(name, us)                                                            \
	static double name(const struct cost_args *a, const struct cost_model *m) \
	{                                                                         \
		return us;                                                        \
	}

struct cost_model
cost_shaped(const struct cost_model *base, const struct link_shape *links)
{
	struct cost_model m = *base;

	m.alpha_us += links->latency_us;
	m.beta_us += links->bits_per_s > 0 ? 8e6 / links->bits_per_s : 0;
	return m;
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

/* A rank sends k messages in time `send`, and receives k as they arrive, between its sends, each in time `work`. Those
 * that arrive after its last send, delayed by its peers' work, only wait for that send. */
static double
exchange(const struct cost_model *m, double send, double k, double work)
{
	double each = send / k, between = fmax(0, k - 1 - ceil(m->alpha_us / each));

	return fmax(fmax(send, each + m->alpha_us) + k * work,
		    send + between * work + m->alpha_us + work);
}

/* The time that k messages wait for the window: half of it is freed when the first half is taken. */
static double
stalls(const struct cost_model *m, double k, double message)
{
	return floor(fmax(0, k - 1) / SIMULATE_WINDOW) *
	       fmax(0, m->alpha_us - SIMULATE_WINDOW / 2 * message);
}

/* x bytes leave a rank. */
static double
out(const struct cost_args *a, const struct cost_model *m, double x)
{
	double k = pieces(a, x), us = m->host_us * k + m->beta_us * x;

	return us + stalls(m, k, us / fmax(1, k));
}

/* x bytes to a peer, one message after the other. */
static double
move(const struct cost_args *a, const struct cost_model *m, double x)
{
	return out(a, m, x) + m->alpha_us + m->host_us;
}

/* A round in which ranks exchange x bytes and reduce them. */
static double
combine(const struct cost_args *a, const struct cost_model *m, double x)
{
	double k = pieces(a, x);

	return exchange(m, out(a, m, x), k, m->host_us + m->gamma_us * x / k);
}

/* As combine, for x bytes of partial results. */
static double
combine_wide(const struct cost_args *a, const struct cost_model *m, double x)
{
	double k = pieces(a, x), w = widening(a) * x;

	double send = m->host_us * k + m->beta_us * w;

	return exchange(m, send + stalls(m, k, send / k), k, m->host_us + m->gamma_us * w / k);
}

/* One message's times: b for its sender, t until it has arrived, g for its receiver, which reduces
 * it. */
struct one {
	double b, t, g;
};

static struct one
one_message(const struct cost_model *m, double nbytes)
{
	double b = m->host_us + m->beta_us * nbytes;

	return (struct one){b, b + m->alpha_us, m->host_us + m->gamma_us * nbytes};
}

static struct one
one_of(const struct cost_args *a, const struct cost_model *m, double x)
{
	double c = x / pieces(a, x);

	return one_message(m, c);
}

static struct one
one_wide(const struct cost_args *a, const struct cost_model *m, double x)
{
	double c = x * widening(a) / pieces(a, x);

	return one_message(m, c);
}

/* x bytes in messages, `times` over, each reduced while the next one arrives. */
static double
stream(const struct cost_args *a, const struct cost_model *m, double x, double times)
{
	struct one o = one_of(a, m, x);

	return o.t + (pieces(a, x) * times - 1) * fmax(o.b, o.g) + o.g +
	       stalls(m, pieces(a, x), o.b);
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

/* As halvings, reduced: the first messages are inputs, unless ranks folded theirs before. */
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

/* The extra rounds if p is not a power of two: a neighbour's vector in, x bytes back. */
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
	return (a->nranks - 1) * out(a, m, x) + m->alpha_us + m->host_us;
}

/* p-1 rounds, each of which forwards what the one before received. */
static double
around(const struct cost_args *a, const struct cost_model *m, double x)
{
	return (a->nranks - 1) * move(a, m, x);
}

/* x bytes to each of p-1 ranks, and as many from each; `work`: time per received byte. */
static double
all_to_all(const struct cost_args *a, const struct cost_model *m, double x, double work)
{
	double k = pieces(a, x) * (a->nranks - 1);

	return exchange(m, (a->nranks - 1) * out(a, m, x), k,
			m->host_us + work * x / fmax(1, pieces(a, x)));
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

FORM(allreduce_ring, parts_round(a, m) + around(a, m, part(a)))
FORM(allreduce_pairwise, all_to_all(a, m, part(a), m->gamma_us) + all_to_all(a, m, part(a), 0))

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
 * children. After it a rank has 2 messages in and 2 out for each further one. With three levels
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
		return n * (2 * o.b + o.g) + 2 * m->alpha_us + stalls(m, n, o.b);
	return 2 * levels * m->alpha_us + (2 * levels - 1) * (up.b + o.b + up.g) +
	       stalls(m, n, o.b) + (n - 1) * (each / 2 * (up.b + o.b) + 2 * up.g);
}

static double
sync_all(const struct cost_args *a, const struct cost_model *m)
{
	return a->nranks * cost_message_us(m) / 4;
}

FORM(allreduce_oneshot, sync_all(a, m) + a->nranks * m->gamma_us * a->nbytes)
FORM(allreduce_twoshot, 2 * sync_all(a, m) + (a->nranks - 1) * (m->gamma_us + m->beta_us) * part(a))

/* ---- broadcast, reduce */

FORM(broadcast_ring, fmax(out(a, m, a->nbytes) + own_copy(m, a->nbytes),
			  stalls(m, pieces(a, a->nbytes), one_of(a, m, a->nbytes).b) +
			      (a->nranks - 1) * (one_of(a, m, a->nbytes).t + m->host_us) +
			      (pieces(a, a->nbytes) - 1) *
				  (one_of(a, m, a->nbytes).b + (a->nranks > 2 ? m->host_us : 0))))
FORM(broadcast_naive, fmax((a->nranks - 1) * out(a, m, a->nbytes) + own_copy(m, a->nbytes),
			   in_turn(a, m, a->nbytes)))
/* The root sends to log p ranks; the longest way down has as many messages as a rank's number has ones. */
FORM(broadcast_tree,
     log2_up(a->nranks) * out(a, m, a->nbytes) +
	 fmax(own_copy(m, a->nbytes), floor(log2(a->nranks)) * (m->alpha_us + m->host_us)))
FORM(broadcast_scatter_allgather,
     fmax(own_copy(m, a->nbytes), around(a, m, part(a)) + doublings(a, m, 1, part(a))))

static double
reduce_ring(const struct cost_args *a, const struct cost_model *m)
{
	struct one o = one_of(a, m, a->nbytes), on = a->nranks > 2 ? one_wide(a, m, a->nbytes) : o;

	return o.t + o.g + (a->nranks - 2) * (on.t + on.g) + stalls(m, pieces(a, a->nbytes), on.b) +
	       (pieces(a, a->nbytes) - 1) * (a->nranks > 2 ? on.b + on.g : fmax(on.b, on.g));
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
	return (levels - inner) * (leaf.b + leaf.g) + m->alpha_us + inner * (o.t + o.g) +
	       stalls(m, n, o.b) +
	       (n - 1) * ((levels - inner) * fmax(leaf.b, leaf.g) +
			  inner * (o.g > o.b ? o.g + o.b / 2 : o.b));
}

/* ---- allgather, reduce-scatter */

FORM(allgather_ring, around(a, m, part(a)) + m->gamma_us * part(a))
FORM(alltoall_pairwise, all_to_all(a, m, part(a), 0) + m->gamma_us * part(a))
FORM(allgather_naive, in_turn(a, m, part(a)) + in_turn(a, m, a->nbytes))

/* Of 2^k + 1 ranks the last round sends the own part once more, which waits for nothing. */
static double
allgather_bruck(const struct cost_args *a, const struct cost_model *m)
{
	struct cost_args fewer = *a;
	bool again = a->nranks > 2 && ((a->nranks - 1) & (a->nranks - 2)) == 0;

	fewer.nranks -= again;
	return m->gamma_us * (part(a) + a->nbytes) + doublings(&fewer, m, 1, part(a)) +
	       (again ? out(a, m, part(a)) : 0);
}

static double
allgather_recursive_doubling(const struct cost_args *a, const struct cost_model *m)
{
	double us = folds(a) ? move(a, m, part(a)) + move(a, m, a->nbytes) : 0;

	for (uint32_t d = 1; 2 * d <= a->nranks; d *= 2)
		us += move(a, m, (folds(a) ? fmin(2 * d, a->nranks - d) : d) * part(a));
	return us + m->gamma_us * part(a);
}

FORM(reducescatter_ring, parts_round(a, m))
FORM(reducescatter_pairwise, all_to_all(a, m, part(a), m->gamma_us))
FORM(reducescatter_naive, stream(a, m, a->nbytes, a->nranks - 1) + in_turn(a, m, part(a)))
FORM(reducescatter_halving, fold(a, m, part(a)) + reductions(a, m, a->nbytes))

/* ---- the rest */

static double
alltoall_bruck(const struct cost_args *a, const struct cost_model *m)
{
	double us = m->gamma_us * a->nbytes;

	for (uint32_t d = 1; d < a->nranks; d *= 2) {
		uint32_t n = a->nranks / (2 * d) * d, rest = a->nranks % (2 * d);

		double x = (n + (rest > d ? rest - d : 0)) * part(a);

		us += move(a, m, x) + m->gamma_us * x;
	}
	return us;
}

/* Leaves send at the same time: the root's way in, and its work, take one after the other. */
static double
gather_linear(const struct cost_args *a, const struct cost_model *m)
{
	double k = (a->nranks - 1) * pieces(a, part(a));
	double in = m->host_us + (a->nranks - 1) * m->beta_us * part(a);

	return fmax(own_copy(m, part(a)),
		    fmax(in + m->host_us, in / fmax(1, k) + k * m->host_us) + m->alpha_us);
}

FORM(scatter_linear,
     (a->nranks - 1) * out(a, m, part(a)) + fmax(own_copy(m, part(a)), m->alpha_us + m->host_us))
/* Ranks inside copy their own part while that of a leaf is on its way. */
FORM(subtrees, fmax(move(a, m, part(a)), out(a, m, part(a)) + own_copy(m, part(a))) +
		   doublings(a, m, 2, part(a)))
FORM(barrier_dissemination, log2_up(a->nranks) * cost_message_us(m))
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
	ROW(ALLTOALL, "pairwise", alltoall_pairwise, 0),
	ROW(ALLTOALL, "bruck", alltoall_bruck, 0),
	ROW(GATHER, "linear", gather_linear, 0),
	ROW(GATHER, "tree", subtrees, 0),
	ROW(SCATTER, "linear", scatter_linear, 0),
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
