/*
 * allreduce_tree.c - two binary trees, each of which carries half of the vector.
 */
#include "coll/algo.h"

/* A rank's neighbours in one tree; NONE: it has no such neighbour. */
#define NONE UINT32_MAX
struct node {
	uint32_t parent, child[2];
	uint32_t up, down; /* message c passes here in round c + up, and c + down */
	struct span half;
};

/*
 * The tree over places 0..p-1 in order: place x with lowest bit b has the parent x-b+2b (with its
 * bit 2b set), or x-b when that is beyond the last; children x-b/2 and the nearest of x+b/2, x+b/4
 * ... that exists. Place 0 is the root, over the largest power of two. Odd places are leaves.
 */
static void
find_neighbours(uint32_t p, uint32_t x, struct node *n)
{
	uint32_t b = x & -x, up;

	n->parent = n->child[0] = n->child[1] = NONE;
	if (!x) {
		for (b = 1; b < p; b *= 2)
			n->child[0] = b;
		return;
	}
	up = (x - b) | 2 * b;
	n->parent = up < p ? up : x - b;
	if (b == 1)
		return;
	n->child[0] = x - b / 2;
	for (b /= 2; b && x + b >= p; b /= 2)
		continue;
	if (b)
		n->child[1] = x + b;
}

/* The rounds of messages. The tree has height H = ceil(log2 p). On the way up a rank at depth d does
 * message c in round c + H-1-d, one after its children, but a leaf in the round of its parent; so no
 * rank has to be ahead of another by more than one message, which a window of 1 allows. On the way down
 * it does so in round c + d, a leaf again in the round of its parent.
 */
static void
find_rounds(uint32_t p, uint32_t x, struct node *n)
{
	uint32_t height = 0, depth = 0;
	struct node at;

	while (1u << height < p)
		height++;
	for (; x; x = at.parent, depth++)
		find_neighbours(p, x, &at);
	if (n->child[0] == NONE)
		depth--;
	n->up = height - 1 - depth;
	n->down = depth;
}

/* The rank at a place of tree t: the second tree is the first in reverse, or, when p is odd, shifted by
 * one place. */
static uint32_t
rank_at(uint32_t p, int t, uint32_t place)
{
	if (t == 0 || place == NONE)
		return place;
	return p % 2 ? (place + 1) % p : p - 1 - place;
}

static void
node_init(const struct plan_args *a, int t, struct node *n)
{
	uint32_t p = a->nranks, place = a->rank;
	struct span first = {0, a->nelem / 2};

	if (t)
		place = p % 2 ? (a->rank + p - 1) % p : p - 1 - a->rank;
	find_neighbours(p, place, n);
	find_rounds(p, place, n);
	n->parent = rank_at(p, t, n->parent);
	n->child[0] = rank_at(p, t, n->child[0]);
	n->child[1] = rank_at(p, t, n->child[1]);
	n->half = t ? (struct span){first.count, a->nelem - first.count} : first;
}

static bool
is_leaf(const struct node *n)
{
	return n->child[0] == NONE;
}

/* A rank's steps in one round of the way up: from the children and to the parent. */
static void
up(const struct plan_args *a, const struct node *n, struct plan *out, uint32_t round)
{
	uint64_t c = round - n->up;

	if (round < n->up)
		return;
	for (int i = 0; i < 2; i++)
		if (n->child[i] != NONE)
			plan_nth_local(a, out, c,
				       step_reduce(i ? PLAN_OUT : PLAN_IN, n->half.off, PLAN_OUT,
						   n->half, n->child[i], round));
	plan_nth_local(a, out, c,
		       n->parent == NONE
			   ? step_finish(PLAN_OUT, n->half, round)
			   : step_send(is_leaf(n) ? PLAN_IN : PLAN_OUT, n->half, n->parent, round));
}

/* A rank's steps in one round of the way down, which begins in round `begin`: from the parent and to
 * the children. */
static void
down(const struct plan_args *a, const struct node *n, struct plan *out, uint32_t begin,
     uint32_t round)
{
	uint64_t c = round - n->down;

	if (round < n->down)
		return;
	if (n->parent != NONE)
		plan_nth_local(a, out, c, step_recv(PLAN_OUT, n->half, n->parent, begin + round));
	for (int i = 0; i < 2; i++)
		if (n->child[i] != NONE)
			plan_nth_local(a, out, c,
				       step_send(PLAN_OUT, n->half, n->child[i], begin + round));
}

/*
 * plan_allreduce_tree - append one rank's steps of a double binary tree allreduce.
 *
 *	a	in[n] -> out[n]; no scratch
 *	out	[out] appended to
 *
 * Two binary trees of height about log2 p over all ranks; the leaves of one are inside the other
 * (but for rank 0 when p is odd, which is inside both), so each rank's link is used both ways. The
 * first tree carries elements [0, n/2), the second the rest, in messages of at most `chunk`, one after
 * the other: up to the root, where each rank adds its own, then down again. In a round of the first phase a
 * rank first sends as a leaf, in a round of the second it receives as a leaf last; so there is no cycle of
 * waiting ranks. A result that comes down to a range has passed the parent, to which the range was posted.
 * Cost of a rank: as a leaf its half up; inside, the other half up and down to each child, so 2n
 * elements at most (2.5n for rank 0 of an odd p). All ranks together: 2n(p-1). Messages: of each
 * half m = ceil(half / chunk) (1 when chunk is 0). Rounds: 2(m + ceil(log2 p) - 1), with the larger
 * half's m.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Sanders, Speck & Traeff, Parallel Computing 35(12), 2009, doi:10.1016/j.parco.2009.09.001
 * Checked by: tests/unit/coll/t_coll_tree.c
 */
void
plan_allreduce_tree(const struct plan_args *a, struct plan *out)
{
	struct node tree[2];
	uint64_t m = plan_nmessages(a->nelem - a->nelem / 2, a->chunk);
	uint32_t rounds;
	int lead;

	if (m > PLAN_MAX_STEPS) {
		plan_fail(out, RC_INVAL);
		return;
	}
	for (rounds = (uint32_t)m - 1; 1u << (rounds + 1 - m) < a->nranks; rounds++)
		continue;
	node_init(a, 0, &tree[0]);
	node_init(a, 1, &tree[1]);
	lead = is_leaf(&tree[1]);
	for (uint32_t t = 0; t < rounds && !out->rc; t++) {
		up(a, &tree[lead], out, t);
		up(a, &tree[!lead], out, t);
	}
	for (uint32_t t = 0; t < rounds && !out->rc; t++) {
		down(a, &tree[!lead], out, rounds, t);
		down(a, &tree[lead], out, rounds, t);
	}
}
