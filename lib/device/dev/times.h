/*
 * times.h - the times of the device, in one place. Leases' are in base/times.h, which the coordinator shares.
 *
 * Both are fixed: the first only bounds a bug, the second is the delay until a cleared fault is noticed.
 * A user's times come with each request: the communicator's timeout, and deadlines.
 */
#ifndef DEV_TIMES_H
#define DEV_TIMES_H

#define EVENT_WAIT_MS  86400000	       /* the longest wait for an event: longer than any graph */
#define FAULT_SLICE_NS (5 * NS_PER_MS) /* between two checks of a step that a fault slows down */

#endif
