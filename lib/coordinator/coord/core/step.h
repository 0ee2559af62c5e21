/*
 * step.h - a step's input and output: configuration, events and actions.
 */
#ifndef COORD_STEP_H
#define COORD_STEP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/host.h"
#include "base/rc.h"
#include "coll/tune.h"
#include "gpu_sim.pb-c.h"

/*
 * The ladder of timeouts: heartbeat < lost < operation < communicator < job. coord_new refuses one that
 * does not increase. A device is lost when `missed` of the last `of` heartbeats that were due are
 * missing: a device that falls silent, missed * heartbeat_ms after its last message.
 */
struct coord_config {
	uint64_t instance;	  /* random id of this coordinator process */
	uint32_t pid;		  /* for status */
	char address[256];	  /* own address, for status */
	uint32_t heartbeat_ms;	  /* how often devices register again */
	uint32_t missed, of;	  /* 1 .. of, of at most COORD_MAX_BEATS */
	uint32_t op_timeout_ms;	  /* default longest wait without progress inside an operation */
	uint32_t comm_timeout_ms; /* longest an operation may take with all recoveries, from its
				    * first failure on; 0: 5 min, or 10 times op_timeout_ms */
	uint32_t job_timeout_ms;  /* longest a run may take; 0: a day, or 10 times that */
	uint32_t abort_grace_ms;  /* time for survivors to answer after a failure */
	uint32_t respawn_ms;	  /* time for a restarted device to register; 0: 10 s */
	uint32_t on_failure;	  /* enum gpusim_on_failure: for lost devices in no communicator */
	bool revive;		  /* start lost devices that only failed communicators have, too */
	char host[HOST_ID_MAX];	  /* boot id of the host on which it can start devices, or "" */
	bool persists;		  /* it emits COORD_STORE */
	bool records;		  /* it emits COORD_ALGO */
	/* Claims the number of a new report of a failure; 0: no report. Must not block. NULL: no reports. */
	uint64_t (*report_claim)(void *arg);
	void *report_arg;
	char reports[256]; /* the folder of the reports, for messages: "~/.local/state/gpusim" */
	/* Chooses algorithms that callers leave open; must outlive the coordinator. NULL: the model's
	 * choice. */
	const struct tuner *tuner;
};

#define COORD_MAX_BEATS 64

enum coord_event_kind {
	COORD_REQUEST,	   /* a client or device calls */
	COORD_RESULT,	   /* a call that an action started has ended */
	COORD_GONE,	   /* a client's last connection closed */
	COORD_SEEN,	   /* the client is connected again, and waits for its requests */
	COORD_CANCEL,	   /* the client cancels one request, which is answered at once */
	COORD_TICK,	   /* time passed; at least every 100 ms */
	COORD_UNREACHABLE, /* the connection to a device broke, and nothing listens there */
	COORD_ECHO,	   /* the message of COORD_ASK_ECHO is back, or failed */
	COORD_LOOKED,	   /* the result of COORD_LOOK */
	COORD_SPAWNED, /* a COORD_SPAWN was carried out: process `pid`, or rc and text say why not */
	COORD_EXITED,  /* process `pid` of this host has ended, with wait status `status` */
	COORD_PROVEN,  /* a COORD_PROVE was carried out: `proof` */
};

/* The threads of a silent process: */
enum coord_look {
	COORD_LOOK_IDLE,     /* none is runnable, or they are stopped, or ended */
	COORD_LOOK_RUNNABLE, /* the thread that sends heartbeats is runnable */
	COORD_LOOK_STARVED,  /* they have waited long for a processor since the last look */
};

struct coord_event {
	enum coord_event_kind kind;
	uint64_t token;	    /* request: names the caller for the answer; result: the call */
	uint64_t client_id; /* request, gone, seen, cancel */
	/* cancel: of the request; unreachable: the time of that by now_ms's clock, 0: now */
	uint64_t seq;
	const GpuSim__Request *request; /* request: borrowed for the step */
	uint64_t deadline_ms;	    /* request: when the client stops waiting, on now_ms's clock */
	uint64_t wall_ms;	    /* since 1970; 0: unknown */
	uint64_t wall_ns;	    /* the same, for devices on other hosts; 0: unknown */
	enum rc rc;		    /* result: why no reply came; spawned */
	const GpuSim__Reply *reply; /* result: the device's answer, success or not; or NULL */
	/* result, spawned: the failure's reason; unreachable: the address that was called */
	const char *text;
	uint64_t device_id;	   /* unreachable, looked, spawned */
	uint32_t pid;		   /* spawned, exited */
	int status;		   /* exited */
	enum coord_look found;	   /* looked */
	struct coord_proof *proof; /* proven: of coord_prove, taken over; NULL: out of memory */
};

enum coord_action_kind {
	COORD_ANSWER, /* answer request `token` with the packed Reply in body; once per request. token
		       * 0: remember the answer to request seq of client_id, which nobody has repeated
		       * since a restart */
	COORD_CALL,   /* call the device with the packed Request in body; result as `token`, 0: not
		       * needed */
	COORD_SPAWN, /* start device_id again on this host: body is its packed DeviceMetadata. End a
		      * process that still exists first; for a supervised one do only that. Result:
		      * COORD_SPAWNED */
	COORD_STORE, /* store body under the key in address; no data: drop it. All stores of a step come
		      * first and are committed together, synced if one is a promise, before the other
		      * actions. See coord_uncommitted */
	COORD_LOG, /* body is a NUL-terminated line for the log */
	COORD_NOTE, /* for the recorder of the coordinator's steps: body is a NUL-terminated text: a decision
		     * with its reason, or an event */
	COORD_REPORT, /* write report number `token`: body is a packed Report with the communicator, the reason
		       * and recorders without areas, which name the devices */
	COORD_ASK_ECHO, /* send a message to ourselves on the path of requests */
	COORD_DISCARD, /* remove the memory file at address, of device_id, if no device has it; no result */
	COORD_LOOK, /* look at the process of device_id, which is silent. Result: COORD_LOOKED */
	COORD_PROVE, /* coord_prove(body) on another thread, one at a time. Result: COORD_PROVEN with `token` */
	COORD_ALGO, /* for a recording: body is a packed TapeAlgo with the whole file */
};

struct coord_action {
	enum coord_action_kind kind;
	uint64_t token;
	/* call (0: unknown: a configured address is asked for its id); note */
	uint64_t device_id;
	uint64_t comm_id;    /* note, or 0 */
	uint32_t rank;	     /* note: + 1, or 0 */
	uint32_t event;	     /* note: the event's kind + 1; 0: a decision */
	enum rc rc;	     /* answer: the failure in it; RC_OK: none */
	uint32_t pid;	     /* look */
	uint64_t timeout_ms; /* call: deadline of the result, which may be RC_TIMEOUT */
	char address[256];   /* call; store: the key; discard: the path */
	bool promise; /* store: it must survive a machine crash; answer: it reports an effect */
	uint64_t client_id, seq; /* answer without a token: of the request */
	uint64_t made;		 /* answer: the new communicator in it, or 0 */
	struct buf body; /* packed, without the envelope's fields, which the net room adds */
};

struct coord_actions {
	struct coord_action *v;
	size_t n, cap;
};

/* Free the bodies and clear the list; coord_actions_fini also frees the array. */
void coord_actions_clear(struct coord_actions *a);
void coord_actions_fini(struct coord_actions *a);

/*
 * coord_prove - parse, verify and lower the algorithm of a COORD_PROVE, whose body is a packed
 * AlgoPutRequest.
 *
 *	stop	true: end early; NULL: it will not be
 *
 * On any thread; needs no coordinator. Pass the proof, good or not, to COORD_PROVEN or coord_proof_free
 * (NULL is legal). NULL: out of memory.
 */
struct coord_proof *coord_prove(const struct buf *body, const atomic_bool *stop);
void coord_proof_free(struct coord_proof *proof);

#endif
