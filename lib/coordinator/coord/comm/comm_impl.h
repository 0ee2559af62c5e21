/*
 * comm_impl.h - what the files of this room share. Nobody else includes it.
 */
#ifndef COORD_COMM_IMPL_H
#define COORD_COMM_IMPL_H

#include "coll/grid.h"
#include "coord/comm/comm.h"

/* The client that asks for devices, as messages name it. */
struct label {
	char program[64]; /* "gpuctl allreduce"; "": not given */
	uint32_t pid;
};

/* A rank's last report on the operation it is in. */
struct progress {
	uint64_t report;   /* number of its device's report; 0: none. Only the last counts */
	uint64_t moved_ms; /* when it last moved */
	uint64_t seq;
	uint32_t epoch, step, steps;
	uint32_t waits_for; /* rank + 1; 0: nobody */
};

/* The time by which a rank held up the others, in runs that succeeded. */
struct lateness {
	uint64_t operations, sum_ns, max_ns;
};

struct member {
	struct device *dev;
	uint64_t incarnation; /* of its device when it was attached */
	uint32_t memories;    /* the same for memories */
	uint32_t first; /* its rank when the communicator was made; UINT32_MAX: it came later */
	struct lateness late;
	struct progress progress;
	/* Of a queued communicator: operations that have ended here, and the number of the device's last
	 * report that counted them. The rank's process lives while that is the device's last report. 0:
	 * none. */
	uint64_t operations, counted;
	uint64_t *waited_ns; /* time waited, by rank; NULL: none */
	bool attached;	     /* attached, or possibly so */
	uint64_t block;	     /* where its control block is; 0: it shares no memory */
	bool *mapped;	     /* by rank: its memory is mapped here; NULL: none is */
	struct call call;
	bool newcomer; /* not attached yet */
	/* While a failure is looked into, and after it: */
	bool heard;	     /* it has answered since */
	bool gone;	     /* it will not answer: `why` */
	bool accused;	     /* a peer waited for it in vain */
	struct device *from; /* the lost device whose memory it adopts; still reserved */
	char why[COORD_WHY_MAX];
};

/* Bits, so that a row of the table can name several states. */
enum comm_state {
	COMM_MAKING = 1,      /* its ranks are attached for the first time */
	COMM_MEETING = 2,     /* and join the ranks whose memory they have mapped */
	COMM_LIVE = 4,	      /* it runs operations */
	COMM_FAILED = 8,      /* permanently */
	COMM_DRAINING = 16,   /* it has failed: every rank that still can has to answer */
	COMM_DECIDING = 32,   /* within a step: which ranks are lost, and how to continue */
	COMM_REPLACING = 64,  /* lost ranks get their devices back, or other devices */
	COMM_ATTACHING = 128, /* all ranks again, under the next epoch */
	COMM_JOINING = 256,
	COMM_DEFINING = 512,   /* its graphs are defined again */
	COMM_DETACHING = 1024, /* it ends; its ranks are being notified */
	COMM_GONE = 2048,
};

enum comm_event {
	COMM_ATTACHED,	/* all ranks have answered their attach */
	COMM_JOINED,	/* all ranks have answered their join */
	COMM_DEFINED,	/* all ranks have defined the graphs */
	COMM_BROKEN,	/* a rank has refused, or no client wants it any more */
	COMM_FAILS,	/* a rank or an operation failed */
	COMM_ABORTED,	/* a client wants it to fail */
	COMM_DRAINED,	/* all ranks have answered, or the grace period is over */
	COMM_COMPLETE,	/* every rank has a device */
	COMM_SHORT,	/* lost ranks need devices */
	COMM_HOPELESS,	/* it cannot continue */
	COMM_CHANGED,	/* ranks have left or joined at a client's request */
	COMM_RESUMED,	/* the coordinator was restarted */
	COMM_DESTROYED, /* a client destroys it, or stays disconnected */
	COMM_DETACHED,	/* all ranks have answered, or the time for answers is over */
};

/* The state of a recovery. */
struct recovery {
	struct err cause;  /* first failure that is not a consequence; RC_OK: none */
	struct err told;   /* the cause, followed by the name of its report */
	bool final;	   /* a client wants it to fail */
	bool asked;	   /* and knows why: no report */
	bool blank;	   /* a rank's memory is lost with it */
	unsigned rounds;   /* failures in a row, since it was last live */
	uint64_t began_ms; /* of the first of them */
	uint64_t drained_ms;
	uint64_t until_ms; /* when the state ends at the latest */
	char where[128];   /* "allreduce #7 (ring) step 3 of 6", or "" */
	uint64_t idle_ms;  /* how long the operation had not moved */
	char who[200];	   /* "rank 2 (device ..) is lost: why" */
	char tried[200];   /* "spare device ..: why", the last failed replacement, or "" */
	char stuck[200];   /* "rank 2 (device ..) is stuck: why", by the ranks' progress, or "" */
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
	uint32_t first_nranks;	   /* number of ranks when it was made */
	struct grid grid;	   /* its tp and pp stay; all 0: it has none */
	char grid_text[GRID_TEXT]; /* or "" */
	struct member *rank;
	enum comm_state state;
	bool made;	  /* it has been live */
	bool by_memory;	  /* every rank has mapped every other's memory */
	bool queued;	  /* its ranks enqueue operations themselves */
	uint32_t splits;  /* by calls of each rank; since a restart */
	uint32_t waiting; /* calls to members in flight */
	enum gpusim_on_failure on_failure;
	struct recovery rec;
	uint32_t recoveries;
	struct err recovered; /* message of the last recovery */
	uint64_t detach_ms;   /* COMM_DETACHING: when it ends at the latest */
	bool lease, gone;     /* gone: its clients disconnected at gone_ms */
	uint64_t client_id, gone_ms;
	struct label label;   /* of its client */
	struct unique_id uid; /* the id by which its ranks met; {0}: made by one call */
	/* by rank, when each rank called for itself; NULL: client_id owns it alone */
	struct owner *owners;
	uint32_t nowners;
	uint64_t report;    /* number of the last report; 0: none */
	bool reporting;	    /* the report is not written yet */
	struct err failed;  /* of COMM_FAILED, or of the first rank that refused an attach */
	bool by_lab;	    /* driven by the lab's calls */
	struct err unheard; /* see comm_unheard */
	uint32_t nruns;	    /* not yet ended */
	struct work *work;
	uint64_t recorded; /* mark of its record; 0: none */
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
	} used[COORD_USED_IDS]; /* a ring: ids of ended communicators */
	uint64_t nused;		/* in total */
	struct queued *queue;
	const struct pending *serving; /* the queued request that is being handled */
};

/* ---- life.c */

/* Handle an event: the table gives the new state and the action. *why is for COMM_FAILS, COMM_ABORTED and
 * COMM_HOPELESS. An event without a row for the state is ignored. */
void comm_happens(struct coord *c, struct comm *comm, enum comm_event e, const struct err *why);

/* ---- actions of the table: of make.c, recover.c, comms.c */

typedef void comm_act(struct coord *c, struct comm *comm, const struct err *why);

comm_act comm_join, comm_make_again, comm_made;
comm_act comm_refuse, comm_detach, comm_end, comm_free_detached;
comm_act comm_drain, comm_note, comm_note_abort, comm_decide, comm_decide_again, comm_attach_again,
    comm_renew, comm_give_up, comm_abort_busy, comm_define, comm_go_live, comm_recover_again;
comm_act replace_start;

/* ---- recover.c */

/* A step while lost ranks get devices. */
void replace_step(struct coord *c, struct comm *comm);

/* ---- comm.c */

/* Requests wait for the communicator of an id to be attached, aborted, detached, idle. */
extern const struct wait wait_attach, wait_abort, wait_detach, wait_idle;
bool comm_is_lost(const struct comm *comm, uint32_t rank); /* it takes no part any more */
/* The rank has answered, or cannot answer any more. */
bool comm_is_settled(const struct coord *c, const struct comm *comm, uint32_t r);
/* Two ranks reach each other by memory. */
bool comm_reaches(const struct comm *comm, uint32_t r, uint32_t q);
void label_set(struct label *l, const char *program, uint32_t pid);
bool device_msgs_of_comm(struct coord *c, const struct comm *comm, struct device_msgs *out);
/* A client waits for it to be made. */
bool comm_is_wanted(struct coord *c, const struct comm *comm);

/* ---- comm_record.c, show.c */

/* Drop the record of its numbers and owners. */
void comm_unrecord(struct coord *c, const struct comm *comm);
/* The answer to its initialization, or to a change. */
void answer_init(struct coord *c, struct comm *comm, struct pending *p);

/* ---- make.c */

/* The number of ranks for `wanted` ranks, `named` of them by id. A policy by its number. Both: RC_INVAL. */
enum rc check_size(uint32_t wanted, size_t named, uint32_t *nranks, struct err *err);
enum rc check_policy(uint32_t on_failure, struct err *err);
/* out: all 0 for "". */
enum rc check_grid(const char *text, uint32_t nranks, struct grid *out, struct err *err);
/*
 * Make a communicator over the devices and start to attach them. The devices that q names are ignored. The
 * caller's requests must wait on wait_attach for it. On error nothing has happened.
 *
 * queued: its ranks enqueue operations themselves; see comm_can_queue
 */
enum rc comm_make(struct coord *c, const GpuSim__CommInitRequest *q, bool queued,
		  struct device **dev, uint32_t nranks, uint64_t client_id, struct comm **out,
		  struct err *err);
/* RC_INVAL: queued communicators do not support the policy or the tuner file. */
enum rc comm_can_queue(const struct coord *c, GpuSim__OnFailure on_failure, struct err *err);
/* Attach all ranks, under the current epoch. */
enum rc comm_attach(struct coord *c, struct comm *comm, struct err *err);

/* ---- report.c */

/* On a permanent failure: claim a report, unless one is pending or a client asked for the failure. */
void comm_report_claim(struct coord *c, struct comm *comm);
/* Append the report's name to the message, which is shortened for it. */
void comm_report_name(const struct coord *c, const struct comm *comm, struct err *line);
/* All is known of the failure: the report is written once this holds for all communicators that share it. */
void comm_report_ready(struct coord *c, struct comm *comm, const char *reason);

/* ---- members.c: ranks leave and come between epochs only, while none of their calls is under way */

/* Call a rank's device and count the call; `done` must count it down. Takes *body. */
void member_call(struct coord *c, struct comm *comm, uint32_t r, call_done *done,
		 uint64_t timeout_ms, struct buf *body);
/* Cancel all calls to ranks. */
void members_cancel(struct coord *c, struct comm *comm);
/* The rank no longer adopts a lost device's memory. */
void member_release(struct member *m);
void comm_pack_detach(const struct comm *comm, struct buf *body);
/* Tell every rank to abort; done (or NULL) gets the answers of ranks that are not lost. */
void members_abort(struct coord *c, struct comm *comm, const struct err *why, call_done *done);
/* The grid, after the number of ranks has changed. */
void comm_regrid(struct comm *comm);
/* Remove the ranks marked in lost. */
void members_leave(struct coord *c, struct comm *comm, const bool *lost);
/* Append the devices as the last ranks. RC_NOMEM. */
enum rc members_come(struct coord *c, struct comm *comm, struct device *const *dev, uint32_t n,
		     struct err *err);

/* ---- progress.c */

/*
 * The ranks that hold up a communicator, by its ranks' progress: "rank 2 (device ..) is stuck:
 * ..", in text; and by rank. False: none is known.
 */
bool progress_culprits(const struct coord *c, const struct comm *comm, bool *by_rank, char *text,
		       size_t room);

/* ---- queue.c: free devices, the users of the others, and who waits for them */

/* n devices by their ids. */
enum rc choose_named(struct coord *c, const uint64_t *ids, size_t n, struct device **dev,
		     struct err *err);
/* Too few devices are free: RC_NOTFOUND too few exist, RC_FAILED too few are alive, RC_BUSY others use
 * them; the message names the users. */
enum rc supply_short(const struct coord *c, uint32_t want, uint32_t nfree, struct err *err);

/* Requests that wait for devices; a grow waits under its communicator's id. */
extern const struct wait wait_devices;
/*
 * Put n free devices into dev, or queue the request (*queued) for at most wait_ms; *handle handles it again
 * when its turn comes. wait_ms 0: fail instead of waiting.
 */
enum rc queue_devices(struct coord *c, struct pending *p, const GpuSim__Request *req,
		      handler *handle, uint32_t n, uint64_t wait_ms, struct device **dev,
		      bool *queued, struct err *err);
/* A queued request takes free devices first. */
bool queue_is_ready(const struct coord *c);
void queue_client_is(struct coord *c, uint64_t client_id, bool gone);

/* ---- rendezvous.c, init_rank.c */

/* The communicator has failed or ended: answer ranks that wait to make others from it. */
void rendezvous_parent_ends(struct coord *c, const struct comm *comm, const struct err *why,
			    bool failed);
/* The same when a rank leaves for which they wait. */
void rendezvous_rank_leaves(struct coord *c, const struct comm *comm, uint32_t rank);
void rendezvous_client_is(struct coord *c, uint64_t client_id, bool gone);
/* A communicator has ended: its id is used up. */
void rendezvous_used(struct coord *c, const struct comm *comm);
void rendezvous_fini(struct coord *c);

#endif
