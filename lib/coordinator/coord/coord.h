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
 * Every request is answered exactly once, a little before its deadline at the latest (so that the answer
 * still arrives): with RC_TIMEOUT and what it waited for. Started work continues.
 * Errors: RC_NOMEM, the request had no effect and gets no answer. When memory ends later than that,
 * the answer is RC_NOMEM.
 */
enum rc coord_step(struct coord *c, const struct coord_event *ev, uint64_t now_ms,
		   struct coord_actions *out);

/*
 * coord_add_algo - add an algorithm from a file's bytes, under the name in it; it replaces one of that name.
 *
 *	path	of the file, for messages
 *	out	[out] appended to: actions without a waiting request
 *
 * Before the first step, after coord_restore. Errors: RC_BADDATA parse error or failed proof, RC_INVAL
 * name or size, RC_BUSY too many, RC_NOMEM.
 */
enum rc coord_add_algo(struct coord *c, const char *bytes, size_t n, const char *path,
		       struct coord_actions *out, struct err *err);

/* Check that all algorithms that the tuner names exist (tuner_check_files). After the last coord_add_algo. */
enum rc coord_check_tuner(const struct coord *c, struct err *err);

/*
 * coord_restore - restore one record of another coordinator; call in order of keys. Before the first step,
 * which continues where the other coordinator was: communicators live, what was
 * in progress is requested again. A stored answer becomes a COORD_ANSWER without a token in *out: the shell
 * carries these out before it feeds requests.
 *
 * Errors: RC_BADDATA malformed record, with its key; RC_NOMEM. The coordinator is unusable then.
 */
enum rc coord_restore(struct coord *c, const char *key, const void *value, size_t nbytes,
		      struct coord_actions *out, struct err *err);

/* The record stays in the store after a clean end: of an algorithm that a client has added without a
 * lease. The next coordinator restores it, and starts otherwise empty. */
bool coord_record_stays(const char *key, const void *value, size_t nbytes);

/*
 * coord_uncommitted - the records of the last step could not be stored, *why.
 *
 * The COORD_STORE actions are taken out of *out: the shell has them, and commits them later, in order,
 * together with later ones. Clients that wait for an effect get the failure. Until coord_committed no request
 * with an effect is accepted. *out may have new COORD_STORE actions.
 */
void coord_uncommitted(struct coord *c, const struct err *why, struct coord_actions *out);

/* All records have been committed. */
void coord_committed(struct coord *c);

#endif
