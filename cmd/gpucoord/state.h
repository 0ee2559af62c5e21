/*
 * state.h - the coordinator's state, stored so that a coordinator that is started again goes on.
 */
#ifndef GPUCOORD_STATE_H
#define GPUCOORD_STATE_H

#include <stdbool.h>

#include "coord/coord.h"

struct state;

/*
 * state_open - read the records of another coordinator, and give them to c; *actions as of coord_restore.
 *
 *	where	a directory, etcd://host:port/prefix, "none", or NULL: by the address
 *	address	where the coordinator listens
 *	out	NULL: nothing is stored. Ends with state_close
 *
 * What is stored survives the coordinator's process, and the machine too; not the latter in the directory beside an ipc
 * socket, because the devices and clients of that socket end with the machine, and each fsync would cost them a fraction
 * of a millisecond. If the directory by the address cannot be made, a warning says so and nothing is stored. Errors as of
 * store_open, and RC_BADDATA of coord_restore.
 */
enum rc state_open(const char *where, const char *address, struct coord *c,
		   struct coord_actions *actions, struct state **out, struct err *err);

/* Would state_open store anything? */
bool state_wanted(const char *where, const char *address);

/* Commit the records among the actions, before the caller carries out the rest; if that fails, the actions
 * are changed. NULL state: nothing to do. */
void state_commit(struct state *st, struct coord *c, struct coord_actions *actions);

/* Try again to commit the changes that failed. */
void state_tick(struct state *st, struct coord *c);

/* remove: the coordinator ends as it should, and its state goes, but for the records that stay (coord_record_stays).
 * Else all stays. NULL is legal. */
void state_close(struct state *st, bool remove);

#endif
