/*
 * observe.h - a view of the world from within the coordinator: its answers, and the recorders of all devices.
 *
 * Status and events come from requests to ourselves, which the state machine handles like any others. A
 * device of this host and user is read from its memory file (keep.h), even after it has ended; one of
 * another host by requests (far.c).
 */
#ifndef GPUCOORD_OBSERVE_H
#define GPUCOORD_OBSERVE_H

#include "view/world.h"

struct observer;

/*
 * observer_new - create an observer, which has its own thread.
 *
 *	host		host_id() of this machine
 *	coordinator	the coordinator's own recorder, which outlives the observer; NULL: none
 *
 * RC_NOMEM.
 */
enum rc observer_new(const char *host, const struct flight_source *coordinator,
		     struct observer **out, struct err *err);

/* Set the address of this process, before the first observe_world. RC_NOMEM. */
enum rc observer_serves(struct observer *o, const char *self, struct err *err);

/* A device has registered, perhaps again. Returns at once; on any thread. */
void observer_hears(struct observer *o, const GpuSim__DeviceMetadata *m);

/*
 * observe_world - observe the present state. On any thread except the one that runs the state machine.
 *
 *	records		last records of each ring; SIZE_MAX: all; 0: only live operations and counters
 *	deadline_ns	as clock_now_ns; devices of other hosts that have not answered by then are in the
 *			world with that reason
 *	out		the caller's, to world_free
 *
 * RC_TIMEOUT, RC_UNREACHABLE: the coordinator itself did not answer in time, or ends; RC_NOMEM.
 */
enum rc observe_world(struct observer *o, size_t records, uint64_t deadline_ns, struct world **out,
		      struct err *err);

/*
 * observe_report - append a report (world_pack) of the present state, with the recorders of some devices.
 *
 *	what	number, communicator, reason, and recorders that name the devices
 *
 * A recorder that cannot be read, or exceeds OBSERVE_REPORT_MAX bytes in total, is replaced by the reason.
 * Errors and threads as in observe_world.
 */
#define OBSERVE_REPORT_MAX (256ul << 20)
enum rc observe_report(struct observer *o, const GpuSim__Report *what, uint64_t deadline_ns,
		       struct buf *out, struct err *err);

/* Call it after the last observe_world. NULL is legal. */
void observer_free(struct observer *o);

#endif
