/*
 * far.h - the recorders of devices of other hosts, by requests to them.
 */
#ifndef GPUCOORD_FAR_H
#define GPUCOORD_FAR_H

#include "flight/read.h"

struct fars; /* connections, one an address; thread-safe */
struct far;  /* a recorder, held */

struct fars *fars_new(void);	/* NULL: out of memory */
void fars_free(struct fars *f); /* nothing is held; NULL is legal */

/*
 * far_hold - the recorder behind an address.
 *
 *	deadline_ns	of all reading
 *
 * It may not answer: then reading fails with RC_TIMEOUT or RC_UNREACHABLE, and it is not asked again for FAR_AWAY_MS.
 * Errors: these, of a device that did not answer a moment ago; RC_BUSY too many addresses; RC_NOMEM.
 */
#define FAR_AWAY_MS 2000
enum rc far_hold(struct fars *f, const char *address, uint64_t deadline_ns, struct far **out,
		 struct err *err);
struct flight_source far_source(struct far *h);
void far_release(struct fars *f, struct far *h);

#endif
