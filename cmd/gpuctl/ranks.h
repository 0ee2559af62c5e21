/*
 * ranks.h - who does a filter's collectives: a communicator, memory on its devices, and going on when a
 * device is lost, at any moment, from the vectors that the filter keeps.
 *
 * Policies. abort: the first failure is the end. shrink: the ranks that are left go on with their vectors;
 * there is a note. respawn, spare: all ranks go on, with the devices of the same communicator, or, when that
 * is beyond repair or was never there, of a new one, for which devices are waited for. So often, and so long,
 * as RECOVER_MOST and --timeout let it.
 */
#ifndef GPUCTL_RANKS_H
#define GPUCTL_RANKS_H

#include <stdbool.h>

#include "base/buf.h"
#include "cli.h"

/* What ranks have at the end: vectors, one after the other; some may share their place. Initialise with
 * {0}. */
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
	struct gpusim_collective c; /* of the operation at hand */
	size_t size;		    /* bytes of an element */
	enum gpusim_on_failure on_failure;
	char what[64];	/* begins the sentence when devices are too few: "5 vectors" */
	uint32_t want;	/* vectors there are, unless takes_one: ranks there were at first */
	bool takes_one; /* one vector, the root's, however many ranks */
	struct gpusim_comm *comm;
	uint32_t nleft;	  /* ranks that are not lost for good */
	uint32_t *vector; /* by rank: which of the vectors it has */
	uint32_t *was;	  /* room for as many */
	uint64_t *device; /* shrink: those that were free when the communicator was asked for */
	uint64_t *base, *send, *recv; /* addresses by rank */
	uint64_t room_nelem;	      /* for such vectors there are buffers; base NULL: none */
	/* Beginning again, of the operation at hand: */
	int again, anew;
	uint64_t until_ns;
	char told[480]; /* the last note */
};

/* Whether only the root has input. */
bool ranks_take_one(enum gpusim_coll coll);

/* Check the options, all that can be without a communicator. */
enum rc ranks_init(struct ranks *r, struct cli *cli, enum gpusim_coll coll, const struct args *a,
		   struct err *err);

/*
 * ranks_take - have the communicator: --comm's, or one of the moment.
 *
 *	n	ranks; 0: as many as --comm has
 *	what	"5 vectors", "4 ranks"
 */
enum rc ranks_take(struct ranks *r, uint32_t n, const char *what, struct err *err);

/*
 * ranks_do - the operation, on vectors of nelem elements, one after the other, until it succeeds or cannot.
 *
 *	data	the vectors; one for each of r->want, or one alone
 *	spent	NULL, or the buffer that has data: its memory may become that of *out, when no device
 *		is needed to fill it anew
 *	out	[out] the results to be printed; its memory is used again
 */
enum rc ranks_do(struct ranks *r, const char *data, uint64_t nelem, struct buf *spent,
		 struct results *out, struct err *err);

/* Give back what is on the devices, and the devices. rc: what came of it all. */
void ranks_release(struct ranks *r, enum rc rc);

#endif
