/*
 * saver.h - when and where mnist-train leaves checkpoints, and what it goes on from.
 *
 * A checkpoint that cannot be written does not end training: it is said, the one before stays, and
 * the exit status tells when the last one failed.
 */
#ifndef MNIST_SAVER_H
#define MNIST_SAVER_H

#include "nn/checkpoint.h"
#include "train/trainer.h"

struct saver {
	struct checkpoint_dir *dir; /* NULL: no checkpoints were asked for */
	struct checkpoint_terms terms;
	uint64_t steps;	   /* of the newest that was tried */
	bool any;	   /* one was tried */
	struct err failed; /* why that failed; RC_OK when it did not */
};

/*
 * saver_resume - what --checkpoint DIR --resume goes on from.
 *
 *	from	[out] released with checkpoint_fini
 *	found	[out] false: no --resume, or nothing there yet
 *
 * damaged is called for those that are. Errors: RC_INVAL made with other options, or --resume was not
 * given and there are some; those of checkpoint_newest.
 */
enum rc saver_resume(const struct train_config *o, const struct checkpoint_terms *terms,
		     checkpoint_damaged_fn damaged, struct checkpoint *from, bool *found,
		     struct err *err);

/* Hold the folder, if there is one. terms are copied. */
enum rc saver_open(struct saver *s, const struct train_config *o,
		   const struct checkpoint_terms *terms, struct err *err);

/* Write one that was fetched with this rc, and release it. There is a folder. */
void saver_write(struct saver *s, enum rc rc, struct checkpoint *c, struct err *err);

/* Write one of where the trainer is; for struct trainer_hooks. */
void saver_checkpoint(void *saver, struct trainer *t);

/* Write the last one, unless it is there; let go of the folder. Returns what the last came to. */
enum rc saver_close(struct saver *s, struct trainer *t, struct err *err);

#endif
