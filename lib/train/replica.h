/*
 * replica.h - one device's copy of the model: its buffers, and the operations that use them.
 *
 * All buffers of a replica are one allocation. What a batch wants lies one behind the other in the
 * order of use, so that a replayed graph finds the next one by adding a step to the address:
 * numbers of images, labels, losses.
 *
 * Kernels run on COMPUTE. The gradients' sums may run beside them on COMM, and events say when
 * gradients are there and when sums are.
 */
#ifndef TRAIN_REPLICA_H
#define TRAIN_REPLICA_H

#include "gpusim.h"
#include "train/config.h"

/* The sizes that all replicas agree on. */
struct shape {
	const struct model *model;
	uint64_t max_rows;    /* of any batch */
	uint64_t held;	      /* training images on the device: all, or those of one epoch */
	uint64_t train_items; /* images of one epoch on one device, at most */
	uint64_t train_steps; /* batches of one epoch */
	uint64_t test_items, test_steps;
	enum optimizer optimizer;
	bool kept; /* with two copies of what training changes */
};

/* Device addresses. */
struct replica {
	uint64_t device, base;
	bool owned;	/* the allocation at base is known to be there and ours */
	uint64_t stamp; /* u64: whose memory this is; with kept copies */
	/* What training changes, one behind the other: live_bytes from params on. */
	uint64_t params, state[2], adam_step;
	uint64_t live_bytes;
	uint64_t kept[2]; /* live_bytes each; 0: there are none */
	uint64_t grads;
	uint64_t x;		      /* f32[max_rows, size[0]] */
	uint64_t y[MODEL_MAX_SIZES];  /* f32[max_rows, size[l+1]], layer l's output */
	uint64_t dy[MODEL_MAX_SIZES]; /* its gradient */
	uint64_t images;	      /* u8[held, size[0]] */
	uint64_t order, labels;	      /* u32[train_items] which images; u8[train_items] */
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

enum { STREAM_COMPUTE, STREAM_COMM };

/* Append: what training changes goes to a kept copy, or comes back. */
void replica_keep(struct gpusim_ops *o, uint32_t rank, const struct replica *r, unsigned which);
void replica_restore(struct gpusim_ops *o, uint32_t rank, const struct replica *r, unsigned which);

/* Append forward and loss of a training batch; the last layer's output gets grad_scale times the
 * gradient of the sum over the rows. */
void replica_forward(struct gpusim_ops *o, uint32_t rank, const struct replica *r,
		     const struct shape *s, const struct batch *b, double grad_scale);

/* Append a layer's part of backward, which begins with the last: gradients makes those of its
 * parameters, propagate then hands on to the layer below, which must be there. */
void replica_gradients(struct gpusim_ops *o, uint32_t rank, const struct replica *r,
		       const struct shape *s, const struct batch *b, unsigned layer);
void replica_propagate(struct gpusim_ops *o, uint32_t rank, const struct replica *r,
		       const struct shape *s, const struct batch *b, unsigned layer);

/* Append: stream `to` goes on when what is on stream `from` so far is done. Each number is used
 * once in a list. */
void replica_join(struct gpusim_ops *o, uint32_t rank, unsigned number, uint32_t from, uint32_t to);

/* Append the optimizer's step. */
void replica_update(struct gpusim_ops *o, uint32_t rank, const struct replica *r,
		    const struct shape *s, const struct train_config *opt);

/* Append forward and the count of right answers for a test batch. */
void replica_test(struct gpusim_ops *o, uint32_t rank, const struct replica *r,
		  const struct shape *s, const struct batch *b);

#endif
