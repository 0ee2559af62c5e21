/*
 * saver.h - write mnist-train's checkpoints, and continue from them.
 *
 * A checkpoint that cannot be written does not end training: a warning is logged, the previous one stays,
 * and the exit status is an error if the last one failed.
 */
#ifndef MNIST_SAVER_H
#define MNIST_SAVER_H

#include "nn/checkpoint.h"
#include "train/trainer.h"

struct saver {
	struct checkpoint_dir *dir; /* NULL: no --checkpoint */
	struct checkpoint_terms terms;
	uint64_t steps;	   /* of the newest attempt */
	bool any;	   /* a checkpoint was attempted */
	struct err failed; /* the reason of its failure; RC_OK: none */
};

/*
 * saver_resume - find the checkpoint from which --checkpoint DIR --resume continues.
 *
 *	from	[out] released with checkpoint_fini
 *	found	[out] false: no --resume, or no checkpoint yet
 *
 * damaged is called for each damaged one. Errors: RC_INVAL: made with other options, or checkpoints exist
 * and --resume was not given; those of checkpoint_newest.
 */
enum rc saver_resume(const struct train_config *o, const struct checkpoint_terms *terms,
		     checkpoint_damaged_fn damaged, struct checkpoint *from, bool *found,
		     struct err *err);

/* Open the folder, if any. terms are copied. */
enum rc saver_open(struct saver *s, const struct train_config *o,
		   const struct checkpoint_terms *terms, struct err *err);

/* Write a checkpoint that was fetched with this rc, and release it. The folder must be open. */
void saver_write(struct saver *s, enum rc rc, struct checkpoint *c, struct err *err);

/* Write a checkpoint of the trainer's present state; for struct trainer_hooks. */
void saver_checkpoint(void *saver, struct trainer *t);

/* Write the last checkpoint if it is missing, and close the folder. Returns the result of the last one. */
enum rc saver_close(struct saver *s, struct trainer *t, struct err *err);

#endif
