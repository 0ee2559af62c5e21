/*
 * protocol.h - the device's side of the protocol as a pure state machine: step(state, event) ->
 * actions.
 *
 * It decides a device's actions for communicators, graphs and runs: which coordinator and epoch count,
 * which runs are done already. It has no socket, thread, clock or randomness, and does not depend on
 * time. The shell (dev/device.c) feeds it requests and outcomes, and carries out the actions in order,
 * each step's before the next step.
 *
 * Communicators. An attach of a newer epoch replaces the older one, whose runs end and whose graphs are
 * dropped; the same attach again is accepted unchanged; an older one is refused with RC_ABORTED. The
 * first attach of another coordinator drops everything of its predecessor. An attach of a new
 * communicator is answered when the runs of ended communicators have ended, since they may still write;
 * so is each one that follows until then. An attach of a newer epoch is answered when the runs of older
 * epochs have ended.
 *
 * Runs. A numbered run is known by (communicator, run, epoch). The same request is never executed again:
 * while the run is in progress its callers all get its answer, later the remembered one. A run too old to
 * be remembered is refused. Runs of an ended or aborted epoch are refused with RC_ABORTED. A run waits
 * until those of its communicator's older epochs have ended here, since they may still write.
 */
#ifndef DEV_PROTOCOL_H
#define DEV_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"
#include "dev/stream.h"
#include "gpu_sim.pb-c.h"

#define PROTOCOL_MAX_COMMS  256
#define PROTOCOL_MAX_GRAPHS 1024
#define PROTOCOL_REMEMBERED 64 /* ended runs of a communicator, of each kind: see protocol.c */
#define PROTOCOL_NO_GRAPH   UINT32_MAX

enum protocol_event_kind {
	PROTOCOL_REQUEST, /* CommAttach, CommJoin, CommDetach, CommAbort, GraphDefine, GraphDrop,
			   * Run */
	PROTOCOL_RESULT,  /* an attach, join or define for `caller` was carried out: `err` */
	PROTOCOL_ENDED, /* run `start` ended, could not be started, or (queued) was started: `result` */
};

struct protocol_event {
	enum protocol_event_kind kind;
	uint64_t caller;		/* request, result: identifies the caller to answer */
	const GpuSim__Request *request; /* request: borrowed until it is answered */
	const struct err *err;		/* result; rc RC_OK on success */
	uint64_t start;			/* ended */
	const struct run_result *result;
};

enum protocol_action_kind {
	PROTOCOL_ANSWER, /* answer the caller, once a request: `err`, or `result` of a run */
	PROTOCOL_ATTACH, /* as the caller's request says; a result is due */
	PROTOCOL_JOIN,	 /* likewise */
	PROTOCOL_ABORT,	 /* communicator `comm` at `epoch`: end what runs, because of `reason` */
	PROTOCOL_DETACH, /* communicator `comm` */
	PROTOCOL_DEFINE, /* the caller's request as number `graph`; a result is due */
	PROTOCOL_DROP,	 /* forget graph number `graph` */
	PROTOCOL_START, /* the run that the caller's request describes, as `start`; its end is due */
};

struct protocol_action {
	enum protocol_action_kind kind;
	uint64_t caller;
	const struct err *err;		 /* answer: to anything but a run */
	const struct run_result *result; /* answer to a run; rc RC_OK: its times */
	uint64_t comm;
	uint32_t epoch;
	const char *reason;
	enum rc code;	/* abort: of the failure, for the rank's client */
	uint32_t graph; /* start: PROTOCOL_NO_GRAPH: the operations are in the request */
	uint64_t start;
	bool restore;  /* start: first restore the inputs that the run kept */
	bool snapshot; /* start: then keep the inputs that it overwrites, unless kept already */
};

struct protocol;

/* Of device `device_id`. NULL: out of memory. */
struct protocol *protocol_new(uint64_t device_id);
void protocol_free(struct protocol *p); /* NULL is legal */

/* Feed one event. Returns the number of actions, which are valid until the next step. */
size_t protocol_step(struct protocol *p, const struct protocol_event *ev,
		     const struct protocol_action **actions);

/* Append a line for each communicator, graph and run it knows, in a fixed order; for tests. False:
 * out of memory. */
bool protocol_dump(const struct protocol *p, struct buf *out);

#endif
