/*
 * rundir.h - the private directory with the default sockets of this user's daemons.
 */
#ifndef BASE_RUNDIR_H
#define BASE_RUNDIR_H

#include <stdbool.h>

#include "base/rc.h"

#define RUNDIR_MAX 64 /* with the NUL: a socket's name has room behind it */

/* Sockets can be below this path: it is absolute, without blanks and control characters. */
bool rundir_for_sockets(const char *path);

/*
 * rundir_make - $XDG_RUNTIME_DIR/gpusim, or /tmp/gpusim-UID, created with mode 0700 if missing.
 *
 *	out	[out] its path, without a slash at the end
 *
 * The second is used when the variable is not set, unfit for sockets, too long, or names no directory.
 * Errors: RC_INVAL not a directory, another user's, or open to others; RC_FAILED cannot be created.
 */
enum rc rundir_make(char out[RUNDIR_MAX], struct err *err);

#define RUNDIR_ADDRESS_MAX (RUNDIR_MAX + 32)

/*
 * rundir_coordinator - where the coordinator is: $GPUSIM_COORD, or gpucoord.sock in that directory.
 *
 *	room	storage for the result
 *
 * An empty variable counts as unset. The directory is not created; an existing one must be private, or
 * another user could answer. Returns the address, valid as long as room and the environment; NULL, with
 * *err set.
 */
const char *rundir_coordinator(char room[RUNDIR_ADDRESS_MAX], struct err *err);

#endif
