/*
 * state.h - the coordinator's state, stored so that a restarted coordinator continues.
 */
#ifndef GPUCOORD_STATE_H
#define GPUCOORD_STATE_H

#include <stdbool.h>

#include "coord/coord.h"

struct state;

/*
 * state_open - read the records of a former coordinator into c; *actions as in coord_restore.
 *
 *	where	a directory, etcd://host:port/prefix, "none", or NULL: by the address
 *	address	where the coordinator listens
 *	out	NULL: nothing is stored. Ends with state_close
 *
 * The stored state survives the coordinator's process, and a crash of the machine. The latter does not hold
 * for the directory next to an ipc socket: the devices and clients of that socket end with the machine, and
 * each fsync would cost them a fraction of a millisecond. If the address's directory cannot be made, a
 * warning says so and nothing is stored. Errors as in store_open, and RC_BADDATA of coord_restore.
 */
enum rc state_open(const char *where, const char *address, struct coord *c,
		   struct coord_actions *actions, struct state **out, struct err *err);

/* Return true if state_open would store anything. */
bool state_wanted(const char *where, const char *address);

/* Commit the records among the actions, before the caller carries out the rest; if that fails, the actions
 * are changed. NULL state: does nothing. */
void state_commit(struct state *st, struct coord *c, struct coord_actions *actions);

/* Try again to commit the changes that failed. */
void state_tick(struct state *st, struct coord *c);

/* remove: the coordinator ends normally, and its state is removed except for permanent records
 * (coord_record_stays). Else all stays. NULL is legal. */
void state_close(struct state *st, bool remove);

#endif
