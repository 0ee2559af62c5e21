/*
 * look.h - find out if a silent process of this host gets no processor.
 *
 * It uses the states of the threads in /proc, and how long they have waited for a processor.
 */
#ifndef GPUCOORD_LOOK_H
#define GPUCOORD_LOOK_H

#include <stddef.h>
#include <stdint.h>

#include "coord/coord.h"

struct look;

/* The last look at each device. {0} is empty. */
struct looks {
	struct look *v;
	size_t n, cap;
};

/*
 * look_at - look at the process of a device.
 *
 * COORD_LOOK_STARVED: since the previous look, if that is recent, its threads together have waited for a
 * processor for more than a fifth of the time, and eight times as long as they ran. COORD_LOOK_RUNNABLE:
 * its first thread is runnable now. Else COORD_LOOK_IDLE, also for a process that is stopped, has ended, or
 * cannot be read.
 */
enum coord_look look_at(struct looks *l, uint64_t device_id, uint32_t pid, uint64_t now_ns);

void looks_fini(struct looks *l);

#endif
