/*
 * curves.h - the curves of trainings: loss and accuracy by epoch, of the trainings that told them last.
 *
 * Pure, as all of this room; callers lock. Of a long curve the points that are kept lie evenly over all of it, and the
 * newest is one of them.
 */
#ifndef COORD_CURVES_H
#define COORD_CURVES_H

#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"
#include "gpu_sim.pb-c.h"

#define CURVES_MAX	  4   /* trainings */
#define CURVES_MAX_POINTS 512 /* of one */
#define CURVES_NAME	  64  /* bytes, its end included */

struct curves;

struct curves *curves_new(void);    /* NULL: out of memory */
void curves_free(struct curves *c); /* NULL is legal */

/*
 * curves_put - a point of a training, known or new; a new one drops the training that was heard last longest ago.
 *
 *	now_ms	since 1970
 *
 * RC_INVAL: no training's number, or a step that is before the last one's.
 */
enum rc curves_put(struct curves *c, const GpuSim__TrainingPutRequest *m, uint64_t now_ms,
		   struct err *err);

/*
 * curves_json - append an array, the training that was heard last first:
 *	{"id", "name", "epochs", "atMs", "points": [[epoch, step, loss, accuracy, samples a second], ...]}
 * A number that is not finite is null. RC_NOMEM.
 */
enum rc curves_json(const struct curves *c, struct buf *out, struct err *err);

#endif
