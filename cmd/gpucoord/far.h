/*
 * far.h - read the recorders of devices on other hosts, by requests to them.
 */
#ifndef GPUCOORD_FAR_H
#define GPUCOORD_FAR_H

#include "flight/read.h"

struct fars; /* connections, one per address; thread-safe */
struct far;  /* a recorder, held */

struct fars *fars_new(void);	/* NULL: out of memory */
void fars_free(struct fars *f); /* when nothing is held; NULL is legal */

/*
 * far_hold - hold the recorder at an address.
 *
 *	deadline_ns	of all reading
 *
 * If it does not answer, reading fails with RC_TIMEOUT or RC_UNREACHABLE, and it is not asked again for
 * FAR_AWAY_MS. Errors: the same, for a device that did not answer a moment ago; RC_BUSY too many addresses;
 * RC_NOMEM.
 */
#define FAR_AWAY_MS 2000
enum rc far_hold(struct fars *f, const char *address, uint64_t deadline_ns, struct far **out,
		 struct err *err);
struct flight_source far_source(struct far *h);
void far_release(struct fars *f, struct far *h);

#endif
