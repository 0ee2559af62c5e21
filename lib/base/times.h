/*
 * times.h - times that several rooms share, in milliseconds; each room's own are in its times.h.
 */
#ifndef BASE_TIMES_H
#define BASE_TIMES_H

/* Fixed, the same for communicators, ids and memory: so they end together. */
#define TIME_LEASE_MS  2000  /* a client may be away so long before its leases end */
#define TIME_RETURN_MS 30000 /* after a restart of the other side it has so long to be heard */

#define TIME_RESPAWN_MS 10000 /* a device that is started again has so long to come */

#endif
