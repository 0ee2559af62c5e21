/*
 * exits.h - the ends of processes: of devices that this process started, and of those that its parent
 * reports.
 */
#ifndef GPUCOORD_EXITS_H
#define GPUCOORD_EXITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct exits {
	int fd; /* -1, or a pipe of lines "PID STATUS", with STATUS as from wait(2) */
	char line[64];
	size_t len;
};

/* Begin to read fd, which the caller closes. */
void exits_init(struct exits *e, int fd);

/* Get the next end; false: none is known. */
bool exits_next(struct exits *e, uint32_t *pid, int *status);

#endif
