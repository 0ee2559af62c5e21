/*
 * curves.h - the curves of trainings: loss and accuracy by epoch, of the trainings that reported last.
 *
 * Pure, as all of this room; callers lock. The kept points of a long curve are spread evenly over it, and
 * include the newest.
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
 * curves_put - add a point; a new training replaces the one that has been silent longest.
 *
 *	now_ms	since 1970
 *
 * RC_INVAL: no number of a training, or a step that is not after the last.
 */
enum rc curves_put(struct curves *c, const GpuSim__TrainingPutRequest *m, uint64_t now_ms,
		   struct err *err);

/*
 * curves_json - append an array, the most recently heard training first:
 *	{"id", "name", "epochs", "atMs", "points": [[epoch, step, loss, accuracy, samples a second], ...]}
 * A number that is not finite is null. RC_NOMEM.
 */
enum rc curves_json(const struct curves *c, struct buf *out, struct err *err);

#endif
