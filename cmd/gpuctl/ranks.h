/*
 * ranks.h - the ranks of a filter: a communicator, memory on its devices, and recovery from the filter's
 * own vectors when a device is lost.
 *
 * Policies. abort: the first failure ends the filter. shrink: the ranks that are left continue with their
 * vectors, and a note is printed. respawn, spare: all ranks continue, with the same communicator, or with a
 * new one if that failed permanently or was never made; the filter waits for devices. RECOVER_MOST and
 * --timeout bound the recoveries of an operation.
 */
#ifndef GPUCTL_RANKS_H
#define GPUCTL_RANKS_H

#include <stdbool.h>

#include "base/buf.h"
#include "coll/plan.h"
#include "coll/shape.h"
#include "cli.h"

/* The results: vectors, one after another; equal ones may share their bytes. Initialise with {0}. */
struct results {
	struct buf data;
	struct result {
		size_t at; /* in data */
		uint64_t nelem;
	} * v;
	size_t n;
};

void results_fini(struct results *r);

/* Initialise with ranks_init. */
struct ranks {
	struct cli *cli;
	const struct args *a;
	struct gpusim_collective c; /* the present operation */
	size_t size;		    /* bytes of an element */
	enum gpusim_on_failure on_failure;
	char what[64];	/* begins the message if devices are too few: "5 vectors" */
	uint32_t want;	/* number of vectors, unless takes_one: of ranks at first */
	bool takes_one; /* one vector, the root's, for any number of ranks */
	struct gpusim_comm *comm;
	uint32_t nleft;	  /* ranks that are not lost permanently */
	uint32_t *vector; /* by rank: the index of its vector */
	uint32_t *was;	  /* by rank: its rank before a recovery */
	/* shrink: the devices free when the communicator was requested */
	struct gpusim_device *device;
	struct gpusim_addr *base, *send, *recv; /* by rank */
	/* v-variants, or NULL: the caller's counts as in gpusim_collective, by vector, and offsets of the
	 * vectors in the data, with one more for the end. Set before ranks_do, whose nelem then counts all
	 * vectors' elements. */
	const uint64_t *counts, *begin;
	uint64_t *now; /* counts for the present ranks */
	struct plan_part *parts;
	struct plan_args all;  /* with those parts */
	void *factor, *scalar; /* of premulsum: by vector, and by rank; or NULL */
	uint64_t room_nelem;   /* elements that the buffers have room for; 0: no buffers */
	/* Recoveries of the present operation: */
	int again, anew;
	uint64_t until_ns;
	char told[480]; /* the last note */
};

/* Return true if only the root has input. */
bool ranks_take_one(enum gpusim_coll coll);

/* Check all options that can be checked without a communicator. */
enum rc ranks_init(struct ranks *r, struct cli *cli, enum gpusim_coll coll, const struct args *a,
		   struct err *err);

/*
 * ranks_take - open the communicator of --comm, or make one.
 *
 *	n	ranks; 0: as many as --comm has
 *	what	"5 vectors", "4 ranks"
 */
enum rc ranks_take(struct ranks *r, uint32_t n, const char *what, struct err *err);

/*
 * ranks_do - run the operation on vectors of nelem elements, one after another, until it succeeds or cannot.
 *
 *	data	the vectors; one for each of r->want, or a single one
 *	spent	NULL, or the buffer that has data: *out may take over its memory if no device needs the data
 *	out	[out] the results to print; reuses its memory
 */
enum rc ranks_do(struct ranks *r, const char *data, uint64_t nelem, struct buf *spent,
		 struct results *out, struct err *err);

/* The elements that rank i reads and writes in the present operation. */
static inline struct shape
ranks_shape(const struct ranks *r, uint32_t i)
{
	struct plan_args mine;

	if (!r->counts)
		return shape_of(r->c.coll, r->c.nelem, gpusim_comm_count(r->comm), r->c.root, i);
	plan_args_of(&r->all, i, &mine);
	return shape_of_args(&mine);
}

/* Free the memory on the devices, and the devices. rc: the result of the verb. */
void ranks_release(struct ranks *r, enum rc rc);

#endif
