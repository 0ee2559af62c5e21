/*
 * exits.h - which processes have ended, and how: devices that this process started, and those of which its
 * own parent reports.
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

/* fd is the caller's to close; it is no longer read. */
void exits_init(struct exits *e, int fd);

/* The next end that is known; false: there is none. */
bool exits_next(struct exits *e, uint32_t *pid, int *status);

#endif
