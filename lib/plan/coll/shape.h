/*
 * shape.h - the elements of a collective's vector that each rank reads and writes, and their places if
 * both are in one buffer. lib/plan/coll/plan.h defines the collectives.
 */
#ifndef COLL_SHAPE_H
#define COLL_SHAPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "coll/plan.h"

struct shape {
	uint64_t in, out;	/* elements the rank reads, writes */
	uint64_t whole;		/* elements of one buffer for both */
	uint64_t in_at, out_at; /* their offsets in it */
};

/* nelem is the whole vector's; root is the peer for send and recv. */
struct shape shape_of(enum gpusim_coll coll, uint64_t nelem, uint32_t nranks, uint32_t root,
		      uint32_t rank);

/* The shape of one rank's arguments, which may have a table of parts. */
struct shape shape_of_args(const struct plan_args *a);

/*
 * shape_place - check the addresses of the rank's buffers.
 *
 * They must not overlap, or be in place: both where `whole` has them. RC_INVAL.
 */
enum rc shape_place(const struct shape *s, uint64_t in, uint64_t out, size_t elem, struct err *err);

/* Output elements [at, at + nelem) of a rank are elements [off, ...) of a rank's input, or of the reduction
 * of all inputs. */
struct shape_source {
	uint32_t rank; /* or SHAPE_REDUCED */
	uint64_t at, off, nelem;
};
#define SHAPE_REDUCED UINT32_MAX

/* The i-th source of a rank's output, for even parts; false: no more. Of send: nothing; recv: the peer. */
bool shape_source(const struct plan_args *a, uint32_t i, struct shape_source *s);

/* nelem of an operation of NCCL's `count`, which is of one part where ranks have parts; RC_INVAL when it
 * overflows. */
enum rc shape_nelem(enum gpusim_coll coll, uint64_t count, uint32_t nranks, uint64_t *nelem,
		    struct err *err);

#endif
