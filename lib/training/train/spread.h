/*
 * spread.h - a training that is spread over a grid of ranks (grid/grid.h): its layout, its steps as graphs,
 * and the exchange of its state with the host.
 *
 * A step follows a schedule of the pipeline, action by action, on all ranks of a stage in lockstep. Kernels
 * and the sums of tensor parallelism run on one stream; reductions and gathers of data parallelism on another,
 * concurrently; messages between stages on a stream for each peer and direction, so that a send that waits
 * holds up nothing else.
 */
#ifndef TRAIN_SPREAD_H
#define TRAIN_SPREAD_H

#include "grid/layout.h"
#include "train/task.h"

struct trainer;

/* What a task's options say, for n devices. */
struct spread {
	struct grid grid;
	const struct pipeline *schedule; /* of a step: `made`, or the task's */
	struct pipeline *made, *forward; /* forward: of a test batch */
	uint32_t *units;		 /* by stage */
	struct layout *layout;
};

/* Is a training spread beyond plain data parallelism? */
bool spread_wanted(const struct train_config *c);

/*
 * spread_new - plan a training of n ranks.
 *
 *	global  samples of a step
 *
 * Errors: RC_INVAL, a sentence: what the net or the batch do not allow; RC_FAILED: too few ranks.
 */
enum rc spread_new(const struct task *task, uint32_t n, uint64_t global, struct spread **out,
		   struct err *err);
void spread_free(struct spread *s); /* NULL is legal */

/* Before devices are taken: what spread_new refuses, and a --shard-size that does not divide dp. */
enum rc spread_check(const struct task *task, uint32_t n, uint64_t global, struct err *err);

/* Rows of a test batch on a rank. */
uint64_t spread_test_rows(const struct spread *s);

/* Record a step, moving over whole batches or of an epoch's rest, as lists to be launched one after another; or a test
 * batch of a part, moving, or all that are left. Returns the number of lists, or 0 if more than `most` would be
 * needed; the caller frees them. */
unsigned spread_step(struct trainer *t, bool moving, struct gpusim_ops **lists, unsigned most);
unsigned spread_test(struct trainer *t, unsigned part, bool moving, struct gpusim_ops **lists,
		     unsigned most);

/* A list in which parameters of 16 bits become those of the masters; the caller frees it. */
struct gpusim_ops *spread_narrow(struct trainer *t);

/* Copy all values that training changes from the host's image (weights.c) to the devices, and back. */
enum rc spread_load(struct trainer *t, uint8_t *image, struct err *err);
enum rc spread_fetch(struct trainer *t, uint8_t *image, struct err *err);

#endif
