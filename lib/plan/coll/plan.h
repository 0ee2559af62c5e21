/*
 * plan.h - a collective as a schedule: the steps of one rank. Pure.
 *
 * A plan is generated from (collective, algorithm, rank, nranks, nelem, chunk) with no socket,
 * thread or clock. The same plan is run by a device (lib/device/dev), checked and simulated (check.h),
 * and shown.
 *
 * Running. A rank does its steps in order. A send posts the range and continues (it may wait while
 * PLAN_WINDOW earlier chunks to that peer are unconsumed); a receive waits for the next chunk from that
 * peer. Chunks between two ranks arrive in order, so the k-th send of a to b matches the k-th receive
 * of b from a, and their counts are equal. Before the operation ends every sent chunk has been
 * consumed. The receiver may read a posted range straight from the sender's memory, as late as its
 * receive, so a plan never writes to a range that it posted until a message that it received later
 * proves the chunk consumed. So a transport needs no copy on the sending side.
 *
 * One-sided steps. Where every rank has the others' memory mapped, a plan may instead read and
 * write it: plan->mapped is then set. STEP_SYNC and STEP_SHARE are barriers: after one, every rank sees
 * all writes before it. STEP_REDUCE_ALL reads the same range of every rank and writes the same range of
 * every rank (PLAN_EVERY) or of its own. No rank may touch a range that another rank writes, nor write
 * a range that another reads, without a sync between. STEP_SHARE leaves a copy: the rank may write to
 * its range at once, and the copy is readable until the rank's second next one-sided step.
 *
 * Buffers. Counts are in elements of the operation's vector, which has `nelem` elements;
 * offsets are in elements from the start of the buffer named (offset 0 of allgather's in is the
 * first element of the rank's part):
 *	allreduce, broadcast, reduce	in[nelem] -> out[nelem]
 *	allgather, gather		in[part(rank)] -> out[nelem]
 *	reducescatter, scatter		in[nelem] -> out[part(rank)]
 *	alltoall			in[nelem] -> out[nelem]; nelem is a multiple of nranks
 *	send, recv			in[nelem] / out[nelem], one peer
 *	barrier				nothing; nelem is 0
 * part(r) is [r*nelem/p, (r+1)*nelem/p) (plan_part), so it may be uneven or empty; or it is given by a
 * table of parts (plan_args.part), for allgather, gather, reducescatter, scatter and alltoall. PLAN_IN
 * is the caller's input, PLAN_OUT its output, PLAN_TMP scratch of plan->ntmp elements, PLAN_WIDE
 * scratch of plan->nwide partial sums, see below. In place means that IN and OUT are the same memory
 * for allreduce, broadcast, reduce; that in is out's part(rank) for allgather and gather; that out is
 * in's part(rank) for reducescatter and scatter; alltoall has no in-place form. Every plan works in
 * both cases. No step writes to PLAN_IN. Ranks other than the root have no output in reduce and gather
 * (they may not touch PLAN_OUT) and no input in broadcast and scatter. A range of no elements is
 * neither sent nor received, on both sides; barrier alone is made of empty messages.
 *
 * Wide partial sums. Where the elements are floats shorter than f32 and the redop rounds (args.wide), a
 * sum over some of the ranks is never rounded: it lies in PLAN_WIDE as f32, and a send from there has
 * messages of f32. A receive-reduce takes both kinds of message, which differ in length; a receive
 * takes the kind of its dst. The last reduction (step.last) finishes and rounds its result, so there is
 * no STEP_FINISH. Inputs and finished elements are stored and sent in their own type.
 * The canonical tree (args.canonical). A sum of floats depends on its order. Here each element is
 * reduced by one binary tree over the ranks: of n ranks the first half, which is the largest power of
 * two below n, with the rest, each half in the same way: ((0 + 1) + (2 + 3)) + 4. Partial sums are f32
 * (f64 for f64), and the result is rounded once. A canonical plan reduces only by STEP_RECV_ALL and
 * STEP_REDUCE_ALL, which do that; so the bits depend neither on the algorithm nor on how the vector is cut.
 */
#ifndef COLL_PLAN_H
#define COLL_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"

#define PLAN_MAX_RANKS 65536u
#define PLAN_MAX_STEPS (1u << 22) /* of one plan, and of all ranks' plans built together */
#define PLAN_WINDOW    1 /* chunks in flight between two ranks that suffice; more are allowed */

enum plan_step_kind {
	STEP_SEND,	  /* post src[src_off, +count) to peer */
	STEP_RECV,	  /* dst[dst_off, +count) = the next chunk from peer */
	STEP_RECV_REDUCE, /* dst[dst_off, +count) = src[src_off, +count) redop the chunk from peer */
	STEP_COPY,	  /* dst[dst_off, +count) = src[src_off, +count); same memory: nothing */
	STEP_FINISH,	  /* dst[dst_off, +count) is fully reduced: divide it for a mean (avg);
			   * in allreduce, reduce, reducescatter only, once for each element */
	STEP_REDUCE, /* dst[dst_off, +count) = with[with_off, +count) redop src[src_off, +count);
			   * dst is one of the two exactly, or apart from both */
	STEP_SYNC,   /* wait until every rank has come to this step */
	STEP_SHARE,  /* leave a copy of src[src_off, +count) for every rank, then as STEP_SYNC */
	STEP_REDUCE_ALL, /* dst[dst_off, +count) = all ranks' src[src_off, +count), reduced in the
			  * order of ranks and finished; dst of peer, which is PLAN_EVERY or the
			  * rank itself; src may be PLAN_SHARED */
	STEP_RECV_ALL, /* dst[dst_off, +count) = src[src_off, +count) and the next chunk from every
			* other rank, by the canonical tree, finished; canonical plans */
};

/* PLAN_SHARED: the ranks' copies of their last STEP_SHARE; offset 0 is its first element. */
enum plan_buf { PLAN_IN, PLAN_OUT, PLAN_TMP, PLAN_WIDE, PLAN_SHARED };
#define PLAN_NBUFS PLAN_SHARED /* buffers in the rank's own memory */

#define PLAN_EVERY UINT32_MAX

struct plan_step {
	uint8_t kind; /* enum plan_step_kind */
	/* recv-reduce and reduce, if partial sums are wide: the step also finishes */
	uint8_t last : 1;
	uint8_t with : 7; /* enum plan_buf; reduce */
	uint8_t src, dst; /* enum plan_buf; dst unused by send, src unused by recv and finish */
	uint32_t round;	  /* never decreases along a plan; for display and cost, not for running */
	union {
		uint32_t peer;	   /* rank; send, recv, recv-reduce, reduce-all */
		uint64_t with_off; /* reduce */
	};
	uint64_t src_off, dst_off, count; /* elements */
};

/* One rank's steps. Initialise with {0}; plan_fini releases. */
struct plan {
	struct plan_step *step;
	size_t nstep, cap;
	uint64_t ntmp;	/* elements of scratch */
	uint64_t nwide; /* elements of PLAN_WIDE */
	bool mapped;	/* it has one-sided steps */
	bool stores;	/* some steps write to other ranks' memory */
	enum rc rc;	/* the first failure to append a step; nothing is appended after it */
};

struct schedule;

/* Where a rank's part lies in the vector. */
struct plan_part {
	uint64_t off, count;
};

/*
 * A collective, send or receive of one rank, as it is chosen for, planned and run. With a table of parts
 * nelem is the end of the last part. There may be gaps between parts, which no step touches, except in
 * reducescatter; parts that are written do not overlap.
 * In alltoall part[q] of a rank's input goes to rank q, and recv_part[q] of its output comes from rank
 * q; if the arguments are for all ranks, both are nranks tables, one after the other. Only a
 * collective's default algorithm accepts gaps, and parts of alltoall.
 */
struct plan_args {
	enum gpusim_coll coll;
	enum gpusim_dtype dtype; /* plans do not depend on it, nor on redop */
	enum gpusim_redop redop;
	uint32_t rank, nranks;
	uint32_t root;	/* broadcast, reduce, gather, scatter: the root; send, recv: the peer */
	uint64_t nelem; /* of the whole vector, see above; may be 0 or less than nranks */
	uint64_t chunk; /* most elements in one message; 0: no limit */
	uint64_t share; /* most elements in one STEP_SHARE; 0: no limit */
	bool wide;	/* partial sums are f32, elements shorter: see above */
	bool canonical; /* sums are by the canonical tree: see above */
	const struct plan_part *part; /* by rank; NULL: even parts */
	const struct plan_part *recv_part;
	/* From a file (schedule.h), instead of an algorithm by name; one per rank if for all ranks.
	 * NULL: none. */
	const struct schedule *schedule;
};

/* Check the arguments; plan_build calls it first. RC_INVAL with a sentence. */
enum rc plan_args_check(const struct plan_args *a, struct err *err);

/* One algorithm of one collective. An algorithm is one file and one row in algo.h. */
struct plan_algo {
	enum gpusim_coll coll;
	const char *name;    /* "ring" */
	const char *summary; /* one line */
	/* Append the steps; called only with valid arguments, nranks > 1, and nelem > 0 except for
	 * barrier. out->rc: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS. */
	void (*build)(const struct plan_args *a, struct plan *out);
};

/* The rows, NULL-name terminated. The first row of a collective is its default: the choice of
 * "auto" without a tuner (tune.h). */
extern const struct plan_algo plan_algos[];

/*
 * The row of all algorithms that came from files (schedule.h), of any collective: it has a number, for
 * records, and the name "file". It is not in plan_algos, and builds nothing: plan_args.schedule does.
 */
extern const struct plan_algo plan_algo_file;
#define PLAN_ALGO_FILE 200u /* its number */

/* Return true if the row has this name. "direct" was the name of allreduce twoshot until 0.2. */
bool plan_algo_named(const struct plan_algo *row, const char *name);

/* The row for a name; NULL, "" and "auto" give the default. RC_INVAL lists the names. */
enum rc plan_algo_find(enum gpusim_coll coll, const char *name, const struct plan_algo **out,
		       struct err *err);

/* Return true if a name is that of a built-in algorithm of any collective, or leaves the choice open
 * ("auto"). */
bool plan_algo_is_built_in(const char *name);

/* Convert a row to its number among those of its collective, from 0, and back. NULL: no such row. */
const struct plan_algo *plan_algo_at(enum gpusim_coll coll, unsigned number);
unsigned plan_algo_number(const struct plan_algo *row);

/* Return true if its plans for more than one rank have one-sided steps (plan.mapped). */
bool plan_algo_mapped(const struct plan_algo *row);

/* Return true if its plans write to other ranks' memory (plan.stores). A rank that was frozen in
 * mid-step does so when it resumes, long after the others have moved on. */
bool plan_algo_stores(const struct plan_algo *row);

/* Return true if it has canonical plans: it can reduce by the canonical tree, or does not reduce. */
bool plan_algo_canonical(const struct plan_algo *row);

/* RC_INVAL: it has no canonical plans; the sentence lists the collective's algorithms that have. */
enum rc plan_algo_check_canonical(const struct plan_algo *row, struct err *err);

/*
 * plan_build - validate the arguments and append one rank's steps.
 *
 *	algo	unused with a->schedule, which must match collective, rank and ranks (RC_INVAL)
 *
 * Errors: RC_INVAL bad collective, rank, root, nranks or nelem, unknown algorithm, more than
 * PLAN_MAX_STEPS steps; RC_NOMEM. The plan is unchanged on error. nranks 1 is legal everywhere (a copy)
 * except for send and recv, whose peer is another rank. nelem 0 gives no steps, except for barrier.
 */
enum rc plan_build(const struct plan_args *a, const char *algo, struct plan *plan, struct err *err);

/*
 * plan_build_all - every rank's plan.
 *
 *	a	rank is ignored, except for send and recv: rank does this half, its peer (root) the
 *		other half, and the rest nothing
 *	plans	[out] array of nranks plans, the caller's to release with plan_free_all
 *
 * Errors: as plan_build; PLAN_MAX_STEPS bounds all of them together.
 */
enum rc plan_build_all(const struct plan_args *a, const char *algo, struct plan **plans,
		       struct err *err);

/*
 * plan_build_first - the plans of ranks 0 .. nplans-1, without a check of the arguments.
 *
 *	nstep	[out] of all of them; if it exceeds max_steps, *plans is NULL, which is no error
 */
enum rc plan_build_first(const struct plan_args *a, const char *algo, uint32_t nplans,
			 size_t max_steps, struct plan **plans, size_t *nstep, struct err *err);

/* Return true if ranks a and b do the same, each with its own neighbours; one-sided steps are never alike. */
bool plan_alike(const struct plan *x, uint32_t a, const struct plan *y, uint32_t b,
		uint32_t nranks);

/* Release the array and its nranks plans; NULL is legal. */
void plan_free_all(struct plan *plans, uint32_t nranks);

/* Append one step; RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS. Zero-count sends and receives are not
 * dropped: barrier is made of them. */
enum rc plan_append(struct plan *plan, struct plan_step s);

/* Release the steps and make it {0}. */
void plan_fini(struct plan *plan);

/* Rank r's own arguments, from those for all ranks; false: it takes no part in this send or recv. */
bool plan_args_of(const struct plan_args *all, uint32_t r, struct plan_args *out);

/* Check that an algorithm accepts the table of parts. RC_INVAL. */
enum rc plan_algo_takes(const struct plan_algo *row, const struct plan_args *a, struct err *err);

/* The elements [*off, *off + *count) of rank r's even part: r*nelem/p without overflow. */
void plan_part(uint64_t nelem, uint32_t nranks, uint32_t r, uint64_t *off, uint64_t *count);

/* Return true if the kind of step involves no other rank. */
static inline bool
plan_step_local(unsigned kind)
{
	return kind >= STEP_COPY && kind <= STEP_REDUCE;
}

/* A collective's name: "allreduce", "reduce-scatter" ... Static storage. coll_parse matches names as
 * nearest_same does: "all-reduce", "reducescatter", "AllGather". */
const char *coll_name(enum gpusim_coll coll);
/* The name of a kind of step: "recv-reduce"; "?": unknown kind. */
const char *plan_step_name(unsigned kind);
enum rc coll_parse(const char *name, enum gpusim_coll *out, struct err *err);

/* The collective has a redop and STEP_FINISH; has a root; is one half of a transfer to a peer; has a part
 * of the vector for each rank, and so a v-variant. */
bool coll_reduces(enum gpusim_coll coll);
bool coll_has_root(enum gpusim_coll coll);
bool coll_is_sendrecv(enum gpusim_coll coll);
bool coll_has_parts(enum gpusim_coll coll);

/* Bus bandwidth over algorithm bandwidth, as nccl-tests define it: the share of a rank's traffic in an optimal
 * algorithm. */
double coll_bus_factor(enum gpusim_coll coll, uint32_t nranks);

/* It sums floats, so its bits depend on the order of the sums. */
bool plan_args_ordered(const struct plan_args *a);
/* Bytes of its vector; of a partial result per byte of an element. */
uint64_t plan_args_bytes(const struct plan_args *a);
unsigned plan_args_widening(const struct plan_args *a);

/*
 * plan_show - append every rank's plan as text, one line per step, one block per rank, with the totals:
 * messages and elements sent per rank, rounds.
 *
 *	a	as for plan_build_all
 *	out	unchanged on error
 */
enum rc plan_show(const struct plan_args *a, const char *algo, struct buf *out, struct err *err);

/* As plan_show, as one JSON object. */
enum rc plan_show_json(const struct plan_args *a, const char *algo, struct buf *out,
		       struct err *err);

#endif
