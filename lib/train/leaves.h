/*
 * leaves.h - gradients whose bits do not depend on who computes what.
 *
 * A step's images are cut into leaves of a fixed size; the last one has the rest. A leaf's gradient is computed by
 * itself: by one thread, by products whose shapes depend on the leaf alone, with batch norm by the leaf's own moments.
 * So it has the same bits on every device. The gradients of leaves are added up in fixed point, which is exact. So
 * their sum has the same bits however leaves are dealt to devices, and by whichever way, algorithm, transport and
 * bucket the devices' sums are added.
 *
 * An element is below 2^50 units in each leaf, and a step has at most LEAVES_MAX leaves: then no sum overflows. A
 * larger one, or one that is not finite, ends the launch with RC_BADDATA: each device finds it in the same leaf.
 */
#ifndef TRAIN_LEAVES_H
#define TRAIN_LEAVES_H

#include "train/task.h"

#define LEAVES_MAX	   4096
#define LEAVES_SCALE	   0x1p32 /* units of 1 of a gradient: to 2^-33 rightly, below 2^18 */
#define LEAVES_STATS_SCALE 0x1p28 /* of a batch norm's moments, a sample */
#define LEAVES_LOSS_SCALE  0x1p20 /* of a loss: a sum of units is then also exact as a double */

struct batch;
struct replica;
struct shape;

/* RC_INVAL: a step of so many samples has too many leaves. Of a training that is not deterministic RC_OK. */
enum rc leaves_check(const struct task *task, uint64_t global, struct err *err);

/* Whole numbers of the sums: of all values of the net, parameters then batch norm's statistics; then of the loss. */
uint64_t leaves_elements(const struct task *task);

/* The leaves of so many samples. */
static inline uint64_t
leaves_count(uint64_t rows, uint32_t leaf)
{
	return (rows + leaf - 1) / leaf;
}

/* Leaves [first, end) of a rank's batch; the sums begin anew with leaf 0, also where the batch has none. */
struct leaves_range {
	uint64_t first, end;
};

/* Tell the sink: the gradients of some leaves are added to the replica's sums. */
void leaves_sum(const struct emit_sink *sink, uint32_t rank, const struct replica *r,
		const struct shape *s, const struct batch *b, struct leaves_range which);

/* Tell the sink: gradients, statistics and the batch's entry of the losses become what the sums of all ranks say. total: the samples
 * of all of them. */
void leaves_take(const struct emit_sink *sink, uint32_t rank, const struct replica *r,
		 const struct shape *s, const struct batch *b, uint64_t total);

/* So many leaves of each of nranks ranks a graph holds, with the rest of a step behind them; at least 1. */
uint64_t leaves_each(const struct replica *r, const struct shape *s, uint32_t nranks);

#endif
