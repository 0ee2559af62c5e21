/*
 * filter.h - run a collective between stdin and stdout.
 *
 * Text: each line is a vector, one rank's input (mem/vectext.h). Raw: elements as they are in
 * memory, ranks one after the other. broadcast and scatter take one vector, the root's.
 *
 * Printed, one line per vector: for allreduce and allgather rank 0's result, for broadcast, reduce
 * and gather the root's; with --all the result of every rank that has one. For reduce-scatter, scatter
 * and alltoall every rank's part, in rank order. NaN propagates, as in IEEE 754.
 *
 * Nothing is printed before all results are in host memory and the devices are free again.
 */
#ifndef GPUCTL_FILTER_H
#define GPUCTL_FILTER_H

#include "ranks.h"

/* Errors: RC_BADDATA no vectors, ragged or unparsable ones, a number of bytes that is not a whole number of
 * vectors; RC_BUSY fewer free devices than vectors, RC_NOTFOUND fewer devices. Leaves nothing on the
 * devices. */
enum rc filter_run(struct cli *cli, enum gpusim_coll coll, const struct args *a, struct err *err);

/* Run a barrier. */
enum rc filter_barrier(struct cli *cli, const struct args *a, struct err *err);

/* filter_stream - run one operation after another until stdin ends: each reads one line, or --count raw
 * elements, for each rank that has input. Writes each result at once, and keeps the devices. */
enum rc filter_stream(struct cli *cli, enum gpusim_coll coll, const struct args *a,
		      struct err *err);

/* filter_vector - a v-variant: allgather, gather, alltoall of lines, or scatter, reduce-scatter into parts,
 * of any length. Errors as of filter_run; RC_INVAL: counts; RC_BADDATA: vectors that do not fit the
 * counts. */
enum rc filter_vector(struct cli *cli, enum gpusim_coll coll, const struct args *a,
		      struct err *err);

/* filter_nranks - the number of ranks for ranks_take, where the input does not determine it. RC_INVAL:
 * neither options nor environment set it. */
enum rc filter_nranks(const struct args *a, uint32_t *nranks, struct err *err);

/* ranks_take of n ranks. */
enum rc filter_take(struct ranks *r, uint32_t nranks, struct err *err);

/* Print vectors as text or raw, by the options. */
enum rc filter_print(const struct args *a, const struct results *r, struct err *err);

#define FILTER_STDIN  "standard input"
#define FILTER_STDOUT "standard output"

#endif
