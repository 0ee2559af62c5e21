/*
 * leaves.h - gradients whose bits do not depend on the division of the work.
 *
 * A step's images are cut into leaves of a fixed size; the last one has the rest. A leaf's gradient is
 * computed by itself: by one thread, by products whose shapes depend on the leaf alone, with batch norm by
 * the leaf's own moments. So it has the same bits on every device. The gradients of leaves are added up in
 * fixed point, which is exact. So their sum has the same bits whatever devices compute the leaves, and
 * whatever method, algorithm, transport and buckets add the devices' sums.
 *
 * An element is below 2^50 units in each leaf, and a step has at most LEAVES_MAX leaves, so no sum
 * overflows. An element that is larger or not finite ends the launch with RC_BADDATA: each device
 * finds it in the same leaf.
 */
#ifndef TRAIN_LEAVES_H
#define TRAIN_LEAVES_H

#include "train/task.h"

#define LEAVES_MAX	   4096
#define LEAVES_SCALE	   0x1p32 /* units of 1 of a gradient: errors of at most 2^-33, below 2^18 */
#define LEAVES_STATS_SCALE 0x1p28 /* of a batch norm's moments, a sample */
#define LEAVES_LOSS_SCALE  0x1p20 /* of a loss: a sum of units is then also exact as a double */

struct batch;
struct replica;
struct shape;

/* RC_INVAL: a step of `global` samples has too many leaves. RC_OK for a training that is not
 * deterministic. */
enum rc leaves_check(const struct task *task, uint64_t global, struct err *err);

/* The number of integers of the sums: all values of the net, parameters then batch norm's
 * statistics; then the loss. */
static inline uint64_t
leaves_elements(const struct task *task)
{
	return task_values(task) + 1;
}

/* The number of leaves of some samples. */
static inline uint64_t
leaves_count(uint64_t rows, uint32_t leaf)
{
	return (rows + leaf - 1) / leaf;
}

/* Leaves [first, end) of a rank's batch; leaf 0 resets the sums, also if the batch is empty. */
struct leaves_range {
	uint64_t first, end;
};

/* Emit: the gradients of some leaves are added to the replica's sums. */
void leaves_sum(const struct emit_sink *sink, uint32_t rank, const struct replica *r,
		const struct shape *s, const struct batch *b, struct leaves_range which);

/* Emit: gradients, statistics and the batch's entry of the losses become the values in the sums of
 * all ranks. total: the samples of all ranks. */
void leaves_take(const struct emit_sink *sink, uint32_t rank, const struct replica *r,
		 const struct shape *s, const struct batch *b, uint64_t total);

/* The number of leaves of each of nranks ranks that a graph holds together with the rest of a step;
 * at least 1. */
uint64_t leaves_each(const struct replica *r, const struct shape *s, uint32_t nranks);

#endif
