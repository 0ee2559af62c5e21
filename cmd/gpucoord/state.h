/*
 * state.h - the coordinator's state, stored so that one that is started again goes on.
 */
#ifndef GPUCOORD_STATE_H
#define GPUCOORD_STATE_H

#include <stdbool.h>

#include "coord/coord.h"

struct state;

/*
 * state_open - take what another coordinator has left, and give it to c.
 *
 *	where	a directory, etcd://host:port/prefix, "none", or NULL: what goes with the address
 *	address	where the coordinator listens
 *	out	NULL: nothing is stored. Ends with state_close
 *
 * What goes with the address is done without if it cannot be made, with a warning. Errors as of
 * store_open, and RC_BADDATA of coord_restore.
 */
enum rc state_open(const char *where, const char *address, struct coord *c, struct state **out,
		   struct err *err);

/* Would state_open store anything? */
bool state_wanted(const char *where, const char *address);

/* Commit the records among the actions, which are then to be carried out; they are changed when
 * that fails. NULL state: nothing to do. */
void state_commit(struct state *st, struct coord *c, struct coord_actions *actions);

/* Try again what could not be committed. */
void state_tick(struct state *st, struct coord *c);

/* The coordinator ends as it should: nothing is left. Else all stays. NULL is legal. */
void state_close(struct state *st, bool remove);

#endif
