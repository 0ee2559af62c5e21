/*
 * look.h - does a silent process of this host get no processor?
 *
 * From /proc: the states of its threads, and how long the kernel says they have waited for a processor.
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
 * COORD_LOOK_STARVED: since the look before, if that is not long ago, its threads together have
 * waited for a processor for more than a fifth of the time, and eight times as long as they ran.
 * COORD_LOOK_RUNNABLE: the first of them wants to run now. Else COORD_LOOK_IDLE; that too of a process
 * that is stopped, gone, or cannot be seen.
 */
enum coord_look look_at(struct looks *l, uint64_t device_id, uint32_t pid, uint64_t now_ns);

void looks_fini(struct looks *l);

#endif
