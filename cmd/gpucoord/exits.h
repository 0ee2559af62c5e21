/*
 * exits.h - which processes have ended, and how: devices that this one has started, and those of which
 * its own parent tells.
 */
#ifndef GPUCOORD_EXITS_H
#define GPUCOORD_EXITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct exits {
	int fd; /* -1, or a pipe of lines "PID STATUS", STATUS as wait(2) gives it */
	char line[64];
	size_t len;
};

/* fd is the caller's to close, and is not waited for from now on. */
void exits_init(struct exits *e, int fd);

/* The next that is known of by now; false: none. */
bool exits_next(struct exits *e, uint32_t *pid, int *status);

#endif
