/*
 * filter.h - a collective between stdin and stdout.
 *
 * Text: one line is one vector is one rank's input (mem/vectext.h). Raw: elements as they are in
 * memory, ranks one after the other. broadcast and scatter take one vector, the root's.
 *
 * Printed, one line a vector: for allreduce and allgather rank 0's result, for broadcast, reduce
 * and gather the root's; with --all every rank's that has one. Of reduce-scatter, scatter and
 * alltoall every rank's part, in rank order. NaN goes through, as IEEE 754 has it.
 *
 * Nothing is printed before all of it is here and the devices are free again.
 */
#ifndef GPUCTL_FILTER_H
#define GPUCTL_FILTER_H

#include "ranks.h"

/* Errors: RC_BADDATA no vectors, ragged or unparsable ones, a number of bytes that is no whole number of
 * vectors; RC_BUSY fewer free devices than vectors, RC_NOTFOUND fewer devices. Leaves nothing on the
 * devices. */
enum rc filter_run(struct cli *cli, enum gpusim_coll coll, const struct args *a, struct err *err);

/* Return when every rank has arrived; moves no data. */
enum rc filter_barrier(struct cli *cli, const struct args *a, struct err *err);

/* filter_stream - one operation after the other, until stdin ends: each of as many lines, or of --count raw
 * elements for each rank, as it takes. Writes each result at once, and keeps the devices. */
enum rc filter_stream(struct cli *cli, enum gpusim_coll coll, const struct args *a,
		      struct err *err);

/* filter_vector - a v-variant: allgather, gather, alltoall of lines of any length; scatter, reduce-scatter into
 * parts of any length. Errors as of filter_run; RC_INVAL: counts, RC_BADDATA: vectors that do not fit them. */
enum rc filter_vector(struct cli *cli, enum gpusim_coll coll, const struct args *a,
		      struct err *err);

/* filter_nranks - the number of ranks for ranks_take, where the input does not tell it. RC_INVAL: neither
 * options nor environment do. */
enum rc filter_nranks(const struct args *a, uint32_t *nranks, struct err *err);

/* ranks_take of n ranks. */
enum rc filter_take(struct ranks *r, uint32_t nranks, struct err *err);

/* Print vectors as text or raw, by the options. */
enum rc filter_print(const struct args *a, const struct results *r, struct err *err);

#define FILTER_STDIN  "standard input"
#define FILTER_STDOUT "standard output"

#endif
