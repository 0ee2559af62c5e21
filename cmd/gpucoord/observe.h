/*
 * observe.h - a view of the world from within the coordinator: its own answers, and the recorders of all devices.
 *
 * Status and events come by requests to ourselves, so the state machine is asked in its turn, like by anybody else. A
 * device of this host and user is read from its memory file (keep.h), also when it has ended; one of another host is
 * asked (far.h).
 */
#ifndef GPUCOORD_OBSERVE_H
#define GPUCOORD_OBSERVE_H

#include "view/world.h"

struct observer;

/*
 * observer_new - has a thread of its own.
 *
 *	host		host_id() of this machine
 *	coordinator	the coordinator's own recorder, which lives as long as the observer; NULL: it has none
 *
 * RC_NOMEM.
 */
enum rc observer_new(const char *host, const struct flight_source *coordinator,
		     struct observer **out, struct err *err);

/* The address at which this process is served, before the first observe_world. RC_NOMEM. */
enum rc observer_serves(struct observer *o, const char *self, struct err *err);

/* A device has registered, perhaps again. Short, on any thread. */
void observer_hears(struct observer *o, const GpuSim__DeviceMetadata *m);

/*
 * observe_world - all that is known now. On any thread but the one that runs the state machine.
 *
 *	records		of each ring the last so many; SIZE_MAX: all; 0: only live operations and counters
 *	deadline_ns	until then (clock_now_ns); devices of other hosts that have not answered by then are in the
 *			world with that reason
 *	out		the caller's, to world_free
 *
 * RC_TIMEOUT, RC_UNREACHABLE: the coordinator itself did not answer in time, or ends; RC_NOMEM.
 */
enum rc observe_world(struct observer *o, size_t records, uint64_t deadline_ns, struct world **out,
		      struct err *err);

/*
 * observe_report - append a report (world_pack) of what is known now, with the recorders of some devices.
 *
 *	what	number, communicator, reason, and recorders that name the devices
 *
 * Recorders that cannot be read, or of which there are more than OBSERVE_REPORT_MAX bytes, are in the report with the
 * reason. Errors and threads as of observe_world.
 */
#define OBSERVE_REPORT_MAX (256ul << 20)
enum rc observe_report(struct observer *o, const GpuSim__Report *what, uint64_t deadline_ns,
		       struct buf *out, struct err *err);

/* After the last observe_world. NULL is legal. */
void observer_free(struct observer *o);

#endif
