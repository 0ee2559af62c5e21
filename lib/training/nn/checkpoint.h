/*
 * checkpoint.h - a folder of checkpoints, from which a training resumes after any crash.
 *
 * A checkpoint is one .npz file, ckpt-STEP.npz, where STEP counts the steps since the beginning. It
 * is written to another name, synced and renamed (npz.h), so a crash leaves either the older ones
 * or the older ones and this one. The newest CHECKPOINT_KEPT stay. Each array has a checksum. A
 * damaged checkpoint is named, and the one before it is used.
 *
 * A sharded one has its vectors in further files, ckpt-STEP.K-of-N.npz, written before it: file K has values
 * [(K - 1) * n / N, K * n / N) of each. A number that they share with it tells that they belong together.
 */
#ifndef NN_CHECKPOINT_H
#define NN_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"

#define CHECKPOINT_KEPT	     2
#define CHECKPOINT_NET_TEXT  160
#define CHECKPOINT_MAX_STATE 2 /* vectors of the optimizer: velocity; or mean and variance */

/* The training's options; a resumed training must have the same. */
struct checkpoint_terms {
	char net[CHECKPOINT_NET_TEXT]; /* struct net's text, padded with zeros */
	uint64_t nvalues;	       /* parameters and running statistics */
	uint64_t sync, local_steps;    /* enum sync of the trainer */
	uint64_t optimizer;	       /* enum optimizer */
	uint64_t schedule;	       /* enum lr_kind */
	uint64_t batch, seed;	       /* batch 0: the user gave the global batch */
	uint64_t leaf;		       /* of a deterministic training; 0: not deterministic */
	uint64_t augment;	       /* of training images (augment.h) */
	uint64_t method; /* a checksum of what compresses, and of DiLoCo's options; 0: neither */
	double lr, momentum, weight_decay;
	uint64_t train_items, test_items, data_crc;
};

/* Bytes [rows, cols]; rows 0: none. */
struct checkpoint_bytes {
	uint64_t rows, cols;
	uint8_t *bytes;
};

struct checkpoint {
	struct checkpoint_terms terms;
	uint64_t global_batch;	  /* images of a step, on all devices together; at least 1 */
	uint64_t steps_an_epoch;  /* the last, smaller batch is one; at least 1 */
	uint64_t epoch, step;	  /* epochs done; steps done of this one, below steps_an_epoch */
	double loss_sum;	  /* sum over the images of those steps */
	uint64_t nparams;	  /* of each vector below */
	uint64_t optimizer_steps; /* as the optimizer counts them, if it does */
	unsigned nstate;	  /* at most CHECKPOINT_MAX_STATE */
	uint64_t nshards;	  /* files of the vectors; 0: they are in its own */
	float *params, *state[CHECKPOINT_MAX_STATE];
	struct checkpoint_bytes own; /* by rank: what a method of sending less has beyond that */
};

struct checkpoint_dir;

/*
 * checkpoint_dir_open - make the folder if it is missing, and lock it until it is closed or this
 * process ends. Half-written files of killed processes are removed.
 *
 * Errors: RC_FAILED the system's reason, RC_BUSY another process holds it.
 */
enum rc checkpoint_dir_open(const char *path, struct checkpoint_dir **out, struct err *err);
void checkpoint_dir_close(struct checkpoint_dir *d); /* NULL is legal */

/* Does the folder hold a checkpoint, whole or damaged? A missing folder holds none. */
enum rc checkpoint_any(const char *path, bool *any, struct err *err);

/* Write a checkpoint; its arrays stay the caller's. Then remove the oldest ones, and those with
 * more steps: they were damaged, or the training would have resumed from them. Errors as of
 * npz_write; on failure the folder is as it was. */
enum rc checkpoint_write(struct checkpoint_dir *d, const struct checkpoint *c, struct err *err);

/* Called for a checkpoint that cannot be used, with the reason. */
typedef void (*checkpoint_damaged_fn)(void *arg, const char *reason);

/*
 * checkpoint_newest - read the newest whole checkpoint.
 *
 *	damaged		called for each newer one that is damaged
 *	c		[out] released with checkpoint_fini; untouched on error
 *	found		[out] false: no checkpoint exists, and *c is untouched
 *
 * Errors: RC_BADDATA checkpoints exist and none is whole; RC_FAILED.
 */
enum rc checkpoint_newest(const char *path, checkpoint_damaged_fn damaged, void *arg,
			  struct checkpoint *c, bool *found, struct err *err);
void checkpoint_fini(struct checkpoint *c);

/* RC_INVAL if `now` differs from the checkpoint's terms; err names the first difference. */
enum rc checkpoint_agree(const struct checkpoint *c, const struct checkpoint_terms *now,
			 const char *path, struct err *err);

/* Steps since the beginning. */
uint64_t checkpoint_steps(const struct checkpoint *c);

#endif
