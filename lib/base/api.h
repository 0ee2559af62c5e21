/*
 * api.h - the result of a call of gpusim.h, for rooms and programs that use it.
 */
#ifndef BASE_API_H
#define BASE_API_H

#include "base/rc.h"

/* The result with its message. Call it before the next call of gpusim.h. */
static inline enum rc
api(enum gpusim_rc rc, struct err *err)
{
	return rc == GPUSIM_OK ? RC_OK : err_set(err, (enum rc)rc, "%s", gpusim_error());
}

#endif
