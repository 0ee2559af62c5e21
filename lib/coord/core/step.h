/*
 * step.h - what goes into a step of the coordinator and what comes out: its configuration, events and
 * actions.
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
 * The ladder of timeouts: heartbeat < lost < operation < communicator < job. coord_new refuses one
 * that does not grow. A device is lost when `missed` of the last `of` heartbeats that it owed are
 * missing: of one that falls silent, missed * heartbeat_ms after its last word.
 */
struct coord_config {
	uint64_t instance;	  /* random, names this coordinator process */
	uint32_t pid;		  /* for status */
	char address[256];	  /* own address, for status */
	uint32_t heartbeat_ms;	  /* how often devices register again */
	uint32_t missed, of;	  /* 1 .. of, of at most COORD_MAX_BEATS */
	uint32_t op_timeout_ms;	  /* default longest wait without progress inside an operation */
	uint32_t comm_timeout_ms; /* longest an operation may take with all recoveries, from its
				    * first failure on; 0: 5 min, or 10 times op_timeout_ms */
	uint32_t job_timeout_ms;  /* longest a run may take; 0: a day, or 10 times that */
	uint32_t abort_grace_ms;  /* after a failure, how long survivors have to answer */
	uint32_t respawn_ms;	  /* how long a device that is started again has to come; 0: 10 s */
	uint32_t on_failure;	  /* enum gpusim_on_failure: of devices lost in no communicator */
	char host[HOST_ID_MAX];	  /* boot id of its machine: where it can start devices; or "" */
	bool persists;		  /* it emits COORD_STORE */
	bool records;		  /* it emits COORD_ALGO */
	/* The number of a new report of a failure, claimed for it alone; 0: there will be none. In a step, so it must
	 * not wait long. NULL: no reports are written. */
	uint64_t (*report_claim)(void *arg);
	void *report_arg;
	char reports[256]; /* the folder of the reports, for sentences: "~/.local/state/gpusim" */
	const struct tuner *tuner; /* chooses algorithms that callers leave open; the caller's, for
				    * as long as the coordinator lives. NULL: the model's choice */
};

#define COORD_MAX_BEATS 64

enum coord_event_kind {
	COORD_REQUEST, /* a client or device calls */
	COORD_RESULT,  /* a call that an action started has ended */
	COORD_GONE,    /* a client's last connection closed */
	COORD_SEEN,    /* it is there again, and waits for what it had asked */
	COORD_CANCEL, /* it waits no longer for the answer to one request, which gets one at once */
	COORD_TICK,   /* time passed; at least every 100 ms */
	COORD_UNREACHABLE, /* the connection to a device broke, and nobody listens there any more */
	COORD_ECHO,	   /* what COORD_ASK_ECHO sent is back, or has failed */
	COORD_LOOKED,	   /* at a device's process */
	COORD_SPAWNED, /* a COORD_SPAWN was carried out: process `pid`, or rc and text say why not */
	COORD_EXITED,  /* process `pid` of this host has ended, with wait status `status` */
	COORD_PROVEN,  /* a COORD_PROVE was carried out: `proof` */
};

/* Threads of a process that is silent: */
enum coord_look {
	COORD_LOOK_IDLE,     /* none wants to run, or they are stopped, or gone */
	COORD_LOOK_RUNNABLE, /* the one that sends heartbeats wants to run now */
	COORD_LOOK_STARVED,  /* since the last look they have waited for a processor for long */
};

struct coord_event {
	enum coord_event_kind kind;
	uint64_t token;	    /* request: names the caller for the answer; result: the call */
	uint64_t client_id; /* request, gone, seen, cancel */
	uint64_t
	    seq; /* cancel: of the request; unreachable: when that was seen, on now_ms's clock, 0: now */
	const GpuSim__Request *request; /* request: borrowed for the step */
	uint64_t deadline_ms;	    /* request: when the client stops waiting, on now_ms's clock */
	uint64_t wall_ms;	    /* of the epoch; 0: not known */
	uint64_t wall_ns;	    /* the same, for devices on other hosts; 0: not told */
	enum rc rc;		    /* result: why there is no reply; spawned */
	const GpuSim__Reply *reply; /* result: the device's answer, success or not; or NULL */
	const char *text;      /* result, spawned: why, if not; unreachable: the address that was
				     * called */
	uint64_t device_id;    /* unreachable, looked, spawned */
	uint32_t pid;	       /* spawned, exited */
	int status;	       /* exited */
	enum coord_look found; /* looked */
	struct coord_proof *proof; /* proven: of coord_prove, taken over; NULL: no memory */
};

enum coord_action_kind {
	COORD_ANSWER, /* answer request `token` with the packed Reply in body; once a request. token
		       * 0: nobody has repeated request seq of client_id since a restart; remember
		       * the answer for it */
	COORD_CALL,   /* call the device with the packed Request in body; result as `token`, which
		       * is 0 when nobody waits for it */
	COORD_SPAWN, /* start device_id again, on this host: body is its packed DeviceMetadata; if its
		       * process still is there, end that first; of a supervised one do no more.
		       * COORD_SPAWNED tells of it */
	COORD_STORE, /* keep body under the key in address, no data: drop that. All of a step come
		      * first and belong together: committed, safely if one is a promise, before
		      * what follows is carried out. See coord_uncommitted */
	COORD_LOG,   /* body is a NUL-terminated line for the log */
	COORD_NOTE, /* for the recorder of the coordinator's steps: body is a NUL-terminated sentence that tells a
		      * decision with its reason, or an event */
	COORD_REPORT, /* write report number `token`: body is a packed Report with the communicator, the reason, and
		       * recorders without areas that name the devices */
	COORD_ASK_ECHO, /* send a message to ourselves by the way that requests take */
	COORD_DISCARD, /* remove the memory file at address, of device_id, if no device has it: nobody
			 * waits for it */
	COORD_LOOK,    /* look at the process of device_id, which is silent: COORD_LOOKED tells */
	COORD_PROVE, /* coord_prove(body), on another thread than steps: COORD_PROVEN tells with `token`. One at a time */
	COORD_ALGO,  /* for a recording: body is a packed TapeAlgo with the whole file */
};

struct coord_action {
	enum coord_action_kind kind;
	uint64_t token;
	uint64_t
	    device_id; /* call; 0: not known yet, a configured address is asked who it is; note */
	uint64_t comm_id;    /* note, or 0 */
	uint32_t rank;	     /* note: + 1, or 0 */
	uint32_t event;	     /* note: the event's kind + 1; 0: a decision */
	enum rc rc;	     /* answer: the failure that it tells; RC_OK: none */
	uint32_t pid;	     /* look */
	uint64_t timeout_ms; /* call: the shell owes a result, be it RC_TIMEOUT, by then */
	char address[256];   /* call; store: the key; discard: the path */
	bool promise;	     /* store: it must survive the machine; answer: it tells of an effect */
	uint64_t client_id, seq; /* answer without a token: of the request */
	uint64_t made;		 /* answer: the communicator that its client hears of, or 0 */
	struct buf body; /* packed, without the envelope's fields: the net room adds those */
};

struct coord_actions {
	struct coord_action *v;
	size_t n, cap;
};

/* Free the bodies and forget the actions; keeps the array. coord_actions_fini also frees that. */
void coord_actions_clear(struct coord_actions *a);
void coord_actions_fini(struct coord_actions *a);

/*
 * coord_prove - parse, prove and lower the algorithm of a COORD_PROVE, whose body is a packed AlgoPutRequest.
 *
 *	stop	true: end early; NULL: it will not be
 *
 * On any thread; it knows nothing of a coordinator. The proof, good or not, is for COORD_PROVEN, or coord_proof_free (NULL is
 * legal). NULL: out of memory.
 */
struct coord_proof *coord_prove(const struct buf *body, const atomic_bool *stop);
void coord_proof_free(struct coord_proof *proof);

#endif
