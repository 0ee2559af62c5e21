/*
 * times.h - times that several rooms share, in milliseconds; each room's own are in its times.h.
 */
#ifndef BASE_TIMES_H
#define BASE_TIMES_H

/* Fixed, the same for communicators, ids and memory: so they end together. */
#define TIME_LEASE_MS  2000  /* time without a client's connection until its leases end */
#define TIME_RETURN_MS 30000 /* time for a peer to connect after a restart of the other side */

#define TIME_RESPAWN_MS 10000 /* time for a restarted device to register */

#endif
