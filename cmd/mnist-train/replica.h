/*
 * replica.h - one device's copy of the model: its buffers, and the operations that use them.
 *
 * All buffers of a replica are one allocation. Batches lie one behind the other in the order of
 * use, so that a replayed graph finds the next one by adding a step to the address.
 */
#ifndef MNIST_REPLICA_H
#define MNIST_REPLICA_H

#include "gpusim.h"
#include "options.h"

/* The sizes that all replicas agree on. */
struct shape {
	const struct model *model;
	uint64_t max_rows;    /* of any batch */
	uint64_t train_items; /* images of one epoch on one device, at most */
	uint64_t train_steps; /* batches of one epoch */
	uint64_t test_items, test_steps;
	enum optimizer optimizer;
};

/* Device addresses. */
struct replica {
	uint64_t device, base;
	uint64_t params, grads, state[2], adam_step;
	uint64_t x;		      /* f32[max_rows, size[0]] */
	uint64_t y[MODEL_MAX_SIZES];  /* f32[max_rows, size[l+1]], layer l's output */
	uint64_t dy[MODEL_MAX_SIZES]; /* its gradient */
	uint64_t images, labels;      /* u8[train_items, size[0]], u8[train_items] */
	uint64_t test_images, test_labels;
	uint64_t losses; /* f32[train_steps]: sums over the batch */
	uint64_t right;	 /* u64[test_steps]: images told right */
};

/* Bytes a replica takes. */
uint64_t replica_bytes(const struct shape *s);

/* Lay the buffers out from base. */
void replica_place(struct replica *r, const struct shape *s, uint64_t device, uint64_t base);

/* A batch: where its images are, how many, and how that moves from one iteration to the next. */
struct batch {
	uint64_t first; /* index of its first image in the device's order */
	uint64_t rows;	/* may be 0 */
	uint64_t step;	/* which entry of losses or right it fills */
	bool moving;	/* next iteration: the next `rows` images, the next entry */
};

/* Append forward, loss and backward of a training batch; grads become grad_scale * the sum over the
 * rows. */
void replica_train(struct gpusim_ops *o, uint32_t rank, const struct replica *r,
		   const struct shape *s, const struct batch *b, double grad_scale);

/* Append the optimizer's step. */
void replica_update(struct gpusim_ops *o, uint32_t rank, const struct replica *r,
		    const struct shape *s, const struct options *opt);

/* Append forward and the count of right answers for a test batch. */
void replica_test(struct gpusim_ops *o, uint32_t rank, const struct replica *r,
		  const struct shape *s, const struct batch *b);

#endif
