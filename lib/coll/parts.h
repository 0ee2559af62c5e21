/*
 * parts.h - tables of parts, from counts and displacements: the v-variants of collectives.
 */
#ifndef COLL_PARTS_H
#define COLL_PARTS_H

#include <stdbool.h>

#include "coll/plan.h"

/* Counts and displacements as MPI has them, by rank; no displacements: each part behind the one before. */
struct parts_given {
	const uint64_t *count, *displ;
	size_t ncount, ndispl; /* 0: not given */
};

/*
 * parts_take - fill in part, recv_part and nelem of the rank *a.
 *
 *	recv	alltoall: of the blocks that the rank receives; others: nothing is given
 *	*mem	[out] the tables, the caller's to free(3); NULL when no counts are given, and then *a is as it was
 *
 * RC_INVAL: not a count a rank; sums too large; displacements without counts, in reduce-scatter, or of parts that are
 * written and overlap; a collective without parts. RC_NOMEM.
 */
enum rc parts_take(struct plan_args *a, const struct parts_given *given,
		   const struct parts_given *recv, struct plan_part **mem, struct err *err);

/*
 * parts_take_all - the same for all ranks of *all.
 *
 *	count	by rank; alltoall: [from][to]
 *	displ	NULL, or as count
 *	recv_displ	NULL, or of alltoall [to][from]
 */
enum rc parts_take_all(struct plan_args *all, const uint64_t *count, const uint64_t *displ,
		       const uint64_t *recv_displ, struct plan_part **mem, struct err *err);

/* Whether the collective has parts, and so a v-variant. */
bool coll_has_parts(enum gpusim_coll coll);

/* Whether each part begins where the one before ends, the first at 0. */
bool parts_packed(const struct plan_part *part, uint32_t n);

/* Where the last of them ends. */
uint64_t parts_end(const struct plan_part *part, uint32_t n);

/* Whether the tables of one rank's arguments are legal; RC_INVAL. */
enum rc parts_check(const struct plan_args *a, struct err *err);

#endif
