/*
 * run_impl.h - what the files of this room share. Nobody else includes it.
 */
#ifndef COORD_RUN_IMPL_H
#define COORD_RUN_IMPL_H

#include "coord/run/run.h"

/* A growing set of (src, dst) rank pairs, numbered 0, 1, 2 ... in order of arrival. {0} is empty. */
struct pairs {
	uint64_t *key;
	size_t n, cap;
	uint32_t *slot; /* open addressing: index + 1, or 0 */
	size_t nslot;
};

/* A summary of operations: their number, and the first of the collectives, sends and receives. */
struct gist {
	uint64_t nops;
	bool known; /* the first exists */
	GpuSim__Collective coll;
	GpuSim__DataType dtype;
	GpuSim__ReduceOp redop;
	uint64_t nelem;
	uint32_t root;
};

enum sendrecv_dir { DIR_SEND, DIR_RECV };

struct pair_count {
	uint64_t n[2]; /* sends, receives */
};

struct run_rank {
	struct buf body; /* packed Request{run} until started; no data: nothing to do */
	struct call call;
	uint64_t compute_ns, comm_ns;
	uint64_t held_ns;   /* the longest that another rank waited for it */
	uint64_t waited_ns; /* its own wait for others */
};

struct run {
	struct run *next;
	struct comm *comm;
	uint64_t client_id;	      /* submitted by */
	uint64_t id, first_seq, nops; /* nops: all iterations' numbered operations */
	struct graph *graph;	      /* or NULL */
	uint64_t first_iteration;     /* of a graph */
	uint64_t iterations;	      /* of a graph */
	bool serial; /* waits its turn; else only sends and receives, starts at once */
	bool started;
	bool pure;		       /* only collectives: may be repeated */
	bool hopeless;		       /* it would fail again */
	unsigned tries;		       /* failed tries */
	uint32_t recoveries;	       /* of the communicator when it was submitted */
	char outgrown[TUNE_FILE_NAME]; /* its algorithm from a file, if for more ranks; or "" */
	struct group_part *parts;      /* the submits, for a repetition; or NULL */
	uint32_t waiting;	       /* ranks that have not answered */
	struct err cause;	       /* first failure, preferably not RC_ABORTED */
	uint64_t made_ms, started_ms, failed_ms; /* failed: first failure */
	struct gist gist;
	size_t held;
	bool recorded;
	struct run_rank rank[]; /* at least comm_nranks(comm) */
};

/* The operations of a submit, group or graph while they are gathered, matched and numbered. */
struct batch_pair {
	uint64_t *nbytes[2]; /* of each send, receive, in order */
	size_t n[2], cap[2];
	size_t seen[2];	  /* by batch_encode */
	uint64_t *number; /* operation + 1 of the k-th met pair; 0: not yet known */
};

struct batch {
	const struct tuner *tuner;
	const struct tune_files *files;
	/* by batch_encode: named, but for more ranks than remain */
	const struct tune_file *outgrown;
	struct comm *comm;
	struct link_shape links; /* of its ranks */
	size_t nops;
	size_t npure; /* collectives, sends and receives among them */
	struct gist gist;
	uint64_t ncoll;
	struct {
		size_t nops, nbytes;
		size_t encoded;	 /* of nops, by batch_encode */
	} * rank;		 /* comm_nranks(comm) */
	struct carried *carried; /* see batch.c */
	size_t ncarried;
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
	bool gone, changed; /* changed: its operations are meaningless for the current ranks */
	uint64_t gone_ms;
	uint64_t opened_ms;
	struct batch batch;
	struct group_part *parts, **parts_tail;
	size_t held;
};

enum graph_state { GRAPH_DEFINING, GRAPH_READY, GRAPH_DROPPING };

struct graph {
	struct graph *next;
	struct comm *comm;
	uint64_t client_id; /* made by */
	uint64_t id, nops;  /* nops: numbered operations of one iteration */
	enum graph_state state;
	struct group_part *part; /* the submits, to define it again; or NULL */
	uint32_t nruns, waiting;
	uint32_t nranks;   /* of rank[]; at least the communicator's */
	struct err failed; /* failure of the definition */
	size_t held;
	uint64_t recorded; /* mark of its record; 0: none */
	struct {
		bool has_ops;
		struct call call;
	} rank[]; /* comm_nranks(comm) */
};

/* The operations of a communicator. */
struct work {
	struct run *runs, **runs_tail; /* in order of submission */
	uint32_t nruns;
	struct group *groups;
	uint32_t ngroups;
	struct graph *graphs;
	uint32_t ngraphs;
	struct seat *seat; /* by rank: submits that wait for other ranks; or NULL */
	uint32_t nseated;
	uint64_t next_seq;   /* number of the next collective */
	uint32_t told_epoch; /* in which an algorithm for more ranks was logged */
	uint64_t skipped;    /* numbers below next_seq that a restart has skipped */
	struct pairs pairs;
	struct pair_count *pair; /* sends and receives without a match in their own submit */
	size_t pair_cap;
	struct {
		uint64_t next_seq; /* reserved */
		uint64_t ops;	   /* as stored; 0: nothing */
		bool pairs;	   /* they are stored */
		bool pairs_new;	   /* they have changed since */
	} recorded;
};

struct runs {
	size_t held; /* bytes */
	uint64_t last_graph;
	uint64_t reserved_number, reserved_graph; /* as stored */
};

/* ---- remap.c */

/* Rewrite packed submits of `from` ranks for `left` of them; to[r] is the new number of rank r, or RANK_LEAVES.
 * RC_RECOVERED: one is meaningless without the ranks that leave; RC_NOMEM. */
enum rc remap_parts(struct group_part *parts, const uint32_t *to, uint32_t from, uint32_t left,
		    struct err *err);

/* ---- pairs.c */

/* The pair's number, added if new; the caller keeps arrays beside it. RC_NOMEM. */
enum rc pairs_index(struct pairs *p, uint32_t src, uint32_t dst, size_t *idx);
void pairs_fini(struct pairs *p);
/* The counts of a communicator's pair, added if new. NULL: out of memory. */
struct pair_count *work_pair(struct work *work, uint32_t src, uint32_t dst);
/* v, an array of *vcap things of `size` bytes, zero-extended to p->cap of them if it does not reach
 * idx. NULL: out of memory, v as it was. */
void *pairs_beside(const struct pairs *p, size_t idx, void *v, size_t *vcap, size_t size);

static inline bool
is_sendrecv(const GpuSim__Coll *k)
{
	return coll_is_sendrecv((enum gpusim_coll)k->coll);
}

/* ---- subsets.c */

/* A collective as its ranks have it. */
struct met_coll {
	const GpuSim__Coll *coll; /* of the first rank that had it, */
	uint32_t rank;		  /* which is this one */
	uint32_t nranks;	  /* that had it */
	size_t nth;		  /* of its set, from 0 */
	uint64_t number;	  /* by batch_encode: of the operation, + 1 */
	const GpuSim__Coll **of;  /* by place, if the ranks' counts may differ: by submit_check */
};

/* The collectives of one set of ranks; its members are the submit's. */
struct member_set {
	uint64_t hash;
	const uint32_t *members; /* nmembers 0: all ranks */
	size_t nmembers;
	struct met_coll *met;
	size_t n, cap;
	uint32_t walker; /* 1 + the rank whose operations are being passed, */
	size_t at;	 /* and how many of the set it had so far */
};

/* All sets of a submit. Initialise with {0}. */
struct member_sets {
	struct member_set *set;
	size_t n, ncoll; /* of all sets */
	uint32_t *slot;	 /* open addressing: index + 1, or 0 */
	size_t nslot;
};

/* The rank's next collective; one rank after the other, once. NULL: out of memory. */
struct met_coll *member_sets_next(struct member_sets *m, uint32_t rank, const GpuSim__Coll *k);
void member_sets_fini(struct member_sets *m);
/* RC_INVAL: the members are no set of ranks that has this one. */
enum rc members_check(const GpuSim__Coll *k, uint32_t nranks, uint32_t rank, struct err *err);
/* The rank's place among those that take part. */
uint32_t member_place(const GpuSim__Coll *k, uint32_t rank);
/* " of tp0", " of ranks 0, 2"; "" if all ranks take part. */
#define MEMBERS_TEXT 96
const char *members_text(const GpuSim__Coll *k, char text[MEMBERS_TEXT]);

/* ---- validate.c */

/* The operation of one rank, without its table of parts. */
struct plan_args run_args(const struct comm *comm, uint32_t rank, const GpuSim__Coll *k);
/* Check every rank and operation of one submit, and that the ranks' collectives agree. */
enum rc submit_check(const struct comm *comm, const struct tune_files *files,
		     const GpuSim__SubmitRequest *s, size_t *ncoll, struct err *err);

/* ---- batch.c */

/* The algorithm is for the ranks before a shrink: the call's choice is open now. */
bool algo_outgrown(const struct comm *comm, const struct tune_file *f);
enum rc batch_init(const struct coord *c, struct batch *b, struct comm *comm, struct err *err);
void batch_fini(struct batch *b);
/* Check and add one submit; the batch is unchanged on error. */
enum rc batch_add(struct batch *b, const GpuSim__SubmitRequest *s, struct err *err);
enum rc batch_add_parts(struct batch *b, const struct group_part *parts, struct err *err);
uint64_t
batch_numbered(const struct batch *b); /* collectives, and matched pairs of send and receive */
uint64_t batch_loose(const struct batch *b); /* unmatched sends and receives */
/* The unmatched operation to name in an error; false: none. */
bool batch_first_loose(const struct batch *b, uint32_t *src, uint32_t *dst, enum sendrecv_dir *dir);
/* Forget the numbers given so far. */
void batch_rewind(struct batch *b);
/* Number the operations of a submit (in the order of batch_add), choose algorithms and chunks that
 * callers left open, and append them as field `field` to ops[rank]. RC_NOMEM; RC_INVAL: an algorithm from
 * a file was removed or replaced and does not fit, or the operations with their schedules are too long. */
enum rc batch_encode(struct batch *b, const GpuSim__SubmitRequest *s, uint32_t field,
		     struct buf *ops, struct err *err);
/* Free an array of buffers. */
void bufs_free(struct buf *b, size_t n);
/* The unmatched operations have been submitted: count them. After encoding; cannot fail. */
void batch_commit(const struct batch *b);

/* ---- submit.c */

/* Answer waiting submits with *why; free the empty seats. */
void meet_fail(struct coord *c, struct comm *comm, const struct err *why);
void meet_forget(struct comm *comm);

/* A rank's submit that waits for the others'. */
struct seat {
	struct pending *p;	 /* NULL: no submit yet */
	struct group_part *part; /* the submit */
	struct gist gist;
};

/* ---- gist.c */

/* Add one more submit. */
void gist_add(struct gist *g, const GpuSim__SubmitRequest *s);

/* ---- held.c */

/* Count nbytes more. False: RC_BUSY in *err. */
bool held_take(struct coord *c, size_t nbytes, struct err *err);
void held_drop(struct coord *c, size_t nbytes);
/* Zeroed memory that is counted. NULL: RC_BUSY, RC_NOMEM in *err. */
void *held_alloc(struct coord *c, size_t nbytes, struct err *err);

/* A run of no operations that is not queued; an empty graph in the communicator's list. NULL: *err. */
struct run *run_alloc(struct coord *c, struct comm *comm, struct err *err);
struct graph *graph_alloc(struct coord *c, struct comm *comm, uint64_t nops, struct err *err);
/* NULL: not found. */
struct graph *graph_find(struct comm *comm, uint64_t id);
void work_append(struct comm *comm, struct run *run);

void parts_free(struct coord *c, struct group_part *parts);
/* A packed copy of a submit, and one of packed bytes. NULL: *err. */
struct group_part *part_new(struct coord *c, const GpuSim__SubmitRequest *s, struct err *err);
struct group_part *part_copy(struct coord *c, const void *packed, size_t n, struct err *err);
/* Unpack it; free with gpu_sim__submit_request__free_unpacked. NULL: out of memory. */
GpuSim__SubmitRequest *part_unpack(const struct group_part *part);
/* Copy the submit, or a group's parts: *out is the first, in order, also on error. */
enum rc parts_copy(struct coord *c, const GpuSim__SubmitRequest *one,
		   const struct group_part *parts, struct group_part **out, struct err *err);

/* ---- run.c */

/* Submit a batch's operations: `one` submit, or the packed submits of a group. wait: the request waits
 * for the end, else it is not touched. RC_BUSY, RC_NOMEM: nothing happened. */
enum rc run_submit(struct coord *c, struct batch *b, const GpuSim__SubmitRequest *one,
		   const struct group_part *parts, struct pending *w, bool wait,
		   uint64_t *operation, struct err *err);
enum rc run_graph(struct coord *c, struct graph *g, const GpuSim__GraphLaunchRequest *q,
		  struct pending *w, uint64_t *operation, struct err *err);
/* Encode the batch's operations and pack each rank's request. */
enum rc run_encode(struct coord *c, struct run *run, struct batch *b,
		   const GpuSim__SubmitRequest *one, const struct group_part *parts,
		   struct err *err);
/* The same for a graph's run. */
enum rc run_encode_graph(struct coord *c, struct run *run, struct err *err);
void run_start(struct coord *c, struct run *run);
/* Start the first serial run, unless one is in progress. */
void runs_start_next(struct coord *c, struct comm *comm);
/* End the run: with *why if that is a failure, else with its own result. Start no other. */
void run_end_quietly(struct coord *c, struct run *run, const struct err *why);
/* End all runs of a communicator with *why. */
void runs_end_all(struct coord *c, struct comm *comm, const struct err *why);
/* End all runs, each with its own first failure if it has one. */
void runs_end_failed(struct coord *c, struct comm *comm, const struct err *why);
/* End the runs that have not started. */
void runs_end_unstarted(struct coord *c, struct comm *comm, const struct err *why);
/* A run to be repeated first failed too long ago. */
bool runs_overdue(const struct coord *c, const struct comm *comm);
/* Some run has begun. The rank has not ended its part of a run. */
bool runs_begun(const struct comm *comm);
bool runs_wait_for(const struct comm *comm, uint32_t rank);

/* ---- rerun.c */

/* Cancel the runs' calls; started runs have used one try. */
void runs_stop(struct coord *c, struct comm *comm);
/* After a recovery: number, encode and start the runs that can be repeated; end the others with
 * RC_RECOVERED. */
void runs_resume(struct coord *c, struct comm *comm);
/* The graph ends: its runs cannot run. */
void runs_forget_graph(struct comm *comm, struct graph *g);

/* ---- group.c, graph.c */

struct group *group_find(struct comm *comm, uint64_t client_id);
enum rc group_append(struct coord *c, struct comm *comm, struct group *g,
		     const GpuSim__SubmitRequest *s, struct err *err);
void group_free(struct coord *c, struct comm *comm, struct group *g);
/* The ranks have changed: the remaining ones have new numbers, or (NULL) ranks were added. */
void groups_remap(struct coord *c, struct comm *comm, const uint32_t *to, uint32_t from);
void graph_free(struct coord *c, struct graph *g);
/* The devices have lost the graphs: define them again; drop those that failed. */
void graphs_define_again(struct coord *c, struct comm *comm);
void graphs_drop_failed(struct coord *c, struct comm *comm);
/* After a failure: end definitions and drops in progress. */
void graphs_settle(struct coord *c, struct comm *comm);
void graphs_reap(struct coord *c, struct comm *comm);

/* ---- run_record.c: store it; drop its record */

void run_record(struct coord *c, struct run *run);
void run_unrecord(struct coord *c, struct run *run);
void graph_record(struct coord *c, const struct graph *g);
void graph_unrecord(struct coord *c, struct graph *g);
void work_unrecord(struct coord *c, const struct comm *comm);

#endif
