/*
 * coord_impl.h - what the files of this room share. Nobody outside includes it.
 *
 * Ownership: struct coord owns everything. A call lives inside the thing that waits for it (a rank
 * of a run, a member of a communicator, a waiter ...), so starting one needs no memory and freeing
 * its owner cancels it. A result that comes for a call nobody waits for is ignored.
 *
 * What completes exactly once: a waiter, by answer() or answer_failure(), which free it. Nothing
 * else holds a pointer to a waiter: who ends a thing looks for the waiters that name it.
 *
 * No recursion: a call that fails where it starts (lost device, no memory) is put on the list
 * `dead` and handed to its owner at the end of the step, in order.
 */
#ifndef COORD_COORD_IMPL_H
#define COORD_COORD_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"
#include "coord/coord.h"
#include "coll/plan.h"
#include "gpu_sim.pb-c.h"
#include "wire/wire.h"

/* Bounds. Lists in a reply hold at most WIRE_MAX_RANKS entries, which bounds devices and comms. */
#define COORD_MAX_DEVICES WIRE_MAX_RANKS
#define COORD_MAX_COMMS	  WIRE_MAX_RANKS
#define COORD_MAX_RUNS	  1024 /* not yet ended, per communicator */
#define COORD_MAX_GROUPS  64   /* open, per communicator */
#define COORD_MAX_GRAPHS  256  /* per communicator */
#define COORD_MAX_WAITERS 4096
#define COORD_MAX_IDS	  256	       /* that wait for ranks */
#define COORD_USED_IDS	  1024	       /* remembered, of communicators that are gone */
#define COORD_MAX_HELD	  (256u << 20) /* bytes of runs, open groups and graphs */
#define COORD_MAX_OP	  (1ull << 62) /* operation numbers stay below the flags of wire/frame.h */

/* What one client may have of that; see limits.c. A device holds 256 communicators. */
#define COORD_CLIENT_COMMS   128
#define COORD_CLIENT_WAITERS 1024
#define COORD_CLIENT_IDS     64 /* that it began */
#define COORD_CLIENT_HELD    (64u << 20)
#define COORD_GUEST_RUNS     256 /* on a communicator that another client made */
#define COORD_GUEST_GRAPHS   64

#define COORD_LEASE_MS	    2000     /* a client may be away so long before its leases end */
#define COORD_RETURN_MS	    30000    /* who has leases has so long to be heard after a restart */
#define COORD_COMM_MS	    300000   /* when the configuration leaves it open */
#define COORD_JOB_MS	    86400000 /* the same */
#define COORD_CALL_MS	    10000    /* a control call to a device takes no longer, or 2 lost_ms */
#define COORD_OVERDUE_MS    1000     /* past a call's timeout: the shell owes a result by then */
#define COORD_ANSWER_MARGIN 150	     /* ms before a client's deadline: the answer must reach it */
#define COORD_FORGET_MS	    3600000  /* a free device that is lost for so long is forgotten */
#define COORD_RESPAWN_MS    10000    /* when the configuration leaves it open */
#define COORD_DISCARD_MS    1000     /* between two tries to remove a memory */
#define COORD_ADOPT_MS	    10000    /* for taking over a memory */
#define COORD_WHY_MAX	    160	     /* bytes of a reason that is kept */
#define COORD_EVENTS	    1024     /* remembered of what has happened */
#define COORD_KEEP_REPLIES  32	     /* answers stored of a client */
#define COORD_KEEP_MS	    60000    /* so long, when it has gone */
#define COORD_RESERVE	    (1u << 20) /* numbers taken at once, so that few are stored */
#define COORD_MAX_TRIES	    4	       /* of one run, before its failure is the answer */

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

struct device {
	uint64_t id, incarnation, min_addr, max_addr, used_bytes;
	uint32_t pid, ordinal;
	char address[WIRE_NAME_MAX], data_address[WIRE_NAME_MAX];
	char mem_path[WIRE_NAME_MAX], host[WIRE_NAME_MAX];
	char mem_private[WIRE_NAME_MAX];
	uint64_t mem_dev, mem_inode;
	uint32_t mem_user;
	uint32_t threads; /* with what follows: how to start it again */
	uint64_t latency_ns, bits_per_s;
	char kernels[WIRE_NAME_MAX];
	char grpc_address[WIRE_NAME_MAX];
	bool mem_kept;
	bool supervised;   /* somebody else starts it again */
	uint32_t memories; /* so often it came back with another memory */
	bool spare;	   /* taken for a communicator only by name, or in a lost rank's place */
	bool join;	   /* offers itself to communicators that grow */
	uint64_t heard_ms; /* last word from it */
	uint64_t registered_ms; /* last time it came by itself; 0: never */
	uint64_t reports;	/* of progress that came; counts from 1 */
	uint64_t client_id;	/* it registers as; 0: it has not */
	/* In time that was listened to (listen.c): */
	uint64_t word_at;  /* its last word */
	uint64_t heard_at; /* that, or later if it was excused */
	uint64_t beat_at;  /* when heartbeats were counted last */
	uint64_t after;	   /* the echo that must be back before it is lost; 0: it is not missing */
	bool looked_at;	   /* since its last word: the shell was asked to look at its process */
	uint32_t stride;   /* it was told to send every so-manieth heartbeat; 0: nothing yet */
	uint64_t missing;  /* of the heartbeats owed by then, the last in bit 0: 1 is missing */
	bool placed;	   /* ordinal and spare are what we have made them */
	bool configured;   /* named by the configuration: never forgotten */
	bool unfit;	   /* as a spare: it was tried */
	uint32_t ncomms;   /* communicators it is in or reserved for */
	bool kept;	   /* as it is now */
	struct call ask;   /* who it is, after a restart of ours */
	bool lost;
	struct {
		char why[COORD_WHY_MAX]; /* "killed by signal 9" */
		uint64_t at_ms;		 /* of the wall's clock */
		uint64_t incarnation;	 /* of the process that was lost */
		bool broke; /* known by its connection alone: its exit status says more */
	} loss;		    /* when lost */
	struct {
		uint64_t
		    until_ms;	/* it was started again, and has so long to come; 0: it was not */
		uint32_t pid;	/* 0: not known yet */
		unsigned tries; /* of which none came */
		char cannot[COORD_WHY_MAX]; /* why it does not come back; "": it may */
	} spawn;
	uint64_t discard_ms; /* when lost: its memory is not asked to be removed before */
	struct device *heir; /* a spare that is about to take its place, and is reserved for it */
	struct call adopt;   /* of the heir */
};

struct call_list {
	struct call *first, *last;
};

#define CALL_BUCKETS 1024

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
		bool resumes;	  /* restored, and has not gone on yet */
	} keep;
};

struct run_rank {
	struct buf body; /* packed Request{run} until started; no data: nothing to do */
	struct call call;
	uint64_t compute_ns, comm_ns;
	uint64_t held_ns;   /* the longest that another rank waited for it */
	uint64_t waited_ns; /* it waited for others */
};

struct run {
	struct run *next;
	struct comm *comm;
	uint64_t client_id;	     /* who submitted it */
	uint64_t id, first_op, nops; /* nops: all iterations' numbered operations */
	struct graph *graph;	     /* or NULL */
	uint64_t first_iteration;    /* of a graph */
	uint64_t iterations;	     /* of a graph */
	bool serial;		     /* waits its turn; else send/recv only, starts at once */
	bool started;
	bool pure;			/* of collectives alone: it may be run again */
	bool hopeless;			/* it would fail again */
	unsigned tries;			/* that failed */
	uint32_t recoveries;		/* of the communicator when it was submitted */
	struct group_part *parts;	/* what was submitted, to be run again; or NULL */
	uint32_t waiting;		/* ranks that have not answered */
	struct err cause;		/* first failure, one that is not RC_ABORTED if there is */
	uint64_t started_ms, failed_ms; /* failed: at first */
	size_t held;
	bool kept;
	struct run_rank rank[]; /* comm->nranks, or more */
};

/* The operations of a submit, group or graph while they are gathered, matched and numbered. */
struct batch_pair {
	uint64_t *nbytes[2]; /* of each send, receive, in order */
	size_t n[2], cap[2];
	size_t seen[2];	  /* by batch_encode */
	uint64_t *number; /* operation + 1 of the k-th met pair; 0: not yet */
};

struct batch {
	const struct tuner *tuner;
	struct comm *comm;
	size_t nops;
	size_t npure; /* of them, collectives, sends and receives */
	uint64_t ncoll;
	struct {
		size_t nops, nbytes;
	} * rank; /* comm->nranks */
	struct pairs pairs;
	struct batch_pair *pair;
	size_t pair_cap;
	uint64_t next; /* by batch_encode: next operation number */
};

struct group_part {
	struct group_part *next;
	struct buf packed; /* SubmitRequest */
	size_t held;
};

struct group {
	struct group *next;
	uint64_t client_id;
	bool gone;
	uint64_t gone_ms;
	struct batch batch;
	struct group_part *parts, **parts_tail;
	size_t held;
};

enum graph_state { GRAPH_DEFINING, GRAPH_READY, GRAPH_DROPPING };

struct graph {
	struct graph *next;
	struct comm *comm;
	uint64_t client_id; /* who made it */
	uint64_t id, nops;  /* nops: numbered operations of one iteration */
	enum graph_state state;
	struct group_part *part; /* what was submitted, to be defined again; or NULL */
	uint32_t nruns, waiting;
	uint32_t nranks;   /* of rank[]; the communicator has that many or less */
	struct err failed; /* of the definition */
	size_t held;
	uint64_t kept; /* mark of what is stored; 0: nothing */
	struct {
		bool has_ops;
		struct call call;
	} rank[]; /* comm->nranks */
};

/* A rank's place in a rendezvous. */
struct place {
	bool here; /* a waiter with this rank is there */
	bool gone; /* its client is away since gone_ms */
	uint64_t gone_ms, due_ms;
	uint64_t client_id;
	uint64_t device_id; /* 0: any */
};

/* Ranks that come by an id, each with a call of its own, until all are there. */
struct rendezvous {
	struct rendezvous *next;
	uint64_t number; /* which its waiters name */
	struct unique_id uid;
	uint64_t client_id; /* who came first */
	uint32_t nranks;
	uint32_t nhere, ngone; /* of them */
	bool lease;
	GpuSim__OnFailure on_failure;
	uint32_t op_timeout_ms;
	struct label label; /* of who came first */
	struct place place[];
};

struct used_id {
	struct unique_id uid;
	uint64_t comm;
};

struct config_device {
	uint64_t id; /* 0: any */
	char address[WIRE_NAME_MAX];
	uint64_t next_ms;
	bool said_wrong, said_silent;
	uint64_t silent; /* polls in a row that nobody answered */
	struct call call;
};

/* Answers that are stored, of one client, the newest last. */
struct keep_client {
	struct keep_client *next;
	uint64_t id, gone_ms;
	bool gone;
	uint32_t n;
	struct {
		uint64_t seq;
		struct buf body; /* no data: the server's reply cache has it */
	} reply[COORD_KEEP_REPLIES];
};

#define KEEP_BUCKETS 256

/* Something that has happened. */
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

struct keep {
	struct keep_client *client[KEEP_BUCKETS];
	uint64_t meta;		       /* mark of what is stored; 0: nothing */
	uint64_t last_run, last_graph; /* reserved */
	bool devices_new;
	bool resumes; /* it was restored, and the first step is to come */
	bool restored;
	uint32_t nabsent;  /* waiters without a token */
	struct err refuse; /* RC_OK, or why nothing can be stored now */
};

/* How much of the time the coordinator has listened: see listen.c. */
struct ear {
	uint64_t ms; /* by now */
	bool asked;  /* for an echo, which is not back */
	uint64_t asked_ms, held_ms;
	uint64_t sent, back; /* echoes; the last one's number */
};

struct coord {
	struct coord_config cfg;
	uint32_t lost_ms;   /* of silence */
	struct tuner model; /* when none was given */
	bool started;
	uint64_t start_ms, now_ms;
	struct ear ear;
	uint64_t wall_ms;			  /* of the epoch; 0: nobody has told */
	struct device *device[COORD_MAX_DEVICES]; /* sorted by (ordinal, id) */
	size_t ndevices;
	struct config_device *config;
	size_t nconfig;
	struct comm *comms, **comms_tail;
	uint32_t ncomms;
	struct rendezvous *rendezvous;
	uint32_t nrendezvous;
	uint64_t last_rendezvous;
	struct used_id used[COORD_USED_IDS]; /* a ring */
	uint64_t nused;			     /* ever */
	uint64_t client_id;		     /* whose request is at work; 0: nobody's */
	uint64_t last_comm, last_run, last_graph, last_token;
	struct call_list live, dead;
	struct call *by_token[CALL_BUCKETS];
	struct waiter *waiters, *waiters_last;
	uint32_t nwaiters;
	uint32_t nqueued;	      /* of them, WAIT_DEVICES */
	const struct waiter *serving; /* the queued one whose turn it is */
	size_t held;
	const GpuSim__Failure *failure; /* of the reply that is being handed on, or NULL */
	struct coord_actions *out;	/* of the current step */
	struct history history;
	struct keep keep;
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

/* ---- call.c */

/* Start a call; takes the body. A NULL-data body stands for one that could not be made. */
void call_start(struct coord *c, struct call *call, struct device *dev, const char *address,
		uint64_t timeout_ms, struct buf *body);
/* Forget it: its owner will not hear of it. Legal in every state. */
void call_cancel(struct coord *c, struct call *call);
void calls_fail_device(struct coord *c, const struct device *dev, enum call_state why);
void calls_result(struct coord *c, const struct coord_event *ev);
void calls_tick(struct coord *c);
void calls_settle(struct coord *c);
/* "comm 3 rank 2 (device 00..7f): why", or, of a device that is gone, "... lost: why". comm may be
 * NULL. */
enum rc call_blame(const struct comm *comm, const struct call *call, const struct err *why,
		   struct err *out);
/* How long a control call to a device may take. */
uint64_t call_timeout_ms(const struct coord *c);

/* ---- registry.c */

struct device_msg {
	GpuSim__DeviceMetadata m;
	GpuSim__DeviceId id;
	GpuSim__MemAddr min, max;
	GpuSim__DeviceLoss loss;
	char remedy[COORD_WHY_MAX];
};

/* Metadata messages that borrow from the devices; valid until the next event. */
struct device_msgs {
	struct device_msg *v;
	GpuSim__DeviceMetadata **p;
	size_t n;
};

bool device_msgs_init(struct coord *c, struct device *const *dev, size_t n,
		      struct device_msgs *out);
bool device_msgs_of_comm(struct coord *c, const struct comm *comm, struct device_msgs *out);
void device_msgs_fini(struct device_msgs *m);
struct device *device_find(struct coord *c, uint64_t id);
bool device_free(const struct device *d);
/* Why the device is lost, in *err. */
enum rc device_lost(const struct device *d, struct err *err);
/* Its metadata came, from the device itself or in answer to a poll of fallback_address. */
enum rc device_heard(struct coord *c, const GpuSim__DeviceMetadata *m, const char *fallback_address,
		     struct device **out, struct err *err);
void device_alive(struct coord *c, struct device *d);
/* It is lost, for that reason: "killed by signal 9". */
void device_lose(struct coord *c, struct device *d, const char *why);
/* It has another place, or is a spare or none any more: by its ordinal it may belong elsewhere. */
void device_moved(struct coord *c, struct device *d);
/* Nobody listens any more at the address where it was called. */
void device_unreachable(struct coord *c, uint64_t id, const char *address);
/* The client that a device registers as has closed its last connection: see whether it is there. */
void device_hung_up(struct coord *c, uint64_t client_id);
void devices_tick(struct coord *c);
/* What the shell has found at the process of a device that is silent. */
void device_looked(struct coord *c, uint64_t id, enum coord_look found);
/* What had come when devices were found missing has been read. */
void devices_decide(struct coord *c);

/* ---- listen.c */

/* Time has passed since the step before. */
void listen_step(struct coord *c, uint64_t now_ms);
/* The echo is back, or will not come. */
void listen_echo(struct coord *c);
/* How many heartbeats apart a device is to send its own, so that many devices do not drown us. */
uint32_t listen_stride(const struct coord *c);
/* Ask what is to be known of a device that is silent. missing: its heartbeats are. */
void listen_tick(struct coord *c, struct device *d, bool missing);
/* Of one that is missing. False: what has come is not read yet, or the shell is to look first. */
bool listen_decides(struct coord *c, struct device *d);
/* Whether that excuses its silence. */
bool listen_excuses(struct coord *c, struct device *d, enum coord_look found);

/* ---- care.c */

/* Lost devices that no communicator has: they are started again, or a spare takes their place. */
void care_tick(struct coord *c);
/* Start it again, on this host, and wait for it. */
void device_spawn(struct coord *c, struct device *d);
/* A supervised one of this host: end what is left of its process, so that it is started again. */
void device_end(struct coord *c, struct device *d);
bool device_can_spawn(const struct coord *c, const struct device *d);
/* It has come, whoever started it. */
void device_came(struct device *d);
/* What became of the order to start it; a process has ended. */
void device_spawned(struct coord *c, const struct coord_event *ev);
void device_exited(struct coord *c, uint32_t pid, int status);
/* Is it lost, and about to be back, or a spare about to be in its place? */
bool device_returns(const struct coord *c, const struct device *d);
/* What becomes of one that is lost: "is being started again"; or "". */
void device_remedy(const struct coord *c, const struct device *d, char *text, size_t room);
/* Since it was lost, in ms. */
uint64_t device_lost_for(const struct coord *c, const struct device *d);
/* "; device 2 (..) was lost 3.1 s ago: killed by signal 9", of the spares that are lost, or of all others;
 * or "". */
void devices_name_lost(const struct coord *c, bool spares, char *text, size_t room);
/* The order to the spare to take over the lost one's memory; false: that cannot be reached from there. */
bool adopt_pack(const struct device *lost, const struct device *spare, struct buf *body);
/* The spare is an ordinary device from now on, in the lost one's place; that is a spare if it comes back. */
void device_replace(struct coord *c, struct device *lost, struct device *spare);
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

/* ---- lateness.c */

/* A rank's part of a run begins; has ended well; all parts have. */
void late_begin(struct run *run);
void late_answer(struct run *run, uint32_t r, const GpuSim__RunResponse *m);
void late_count(const struct run *run);
/* The messages, by rank: two arrays for free(3). False: out of memory. */
bool late_show(const struct comm *comm, GpuSim__Lateness **v, GpuSim__Lateness ***p);

/* ---- poll.c */
void polls_tick(struct coord *c);

/* ---- comm.c, comm_init.c, lease.c */

struct comm *comm_find(struct coord *c, uint64_t id);
/* One that can take work: RC_NOTFOUND, RC_FAILED with the sentence. */
enum rc comm_usable(struct coord *c, uint64_t id, struct comm **out, struct err *err);
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
/* The end of a step: all that follows from it, and its records. */
void coord_step_end(struct coord *c);
void comm_idle(struct coord *c, struct comm *comm);
/* Its collectives so far. */
uint64_t comm_operations(const struct comm *comm);
/* Its failure, rc RC_OK while it has none that lasts; and how it is, in a word. */
const struct err *comm_failure(const struct comm *comm);
GpuSim__Status comm_state(const struct comm *comm);
void comm_status_answer(struct coord *c, struct comm *comm, struct waiter *w);
struct pair_count *comm_pair(struct comm *comm, uint32_t src, uint32_t dst);
void client_gone(struct coord *c, uint64_t client_id);
void client_seen(struct coord *c, uint64_t client_id);
void leases_tick(struct coord *c);

/* Whether the client is one of those whose communicator it is; then it has gone, or come back. */
void comm_holder_is(const struct coord *c, struct comm *comm, uint64_t client_id, bool gone);

/* ---- rendezvous.c */

/* Of a client that has gone, or come back. */
void rendezvous_client_is(struct coord *c, uint64_t client_id, bool gone);
/* A rank's caller (WAIT_RANKS) hears why it waits no longer; its place is free. */
void rendezvous_dismiss(struct coord *c, const struct waiter *w, const struct err *why);
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
enum rc queue_devices(struct coord *c, struct waiter *w, const GpuSim__Request *req, uint32_t n,
		      uint64_t wait_ms, struct device **dev, bool *queued, struct err *err);
/* Somebody stands in line who could have devices as soon as they are free. */
const struct waiter *queue_first(const struct coord *c);
/* Let go of what the waiter has as one that is queued. */
void queue_leave(struct coord *c, struct waiter *w);
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
 * looked at. The caller's waiters are to wait for it (WAIT_ATTACH). On error nothing has happened.
 */
enum rc comm_make(struct coord *c, const GpuSim__CommInitRequest *q, struct device **dev,
		  uint32_t nranks, uint64_t client_id, struct comm **out, struct err *err);
/* How many ranks are wanted; named: so many are named. RC_INVAL. */
enum rc check_size(uint32_t wanted, size_t named, uint32_t *nranks, struct err *err);
void answer_init(struct coord *c, struct comm *comm, struct waiter *w);

/* ---- recover.c */

/* A rank, or an operation, has failed. */
void comm_fail(struct coord *c, struct comm *comm, const struct err *why);
/* It fails for good, because somebody says so. */
void comm_abort(struct coord *c, struct comm *comm, const struct err *why);
/* Its ranks have changed, or it had failed: attach all, and go on. Nothing runs. */
void comm_renew(struct coord *c, struct comm *comm);
/* What a failed call says of its rank. */
void comm_blame(struct coord *c, struct comm *comm, const struct call *call, const struct err *why);
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

/* The best device for a lost one's place: a spare before any other, one that can reach its memory before
 * one that cannot. spares: nothing but a spare. NULL: none is free. */
struct device *device_find_spare(const struct coord *c, const struct device *lost, bool spares);
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
/* Tell a device without waiting for its answer: it may be dead or frozen, and read it later. Takes
 * *body, which may be empty: no memory. */
void member_tell(struct coord *c, const struct device *d, struct buf *body);
/* A CommDetachRequest. */
void comm_pack_detach(const struct comm *comm, struct buf *body);
/* Tell every rank to end what runs; done, or NULL, hears from those who are not lost. */
void members_abort(struct coord *c, struct comm *comm, const char *reason, call_done *done);
/* Leave out those ranks whose bit is set in lost, and rewrite what was submitted for those left. */
void members_leave(struct coord *c, struct comm *comm, const bool *lost);
/* Take in the devices as the last ranks. RC_NOMEM. */
enum rc members_come(struct coord *c, struct comm *comm, struct device *const *dev, uint32_t n,
		     struct err *err);

/* ---- remap.c */

#define REMAP_LOST UINT32_MAX

/* Rewrite a submit of `from` ranks for `left` of them; to[r] is the new number of rank r. RC_RECOVERED: it has no
 * meaning without those who are lost; *s may be half rewritten. */
enum rc remap_submit(GpuSim__SubmitRequest *s, const uint32_t *to, uint32_t from, uint32_t left,
		     struct err *err);
/* The same of parts as they are kept. RC_NOMEM. */
enum rc remap_parts(struct group_part *parts, const uint32_t *to, uint32_t from, uint32_t left,
		    struct err *err);

/* ---- limits.c */

enum limit { LIMIT_REQUESTS, LIMIT_COMMS, LIMIT_IDS, LIMIT_RUNS, LIMIT_GRAPHS, LIMIT_HELD };

/* May the client whose request is at work have one more, or `more` bytes held? comm: of runs and
 * graphs, the communicator. RC_BUSY with the sentence. */
enum rc limit_check(const struct coord *c, const struct comm *comm, enum limit what, size_t more,
		    struct err *err);

/* ---- pairs.c */

/* The pair's number, added if new; the caller keeps arrays beside it. RC_NOMEM. */
enum rc pairs_index(struct pairs *p, uint32_t src, uint32_t dst, size_t *idx);
void pairs_fini(struct pairs *p);
/* v, an array of *vcap things of `size` bytes, zero-extended to p->cap of them if it does not reach
 * idx. NULL: out of memory, v as it was. */
void *pairs_beside(const struct pairs *p, size_t idx, void *v, size_t *vcap, size_t size);

/* ---- validate.c */

size_t elem_size(uint32_t dtype); /* 0: no such type */
bool is_p2p(const GpuSim__Coll *k);
/* Every rank and operation of one submit by itself, and its collectives against each other. */
enum rc submit_check(const struct comm *comm, const GpuSim__SubmitRequest *s, size_t *ncoll,
		     struct err *err);

/* ---- batch.c */

enum rc batch_init(const struct coord *c, struct batch *b, struct comm *comm, struct err *err);
void batch_fini(struct batch *b);
/* Check and take in one submit; the batch is unchanged on error. */
enum rc batch_add(struct batch *b, const GpuSim__SubmitRequest *s, struct err *err);
uint64_t batch_numbered(const struct batch *b); /* collectives, and send/recv pairs that met */
uint64_t batch_loose(const struct batch *b);	/* send/recv that met nobody */
/* The loose operation to name in an error; false: none. */
bool batch_first_loose(const struct batch *b, uint32_t *src, uint32_t *dst, enum p2p_dir *dir);
/* Forget the numbers given so far. */
void batch_rewind(struct batch *b);
/* Number the operations of one submit that was added (in the order of adding), choose what callers
 * left open of their algorithms, and append them, as field `field`, to ops[rank]. RC_NOMEM. */
enum rc batch_encode(struct batch *b, const GpuSim__SubmitRequest *s, uint32_t field,
		     struct buf *ops, struct err *err);
/* The loose operations have been submitted: count them. After encoding; cannot fail. */
void batch_commit(const struct batch *b);

/* ---- run.c */

bool held_take(struct coord *c, size_t nbytes, struct err *err);
void held_drop(struct coord *c, size_t nbytes);
/* Submit the operations of a batch whose parts are the submits (or packed submits of a group). With
 * wait the waiter hears of the end, else it is not touched. RC_BUSY, RC_NOMEM: nothing happened. */
enum rc run_submit(struct coord *c, struct batch *b, const GpuSim__SubmitRequest *one,
		   const struct group_part *parts, struct waiter *w, bool wait, uint64_t *operation,
		   struct err *err);
enum rc run_graph(struct coord *c, struct graph *g, const GpuSim__GraphLaunchRequest *q,
		  struct waiter *w, uint64_t *operation, struct err *err);
/* Submit, or append to the client's open group. With wait the waiter may wait afterwards (w->on),
 * else it is to be answered with the first operation's number. */
enum rc comm_submit(struct coord *c, struct comm *comm, const GpuSim__SubmitRequest *s,
		    struct waiter *w, bool wait, uint64_t *operation, struct err *err);
/* Encode the operations of the batch, every rank's, and pack what each is to be sent. */
enum rc run_encode(struct coord *c, struct run *run, struct batch *b,
		   const GpuSim__SubmitRequest *one, const struct group_part *parts,
		   struct err *err);
/* The same of a graph's run. */
enum rc run_encode_graph(struct coord *c, struct run *run, struct err *err);
void run_start(struct coord *c, struct run *run);
/* Start the first of those that wait for their turn, if none of them is under way. */
void runs_start_next(struct coord *c, struct comm *comm);
/* The run is over: with *why if that is a failure, else with its own result. What comes next is up to the
 * caller. */
void run_end_quietly(struct coord *c, struct run *run, const struct err *why);
/* All of a communicator's runs end now with *why. */
void runs_end_all(struct coord *c, struct comm *comm, const struct err *why);
/* The same, each with its own first failure if it has one. */
void runs_end_failed(struct coord *c, struct comm *comm, const struct err *why);
/* Those that have not started end now. */
void runs_end_unstarted(struct coord *c, struct comm *comm, const struct err *why);
/* One that is to run again had its first failure too long ago. */
bool runs_overdue(const struct coord *c, const struct comm *comm);
/* The rank owes the end of a run. */
bool runs_wait_for(const struct comm *comm, uint32_t rank);

/* ---- rerun.c */

/* Nobody waits for the ranks any more; what had started has had a try. */
void runs_stop(struct coord *c, struct comm *comm);
/* After a recovery: number and encode anew what is to run (again), end the rest with RC_RECOVERED; start. */
void runs_resume(struct coord *c, struct comm *comm);
/* Its runs have lost it, and cannot run. */
void runs_forget_graph(struct comm *comm, struct graph *g);
/* Parts that were kept. */
void parts_free(struct coord *c, struct group_part *parts);
/* A copy of what is submitted, to be kept. NULL: *err. */
struct group_part *part_new(struct coord *c, const GpuSim__SubmitRequest *s, struct err *err);
/* What is in it, for gpu_sim__submit_request__free_unpacked. NULL: out of memory. */
GpuSim__SubmitRequest *part_unpack(const struct group_part *part);
struct run *run_find(struct coord *c, uint64_t id);
/* What a run still waits for, as a sentence. */
void run_describe(const struct coord *c, const struct run *run, struct err *err);
/* Copies of the submit, or of a group's parts: *out is the first, in order, also on error. */
enum rc parts_keep(struct coord *c, const GpuSim__SubmitRequest *one,
		   const struct group_part *parts, struct group_part **out, struct err *err);

/* ---- group.c, graph.c */

struct group *group_find(struct comm *comm, uint64_t client_id);
enum rc group_append(struct coord *c, struct group *g, const GpuSim__SubmitRequest *s,
		     struct err *err);
void group_free(struct coord *c, struct comm *comm, struct group *g);
void graph_free(struct coord *c, struct graph *g);
/* The devices have lost them: define them again, which comm->waiting counts. Then drop those that could not
 * be. */
void graphs_define_again(struct coord *c, struct comm *comm);
void graphs_drop_failed(struct coord *c, struct comm *comm);
/* Of a failure: definitions and drops under way end here. */
void graphs_settle(struct coord *c, struct comm *comm);
void graphs_reap(struct coord *c, struct comm *comm);

/* ---- keep.c, keep_reply.c: what is stored. A device is new, a run is queued with all its bodies,
 * something goes. Communicators and graphs that change are seen by themselves. */

void keep_device(struct coord *c, struct device *d);
void keep_device_gone(struct coord *c, struct device *d);
void keep_comm_gone(struct coord *c, struct comm *comm);
/* What is kept of it has changed. */
void keep_graph(struct coord *c, const struct graph *g);
void keep_graph_gone(struct coord *c, struct graph *g);
void keep_run(struct coord *c, struct run *run);
void keep_run_gone(struct coord *c, struct run *run);
/* Store the value, or (NULL) drop it. */
void keep_put(struct coord *c, const char *key, const ProtobufCMessage *value, bool promise);
void keep_put_bytes(struct coord *c, const char *key, const struct buf *value, bool promise);
/* The end of a step: store what has changed, before everything else. */
void keep_step(struct coord *c);
/* What a stored record of it says, in short. */
uint64_t keep_comm_mark(const struct comm *comm);
uint64_t keep_graph_mark(const struct graph *g);
GpuSim__KeptState keep_comm_state(const struct comm *comm);
/* The waiter is being answered so: remember it, and note in the action what it tells. */
void keep_reply(struct coord *c, const struct waiter *w, GpuSim__Reply *reply,
		struct coord_action *a);
/* What a restart has left of the same request: its answer, or what it waits for. True: done. */
bool keep_asked_before(struct coord *c, struct waiter *w);
/* RC_OK: the request may have effects now. */
enum rc keep_check(const struct coord *c, const struct waiter *w, struct err *err);
/* The answers of a client; with make, made if there are none. NULL: none, or out of memory. */
struct keep_client *keep_client(struct coord *c, uint64_t id, bool make);
void keep_client_is(struct coord *c, uint64_t client_id, bool gone);
void keep_tick(struct coord *c);
void keep_fini(struct coord *c);

/* ---- restore.c */

/* The first step: go on where the other one was. */
void resume(struct coord *c);

/* ---- the requests: RC_OK when the waiter is answered or waits for something; else the failure to
 * answer is in *err */
typedef enum rc handler(struct coord *c, struct waiter *w, const GpuSim__Request *req,
			struct err *err);

handler on_register, on_list_devices;			    /* registry.c, status.c */
handler on_ping;					    /* listen.c */
handler on_events;					    /* history.c */
handler on_status;					    /* status.c */
handler on_comm_init, on_comm_destroy, on_comm_status;	    /* comm_init.c, comm.c */
handler on_comm_init_rank;				    /* rendezvous.c */
handler on_comm_abort, on_comm_shrink, on_comm_grow;	    /* change.c */
handler on_submit;					    /* run.c */
handler on_group_start, on_group_end;			    /* group.c */
handler on_graph_create, on_graph_launch, on_graph_destroy; /* graph.c */
handler on_all_reduce_ring, on_memcpy;			    /* lab.c */

#endif
