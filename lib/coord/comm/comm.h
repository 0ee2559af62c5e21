/*
 * comm.h - communicators: who is in them, how they fail and recover.
 */
#ifndef COORD_COMM_H
#define COORD_COMM_H

#include "coord/device/device.h"

/* Who asks for devices, for messages to others. */
struct label {
	char program[64]; /* "gpuctl allreduce"; "": nobody said */
	uint32_t pid;
};

struct run;
struct graph;
struct group;
struct group_part;

/* A growing set of (src, dst) rank pairs, numbered 0, 1, 2 ... in order of coming. {0} is empty. */
struct pairs {
	uint64_t *key;
	size_t n, cap;
	uint32_t *slot; /* open addressing: index + 1, or 0 */
	size_t nslot;
};

enum p2p_dir { P2P_SEND, P2P_RECV };

struct pair_count {
	uint64_t n[2]; /* sends, receives */
};

/* What a rank said last of the operation it is in. */
struct progress {
	uint64_t report;   /* which of its device's; 0: none. In none, unless it is the last */
	uint64_t moved_ms; /* when it last moved */
	uint64_t op;
	uint32_t epoch, step, steps;
	uint32_t waits_for; /* rank + 1; 0: nobody */
};

/* By how much a rank held up the others, in the runs that have succeeded. */
struct lateness {
	uint64_t operations, sum_ns, max_ns;
};

struct member {
	struct device *dev;
	uint32_t memories; /* its device's, of which it knows */
	struct lateness late;
	struct progress progress;
	uint64_t incarnation;
	bool attached;	/* or may be */
	uint64_t block; /* where its control block is; 0: it shares no memory */
	bool *mapped;	/* by rank; NULL: nobody's memory */
	struct call call;
	bool newcomer; /* its first attach is to come */
	/* While a failure is looked into, and after it: */
	bool heard;	     /* it has answered since */
	bool gone;	     /* it will not: `why` */
	bool accused;	     /* a peer waited for it in vain */
	struct device *from; /* whose memory it is to adopt; still counted in its ncomms */
	char why[160];
};

/*
 * A new communicator is attaching, joining, live. One that failed is draining until all ranks that
 * still can have answered; then it has `failed` for good, and is live in that state, or recovers:
 * replacing lost ranks, attaching and joining under the next epoch, defining its graphs, live.
 */
enum comm_state {
	COMM_ATTACHING,
	COMM_JOINING,
	COMM_DEFINING,
	COMM_LIVE,
	COMM_DRAINING,
	COMM_REPLACING,
	COMM_DETACHING,
};

/* What is known of a failure until it is over. */
struct recovery {
	struct err cause;  /* the first that is not only a consequence; RC_OK: none is under way */
	bool final;	   /* somebody wants it to fail */
	bool blank;	   /* a rank's memory is lost with it */
	unsigned rounds;   /* failures in a row, since it was last live */
	uint64_t began_ms; /* of the first of them */
	uint64_t drained_ms;
	uint64_t until_ms; /* when to stop waiting for what the state waits for */
	char where[128];   /* "allreduce #7 (ring) step 3 of 6", or "" */
	uint64_t idle_ms;  /* since it had last moved */
	char who[200];	   /* "rank 2 (device ..) is lost: why" */
	char tried
	    [200]; /* "spare device ..: why", of the last one that could not take a place, or "" */
	char stuck[200]; /* "rank 2 (device ..) is stuck: why", by the ranks' progress, or "" */
};

struct unique_id {
	uint64_t high, low;
};

/* One of those whose communicator it is. */
struct holder {
	uint64_t client_id;
	bool gone;
};

struct comm {
	struct comm *next;
	uint64_t id;
	uint32_t epoch, nranks, op_timeout_ms;
	struct member *rank;
	enum comm_state state;
	bool made;	  /* it has been live */
	bool p2p;	  /* every rank has mapped every other's memory */
	uint32_t waiting; /* attach, join, adopt or detach calls under way */
	enum gpusim_on_failure on_failure;
	struct recovery rec;
	uint32_t recoveries;
	struct err recovered; /* the last one's sentence */
	uint64_t detach_ms;   /* COMM_DETACHING: when to stop waiting */
	bool lease, gone;
	uint64_t client_id, gone_ms;
	struct label label;	/* of its client */
	struct unique_id uid;	/* its ranks came by it; {0}: it was made by one call */
	struct holder *holders; /* NULL: it is client_id's alone */
	uint32_t nholders;
	struct err failed; /* rc is RC_OK while all is well */
	uint64_t next_op;  /* number of the next collective */
	uint64_t skipped;  /* numbers below it that a restart has left out */
	struct pairs pairs;
	struct pair_count *pair; /* send/recv that met nobody in their own submit */
	size_t pair_cap;
	struct run *runs, **runs_tail; /* in order of submission */
	uint32_t nruns;
	struct group *groups;
	uint32_t ngroups;
	struct graph *graphs;
	uint32_t ngraphs;
	struct {
		uint64_t mark;	  /* of what is stored; 0: nothing */
		uint64_t next_op; /* reserved */
		uint64_t ops;	  /* as stored; 0: nothing is */
		bool pairs;	  /* those are stored */
		bool pairs_new;	  /* they have changed since */
	} record;
};

/* A rank's seat in a rendezvous. */
struct seat {
	struct pending *p; /* NULL: the seat is free */
	bool gone;	   /* its client is away since gone_ms */
	uint64_t gone_ms;
	uint64_t device_id; /* 0: any */
};

/* Ranks that come by an id, each with a call of its own, until all are there. */
struct rendezvous {
	struct rendezvous *next;
	struct unique_id uid;
	uint64_t client_id; /* who came first */
	uint32_t nranks;
	uint32_t nhere, ngone; /* of them */
	bool lease;
	GpuSim__OnFailure on_failure;
	uint32_t op_timeout_ms;
	struct label label; /* of who came first */
	struct seat seat[];
};

struct used_id {
	struct unique_id uid;
	uint64_t comm;
};

struct comms {
	struct comm *first, **tail;
	uint32_t n;
	uint64_t last;
	struct rendezvous *rendezvous;
	uint32_t nrendezvous;
	struct used_id used[COORD_USED_IDS]; /* a ring */
	uint64_t nused;			     /* ever */
	struct queued *queue;
	const struct pending *serving; /* the queued one whose turn it is */
};

/* ---- progress.c */

/* What a device that registers says of its progress. */
void progress_heard(struct coord *c, struct device *d, const GpuSim__RegisterRequest *q);
/* What rank r is in, or NULL. */
const struct progress *progress_of(const struct comm *comm, uint32_t r);
/* The messages of the ranks that are in an operation, at most `room` of them, into v; how many. */
size_t progress_show(const struct coord *c, const struct comm *comm, GpuSim__Progress *v,
		     size_t room);
/*
 * Who holds up a communicator, as far as its ranks' progress tells: "rank 2 (device ..) is stuck:
 * ..", in text. by_rank, or NULL, is told each. False: nobody is known to.
 */
bool progress_blame(const struct coord *c, const struct comm *comm, bool *by_rank, char *text,
		    size_t room);

/* ---- comm.c, comm_init.c, lease.c */

/* Requests wait for the communicator with that id. */
extern const struct wait wait_attach, wait_detach, wait_abort;

struct comm *comm_find(struct coord *c, uint64_t id);
/* One that can take work: RC_NOTFOUND, RC_FAILED with the sentence. */
enum rc comm_usable(struct coord *c, uint64_t id, struct comm **out, struct err *err);
bool device_msgs_of_comm(struct coord *c, const struct comm *comm, struct device_msgs *out);
bool member_there(const struct member *m); /* the device has not restarted since */
bool member_lost(const struct member *m);  /* it takes no part any more, whatever the reason */
/* All its ranks again, under the next epoch. */
enum rc comm_attach(struct coord *c, struct comm *comm, struct err *err);
void comm_destroy(struct coord *c, struct comm *comm);
void comm_free(struct coord *c, struct comm *comm);
/* Start the detach; comms_reap frees it when that has ended. */
void comm_detach(struct coord *c, struct comm *comm);
/* All attaches, or joins, have ended: joining, live, or detached again. */
void comm_attach_ended(struct coord *c, struct comm *comm);
/* Whether two ranks reach each other by memory. */
bool comm_reaches(const struct comm *comm, uint32_t r, uint32_t q);
void comms_reap(struct coord *c);
void comm_idle(struct coord *c, struct comm *comm);
/* Its collectives so far. */
uint64_t comm_operations(const struct comm *comm);
/* Its failure, rc RC_OK while it has none that lasts; and how it is, in a word. */
const struct err *comm_failure(const struct comm *comm);
GpuSim__Status comm_state(const struct comm *comm);
struct pair_count *comm_pair(struct comm *comm, uint32_t src, uint32_t dst);
void client_gone(struct coord *c, uint64_t client_id);
void client_seen(struct coord *c, uint64_t client_id);
void comm_leases_tick(struct coord *c);

/* Whether the client is one of those whose communicator it is; then it has gone, or come back. */
void comm_holder_is(const struct coord *c, struct comm *comm, uint64_t client_id, bool gone);

/* ---- comm_record.c */

/* Store what has changed of it; drop its records. */
void comm_record(struct coord *c, struct comm *comm);
void comm_unrecord(struct coord *c, struct comm *comm);
/* Of what is stored, whatever its state. NULL: none. */
struct comm *comm_by_id(struct coord *c, uint64_t id);
restore_record comm_restore, comm_ops_restore, comm_pairs_restore;
/* It was dealing with a failure when the records ended. */
bool comm_was_failing(const struct comm *comm);
/* Begin again what had not ended. True: its runs are to be started. */
bool comm_resume(struct coord *c, struct comm *comm);

/* ---- rendezvous.c */

/* Of a client that has gone, or come back. */
void rendezvous_client_is(struct coord *c, uint64_t client_id, bool gone);
/* What has waited too long for its ranks ends. Before waiters_tick. */
void rendezvous_tick(struct coord *c);
void rendezvous_fini(struct coord *c);
/* A communicator that was made is over: its id is used up. */
void rendezvous_used(struct coord *c, const struct comm *comm);

/* ---- supply.c: devices that are free, and who has the others */

void label_set(struct label *l, const char *program, uint32_t pid);
/* n devices by their ids: into dev. */
enum rc choose_named(struct coord *c, const uint64_t *ids, size_t n, struct device **dev,
		     struct err *err);
/* n free devices: into dev. *err as of supply_short. */
enum rc choose_free(const struct coord *c, uint32_t n, struct device **dev, struct err *err);
/*
 * nfree devices are free, too few for `want`: why that is. RC_NOTFOUND: there are not so many.
 * RC_FAILED: some are lost. RC_BUSY: they are in use, and by whom.
 */
enum rc supply_short(const struct coord *c, uint32_t want, uint32_t nfree, struct err *err);
/* How many there are, spares apart: all, those that are not lost, of these the free ones, and those that are
 * lost and about to be back. */
struct supply {
	uint32_t all, alive, free, returning;
};
struct supply supply_count(const struct coord *c);

/* ---- queue.c: requests that wait for free devices */

/*
 * n free devices into dev, or *queued: the waiter stands in line for them, at most wait_ms long, and
 * its request is handled again when it is its turn. wait_ms 0: it does not wait.
 */
enum rc queue_devices(struct coord *c, struct pending *w, const GpuSim__Request *req, uint32_t n,
		      uint64_t wait_ms, struct device **dev, bool *queued, struct err *err);
/* Requests that wait for devices; that for a communicator to grow are by its id. */
extern const struct wait wait_devices;
/* A request is in the queue that takes devices as soon as they are free; the label of the first of these, and
 * how many it wants; NULL. */
bool queue_is_ready(const struct coord *c);
const struct label *queue_first(const struct coord *c, uint32_t *want);
uint32_t queue_length(const struct coord *c);
/* Whose turn it is. At the end of a step. */
void queue_step(struct coord *c);
/* Those that have waited long enough, and whose client stays away. */
void queue_tick(struct coord *c);
void queue_client_is(struct coord *c, uint64_t client_id, bool gone);

/* ---- comm_init.c */

/* A policy on failure by its number: RC_INVAL. */
enum rc check_policy(uint32_t on_failure, struct err *err);
/*
 * A communicator over the devices, which are attached from now on. What q says of devices is not
 * looked at. The caller's waiters are to wait for it (&wait_attach). On error nothing has happened.
 */
enum rc comm_make(struct coord *c, const GpuSim__CommInitRequest *q, struct device **dev,
		  uint32_t nranks, uint64_t client_id, struct comm **out, struct err *err);
/* How many ranks are wanted; named: so many are named. RC_INVAL. */
enum rc check_size(uint32_t wanted, size_t named, uint32_t *nranks, struct err *err);
void answer_init(struct coord *c, struct comm *comm, struct pending *w);

/* ---- recover.c */

/* A rank, or an operation, has failed. */
void comm_fail(struct coord *c, struct comm *comm, const struct err *why);
/* It fails for good, because somebody says so. */
void comm_abort(struct coord *c, struct comm *comm, const struct err *why);
/* Its ranks have changed, or it had failed: attach all, and go on. Nothing runs. */
void comm_renew(struct coord *c, struct comm *comm);
/* What a failed call says of its rank. */
void comm_blame(struct comm *comm, uint32_t rank, const struct outcome *o);
/* As struct device_hooks wants. */
uint64_t comms_seat(const struct coord *c, const struct device *d, uint32_t *rank);
void comms_device_restarted(struct coord *c, const struct device *d);
void comms_device_lost(struct coord *c, const struct device *d);
bool comm_recovers(const struct comm *comm); /* its policy is not to fail */
/* The failure, or a change somebody asked for, is being dealt with. */
bool comm_busy(const struct comm *comm);
/* What the state waits for has come, or the time is up: go on. */
void comm_recover_step(struct coord *c, struct comm *comm);
/* Attaching has ended badly: try again without those who did not answer. */
void comm_attach_failed(struct coord *c, struct comm *comm);
/* All ranks are attached and joined. */
void comm_joined_all(struct coord *c, struct comm *comm);

/* Why it cannot go on, after the line: it fails. */
void comm_cannot(struct coord *c, struct comm *comm, const char *why);
void comm_attach_again(struct coord *c, struct comm *comm);

/* ---- replace.c */

/* Ranks that are `gone` are to be replaced, each by its own device or another. */
void replace_start(struct coord *c, struct comm *comm);
/* Go on with it; in the end all are attached again, or the communicator fails. */
void replace_step(struct coord *c, struct comm *comm);

/* ---- members.c */

/* Ask a rank's device, and count it as waited for until `done`, which counts it down. Takes *body. */
void member_call(struct coord *c, struct comm *comm, uint32_t r, call_done *done,
		 uint64_t timeout_ms, struct buf *body);
/* No rank's call is under way any more. */
void members_cancel(struct coord *c, struct comm *comm);
/* It is to adopt nobody's memory any more. */
void member_release(struct member *m);
/* A CommDetachRequest. */
void comm_pack_detach(const struct comm *comm, struct buf *body);
/* Tell every rank to end what runs; done, or NULL, hears from those who are not lost. */
void members_abort(struct coord *c, struct comm *comm, const char *reason, call_done *done);
/* Leave out those ranks whose bit is set in lost, and rewrite what was submitted for those left. */
void members_leave(struct coord *c, struct comm *comm, const bool *lost);
/* Take in the devices as the last ranks. RC_NOMEM. */
enum rc members_come(struct coord *c, struct comm *comm, struct device *const *dev, uint32_t n,
		     struct err *err);

bool late_show(const struct comm *comm, GpuSim__Lateness **v, GpuSim__Lateness ***p);

handler on_comm_init, on_comm_destroy, on_comm_status; /* comm_init.c, comm.c */
handler on_comm_init_rank;			       /* rendezvous.c */
handler on_comm_abort, on_comm_shrink, on_comm_grow;   /* change.c */

#endif
