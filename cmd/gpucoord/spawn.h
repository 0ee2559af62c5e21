/*
 * spawn.h - restart a device of this host on the memory file that its process left.
 */
#ifndef GPUCOORD_SPAWN_H
#define GPUCOORD_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/rc.h"
#include "decisions.h"
#include "wire/wire.h"

/*
 * spawn_device - kill what is left of the process, and start gpudev with the values of its registration.
 *
 *	m		its registration
 *	coordinator	the address where the new process registers
 *	lifeline	a descriptor that becomes its lifeline, or -1
 *	allow_inject	allow faults to be injected into it
 *	record		its recording, if any
 *	pid		[out] the child, for which the caller waits
 *
 * A supervised device is only killed, not started: *pid stays unchanged. The old process is killed
 * (SIGKILL) only if it has mapped the memory file. The new process registers, or ends if it cannot.
 * RC_FAILED: it cannot be started, its memory is missing, or users other than this one and root can write
 * to a kernel file.
 */
enum rc spawn_device(const GpuSim__DeviceMetadata *m, const char *coordinator, int lifeline,
		     bool allow_inject, const struct decisions *record, pid_t *pid,
		     struct err *err);

#endif
