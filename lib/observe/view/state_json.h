/*
 * state_json.h - a world as one JSON object: /status.json and the live page. gpucoord(8) documents its
 * members; while "format" is 1, they keep their names and meanings.
 */
#ifndef VIEW_STATE_JSON_H
#define VIEW_STATE_JSON_H

#include "base/buf.h"
#include "view/rates.h"

#define STATE_JSON_FORMAT 1
#define STATE_JSON_EVENTS 64 /* the last ones */
#define STATE_JSON_EDGES  48 /* most ranks of a communicator whose edges are listed */

/*
 * state_json - append the object, on one line.
 *
 *	now	read with at least a few records, for the operations that ended last
 *	before	an earlier world, for rates; NULL: they are 0
 *	rates	[out] of all devices; or NULL
 *
 * RC_NOMEM. Checked by: tests/unit/view/t_state_json.c, tests/bats/page.bats
 */
enum rc state_json(const struct world *now, const struct world *before, struct buf *out,
		   struct rates *rates, struct err *err);

#endif
