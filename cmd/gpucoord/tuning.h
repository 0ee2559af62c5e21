/*
 * tuning.h - the inputs of the coordinator's tuner: environment, file, the machine itself.
 */
#ifndef GPUCOORD_TUNING_H
#define GPUCOORD_TUNING_H

#include <stdbool.h>

#include "base/rc.h"
#include "coll/tune.h"

/*
 * tuning_init - make the tuner of this process; release it with tuner_fini.
 *
 *	algo		of $GPUSIM_ALGO; NULL: none
 *	file		of --tuner; NULL: none
 *	calibrate	measure the cost of a byte, for about 3 ms; else the built-in costs hold
 *
 * RC_INVAL: GPUSIM_ALGO is wrong; RC_FAILED, RC_BADDATA, RC_NOMEM: the file. *out is usable, and must be
 * released, in any case.
 */
enum rc tuning_init(const char *algo, const char *file, bool calibrate, struct tuner *out,
		    struct err *err);

#endif
