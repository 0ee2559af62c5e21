/*
 * coord.h - the coordinator as a pure state machine: step(state, event, now) -> actions.
 *
 * No socket, thread, clock or randomness inside: the shell (cmd/gpucoord) feeds it requests,
 * replies of devices, departures and ticks, and carries out the actions. The same events give the
 * same actions.
 */
#ifndef COORD_COORD_H
#define COORD_COORD_H

#include "coord/core/step.h"

struct coord;

/* *out is the caller's; release with coord_free (NULL is legal). */
enum rc coord_new(const struct coord_config *cfg, struct coord **out, struct err *err);
void coord_free(struct coord *c);

/*
 * coord_add_device - a device that the configuration names. id 0: any.
 *
 * It is asked for its metadata every heartbeat unless it comes by itself. Before the first step.
 * Errors: RC_INVAL, RC_BUSY too many, RC_NOMEM.
 */
enum rc coord_add_device(struct coord *c, uint64_t id, const char *address, struct err *err);

/*
 * coord_step - feed one event; actions are appended to *out, to be carried out in order.
 *
 *	now_ms	monotonic; any origin, the same in all events
 *
 * Every request is answered exactly once, at the latest a little before its deadline (so that the
 * answer still arrives): with RC_TIMEOUT and the thing it waited for. Started work continues.
 * Errors: RC_NOMEM, the request had no effect and gets no answer. When memory ends later than that,
 * the answer is RC_NOMEM.
 */
enum rc coord_step(struct coord *c, const struct coord_event *ev, uint64_t now_ms,
		   struct coord_actions *out);

/*
 * coord_add_algo - an algorithm from a file's bytes, under the name in it, in the place of one that is there.
 *
 *	path	of the file, for sentences
 *	out	[out] appended to: actions of kinds that nobody waits for
 *
 * Before the first step, after coord_restore. Errors: RC_BADDATA it cannot be parsed or is wrong, RC_INVAL its name or
 * size, RC_BUSY too many, RC_NOMEM.
 */
enum rc coord_add_algo(struct coord *c, const char *bytes, size_t n, const char *path,
		       struct coord_actions *out, struct err *err);

/* That the tuner names no algorithm which is not there: tuner_check_files. After the last coord_add_algo. */
enum rc coord_check_tuner(const struct coord *c, struct err *err);

/*
 * coord_restore - a record that another coordinator has stored, one after the other, in order of
 * keys. Before the first step, which goes on where the other one was: communicators live, what was
 * under way is asked for again. A stored answer becomes a COORD_ANSWER without a token in *out: the shell
 * carries these out before it feeds requests.
 *
 * Errors: RC_BADDATA it makes no sense, with the key; RC_NOMEM. The coordinator is of no use then.
 */
enum rc coord_restore(struct coord *c, const char *key, const void *value, size_t nbytes,
		      struct coord_actions *out, struct err *err);

/* Whether a record that was stored stays when the coordinator ends cleanly: what a client has added until it is removed, an
 * algorithm of a file. The next coordinator restores it, and begins anew. */
bool coord_record_stays(const char *key, const void *value, size_t nbytes);

/*
 * coord_uncommitted - the records of the last step could not be stored, *why.
 *
 * The COORD_STORE actions are taken out of *out: the shell has them, and commits them later, in
 * order, with what follows. Clients that were to hear of an effect hear of the failure. Until coord_committed
 * no request with an effect is accepted. *out may have new COORD_STORE actions.
 */
void coord_uncommitted(struct coord *c, const struct err *why, struct coord_actions *out);

/* All has been committed that was to be. */
void coord_committed(struct coord *c);

#endif
