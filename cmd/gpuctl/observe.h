/*
 * observe.h - read a whole world over the network, for explain, top and trace.
 */
#ifndef GPUCTL_OBSERVE_H
#define GPUCTL_OBSERVE_H

#include <stddef.h>

#include "base/rc.h"
#include "base/rundir.h"
#include "gpusim.h"
#include "view/world.h"

/*
 * observe_world - get the coordinator's answers, and its recorder and those of all devices.
 *
 *	g	connected
 *	records	last records of each ring; SIZE_MAX: all; 0: only live lines and counters
 *	out	[out] the caller's, to world_free
 *
 * Errors: the coordinator's. A device that cannot be read is not an error: the world has the
 * reason.
 */
enum rc observe_world(struct gpusim *g, size_t records, struct world **out, struct err *err);

/*
 * An observer looks repeatedly: it keeps recorders open, so a device that has ended can still be read.
 * It belongs to one thread, and ends before its connection.
 */
struct observer;
struct observer *observer_new(struct gpusim *g);
void observer_free(struct observer *o); /* NULL is legal */
enum rc observer_look(struct observer *o, size_t records, struct world **out, struct err *err);

/* ---- without the coordinator, whose devices record under /dev/shm of this host */

struct coordinator {
	const char *address;
	char room[RUNDIR_ADDRESS_MAX];
	uint32_t pid, tracer; /* as in struct world_device, */
	char process;	      /* and so is this */
};

/* Find the coordinator of an address (NULL: the default) by its recorder on this host. RC_NOTFOUND: it has
 * none. */
enum rc observe_coordinator(const char *address, struct coordinator *out, struct err *err);

/* Read the world of its devices. RC_NOTFOUND: none is alive. */
enum rc observe_alone(const struct coordinator *c, size_t records, struct world **out,
		      struct err *err);

#endif
