/*
 * times.h - chaos's timeouts. They are fixed: they are small compared with the bound of an operation, which
 * the caller sets, and longer ones would only slow down a run with dead devices.
 */
#ifndef CHAOS_TIMES_H
#define CHAOS_TIMES_H

#define CHAOS_SIDE_MS	3000 /* a call that injects a fault, moves memory or looks */
#define CHAOS_RETURN_MS 3000 /* devices that may still come back, before fewer are enough */
#define CHAOS_POLL_MS	20   /* between two looks for free devices */

#endif
