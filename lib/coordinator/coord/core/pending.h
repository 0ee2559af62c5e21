/*
 * pending.h - requests that have no answer yet.
 *
 * Each is answered exactly once, by answer*(), which frees it. The room that a request waits for
 * describes the wait in a static `struct wait`, so deadlines and cancellations need no list of kinds.
 */
#ifndef COORD_PENDING_H
#define COORD_PENDING_H

#include "coord/core/core.h"

/* The client and its request. */
struct asker {
	uint64_t client_id, seq, asked_ms;
	GpuSim__Request__BodyCase kind;
	const char *name; /* of the request */
};

/* A kind of wait. Each function may be NULL. */
struct wait {
	/* Nothing has begun: a failure has no effect, and the client may repeat the request. */
	bool idle;
	/* The deadline has come. True: answered. False: *err says what it waited for. */
	bool (*late)(struct coord *c, struct pending *p, struct err *err);
	/* The request no longer waits for this. */
	void (*left)(struct coord *c, struct pending *p);
};

enum rc pendings_init(struct coord *c);
/* Frees all requests, unanswered. */
void pendings_drop(struct coord *c);
void pendings_fini(struct coord *c);
/* Check that one more may be pending, in all and of the current client. RC_BUSY. */
enum rc pendings_check(const struct coord *c, struct err *err);
/* Ends requests whose deadline has passed. */
void pendings_tick(struct coord *c);

/* The request of the event. NULL: out of memory. */
struct pending *pending_new(struct coord *c, const struct coord_event *ev);
/* A request from a record, with its kind of wait; its client has not repeated it yet. client or seq 0: none.
 * RC_NOMEM with the key. */
enum rc pending_restore(struct coord *c, const char *key, uint64_t client, uint64_t seq,
			uint32_t kind, const struct wait *on, uint64_t id, struct err *err);
/* The absent request that p repeats, or NULL. */
struct pending *pending_repeated(struct coord *c, const struct pending *p);
/* Start the waits of the absent requests now. */
void pendings_resume(struct coord *c);
void pending_free(struct coord *c, struct pending *p);

const struct asker *pending_asker(const struct pending *p);
/* The kind of wait (NULL: it is being handled), the number of what it waits for, the room's own data. */
const struct wait *pending_on(const struct pending *p);
uint64_t pending_id(const struct pending *p);
void *pending_own(const struct pending *p);
void pending_wait(struct coord *c, struct pending *p, const struct wait *on, uint64_t id,
		  void *own);
/* The latest time of its answer; make that earlier. */
uint64_t pending_due_ms(const struct pending *p);
void pending_due_by(struct pending *p, uint64_t ms);

/* The first request with that wait and id; the request after p; NULL: none. */
struct pending *pending_find(struct coord *c, const struct wait *on, uint64_t id);
struct pending *pending_next(const struct coord *c, const struct pending *p);
void pendings_fail(struct coord *c, const struct wait *on, uint64_t id, const struct err *err);
/* The client has cancelled the request. */
void pending_cancel(struct coord *c, uint64_t client_id, uint64_t seq);

/* Answer and free it. When out of memory it stays, to be answered RC_NOMEM later. */
void answer(struct coord *c, struct pending *p, GpuSim__Reply *reply);
/* Answer with the message as the body of a reply of that kind. */
void answer_body(struct coord *c, struct pending *p, GpuSim__Reply__BodyCase kind, void *body);
void answer_failure(struct coord *c, struct pending *p, const struct err *err);
void answer_done(struct coord *c, struct pending *p);
/* Answer RC_NOMEM, at the next tick. */
void answer_nomem(struct coord *c, struct pending *p);

/* RC_OK: the request is answered, or waits. Else *err is the failure to answer with. */
typedef enum rc handler(struct coord *c, struct pending *p, const GpuSim__Request *req,
			struct err *err);

/* ---- events: the history of devices and communicators */

#define EVENT_TEXT_MAX sizeof((struct err *)0)->text

/* The subject of an event. */
struct event {
	GpuSim__EventKind kind;
	uint64_t device, comm;	/* or 0 */
	uint32_t ordinal, rank; /* rank + 1, or 0 */
};

/* Add an event with its message. */
void event_add(struct coord *c, const struct event *what, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The end of a step: answer requests that wait for events. */
void events_tell(struct coord *c);
restore_record events_restore;
enum rc history_init(struct coord *c);
void history_fini(struct coord *c);

handler on_events;

#endif
