/*
 * deadly - gpuctl, but a device dies right before one of its calls.
 *
 *	DEADLY="CALL N PID"	kill -9 PID before the N-th CALL, from 1, and continue when it has ended.
 *				CALL is comm_init_all, malloc, memcpy_h2d, collective, memcpy_d2h, free,
 *				or comm_destroy
 *
 * The linker redirects gpuctl's calls here (--wrap). Without DEADLY it is gpuctl.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpusim.h"

static void
before(const char *name)
{
	static int calls;
	const char *env = getenv("DEADLY");
	char call[32];
	int at, pid;

	if (!env || sscanf(env, "%31s %d %d", call, &at, &pid) != 3 || strcmp(call, name) != 0 ||
	    ++calls != at)
		return;
	kill(pid, SIGKILL);
	while (kill(pid, 0) == 0 || errno == EPERM)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* WRAP(name, parameters, arguments) - gpusim_NAME of the library is __real_gpusim_NAME here. */
#define WRAP(name, parameters, arguments)               \
	enum gpusim_rc __real_gpusim_##name parameters; \
	enum gpusim_rc __wrap_gpusim_##name parameters; \
	enum gpusim_rc __wrap_gpusim_##name parameters  \
	{                                               \
		before(#name);                          \
		return __real_gpusim_##name arguments;  \
	}

WRAP(comm_init_all,
     (struct gpusim * g, uint32_t n, const struct gpusim_device *devices,
      const struct gpusim_comm_config *config, struct gpusim_comm **out),
     (g, n, devices, config, out))
WRAP(malloc,
     (struct gpusim * g, struct gpusim_device device, uint64_t nbytes, enum gpusim_life life,
      struct gpusim_addr *addr),
     (g, device, nbytes, life, addr))
WRAP(memcpy_h2d,
     (struct gpusim * g, struct gpusim_device device, struct gpusim_addr addr, const void *src,
      uint64_t nbytes),
     (g, device, addr, src, nbytes))
WRAP(collective,
     (struct gpusim_comm * comm, const struct gpusim_collective *c, enum gpusim_wait wait),
     (comm, c, wait))
WRAP(memcpy_d2h,
     (struct gpusim * g, void *dst, struct gpusim_device device, struct gpusim_addr addr,
      uint64_t nbytes),
     (g, dst, device, addr, nbytes))
WRAP(free, (struct gpusim * g, struct gpusim_device device, struct gpusim_addr addr),
     (g, device, addr))
WRAP(comm_destroy, (struct gpusim_comm * comm), (comm))
