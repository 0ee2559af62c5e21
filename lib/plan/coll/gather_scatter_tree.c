/*
 * gather_scatter_tree.c - gather up a binomial tree, and scatter down it.
 */
#include "coll/algo.h"

/* The n parts from place `begin` on, as they lie in the vector: two spans, either may be empty. */
static void
subtree(const struct plan_args *a, uint32_t begin, uint32_t n, struct span s[static 2])
{
	parts_around(a, binomial_rank(a, begin), n, s);
}

/*
 * Send the parts of the n places from `begin` on to the step's peer, or receive them: in buf, laid out
 * as in the vector (the root's), or packed from `packed` on.
 */
static void
move(const struct plan_args *a, struct plan *out, uint32_t begin, uint32_t n, enum plan_buf buf,
     const uint64_t *packed, struct plan_step s)
{
	uint64_t at = packed ? *packed : 0;
	struct span part[2];

	s.src = s.dst = (uint8_t)buf;
	subtree(a, begin, n, part);
	for (int i = 0; i < 2; i++) {
		s.src_off = s.dst_off = packed ? at : part[i].off;
		s.count = part[i].count;
		plan_message(a, out, s);
		at += s.count;
	}
}

/* Between a place and its child `d` places on. In scratch the child's parts follow all earlier ones. */
static void
with_child(const struct plan_args *a, const struct binomial *t, uint32_t d, struct plan *out,
	   enum plan_step_kind kind, enum plan_buf root, uint32_t round)
{
	uint32_t child = t->place + d;
	struct span before[2];
	uint64_t packed;

	if (child >= a->nranks)
		return;
	subtree(a, t->place, d, before);
	packed = before[0].count + before[1].count;
	move(a, out, child, binomial_size(a, child, d), t->place ? PLAN_TMP : root,
	     t->place ? &packed : NULL,
	     (struct plan_step){.kind = kind, .peer = binomial_rank(a, child), .round = round});
}

/* Between a place and its parent: a leaf's part is not packed. */
static void
with_parent(const struct plan_args *a, const struct binomial *t, struct plan *out,
	    enum plan_step_kind kind, enum plan_buf leaf, uint32_t round)
{
	uint32_t n = binomial_size(a, t->place, t->reach);

	move(a, out, t->place, n, n > 1 ? PLAN_TMP : leaf, &(uint64_t){0},
	     (struct plan_step){
		 .kind = kind, .peer = binomial_rank(a, t->place - t->reach), .round = round});
}

/* A place inside the tree, which has scratch for its subtree's parts. */
static bool
is_inside(const struct plan_args *a, const struct binomial *t, struct plan *out)
{
	uint32_t n = binomial_size(a, t->place, t->reach);
	struct span all[2];

	if (!t->place || n == 1)
		return false;
	subtree(a, t->place, n, all);
	plan_scratch(out, all[0].count + all[1].count);
	return true;
}

/*
 * plan_gather_tree - append one rank's steps of a binomial tree gather.
 *
 *	a	in[part(rank)] -> out[n] at the root; scratch of the subtree's parts inside the tree
 *	out	[out] appended to
 *
 * Rank root+d has place d. In round k the places whose lowest bit is 2^k send to the one 2^k places
 * before the parts of themselves and of those after them. Parts that lie on both ends of the
 * vector are two messages.
 * Cost of each rank but the root: the parts of its subtree; the root receives n - |part root|.
 * Rounds: D = ceil(log2 p) when every rank has a part.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521
 * Checked by: tests/unit/coll/t_coll_tree.c
 */
void
plan_gather_tree(const struct plan_args *a, struct plan *out)
{
	struct binomial t = binomial_of(a);
	struct span own = part_of(a, a->rank);

	if (is_inside(a, &t, out))
		plan_local(out, step_copy(PLAN_IN, 0, PLAN_TMP, first(own.count), 0));
	else if (!t.place)
		plan_local(out, step_copy(PLAN_IN, 0, PLAN_OUT, own, 0));
	for (uint32_t d = 1; d < t.reach; d *= 2)
		with_child(a, &t, d, out, STEP_RECV, PLAN_OUT, log2_of(d));
	if (t.place)
		with_parent(a, &t, out, STEP_SEND, PLAN_IN, log2_of(t.reach));
}

/*
 * plan_scatter_tree - append one rank's steps of a binomial tree scatter.
 *
 *	a	in[n] at the root -> out[part(rank)]; scratch of the subtree's parts inside the tree
 *	out	[out] appended to
 *
 * Rank root+d has place d. With D = ceil(log2 p), in round k the places that are multiples of
 * 2^(D-k) send to the one 2^(D-1-k) places on the parts of that place and of those after it. Parts that
 * lie on both ends of the vector are two messages. The own part is copied last.
 * Cost of a rank: the parts of each child's subtree; of the root n - |part root| in D messages or
 * more. Rounds: D when every rank has a part.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521
 * Checked by: tests/unit/coll/t_coll_tree.c
 */
void
plan_scatter_tree(const struct plan_args *a, struct plan *out)
{
	struct binomial t = binomial_of(a);
	struct span own = part_of(a, a->rank);
	uint32_t last = t.depth - 1;

	if (t.place)
		with_parent(a, &t, out, STEP_RECV, PLAN_OUT, last - log2_of(t.reach));
	for (uint32_t d = t.reach / 2; d; d /= 2)
		with_child(a, &t, d, out, STEP_SEND, PLAN_IN, last - log2_of(d));
	if (is_inside(a, &t, out))
		plan_local(out, step_copy(PLAN_TMP, 0, PLAN_OUT, first(own.count), last));
	else if (!t.place)
		plan_local(out, step_copy(PLAN_IN, own.off, PLAN_OUT, first(own.count), last));
}
