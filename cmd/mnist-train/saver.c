#include "saver.h"

#include <inttypes.h>

#include "base/log.h"

/* Check that this training could have written the checkpoint. */
static enum rc
check_found(const struct train_config *o, const struct checkpoint_terms *terms,
	    const struct checkpoint *c, struct err *err)
{
	enum rc rc = checkpoint_agree(c, terms, o->checkpoint, err);
	uint64_t steps = (terms->train_items + c->global_batch - 1) / c->global_batch;

	if (rc == RC_OK && o->global_batch && o->global_batch != c->global_batch)
		rc = err_set(err, RC_INVAL,
			     "%s: was made with --global-batch %" PRIu64 ", but it is %" PRIu64
			     " now",
			     o->checkpoint, c->global_batch, o->global_batch);
	if (rc == RC_OK && steps != c->steps_an_epoch)
		rc = err_set(err, RC_BADDATA,
			     "%s: %" PRIu64 " steps per epoch, but this data set has %" PRIu64,
			     o->checkpoint, c->steps_an_epoch, steps);
	return rc;
}

enum rc
saver_resume(const struct train_config *o, const struct checkpoint_terms *terms,
	     checkpoint_damaged_fn damaged, struct checkpoint *from, bool *found, struct err *err)
{
	bool any = false;
	enum rc rc;

	*found = false;
	if (!o->checkpoint)
		return RC_OK;
	if (!o->resume) {
		rc = checkpoint_any(o->checkpoint, &any, err);
		if (rc == RC_OK && any)
			rc = err_set(err, RC_INVAL,
				     "%s: has checkpoints; use --resume to continue from them",
				     o->checkpoint);
		return rc;
	}
	rc = checkpoint_newest(o->checkpoint, damaged, NULL, from, found, err);
	if (rc == RC_OK && *found) {
		rc = check_found(o, terms, from, err);
		if (rc != RC_OK)
			checkpoint_fini(from);
	}
	return rc;
}

enum rc
saver_open(struct saver *s, const struct train_config *o, const struct checkpoint_terms *terms,
	   struct err *err)
{
	*s = (struct saver){.terms = *terms};
	return o->checkpoint ? checkpoint_dir_open(o->checkpoint, &s->dir, err) : RC_OK;
}

void
saver_write(struct saver *s, enum rc rc, struct checkpoint *c, struct err *err)
{
	if (rc == RC_OK) {
		c->terms = s->terms;
		s->steps = checkpoint_steps(c);
		rc = checkpoint_write(s->dir, c, err);
	}
	checkpoint_fini(c);
	s->any = true;
	s->failed = rc == RC_OK ? (struct err){0} : *err;
	if (rc != RC_OK)
		log_line(LOG_WARN, "cannot write a checkpoint, training continues: %s", err->text);
}

void
saver_checkpoint(void *saver, struct trainer *t)
{
	struct saver *s = saver;
	struct checkpoint c = {0};
	struct err err = {0};

	if (s->dir)
		saver_write(s, trainer_state(t, &c, &err), &c, &err);
}

enum rc
saver_close(struct saver *s, struct trainer *t, struct err *err)
{
	enum rc rc;

	if (!s->dir)
		return RC_OK;
	if (t && (!s->any || s->failed.rc != RC_OK || s->steps != trainer_steps(t)))
		saver_checkpoint(s, t);
	checkpoint_dir_close(s->dir);
	s->dir = NULL;
	rc = s->failed.rc;
	return rc == RC_OK ? rc : err_set(err, rc, "the last checkpoint: %s", s->failed.text);
}
