/*
 * comm_impl.h - what the files of this room share. Nobody else includes it.
 */
#ifndef COORD_COMM_IMPL_H
#define COORD_COMM_IMPL_H

#include "coord/comm/comm.h"

/* A client that asks for devices, for messages to others. */
struct label {
	char program[64]; /* "gpuctl allreduce"; "": it did not say */
	uint32_t pid;
};

/* A rank's last report on the operation it is in. */
struct progress {
	uint64_t report; /* which of its device's; 0: none. Only the device's last report counts */
	uint64_t moved_ms; /* when it last moved */
	uint64_t seq;
	uint32_t epoch, step, steps;
	uint32_t waits_for; /* rank + 1; 0: nobody */
};

/* By how long a rank held up the others, in runs that succeeded. */
struct lateness {
	uint64_t operations, sum_ns, max_ns;
};

struct member {
	struct device *dev;
	uint64_t incarnation; /* of its device when it was attached */
	uint32_t memories;    /* the same */
	uint32_t first; /* its rank when the communicator was made; UINT32_MAX: it came later */
	struct lateness late;
	struct progress progress;
	/* Of a queued communicator: operations that have ended here, and which of its device's reports told of them
	 * last: the rank's process lives while it is the device's last. 0: none. */
	uint64_t operations, counted;
	uint64_t *waited_ns; /* and by rank how long it has waited; NULL: for nobody */
	bool attached;	     /* or may be */
	uint64_t block;	     /* where its control block is; 0: it shares no memory */
	bool *mapped;	     /* by rank: whose memory it has mapped; NULL: nobody's */
	struct call call;
	bool newcomer; /* its first attach is to come */
	/* While a failure is looked into, and after it: */
	bool heard;	     /* it has answered since */
	bool gone;	     /* it will not: `why` */
	bool accused;	     /* a peer waited for it in vain */
	struct device *from; /* the lost device whose memory it adopts; still reserved */
	char why[COORD_WHY_MAX];
};

/* Bits, so that a row of the table can be of several states. */
enum comm_state {
	COMM_MAKING = 1,      /* its ranks are attached for the first time */
	COMM_MEETING = 2,     /* and join those whose memory they have mapped */
	COMM_LIVE = 4,	      /* it runs operations */
	COMM_FAILED = 8,      /* for good */
	COMM_DRAINING = 16,   /* it has failed: every rank that still can has to answer */
	COMM_DECIDING = 32,   /* within a step: who is lost, and how it goes on */
	COMM_REPLACING = 64,  /* lost ranks get their devices back, or others */
	COMM_ATTACHING = 128, /* all ranks again, under the next epoch */
	COMM_JOINING = 256,
	COMM_DEFINING = 512,   /* its graphs again */
	COMM_DETACHING = 1024, /* it ends, and its ranks are told */
	COMM_GONE = 2048,
};

enum comm_event {
	COMM_ATTACHED,	/* all ranks have answered their attach */
	COMM_JOINED,	/* the same of the join */
	COMM_DEFINED,	/* the same of the graphs */
	COMM_BROKEN,	/* a rank has refused, or nobody wants it any more */
	COMM_FAILS,	/* a rank or an operation failed */
	COMM_ABORTED,	/* a client wants it to fail */
	COMM_DRAINED,	/* all has been heard of the failure, or the time for that is over */
	COMM_COMPLETE,	/* every rank has a device */
	COMM_SHORT,	/* lost ranks need devices */
	COMM_HOPELESS,	/* it cannot go on */
	COMM_CHANGED,	/* ranks have left or come, because a client wanted that */
	COMM_RESUMED,	/* the coordinator was restarted */
	COMM_DESTROYED, /* a client wants its end, or stays away */
	COMM_DETACHED,	/* all ranks have answered, or the time for that is over */
};

/* A failure, until it is over. */
struct recovery {
	struct err cause;  /* the first that is not only a consequence; RC_OK: there is none */
	struct err told;   /* the cause, with the report that will tell of it */
	bool final;	   /* a client wants it to fail */
	bool asked;	   /* and knows why: there is no report */
	bool blank;	   /* a rank's memory is lost with it */
	unsigned rounds;   /* failures in a row, since it was last live */
	uint64_t began_ms; /* of the first of them */
	uint64_t drained_ms;
	uint64_t until_ms; /* when the state ends at the latest */
	char where[128];   /* "allreduce #7 (ring) step 3 of 6", or "" */
	uint64_t idle_ms;  /* how long the operation had not moved */
	char who[200];	   /* "rank 2 (device ..) is lost: why" */
	char tried[200]; /* "spare device ..: why", of the last that could not replace one, or "" */
	char stuck[200]; /* "rank 2 (device ..) is stuck: why", by the ranks' progress, or "" */
};

struct unique_id {
	uint64_t high, low;
};

struct owner {
	uint64_t client_id;
	bool gone;
	uint64_t gone_ms;
	bool left; /* of a queued communicator: its rank has left */
};

struct comm {
	struct comm *next;
	uint64_t id;
	uint32_t epoch, nranks, op_timeout_ms;
	uint32_t first_nranks; /* when it was made */
	struct member *rank;
	enum comm_state state;
	bool made;	  /* it has been live */
	bool by_memory;	  /* every rank has mapped every other's memory */
	bool queued;	  /* its ranks enqueue operations themselves */
	uint32_t splits;  /* by calls of each rank; since a restart */
	uint32_t waiting; /* calls of members under way */
	enum gpusim_on_failure on_failure;
	struct recovery rec;
	uint32_t recoveries;
	struct err recovered; /* the last one's sentence */
	uint64_t detach_ms;   /* COMM_DETACHING: when it ends at the latest */
	bool lease, gone;     /* gone: its clients are away since gone_ms */
	uint64_t client_id, gone_ms;
	struct label label;   /* of its client */
	struct unique_id uid; /* its ranks met by it; {0}: one call made it */
	struct owner
	    *owners; /* by rank, when each has called for itself; NULL: it is client_id's alone */
	uint32_t nowners;
	uint64_t report;    /* its number, of the last failure that got one; 0: none */
	bool reporting;	    /* it is still to be written */
	struct err failed;  /* of COMM_FAILED; or the first rank that refused an attach */
	bool by_lab;	    /* the lab's calls drive it */
	struct err unheard; /* see comm_unheard */
	uint32_t nruns;	    /* not yet ended */
	struct work *work;
	uint64_t recorded; /* mark of its record; 0: it has none */
};

struct comms {
	const struct comm_hooks *hooks;
	struct comm *first, **tail;
	uint32_t n;
	uint64_t last; /* id */
	struct rendezvous *rendezvous;
	uint32_t nrendezvous;
	struct used_id {
		struct unique_id uid;
		uint64_t comm;
	} used[COORD_USED_IDS]; /* a ring, of communicators that are gone */
	uint64_t nused;		/* ever */
	struct queued *queue;
	const struct pending *serving; /* the queued one whose turn it is */
};

/* ---- life.c */

/* The event happens: by the table, the state changes and the row's action follows. *why is of COMM_FAILS,
 * COMM_ABORTED and COMM_HOPELESS. An event that the state has no row for is ignored. */
void comm_happens(struct coord *c, struct comm *comm, enum comm_event e, const struct err *why);
/* Those events that the state waits for and that are due happen. */
void comm_step(struct coord *c, struct comm *comm);
/* Nothing more is to be heard of the rank before it is decided what becomes of it. */
bool comm_is_settled(const struct coord *c, const struct comm *comm, uint32_t r);

/* ---- actions of the table: of comm.c, make.c, recover.c, replace.c */

typedef void comm_act(struct coord *c, struct comm *comm, const struct err *why);

comm_act comm_join, comm_make_again, comm_refuse, comm_made;
comm_act comm_detach, comm_end, comm_free_detached;
comm_act comm_drain, comm_note, comm_note_abort, comm_decide, comm_decide_again, comm_attach_again,
    comm_renew, comm_give_up, comm_abort_busy, comm_define, comm_go_live, comm_recover_again;
comm_act replace_start;

/* ---- comm.c */

/* Requests wait for the communicator with that id: to be made or changed, aborted, detached. */
extern const struct wait wait_attach, wait_abort, wait_detach, wait_idle;
bool comm_is_lost(const struct comm *comm, uint32_t rank); /* it takes no part any more */
bool device_msgs_of_comm(struct coord *c, const struct comm *comm, struct device_msgs *out);
void answer_init(struct coord *c, struct comm *comm, struct pending *p);
void comm_free(struct coord *c, struct comm *comm);
/* Some client wants it, and hears of its making. */
bool comm_is_wanted(struct coord *c, const struct comm *comm);
/* The client is an owner: it has gone, or come back. */
void comm_owner_is(const struct coord *c, struct comm *comm, uint64_t client_id, bool gone);
/* The rank of a queued communicator leaves it; the last one's leaving destroys it. */
enum rc comm_leave(struct coord *c, struct comm *comm, uint32_t rank, struct pending *p,
		   struct err *err);
/* The record of its numbers and owners goes. */
void comm_unrecord(struct coord *c, const struct comm *comm);

/* ---- make.c */

/* How many ranks are wanted, `named` of them by id. RC_INVAL. A policy by its number. RC_INVAL. */
enum rc check_size(uint32_t wanted, size_t named, uint32_t *nranks, struct err *err);
enum rc check_policy(uint32_t on_failure, struct err *err);
/*
 * A communicator over the devices, which are attached from now on. It ignores the devices that q names. The
 * caller's requests are to wait_attach for it. On error nothing has happened.
 *
 *	queued	its ranks enqueue operations themselves; comm_can_queue
 */
enum rc comm_make(struct coord *c, const GpuSim__CommInitRequest *q, bool queued,
		  struct device **dev, uint32_t nranks, uint64_t client_id, struct comm **out,
		  struct err *err);
/* RC_INVAL: queued communicators do not go with that policy, or with the tuner file. */
enum rc comm_can_queue(const struct coord *c, GpuSim__OnFailure on_failure, struct err *err);
/* All its ranks, under its epoch. */
enum rc comm_attach(struct coord *c, struct comm *comm, struct err *err);
/* Two ranks reach each other by memory. */
bool comm_reaches(const struct comm *comm, uint32_t r, uint32_t q);

/* ---- recover.c */

/* It fails for good: the line of its failure, and why it cannot go on. */
void comm_cannot(struct coord *c, struct comm *comm, const char *why);

/* ---- report.c */

/* It fails for good: claim a report, unless it has one that is not written yet, or a client wanted the failure. */
void comm_report_claim(struct coord *c, struct comm *comm);
/* Name it at the end of the sentence, which is cut for it. */
void comm_report_name(const struct coord *c, const struct comm *comm, struct err *line);
/* All is known of the failure, or will never be: the report is written, when that is so of all communicators that
 * share it. */
void comm_report_ready(struct coord *c, struct comm *comm, const char *reason);

/* ---- replace.c */

void replace_step(struct coord *c, struct comm *comm);

/* ---- members.c: ranks leave and come between epochs only, while none of their calls is under way */

/* Call a rank's device, and wait for it until `done`, which counts it down. Takes *body. */
void member_call(struct coord *c, struct comm *comm, uint32_t r, call_done *done,
		 uint64_t timeout_ms, struct buf *body);
/* No rank's call is under way any more. */
void members_cancel(struct coord *c, struct comm *comm);
/* It adopts nobody's memory any more. */
void member_release(struct member *m);
void comm_pack_detach(const struct comm *comm, struct buf *body);
/* Tell every rank to end what runs; done, or NULL, hears from those that are not lost. */
void members_abort(struct coord *c, struct comm *comm, const struct err *why, call_done *done);
/* Ranks marked in lost leave. */
void members_leave(struct coord *c, struct comm *comm, const bool *lost);
/* The devices come as the last ranks. RC_NOMEM. */
enum rc members_come(struct coord *c, struct comm *comm, struct device *const *dev, uint32_t n,
		     struct err *err);

/* ---- progress.c */

/*
 * The ranks that hold up a communicator, as far as its ranks' progress tells: "rank 2 (device ..) is stuck:
 * ..", in text; and by rank. False: none is known.
 */
bool progress_culprits(const struct coord *c, const struct comm *comm, bool *by_rank, char *text,
		       size_t room);

/* ---- supply.c: devices that are free, and who has the others */

void label_set(struct label *l, const char *program, uint32_t pid);
/* n devices by their ids; n free devices. */
enum rc choose_named(struct coord *c, const uint64_t *ids, size_t n, struct device **dev,
		     struct err *err);
enum rc choose_free(const struct coord *c, uint32_t n, struct device **dev, struct err *err);
/* Too few are free: RC_NOTFOUND there are not so many, RC_FAILED some are lost, RC_BUSY they are in use, and
 * by whom. */
enum rc supply_short(const struct coord *c, uint32_t want, uint32_t nfree, struct err *err);
/* Devices that are no spares: all, those alive, of these the free ones, and the lost that are about to be
 * back. */
struct supply {
	uint32_t all, alive, free, returning;
};
struct supply supply_count(const struct coord *c);

/* ---- queue.c */

/* Requests that wait for devices; that for a communicator to grow are by its id. */
extern const struct wait wait_devices;
/*
 * n free devices into dev, or *queued: the request is in the queue, at most wait_ms long, and is handled
 * again when its turn comes. wait_ms 0: it does not want to wait.
 */
enum rc queue_devices(struct coord *c, struct pending *p, const GpuSim__Request *req, uint32_t n,
		      uint64_t wait_ms, struct device **dev, bool *queued, struct err *err);
/* A queued request takes devices as soon as they are free; the label of the first, and what it wants. */
bool queue_is_ready(const struct coord *c);
const struct label *queue_first(const struct coord *c, uint32_t *want);
void queue_client_is(struct coord *c, uint64_t client_id, bool gone);

/* ---- rendezvous.c, init_rank.c */

/* The communicator has failed for good, or is over: ranks that wait to make others of it hear why. */
void rendezvous_parent_ends(struct coord *c, const struct comm *comm, const struct err *why,
			    bool failed);
/* They hear it too when a rank leaves for which they wait. */
void rendezvous_rank_leaves(struct coord *c, const struct comm *comm, uint32_t rank);
void rendezvous_client_is(struct coord *c, uint64_t client_id, bool gone);
/* A communicator that was made is over: its id is used up. */
void rendezvous_used(struct coord *c, const struct comm *comm);
void rendezvous_fini(struct coord *c);

#endif
