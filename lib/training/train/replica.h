/*
 * replica.h - one device's copy of the net: its buffers, and the operations that use them.
 *
 * All buffers of a replica are one allocation. The data of batches are contiguous, in the order of
 * use, so that a replayed graph finds the next batch by adding a step to the address: numbers of
 * samples, labels, losses, learning rates.
 *
 * Kernels run on COMPUTE. The gradients' sums may run concurrently on COMM; events mark when
 * gradients and sums are complete.
 */
#ifndef TRAIN_REPLICA_H
#define TRAIN_REPLICA_H

#include "gpusim.h"
#include "train/task.h"

/*
 * Memory of a device whose addresses are numbers, as kernels' arguments are: gpusim_malloc (leased),
 * gpusim_memcpy_h2d, _d2h, _d2d, with struct err.
 */
enum rc device_alloc(struct gpusim *g, struct gpusim_device device, uint64_t nbytes, uint64_t *at,
		     struct err *err);
enum rc device_write(struct gpusim *g, struct gpusim_device device, uint64_t at, const void *src,
		     uint64_t nbytes, struct err *err);
enum rc device_read(struct gpusim *g, void *dst, struct gpusim_device device, uint64_t at,
		    uint64_t nbytes, struct err *err);
enum rc device_copy(struct gpusim *g, struct gpusim_device dst_device, uint64_t dst,
		    struct gpusim_device src_device, uint64_t src, uint64_t nbytes,
		    struct err *err);

/* Free memory; false: the device failed to. */
bool replica_free_memory(struct gpusim *g, struct gpusim_device device, uint64_t at);

enum { TESTS, VALIDATION, NTESTS }; /* the tested parts */

static inline const struct dataset_part *
tested_part(const struct dataset *data, unsigned part)
{
	return part == TESTS ? &data->test : &data->validation;
}

/* The sizes that all replicas agree on. */
struct shape {
	const struct task *task;
	uint64_t max_rows;    /* of any batch */
	uint32_t max_ranks;   /* compressing; else 0 */
	uint64_t held;	      /* training samples on the device: all, or those of one epoch */
	uint64_t train_items; /* samples of one epoch on one device, at most */
	uint64_t train_steps; /* batches of one epoch */
	uint64_t test_items[NTESTS], test_steps[NTESTS];
	bool kept;	  /* with two copies of what training changes */
	uint32_t augment; /* augmentation of training images (nn/augment.h) */
	bool verify;	  /* with room for samples of the sums (verify.h) */
	bool inbox;	  /* with room for another rank's gradients */
	/* with room for exact sums over leaves of this many samples (leaves.h); 0: no */
	uint32_t leaf;
	const struct layout *layout; /* of a spread training; else NULL */
};

/* Device addresses. */
struct replica {
	struct gpusim_device device;
	uint64_t base;
	bool owned;	/* the allocation at base is known to exist and to belong to this trainer */
	uint64_t stamp; /* u64: identifies the owner of the memory; with kept copies */
	/* The values that training changes, contiguous: live_bytes from net.params on. Those before `own`
	 * are the same on all ranks between two units; the others are a rank's own (compress.h). */
	uint64_t state[2], adam_step;
	uint64_t extra;		/* the first of: */
	uint64_t anchor, outer; /* f32[values], f32[nparams] of DiLoCo; 0: none */
	uint64_t q;		/* f32 of powersgd; 0: none */
	uint64_t scaler;	/* LAYOUT_SCALER bytes, of a scaled loss; 0: none */
	uint64_t own;		/* the first of: */
	uint64_t error[2];	/* f32[nparams] each; 0: none */
	uint64_t live_bytes;
	uint64_t send, gathered, single; /* of a step that compresses */
	uint64_t kept[2];		 /* live_bytes each; 0: none */
	uint64_t inbox;
	/* u32, i64, i64[VERIFY_SAMPLES]: indices of sampled elements of the sums; input; result. 0: none */
	uint64_t samples_of, before, after;
	uint64_t sums; /* i64[leaves_elements]; 0: none. inbox is of the same size then */
	/* the sums over all ranks: in the place of `sums`, or in a separate one with --verify */
	uint64_t totals;
	uint64_t aside; /* a copy of the sums, for --verify; 0: none */
	struct emit_place net;
	/* Of a spread training, in place of all above but the owner: see grid/layout.h */
	uint64_t spread;
	uint64_t samples; /* [held, item], of the data set's type */
	uint64_t crops;	  /* f32[max_rows, item]: images before they are augmented; 0: no need */
	uint64_t draws;	  /* u32[train_items]: the augmentation of each; 0: none */
	uint64_t order, labels; /* u32[train_items] sample numbers; u8[train_items] */
	uint64_t scale, shift;	/* f32[channels] */
	uint64_t lr;		/* f32[train_steps]: factors of the learning rate */
	uint64_t tests[NTESTS], test_labels[NTESTS];
	uint64_t losses;	/* f32[train_steps]: sums over the batch */
	uint64_t right[NTESTS]; /* u64[test_steps]: correctly classified samples */
};

/* Lay out what training changes from *at on: net.params to live_bytes. */
void replica_live(struct replica *r, const struct task *task, uint64_t *at);

/* Bytes a replica takes. */
uint64_t replica_bytes(const struct shape *s);

/* Lay the buffers out from base. */
void replica_place(struct replica *r, const struct shape *s, struct gpusim_device device,
		   uint64_t base);

/* Apply each channel's factor and summand, which are at scale and shift, to rows of the net's input. */
void replica_normalise(const struct emit_sink *sink, uint32_t rank, const struct task *task,
		       const struct emit_place *net, uint64_t scale, uint64_t shift, uint64_t rows);

/* A batch: its samples, and how they move from one iteration to the next. */
struct batch {
	uint64_t first;	 /* index of its first sample in the device's order */
	uint64_t rows;	 /* may be 0 */
	uint64_t step;	 /* the entry of losses, right or learning rates that it uses */
	bool moving;	 /* next iteration: samples from first + stride on, the next entry */
	uint64_t stride; /* 0: rows */
};

static const struct gpusim_stream STREAM_COMPUTE = {0}, STREAM_COMM = {1};

/* Append: copy the values that training changes to a kept copy, or back. */
void replica_keep(struct gpusim_ops *o, uint32_t rank, const struct replica *r, unsigned which);
void replica_restore(struct gpusim_ops *o, uint32_t rank, const struct replica *r, unsigned which);

/* Emit: a batch of training samples, or of a tested part, becomes the net's input. */
void replica_load(const struct emit_sink *sink, uint32_t rank, const struct replica *r,
		  const struct shape *s, const struct batch *b);
void replica_load_tests(const struct emit_sink *sink, uint32_t rank, const struct replica *r,
			const struct shape *s, const struct batch *b, unsigned part);

/* The addresses of a batch's labels and losses. */
struct emit_target replica_target(const struct replica *r, const struct batch *b,
				  double grad_scale);

/* Likewise of a tested part, whose right answers are counted. */
struct emit_target replica_test_target(const struct replica *r, const struct batch *b,
				       unsigned part);

/* The optimizer in this step. */
struct emit_optimizer replica_optimizer(const struct replica *r, const struct shape *s,
					const struct batch *b);

/* Append: stream `to` waits for everything on stream `from` so far. Each number is used once in a list. */
void replica_join(struct gpusim_ops *o, uint32_t rank, unsigned number, struct gpusim_stream from,
		  struct gpusim_stream to);

/* The bytes that all ranks have alike, from net.params on. */
static inline uint64_t
replica_shared_bytes(const struct replica *r)
{
	return r->own - r->net.params;
}

/* The bytes from `extra` on, what a net and its optimizer do not have in common. */
static inline uint64_t
replica_extra_bytes(const struct replica *r)
{
	return r->net.params + r->live_bytes - r->extra;
}

/* A rank's values as floats, those that optimizers change: parameters, statistics, state. */
uint64_t replica_floats(const struct replica *r);

#endif
