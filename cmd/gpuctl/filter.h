/*
 * filter.h - a collective between stdin and stdout.
 *
 * Text: one line is one vector is one rank's input (mem/vectext.h). Raw: elements as they are in
 * memory, ranks one after the other. broadcast and scatter take one vector, the root's.
 *
 * Printed, one line a vector: for allreduce and allgather rank 0's result, for broadcast, reduce
 * and gather the root's; with --all every rank's that has one. Of reduce-scatter, scatter and
 * alltoall every rank's part, in rank order. NaN goes through, as IEEE 754 has it.
 */
#ifndef GPUCTL_FILTER_H
#define GPUCTL_FILTER_H

#include "cli.h"

/*
 * Errors: RC_BADDATA no vectors, ragged or unparsable ones, a number of bytes that is no whole
 * number of vectors; RC_BUSY fewer free devices than vectors, RC_NOTFOUND fewer devices. Nothing stays behind on the
 * devices.
 */
enum rc filter_run(struct cli *cli, enum gpusim_coll coll, const struct args *a, struct err *err);

/*
 * filter_nranks - how many ranks, where the input does not tell; what filter_comm takes. RC_INVAL:
 * neither options nor environment say.
 */
enum rc filter_nranks(const struct args *a, uint32_t *nranks, struct err *err);

/*
 * filter_comm - the communicator to work on: --comm's, which has nranks unless that is 0, or one over
 * nranks free devices that the caller destroys.
 */
enum rc filter_comm(struct cli *cli, const struct args *a, uint32_t nranks, struct gpusim_comm *out,
		    struct err *err);

#endif
