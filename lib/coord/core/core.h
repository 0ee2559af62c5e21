/*
 * core.h - what all rooms of the coordinator share: the step, what it sends out, who waits for an
 * answer, what has happened.
 */
#ifndef COORD_CORE_H
#define COORD_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"
#include "coll/plan.h"
#include "coord/coord.h"
#include "coord/core/limits.h"
#include "gpu_sim.pb-c.h"
#include "wire/wire.h"

struct device;

enum call_state {
	CALL_IDLE, /* not started, ended, or cancelled */
	CALL_LIVE, /* the shell owes a result */
	CALL_LOST, /* the rest are failures on their way to the owner */
	CALL_RESTARTED,
	CALL_OVERDUE,
	CALL_NOMEM,
};

struct call;
/* err->rc is RC_OK and reply the device's answer; or err says why not and reply is NULL. */
typedef void call_done(struct coord *c, struct call *call, const struct err *err,
		       const GpuSim__Reply *reply);

struct call {
	struct call *next, *prev; /* in coord.live or coord.dead */
	struct call *chain;	  /* in coord.by_token */
	enum call_state state;
	enum call_state end; /* in done(): how it ended, CALL_IDLE for a result */
	bool answered;	     /* in done(): by the device itself, be it with a failure */
	uint64_t token, since_ms, overdue_ms;
	struct device *dev; /* NULL: an address nobody answered from yet */
	call_done *done;
	void *owner;
	uint32_t rank;
};

enum waiting {
	WAIT_NOT,
	WAIT_ATTACH,  /* id: communicator */
	WAIT_ABORT,   /* id: communicator */
	WAIT_DETACH,  /* id: communicator */
	WAIT_IDLE,    /* id: communicator */
	WAIT_RUN,     /* id: run */
	WAIT_GRAPH,   /* id: graph */
	WAIT_CALL,    /* its own call */
	WAIT_RANKS,   /* id: rendezvous */
	WAIT_DEVICES, /* for free devices, in the queue; id: communicator that is to grow, or 0 */
	WAIT_EVENTS,  /* id: number of the last one it has */
	WAIT_MEMORY,  /* for room to be answered RC_NOMEM */
};

/* Who asks for devices, for messages to others. */
struct label {
	char program[64]; /* "gpuctl allreduce"; "": nobody said */
	uint32_t pid;
};

/* A caller to be answered. */
struct waiter {
	struct waiter *next, *prev;
	uint64_t token; /* 0: who asked has not come back after a restart of ours */
	uint64_t client_id, seq, asked_ms, due_ms;
	GpuSim__Request__BodyCase kind;
	const char *name; /* of the request */
	enum waiting on;
	uint64_t id;
	uint32_t rank; /* WAIT_RANKS */
	bool paths;    /* a status with paths */
	bool lateness; /* a status with that */
	struct call call;
	/* WAIT_DEVICES: */
	struct buf request; /* packed */
	struct label label;
	uint32_t want;
	bool
	    brief; /* nobody said that it shall: it waits for lost devices that are about to be back */
	uint64_t until_ms;
	bool gone; /* its client is away since gone_ms: others go first */
	uint64_t gone_ms;
};

/* A growing set of (src, dst) rank pairs, numbered 0, 1, 2 ... in order of coming. {0} is empty. */ /* Something that has happened. */
struct event {
	uint64_t number, at_ms; /* of the epoch */
	GpuSim__EventKind kind;
	uint64_t device, comm;	/* or 0 */
	uint32_t ordinal, rank; /* rank + 1, or 0 */
	char text[sizeof((struct err *)0)->text];
};

struct history {
	struct event *ring; /* COORD_EVENTS of them; NULL: there are none */
	uint64_t last;	    /* number of the newest */
	bool news;	    /* in this step */
};

struct devices;
struct comms;
struct runs;
struct persist;

/* What a step works on. Each room has its own part, whose fields are its business. */
struct coord {
	struct coord_config cfg;
	uint32_t lost_ms;   /* of silence */
	struct tuner model; /* when none was given */
	bool started;
	uint64_t start_ms, now_ms;
	uint64_t wall_ms;   /* of the epoch; 0: nobody has told */
	uint64_t client_id; /* whose request is at work; 0: nobody's */
	uint64_t last_run;
	struct waiter *waiters, *waiters_last;
	uint32_t nwaiters;
	uint32_t nqueued;	   /* of them, WAIT_DEVICES */
	struct coord_actions *out; /* of the current step */
	struct history history;
	struct devices *devices;
	struct comms *comms;
	struct runs *runs;
	struct persist *persist;
};

/* ---- action.c: what goes out */

/* Append the packed message; false: out of memory, *b as it was. */
bool buf_pack(struct buf *b, const ProtobufCMessage *m);
/* Append the message as field number `field` of the message that *b is the encoding of. */
bool buf_pack_field(struct buf *b, uint32_t field, const ProtobufCMessage *m);
/* *body = the encoding of a Request whose field `field` is head with `tail` (more of its fields,
 * encoded) after it. False: out of memory. */
bool pack_request(uint32_t field, const ProtobufCMessage *head, const struct buf *tail,
		  struct buf *body);
/* Append any action; takes its body, also when it fails. */
bool act(struct coord *c, struct coord_action *a);
void act_log(struct coord *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Append a call; takes the body. token 0: nobody waits for the result. */
bool act_call(struct coord *c, uint64_t token, uint64_t device_id, const char *address,
	      uint64_t timeout_ms, struct buf *body);
/* Answer and free the waiter; without memory it stays, to be answered RC_NOMEM later. */
void answer(struct coord *c, struct waiter *w, GpuSim__Reply *reply);
void answer_failure(struct coord *c, struct waiter *w, const struct err *err);
void answer_done(struct coord *c, struct waiter *w);

/* ---- waiter.c */

struct waiter *waiter_new(struct coord *c, const struct coord_event *ev);
void waiter_free(struct coord *c, struct waiter *w);
void waiter_set(struct waiter *w, enum waiting on, uint64_t id);
struct waiter *waiter_find(struct coord *c, enum waiting on, uint64_t id);
void waiters_fail(struct coord *c, enum waiting on, uint64_t id, const struct err *err);

/* Answer a client's request, of which it no longer wants to hear. */
void waiter_cancel(struct coord *c, uint64_t client_id, uint64_t seq);
void waiters_tick(struct coord *c);

/* ---- history.c */

/* It has happened to that device, "lost: killed by signal 9", whose name and rank come first. */
void event_device(struct coord *c, GpuSim__EventKind kind, const struct device *d, const char *fmt,
		  ...) __attribute__((format(printf, 4, 5)));
/* Anything else: what is filled in of its kind, device, communicator, rank. */
void event_add(struct coord *c, const struct event *what, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The end of a step: whoever waits for events hears of those in it. */
void events_tell(struct coord *c);
/* Nothing has happened for as long as the waiter wanted to wait. */
void events_none(struct coord *c, struct waiter *w);
enum rc events_restore(struct coord *c, const char *key, const uint8_t *value, size_t n,
		       struct err *err);

/* RC_OK when the waiter is answered or waits for something; else the failure to answer is in *err */
typedef enum rc handler(struct coord *c, struct waiter *w, const GpuSim__Request *req,
			struct err *err);

handler on_events;

#endif
