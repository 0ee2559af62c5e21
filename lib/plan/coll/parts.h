/*
 * parts.h - tables of parts, from counts and displacements: the v-variants of collectives.
 */
#ifndef COLL_PARTS_H
#define COLL_PARTS_H

#include <stdbool.h>

#include "coll/plan.h"

/* Counts and displacements as in MPI, by rank. Without displacements each part follows the one before. */
struct parts_given {
	const uint64_t *count, *displ;
	size_t ncount, ndispl; /* 0: not given */
};

/*
 * parts_take - fill in part, recv_part and nelem of the rank *a.
 *
 *	recv	alltoall: of the blocks that the rank receives; others: empty
 *	*mem	[out] the tables, the caller's to free(3); NULL if no counts are given: *a is then unchanged
 *
 * RC_INVAL: not one count per rank; sums too large; displacements without counts, or in reduce-scatter;
 * overlapping parts that are written; a collective without parts. RC_NOMEM.
 */
enum rc parts_take(struct plan_args *a, const struct parts_given *given,
		   const struct parts_given *recv, struct plan_part **mem, struct err *err);

/*
 * parts_take_all - as parts_take, for all ranks of *all.
 *
 *	count	by rank; alltoall: [from][to]
 *	displ	NULL, or as count
 *	recv_displ	NULL, or of alltoall [to][from]
 */
enum rc parts_take_all(struct plan_args *all, const uint64_t *count, const uint64_t *displ,
		       const uint64_t *recv_displ, struct plan_part **mem, struct err *err);

/* Return true if each part begins where the one before ends, the first at 0. */
bool parts_packed(const struct plan_part *part, uint32_t n);

/* The end of the last part. */
uint64_t parts_end(const struct plan_part *part, uint32_t n);

/* Check the tables of one rank's arguments. RC_INVAL. */
enum rc parts_check(const struct plan_args *a, struct err *err);

#endif
