/*
 * rank.h - one rank of a training whose ranks are processes of another job, such as an MPI job.
 *
 * The rank runs its kernels itself and has its memory in its address space; the caller runs kernels
 * and sums over ranks. Order of samples, shares, launches and updates are those of trainer.h with
 * SYNC_ALLREDUCE, so the result is the same except for the rounding of sums.
 */
#ifndef TRAIN_RANK_H
#define TRAIN_RANK_H

#include "train/trainer.h"

/* The surroundings of a rank. A failure in its calls ends the process. */
struct rank_world {
	uint32_t rank, nranks;
	/* The sink runs launches of the rank itself, as rank 0, at once. All ranks make the same
	 * sums in the same order. */
	struct emit_sink sink;
	void (*sum)(void *arg, double *v,
		    size_t n); /* of the sink's arg; over the ranks, in place */
	uint64_t base;	       /* address of the memory ... */
	uint8_t *memory;       /* ... and the memory, rank_bytes of it */
};

struct rank;

/* The memory that each of nranks ranks needs. */
uint64_t rank_bytes(const struct task *task, uint32_t nranks);

/*
 * rank_new - place buffers, initialise the weights.
 *
 * task and world outlive the rank. Errors: those of net_load.
 * Checked by: tests/unit/train/t_rank.c
 */
enum rc rank_new(const struct task *task, const struct rank_world *world, struct rank **out,
		 struct err *err);
void rank_free(struct rank *r); /* NULL is legal */

/* One epoch: train it, then test; all ranks do both. rank_train begins with an empty epoch; each fills in
 * its results; compute_s and comm_s are left to the caller. */
void rank_train(struct rank *r, struct epoch *e);
void rank_test(struct rank *r, struct epoch *e);

/* The weights, task_values of them, in the rank's memory. */
const float *rank_weights(const struct rank *r);

#endif
