/*
 * cost.c - the closed forms, each from its algorithm's comment.
 *
 * tests/unit/t_simulate.c holds them against plan_simulate. Exact where p is a power of two that
 * divides n; else close. The two for shared memory have no messages: reading a peer's memory costs
 * beta a byte and reducing from it gamma; a point where all wait for all costs a quarter of a
 * message for each of them.
 */
#include "coll/cost.h"

#include <math.h>
#include <string.h>

/* Messages that x bytes take. */
static double
pieces(const struct cost_args *a, double x)
{
	return x > 0 ? fmax(1, ceil(x / a->chunk_bytes)) : 0;
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

/* Message after message of x bytes in all, `times` over, comes and is reduced meanwhile. */
static double
stream(const struct cost_args *a, const struct cost_model *m, double x, double times)
{
	double n = pieces(a, x), c = x / n, t = m->alpha_us + m->beta_us * c, g = m->gamma_us * c;

	return t + (n * times - 1) * fmax(t, g) + g;
}

static double
log2_up(uint32_t p)
{
	return ceil(log2(p));
}

/* Half of x, a quarter, ... of a power of two of the ranks. */
static double
halvings(const struct cost_args *a, const struct cost_model *m, double x, bool reduce)
{
	double us = 0;

	for (uint32_t d = 2; d <= a->nranks; d *= 2)
		us += reduce ? combine(a, m, x / d) : move(a, m, x / d);
	return us;
}

static bool
folds(const struct cost_args *a)
{
	return (a->nranks & (a->nranks - 1)) != 0;
}

static double
part(const struct cost_args *a)
{
	return a->nbytes / a->nranks;
}

/* ---- allreduce */

static double
allreduce_ring(const struct cost_args *a, const struct cost_model *m)
{
	return (a->nranks - 1) * (combine(a, m, part(a)) + move(a, m, part(a)));
}

static double
allreduce_ring_chunked(const struct cost_args *a, const struct cost_model *m)
{
	struct cost_args slice = *a;
	double k = fmax(1, ceil(part(a) / a->chunk_bytes));

	slice.nbytes = a->nbytes / k;
	return k * allreduce_ring(&slice, m);
}

static double
allreduce_naive(const struct cost_args *a, const struct cost_model *m)
{
	return stream(a, m, a->nbytes, a->nranks - 1) + (a->nranks - 1) * move(a, m, a->nbytes);
}

static double
allreduce_halving_doubling(const struct cost_args *a, const struct cost_model *m)
{
	double fold = folds(a) ? stream(a, m, a->nbytes, 1) + move(a, m, a->nbytes) : 0;

	return fold + halvings(a, m, a->nbytes, true) + halvings(a, m, a->nbytes, false);
}

static double
allreduce_recursive_doubling(const struct cost_args *a, const struct cost_model *m)
{
	double first =
	    folds(a) ? stream(a, m, a->nbytes, 1) + move(a, m, a->nbytes) : m->gamma_us * a->nbytes;

	return first + floor(log2(a->nranks)) * combine(a, m, a->nbytes);
}

/*
 * On the way up and down again a message passes twice at each level but one, for a node has two
 * children. Behind it a rank has 2 messages in and 2 out for each that follows; with three levels
 * or more some wait, which the simulation puts at 2/3 of a message.
 */
static double
allreduce_tree(const struct cost_args *a, const struct cost_model *m)
{
	double half = a->nbytes / 2, n = pieces(a, half), c = half / n;
	double t = m->alpha_us + m->beta_us * c, g = m->gamma_us * c, levels = log2(a->nranks);

	if (a->nranks == 2)
		return n * (2 * t + g);
	return (4 * levels - 2) * t + (2 * levels - 1) * g +
	       (n - 1) * ((a->nranks > 4 ? 14.0 / 3 : 4) * t + 2 * g);
}

static double
sync_all(const struct cost_args *a, const struct cost_model *m)
{
	return a->nranks * m->alpha_us / 4;
}

static double
allreduce_oneshot(const struct cost_args *a, const struct cost_model *m)
{
	return sync_all(a, m) + a->nranks * m->gamma_us * a->nbytes;
}

static double
allreduce_twoshot(const struct cost_args *a, const struct cost_model *m)
{
	return 2 * sync_all(a, m) + (a->nranks - 1) * (m->gamma_us + m->beta_us) * part(a);
}

/* ---- broadcast, reduce */

/* The root has posted everything, and copies its vector while it is on its way. */
static double
own_copy(const struct cost_args *a, const struct cost_model *m)
{
	return m->gamma_us * a->nbytes;
}

static double
broadcast_ring(const struct cost_args *a, const struct cost_model *m)
{
	double n = pieces(a, a->nbytes);

	return fmax(own_copy(a, m),
		    (a->nranks - 2 + n) * (m->alpha_us + m->beta_us * a->nbytes / n));
}

static double
broadcast_naive(const struct cost_args *a, const struct cost_model *m)
{
	return fmax(own_copy(a, m), (a->nranks - 1) * move(a, m, a->nbytes));
}

static double
broadcast_tree(const struct cost_args *a, const struct cost_model *m)
{
	return fmax(own_copy(a, m), log2_up(a->nranks) * move(a, m, a->nbytes));
}

static double
broadcast_scatter_allgather(const struct cost_args *a, const struct cost_model *m)
{
	double us = (a->nranks - 1) * move(a, m, part(a));

	for (uint32_t d = 1; d < a->nranks; d *= 2)
		us += move(a, m, fmin(d, a->nranks - d) * part(a));
	return fmax(own_copy(a, m), us);
}

static double
reduce_ring(const struct cost_args *a, const struct cost_model *m)
{
	double n = pieces(a, a->nbytes), c = a->nbytes / n;
	double t = m->alpha_us + m->beta_us * c, g = m->gamma_us * c;

	return (a->nranks - 1) * (t + g) + (n - 1) * fmax(t, g);
}

static double
reduce_naive(const struct cost_args *a, const struct cost_model *m)
{
	return stream(a, m, a->nbytes, a->nranks - 1);
}

static double
reduce_tree(const struct cost_args *a, const struct cost_model *m)
{
	double n = pieces(a, a->nbytes), c = a->nbytes / n;
	double t = m->alpha_us + m->beta_us * c, g = m->gamma_us * c;

	if (a->nranks == 2)
		return stream(a, m, a->nbytes, 1);
	return log2_up(a->nranks) * (t + g + (n - 1) * (g > t ? g + t / 2 : t));
}

/* ---- allgather, reduce-scatter */

static double
allgather_ring(const struct cost_args *a, const struct cost_model *m)
{
	return (a->nranks - 1) * move(a, m, part(a)) + m->gamma_us * part(a);
}

static double
allgather_naive(const struct cost_args *a, const struct cost_model *m)
{
	return (a->nranks - 1) * (move(a, m, part(a)) + move(a, m, a->nbytes));
}

static double
allgather_bruck(const struct cost_args *a, const struct cost_model *m)
{
	double us = m->gamma_us * (part(a) + a->nbytes);

	for (uint32_t d = 1; d < a->nranks; d *= 2)
		us += move(a, m, fmin(d, a->nranks - d) * part(a));
	return us;
}

static double
allgather_recursive_doubling(const struct cost_args *a, const struct cost_model *m)
{
	double us = folds(a) ? move(a, m, part(a)) + move(a, m, a->nbytes) : 0;

	for (uint32_t d = 1; 2 * d <= a->nranks; d *= 2)
		us += move(a, m, (folds(a) ? fmin(2 * d, a->nranks - d) : d) * part(a));
	return us + m->gamma_us * part(a);
}

static double
reducescatter_ring(const struct cost_args *a, const struct cost_model *m)
{
	return (a->nranks - 1) * combine(a, m, part(a));
}

static double
reducescatter_naive(const struct cost_args *a, const struct cost_model *m)
{
	return stream(a, m, a->nbytes, a->nranks - 1) + (a->nranks - 1) * move(a, m, part(a));
}

static double
reducescatter_halving(const struct cost_args *a, const struct cost_model *m)
{
	double fold = folds(a) ? stream(a, m, a->nbytes, 1) + move(a, m, part(a)) : 0;

	return fold + halvings(a, m, a->nbytes, true);
}

/* ---- the rest */

static double
alltoall_pairwise(const struct cost_args *a, const struct cost_model *m)
{
	return (a->nranks - 1) * move(a, m, part(a)) + m->gamma_us * part(a);
}

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

static double
linear(const struct cost_args *a, const struct cost_model *m)
{
	return fmax(m->gamma_us * part(a), (a->nranks - 1) * move(a, m, part(a)));
}

/* Subtrees of 1, 2, 4 ... parts, the last as many as there are. Ranks inside copy their own while
 * that of a leaf is on its way. */
static double
subtrees(const struct cost_args *a, const struct cost_model *m)
{
	double us = fmax(move(a, m, part(a)), m->gamma_us * part(a));

	for (uint32_t d = 2; d < a->nranks; d *= 2)
		us += move(a, m, fmin(d, a->nranks - d) * part(a));
	return us;
}

static double
barrier_dissemination(const struct cost_args *a, const struct cost_model *m)
{
	return log2_up(a->nranks) * m->alpha_us;
}

static double
transfer(const struct cost_args *a, const struct cost_model *m)
{
	return move(a, m, a->nbytes);
}

enum { SHARED = 1, PIPELINED = 2, SLOW = 4 };
#define ROW(coll, name, us, flags)                                                    \
	{                                                                             \
		GPUSIM_##coll, name, ((flags)&SHARED) != 0, ((flags)&PIPELINED) != 0, \
		    ((flags)&SLOW) != 0, us                                           \
	}

/* clang-format off */
const struct cost_algo cost_algos[] = {
	ROW(ALLREDUCE, "twoshot", allreduce_twoshot, SHARED),
	ROW(ALLREDUCE, "oneshot", allreduce_oneshot, SHARED),
	ROW(ALLREDUCE, "halving-doubling", allreduce_halving_doubling, 0),
	ROW(ALLREDUCE, "ring-chunked", allreduce_ring_chunked, 0),
	ROW(ALLREDUCE, "ring", allreduce_ring, 0),
	ROW(ALLREDUCE, "recursive-doubling", allreduce_recursive_doubling, 0),
	ROW(ALLREDUCE, "tree", allreduce_tree, PIPELINED),
	ROW(ALLREDUCE, "naive", allreduce_naive, SLOW),
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
	ROW(REDUCESCATTER, "pairwise", reducescatter_ring, 0),
	ROW(REDUCESCATTER, "halving", reducescatter_halving, 0),
	ROW(REDUCESCATTER, "naive", reducescatter_naive, SLOW),
	ROW(ALLTOALL, "pairwise", alltoall_pairwise, 0),
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

const struct cost_algo *
cost_find(enum gpusim_coll coll, const char *name)
{
	const struct cost_algo *row = cost_algos;

	while (row->name && (row->coll != coll || strcmp(row->name, name) != 0))
		row++;
	return row->name ? row : NULL;
}
