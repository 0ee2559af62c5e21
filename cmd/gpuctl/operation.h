/*
 * operation.h - a collective, send or recv on existing buffers, from a verb's options.
 */
#ifndef GPUCTL_OPERATION_H
#define GPUCTL_OPERATION_H

#include "args.h"
#include "base/rc.h"
#include "cli.h"
#include "gpusim.h"

/* Initialise with {0}; operation_fini releases. c borrows from the arguments it was made of. */
struct operation {
	struct gpusim_collective c;
	struct gpusim_addr *send, *recv;
	void *scalar;
	uint64_t *counts, *displs, *recv_displs;
};

/*
 * operation_common - set the fields that need no buffer: type, reduction, algorithm, root, stream, chunk.
 *
 * Checks them, so that a mistake is reported before anything is moved.
 */
enum rc operation_common(enum gpusim_coll coll, const struct args *a, uint32_t nranks,
			 struct gpusim_collective *c, struct err *err);

/* Check that the collective has an algorithm of that name; NULL, "" and "auto" are the tuner's choice.
 * RC_INVAL lists the names. */
enum rc operation_algo(enum gpusim_coll coll, const char *name, struct err *err);

/*
 * operation_scalars - parse the factors of --scalar into nranks elements of the type.
 *
 *	out	[out] the caller's to free(3); NULL when the operation is not a premulsum
 *
 * RC_INVAL: not numbers of the type, or neither one nor nranks of them.
 */
enum rc operation_scalars(const struct gpusim_collective *c, const struct args *a, uint32_t nranks,
			  void **out, struct err *err);

/*
 * operation_make - make an operation on comm from the options a, and check all that needs no devices.
 *
 * RC_INVAL: counts, addresses, root, peer, algorithm. *out is untouched on failure.
 */
enum rc operation_make(enum gpusim_coll coll, const struct args *a, struct gpusim_comm *comm,
		       struct operation *out, struct err *err);

/* Parse n addresses, separated by commas. The caller frees *out. RC_INVAL: not n, or not numbers. */
enum rc operation_addrs(const char *option, const char *text, uint32_t n, struct gpusim_addr **out,
			struct err *err);

void operation_fini(struct operation *o);

/* Make an operation and submit it; with --async return at once. */
enum rc operation_run(enum gpusim_coll coll, const struct args *a, struct gpusim_comm *comm,
		      struct err *err);

#endif
