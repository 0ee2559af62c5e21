/*
 * protocol_impl.h - shared by the files of the protocol.
 *
 * Ownership: a protocol owns everything. A run in progress is in slot[] under its start number; a
 * numbered run, also a remembered one, is in a table of its communicator. When a communicator ends, its
 * runs become orphans, which are freed when they end.
 *
 * Memory for the answers of a step is allocated before anything changes, so that only a request can fail
 * for lack of memory, without an effect.
 */
#ifndef DEV_PROTOCOL_IMPL_H
#define DEV_PROTOCOL_IMPL_H

#include "dev/protocol.h"

#define COMM_BUCKETS  256
#define GRAPH_BUCKETS 1024
#define RUN_BUCKETS   64 /* of a communicator */
#define SAID_MAX      4	 /* sentences of one step */

enum run_kind { IN_TURN, AT_ONCE, RUN_KINDS };

struct caller {
	struct caller *next;
	uint64_t id;
};

/* A run: held until those of older epochs have ended, in progress, or remembered. */
enum run_state { RUN_HELD, RUN_STARTED, RUN_ENDED };

struct prun {
	struct prun *chain; /* in comm.bucket, when it has a number */
	struct prun *next;  /* held: in comm.held; ended: in comm.ended[kind] */
	struct pcomm *comm; /* or NULL: of none, or of an ended one */
	uint64_t number, start;
	uint32_t epoch;
	enum run_kind kind;
	enum run_state state;
	bool orphan;		    /* started, and its communicator has ended */
	struct caller first, *more; /* to be answered */
	uint64_t graph;		    /* 0: none */
	bool snapshot, restore;
	struct run_result *failure; /* ended: its result, or NULL: */
	uint64_t compute_ns, comm_ns;
};

struct run_list {
	struct prun *head, **tail;
	unsigned n;
	uint64_t late; /* unknown numbers up to this one are late */
};

struct pcomm {
	struct pcomm *chain;
	uint64_t id, instance;
	uint32_t epoch, rank, nranks;
	uint64_t digest; /* of the ranks' identities */
	bool joined;
	struct err aborted;    /* RC_OK: not aborted */
	bool waits;	       /* it has waited for orphans since its first attach */
	struct due *attached;  /* whose answers wait for that, or for runs of older epochs */
	unsigned under_way[2]; /* runs started: of this epoch, of older ones */
	struct run_list ended[RUN_KINDS];
	struct run_list held;
	struct prun *bucket[RUN_BUCKETS];
};

struct pgraph {
	uint32_t chain; /* slot + 1 of the next in its bucket; 0: none. Of a free one: the next */
	bool used, defined;
	uint64_t id, comm, digest;
};

/* An action whose result is due, and its effect; or an attach whose answer waits. */
struct due {
	struct due *next;
	uint64_t caller;
	enum protocol_action_kind what;
	struct pcomm *fresh; /* attach: the new communicator */
	uint64_t comm;	     /* join */
	uint32_t epoch;
	uint32_t graph; /* define */
};

struct protocol {
	uint64_t device_id;
	struct pcomm *comm[COMM_BUCKETS];
	uint64_t instance, order; /* of the newest attach */
	unsigned ncomms;
	struct pgraph graph[PROTOCOL_MAX_GRAPHS];
	uint32_t graph_bucket[GRAPH_BUCKETS]; /* slot + 1, or 0 */
	uint32_t free_graph;		      /* slot + 1, or 0 */
	unsigned ngraphs;
	struct prun **slot; /* by start number, which is 1 and up */
	size_t nslot, *free_slot, nfree;
	unsigned norphans;
	struct due *due;
	struct protocol_action *out;
	size_t nout, out_cap, owed; /* owed: the most actions that can still follow */
	struct err said[SAID_MAX];
	unsigned nsaid;
	struct run_result answer; /* of a remembered run, to a request of this step */
};

/* ---- protocol_out.c */

extern const struct err proto_fine; /* success */

/* Make room for `more` more actions, and a few. False: out of memory. */
bool proto_owe(struct protocol *p, size_t more);
struct protocol_action *proto_act(struct protocol *p, enum protocol_action_kind kind,
				  uint64_t caller);
/* A message that lives as long as the step's actions; at most SAID_MAX of them. */
const struct err *proto_say(struct protocol *p, enum rc rc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
const struct err *proto_no_memory(struct protocol *p);
void proto_answer(struct protocol *p, uint64_t caller, const struct err *err);
/* Append an action whose result is due; NULL: out of memory, nothing appended. */
struct due *proto_due_new(struct protocol *p, uint64_t caller, enum protocol_action_kind what);
/* FNV-1a */
#define DIGEST_START 14695981039346656037ull
uint64_t proto_digest(uint64_t h, const void *data, size_t n);

struct pcomm *proto_comm_find(const struct protocol *p, uint64_t id);
/* The communicator at that epoch; else NULL and the failure. */
struct pcomm *proto_comm_at(struct protocol *p, uint64_t id, uint32_t epoch,
			    const struct err **why);
/* The message for an epoch that has passed; `now` is the communicator's. */
const struct err *proto_is_over(struct protocol *p, uint32_t epoch, uint64_t comm, uint32_t now);

/* The following functions answer a request with the return value; NULL: the answer comes later. */

/* ---- protocol_comm.c */

const struct err *proto_attach(struct protocol *p, uint64_t caller,
			       const GpuSim__CommAttachRequest *m);
/* The transport has attached. Takes `u` and its fields, and answers. */
void proto_attached(struct protocol *p, struct due *u);
const struct err *proto_join(struct protocol *p, uint64_t caller, const GpuSim__CommJoinRequest *m);
const struct err *proto_abort(struct protocol *p, const GpuSim__CommAbortRequest *m);
const struct err *proto_detach(struct protocol *p, const GpuSim__CommDetachRequest *m);

/* ---- protocol_run.c */

void proto_graph_drop(struct protocol *p, struct pgraph *g);
void proto_graphs_drop_of(struct protocol *p, uint64_t comm);
const struct err *proto_define(struct protocol *p, uint64_t caller,
			       const GpuSim__GraphDefineRequest *m);
const struct err *proto_drop(struct protocol *p, const GpuSim__GraphDropRequest *m);
void proto_runs_init(struct pcomm *c);
const struct err *proto_run(struct protocol *p, uint64_t caller, const GpuSim__RunRequest *m);
void proto_ended(struct protocol *p, uint64_t start, const struct run_result *result);
/* Answer the attaches that wait for runs. */
void proto_answer_attached(struct protocol *p, struct pcomm *c, const struct err *err);
/* The same, unless aborted runs may still write. */
void proto_attached_settle(struct protocol *p, struct pcomm *c);
/* Refuse runs that wait for older epochs. */
void proto_refuse_held(struct protocol *p, struct pcomm *c, const struct err *why);
/* The epoch is over: forget its ended runs; those in progress now belong to an older epoch. */
void proto_runs_age(struct protocol *p, struct pcomm *c);
/* The communicator ends: the same, and runs in progress become orphans. */
void proto_runs_orphan(struct protocol *p, struct pcomm *c);
/* Free a run that is in no list. */
void proto_run_free(struct protocol *p, struct prun *r);

#endif
