/*
 * programs.h - gpudev and gpucoord for tests that start them: from build/bin, next to build/unit/t_x.
 */
#ifndef PROGRAMS_H
#define PROGRAMS_H

#include <limits.h>
#include <stdio.h>

#include "base/host.h"
#include "launch/launch.h"
#include "tap.h"

static inline struct launch_config
two_devices(void)
{
	static char path[PATH_MAX + 16];
	char own[PATH_MAX];

	host_own_folder(own, sizeof own);
	snprintf(path, sizeof path, "%s/../bin", own);
	return (struct launch_config){.ndevices = 2, .mem = "16M", .bindir = path};
}

/* A cluster and a handle on its coordinator; the test ends if there is none. */
static inline struct launch *
start(const struct launch_config *cfg, struct gpusim **g)
{
	struct launch *l = NULL;
	struct err err = {0};

	if (launch_start(cfg, &l, &err) != RC_OK)
		tap_bail(err.text);
	if (gpusim_open(launch_coordinator(l), g) != GPUSIM_OK)
		tap_bail(gpusim_error());
	return l;
}

#endif
