/*
 * rundir.h - the private directory with the default sockets of this user's daemons.
 */
#ifndef BASE_RUNDIR_H
#define BASE_RUNDIR_H

#include <stdbool.h>

#include "base/rc.h"

#define RUNDIR_MAX 64 /* with the NUL: a socket's name has room behind it */

/* Can sockets lie below this path? It must be absolute, and hold nothing that an address must not: no blank. */
bool rundir_for_sockets(const char *path);

/*
 * rundir_make - $XDG_RUNTIME_DIR/gpusim, or /tmp/gpusim-UID, made with mode 0700 if it is not there.
 *
 *	out	[out] its path, without a slash at the end
 *
 * The second is taken when the variable is not set, not fit for sockets, too long, or names no directory.
 * Errors: RC_INVAL it is there and no directory, somebody else's, or open to others; RC_FAILED it
 * cannot be made.
 */
enum rc rundir_make(char out[RUNDIR_MAX], struct err *err);

#define RUNDIR_ADDRESS_MAX (RUNDIR_MAX + 32)

/*
 * rundir_coordinator - where the coordinator is: $GPUSIM_COORD, or gpucoord.sock in that directory.
 *
 *	room	what the answer may lie in
 *
 * An empty variable counts as none. The directory is not made; one that is there must be private, or
 * another user could answer. Returns the address, as long-lived as room and the environment; NULL, with
 * *err set.
 */
const char *rundir_coordinator(char room[RUNDIR_ADDRESS_MAX], struct err *err);

#endif
