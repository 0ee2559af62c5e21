/*
 * sim.h - a world of one coordinator, devices and clients around the real state machines.
 *
 * coord_step, protocol_step and the server's reply cache are the daemons'; clock, network,
 * processes and memory are simulated, from a seed. Everything that happens is an event in one
 * queue; the same seed gives the same events. Times are microseconds of the world.
 */
#ifndef SIM_H
#define SIM_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "coord/coord.h"
#include "digest.h"
#include "dev/protocol.h"
#include "net/replycache.h"
#include "wire/wire.h"

#define MS	    1000ull /* us */
#define MAX_DEVICES 16
#define MAX_CLIENTS 4
#define MAX_NODES   (1 + MAX_DEVICES + MAX_CLIENTS)
#define MAX_TAGS    512 /* runs whose kernels count their executions */
#define BUFFERS	    MAX_CLIENTS
#define WORDS	    MAX_DEVICES /* of a buffer: the count of each rank's input in it */
#define MEM_MIN	    0x10000u
#define MEM_MAX	    0x90000u
#define NONE	    UINT32_MAX

/* The coordinator's ladder here, and the delay of an unreachable peer. */
#define HEARTBEAT_MS  1000u
#define MISSED	      3u
#define OP_TIMEOUT_MS 4000u
#define GRACE_MS      1000u
#define RESPAWN_MS    4000u
#define RETURN_MS     35000u /* data that no client claims after the coordinator was away are free */
#define CONNECT_MS    2000u

/* ---- processes. Node 0 is the coordinator, then devices, then clients. */

enum node_kind { NODE_COORD, NODE_DEVICE, NODE_CLIENT };

struct node {
	enum node_kind kind;
	uint32_t index; /* among its kind */
	bool alive;
	uint32_t life;	       /* counts its processes */
	uint64_t frozen_until; /* 0: not */
	uint64_t died;
	uint32_t side; /* of a partition: sides do not reach each other */
	struct replycache *cache;
};

/* ---- calls: a request, repeated under its number until it is answered or too late */

enum call_kind {
	CALL_OF_COORD, /* arg: the coordinator's token */
	CALL_REGISTER, /* of a device */
	CALL_OF_CLIENT,
};

struct sim_call {
	enum call_kind kind;
	uint32_t from, to, from_life; /* nodes */
	uint64_t arg, client_id, seq, deadline, since;
	struct buf body;    /* packed, without the envelope */
	uint32_t served_in; /* life of its server, or 0 */
	bool done;
};

/* A request that a server works on. */
struct served {
	uint32_t call, node, life;
	uint64_t client_id, seq;
	GpuSim__Request *req; /* NULL: answered */
	uint64_t until;	      /* the server assumes that its caller waits */
};

/* ---- devices */

struct memory { /* a device's file: it outlives the process */
	uint64_t word[BUFFERS][WORDS];
	uint8_t count[MAX_TAGS]; /* executions of a tagged kernel */
	struct {
		uint64_t comm, run; /* 0: nothing is kept */
		uint64_t word[BUFFERS][WORDS];
		uint32_t buffers; /* bits: which are kept */
	} kept[BUFFERS];
};

struct drun { /* a run as a device executes it */
	uint64_t start, comm, instance, generation;
	uint32_t epoch, rank, served;
	const GpuSim__RunRequest *req;	 /* the request to be answered */
	GpuSim__GraphDefineRequest *def; /* its own copy of its graph, or NULL */
	GpuSim__Op **ops;
	size_t nops, op;
	uint64_t iteration;
	bool waits;  /* in a collective: */
	uint64_t at; /* number */
};

struct dgraph {
	GpuSim__GraphDefineRequest *def; /* a copy */
};

struct dcomm { /* the transport's knowledge */
	uint64_t id, instance;
	uint32_t epoch, rank, nranks;
	uint32_t dev[MAX_DEVICES]; /* by rank */
	bool aborted;
};

struct sim_device {
	struct protocol *protocol; /* NULL: no process */
	uint64_t incarnation, client_id, seq;
	bool spare;
	uint64_t starved_until; /* it gets no CPU time to send heartbeats */
	uint64_t looked;	/* when its process was last checked */
	bool discarded;		/* its memory was removed after it had died */
	uint64_t adopted;	/* when another device took over its memory, or it another's */
	struct memory mem;
	struct dcomm comm[32];
	unsigned ncomms;
	struct dgraph graph[64];
	struct drun run[64];
	unsigned nruns;
	uint64_t generation;
};

/* A running collective of one (communicator, epoch, operation). */
struct coll {
	uint64_t comm, instance, op;
	uint32_t epoch, nranks;
	uint32_t dev[MAX_DEVICES]; /* by rank: a device that has arrived, or NONE */
	uint64_t start[MAX_DEVICES], generation[MAX_DEVICES]; /* its run */
	uint32_t gone, finished;			      /* bits of ranks */
	uint64_t result[WORDS];
	uint32_t buffer;
	bool moving; /* all inputs have been read */
	bool stuck;  /* it will not finish */
};

/* ---- clients */

struct sim_client {
	uint64_t client_id, seq;
	uint32_t call; /* under way, or NONE */
	uint64_t comm; /* 0: none */
	uint32_t policy, nranks, epoch, recoveries;
	uint32_t dev[MAX_DEVICES]; /* by rank, as last reported */
	bool known;		   /* the list is certain, and nothing is in progress */
	bool failed;		   /* the communicator has */
	unsigned what;		   /* it is doing */
	uint32_t filled_by[MAX_DEVICES], nfilled; /* the rank whose input is in each word */
	bool in_vain;		 /* some inputs went to a device that is no longer a rank */
	uint64_t asked, told_at; /* the last request; the source of dev */
	bool filled, shared;	 /* inputs are in place; or `expect` everywhere */
	uint64_t expect[WORDS];
	uint32_t told;	     /* ranks that took part, by an unchecked answer */
	bool note;	     /* it reports a recovery */
	uint32_t tag, times; /* kernel of the operation, or NONE; all-reduces in it */
	uint64_t graph;	     /* 0: none */
	uint32_t graph_tag;
	unsigned ops;	       /* 0: nothing left to do */
	bool last, known_good; /* the last check: running, passed */
	/* For a rank of queued communicators, comm is the round's: */
	uint64_t round, child, child_of;
	uint32_t splits, child_rank, child_call;
	int color;
	bool spoilt; /* nothing more in this round */
};

/* ---- the world */

enum event_kind {
	EV_REQUEST,	/* a: call, at its server */
	EV_REPLY,	/* a: call, at its caller; body */
	EV_RETRY,	/* a: call */
	EV_TICK,	/* coordinator */
	EV_REGISTER,	/* device */
	EV_RUN,		/* device: run b of generation c continues */
	EV_ABORTED,	/* device: run b of generation c has noticed its abort */
	EV_REFUSED,	/* device: run b of generation c: a peer gave up */
	EV_COLL,	/* device: run b of generation c has its collective's result */
	EV_COLL_LATE,	/* device: run b of generation c has waited for too long in operation d */
	EV_COLL_TRY,	/* a: collective (of no node) */
	EV_CLIENT,	/* client: its next step */
	EV_FAULT,	/* faults begin at random */
	EV_START,	/* start node a */
	EV_MEND,	/* partitions end */
	EV_UNREACHABLE, /* coordinator: device b's connection broke; life c of it */
	EV_GONE,	/* coordinator: client id b has gone */
	EV_ECHO,	/* coordinator: its echo is back */
	EV_LOOKED,	/* coordinator: at device id b */
	EV_SPAWNED,	/* coordinator: device b is restarted as process c; 0: impossible */
	EV_EXITED,	/* coordinator: process b has ended, with wait status c */
};

struct event {
	uint64_t at, order;
	enum event_kind kind;
	uint32_t node, life; /* the owner; NONE: none. It is dropped when that process has ended */
	uint32_t a;
	uint64_t b, c, d;
	bool waited; /* for a processor */
	char *body;
	size_t nbytes;
};

struct profile { /* of faults: chances out of 1000, at each step of the fault generator */
	uint32_t lose, repeat, crash, freeze, split, coord_crash, coord_freeze, client_dies;
	uint32_t starve;	      /* events happen late for lack of CPU time */
	uint32_t latency_us, slow_us; /* of a message; of a collective, at most */
};

struct record {
	char *key;
	struct buf value;
};

struct world {
	uint64_t seed, rng, now, order;
	int verbose;
	struct profile faults;
	bool queued;   /* until the last check the clients are ranks of queued communicators */
	bool starving; /* of CPU time: no node dies, and no device may be reported lost */
	uint64_t behind_until; /* until then messages to the coordinator are delayed by: */
	uint64_t behind_us;
	uint64_t inbox_at; /* when the coordinator reads its messages: in order */
	uint32_t policy;   /* of devices lost in no communicator */
	bool calm;	   /* no more faults */
	uint64_t calm_at;
	struct event *heap;
	size_t nheap, heap_cap;
	struct node node[MAX_NODES];
	unsigned nnodes, ndevices, nclients;
	struct sim_call *call;
	size_t ncalls, call_cap;
	struct served *served;
	size_t nserved, served_cap;
	struct coord *coord;
	struct coord_actions actions;
	uint64_t instance, coord_client[MAX_DEVICES], coord_seq[MAX_DEVICES];
	struct buf told;       /* the coordinator's status just before it died */
	uint64_t told_events;  /* number of the last event that it had reported then */
	struct buf *telling;   /* the target of its answer to the world itself */
	struct record *record; /* sorted by key */
	size_t nrecords;
	struct sim_device *dev;
	struct sim_client *client;
	struct coll *coll;
	size_t ncolls, coll_cap;
	uint32_t tags;
	uint8_t tag_max[MAX_TAGS]; /* the most that a device may count of it */
	char wrong[512];	   /* the first broken invariant, or "" */
	struct digest digest;	   /* of all events */
	uint64_t events, checked, succeeded, failed, recovered;
};

/* world.c */
uint32_t roll(struct world *w, uint32_t n); /* 0 .. n-1 */
bool chance(struct world *w, uint32_t of1000);
uint64_t roll64(struct world *w);
uint64_t between(struct world *w, uint64_t lo, uint64_t hi);
void trace(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* An invariant is broken: note the message. The world ends. */
void wrong(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct event *post(struct world *w, uint64_t at, enum event_kind kind, uint32_t node);
bool reaches(const struct world *w, uint32_t a, uint32_t b);
bool is_up(const struct world *w, uint32_t node); /* alive and not frozen */
void node_start(struct world *w, uint32_t node);
void node_kill(struct world *w, uint32_t node, const char *why);
/* Play one seed. False: an invariant was broken; w->wrong has the message. */
bool world_play(struct world *w, uint64_t seed, int verbose);
void world_free(struct world *w);

/* rpc.c */
uint32_t rpc_start(struct world *w, enum call_kind kind, uint32_t from, uint32_t to,
		   uint64_t client_id, uint64_t seq, uint64_t arg, uint64_t timeout_us,
		   struct buf *body); /* takes the body */
void rpc_request_arrives(struct world *w, const struct event *e);
void rpc_reply_arrives(struct world *w, const struct event *e);
void rpc_retry(struct world *w, const struct event *e);
/* Answer; the reply's seq is filled in. */
void rpc_answer(struct world *w, uint32_t served, const GpuSim__Reply *reply);
void rpc_answer_packed(struct world *w, uint32_t served, const void *body, size_t nbytes);
/* Remember the answer to a request from another life of the coordinator. */
void rpc_remember(struct world *w, uint64_t client_id, uint64_t seq, const void *body,
		  size_t nbytes);
void rpc_answer_err(struct world *w, uint32_t served, const struct err *err);
/* The world's own request, packed for rpc_start. */
#define PACK(w, CASE, member, q)                                 \
	({                                                       \
		GpuSim__Request pack_ = GPU_SIM__REQUEST__INIT;  \
		pack_.body_case = GPU_SIM__REQUEST__BODY_##CASE; \
		pack_.member = (q);                              \
		pack_message(&pack_.base);                       \
	})
struct buf pack_message(const ProtobufCMessage *m);

/* coordinator.c */
void coordinator_start(struct world *w);
void coordinator_kill(struct world *w);
void coordinator_serve(struct world *w, uint32_t served);
void coordinator_result(struct world *w, uint64_t token, enum rc rc, const GpuSim__Reply *reply,
			const char *text);
void coordinator_tick(struct world *w);
/* A client repeats a request that was answered in another life of the coordinator. */
void coordinator_seen(struct world *w, uint64_t client_id);
/* Its history is consistent, and none of it has been lost. */
void coordinator_check_history(struct world *w);
void coordinator_event(struct world *w, struct coord_event *ev);

/* device.c */
void device_start(struct world *w, uint32_t d);
void device_kill(struct world *w, uint32_t d);
void device_serve(struct world *w, uint32_t served);
void device_register(struct world *w, uint32_t d);
void device_run_event(struct world *w, const struct event *e);
struct dcomm *device_comm(struct sim_device *d, uint64_t comm);
void device_fail_runs(struct world *w, uint32_t d, uint64_t comm, uint32_t epoch_below);

/* collective.c */
struct drun *run_by_start(struct sim_device *d, uint64_t start);
/* The run has reached its collective. */
void coll_arrive(struct world *w, uint32_t d, struct drun *r, const GpuSim__Coll *k, uint64_t op);
/* It leaves without the result: aborted, dead, too late. It may leave garbage. */
void coll_leave(struct world *w, uint32_t d, struct drun *r);
void coll_try(struct world *w, uint32_t i);
/* The result is in the rank's buffer; false: it will never be. */
bool coll_finish(struct world *w, uint32_t d, struct drun *r);
/* The ranks that this rank waits for, as bits. */
uint32_t coll_missing(struct world *w, uint32_t d, const struct drun *r);

/* ranks.c */
void ranks_step(struct world *w, uint32_t k);
void ranks_answer(struct world *w, uint32_t k, GpuSim__Request__BodyCase what, enum rc rc,
		  const GpuSim__Reply *reply);
/* The client has ended. */
void ranks_died(struct world *w, uint32_t k);

/* client.c */
void client_start(struct world *w, uint32_t k);
void client_step(struct world *w, uint32_t k);
void client_answer(struct world *w, uint32_t k, GpuSim__Request__BodyCase what, enum rc rc,
		   const GpuSim__Reply *reply, const char *text);
/* At the end, without faults: it makes one request, which must succeed. */
void clients_last_check(struct world *w);

/* The process of a device in its n-th life. */
static inline uint32_t
pid_of_device(uint32_t d, uint32_t life)
{
	return (d + 1) * 1000 + life;
}

static inline uint32_t
node_of_device(uint32_t d)
{
	return 1 + d;
}

#endif
