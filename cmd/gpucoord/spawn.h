/*
 * spawn.h - starting a device of this host again, on the memory file that its process left.
 */
#ifndef GPUCOORD_SPAWN_H
#define GPUCOORD_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/rc.h"
#include "decisions.h"
#include "wire/wire.h"

/*
 * spawn_device - end the rest of the process, and start gpudev with the values of its registration.
 *
 *	m		its registration
 *	coordinator	the address where it shall register
 *	lifeline	a descriptor that it shall have as its own lifeline, or -1
 *	allow_inject	may faults be injected into it, as into the coordinator?
 *	record		where it shall record, if anywhere
 *	pid		[out] the child, which is the caller's to wait for
 *
 * A supervised device is only ended, not started: *pid is left alone. The old process is ended (SIGKILL)
 * only if it has the memory file mapped. The new one reports when it registers, and by its end if it
 * cannot. RC_FAILED: it cannot be started, its memory is gone, or others than this user and root can write
 * to a file of its kernels.
 */
enum rc spawn_device(const GpuSim__DeviceMetadata *m, const char *coordinator, int lifeline,
		     bool allow_inject, const struct decisions *record, pid_t *pid,
		     struct err *err);

#endif
