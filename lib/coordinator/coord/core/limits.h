/*
 * limits.h - bounds and times of the coordinator.
 */
#ifndef COORD_LIMITS_H
#define COORD_LIMITS_H

#include "base/times.h"
#include "wire/wire.h"

/* Bounds. Lists in a reply hold at most WIRE_MAX_RANKS entries, which bounds devices and comms. */
#define COORD_MAX_DEVICES WIRE_MAX_RANKS
#define COORD_MAX_COMMS	  WIRE_MAX_RANKS
#define COORD_MAX_RUNS	  1024 /* unfinished, per communicator */
#define COORD_MAX_GROUPS  64   /* open, per communicator */
#define COORD_MAX_GRAPHS  256  /* per communicator */
#define COORD_MAX_PENDING 4096
#define COORD_MAX_IDS	  256	       /* ids that wait for ranks */
#define COORD_USED_IDS	  1024	       /* remembered ids of ended communicators */
#define COORD_MAX_HELD	  (256u << 20) /* bytes of runs, open groups and graphs */
#define COORD_MAX_OP	  (1ull << 62) /* operation numbers stay below the flags of wire/frame.h */

/* Algorithms from files: parsed, verified and lowered one at a time, beside the steps, within these
 * bounds. */
#define COORD_MAX_ALGOS	   64
#define COORD_ALGO_FILE	   (4u << 20)	/* bytes of a file */
#define COORD_ALGO_STEPS   (1u << 16)	/* of all its ranks */
#define COORD_ALGO_WORK	   (1ull << 29) /* of algo_budget: 3 s of a processor */
#define COORD_ALGO_BYTES   (1u << 20)	/* of all its ranks' schedules, packed */
#define COORD_ALGOS_BYTES  (16u << 20)	/* of all algorithms */
#define COORD_ALGO_UPLOADS 8		/* concurrent uploads in pieces */

/* Limits of one client, so that it cannot lock out others. They apply only when a shared bound is near. A
 * device holds 256 communicators. */
#define COORD_CLIENT_COMMS   128
#define COORD_CLIENT_PENDING 1024
#define COORD_CLIENT_IDS     64 /* rendezvous that it began */
#define COORD_CLIENT_HELD    (64u << 20)
#define COORD_CLIENT_REPLIES 32	 /* answers stored */
#define COORD_GUEST_RUNS     256 /* on a communicator that another client made */
#define COORD_GUEST_GRAPHS   64

/* Defaults of struct coord_config. */
#define COORD_COMM_MS 300000
#define COORD_JOB_MS  86400000

/* Fixed times, which do not depend on the speed of a job or a machine. */
#define COORD_TICK_MS	    100	  /* longest time between the shell's ticks */
#define COORD_CALL_MS	    10000 /* longest control call to a device, or 2 lost_ms */
#define COORD_ADOPT_MS	    10000 /* longest adoption of a memory: copies a file of the same host */
#define COORD_OVERDUE_MS    1000 /* the shell must deliver a result this long after a call's timeout */
#define COORD_ANSWER_MARGIN 150	    /* ms before a client's deadline, for the answer to arrive */
#define COORD_FORGET_MS	    3600000 /* until a free device that is lost is forgotten */
#define COORD_DISCARD_MS \
	1000 /* between attempts to remove the memory of a process that may still be ending */
#define COORD_REPLIES_MS \
	60000 /* answers stay stored after the client disconnects: longer than it repeats */

#define COORD_WHY_MAX	160	   /* bytes of a reason */
#define COORD_EVENTS	1024	   /* in the history */
#define COORD_RESERVE	(1u << 20) /* numbers reserved at once, so that few are stored */
#define COORD_MAX_TRIES 4	   /* of one run, before its failure is the answer */

#endif
