/*
 * algo.h - an algorithm of one collective for a fixed number of ranks, as in a file. Pure.
 *
 * The representation is that of MSCCL's XML. Each rank has buffers of chunks and thread blocks. The steps
 * of a thread block run in order; the thread blocks of a rank run at the same time. A thread block sends to
 * at most one rank and receives from at most one, each over one channel. A message goes from (rank, its send
 * peer, channel) to the thread block of that peer which receives from the rank over the channel, first in,
 * first out.
 *
 * Chunks. The vector of the collective is cut into nchunks chunks of equal length, or nearly
 * (lib/plan/coll/schedule.h). In allgather, reducescatter and alltoall per = nchunks / nranks of them belong to a
 * rank. The chunk of the vector at each place of a buffer before (in) and after (out):
 *	allreduce, broadcast, reduce	in[i] and out[i] are chunk i; nchunks each
 *	allgather			in[j], j < per, becomes out[k * per + j] for rank k
 *	reducescatter			out[j] of rank k is chunk k * per + j, of all ranks
 *	alltoall			in[k * per + j] of rank r becomes out[r * per + j] of rank k
 *	custom				the algorithm's own affair
 * In place (in_place): input and output are one buffer. Steps may call it ALGO_IN or ALGO_OUT. In allgather
 * rank k's input lies at out[k * per], in reducescatter its output lies at in[k * per], and offsets count
 * from the whole vector's start.
 */
#ifndef ALGO_ALGO_H
#define ALGO_ALGO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"
#include "coll/plan.h"
#include "coll/schedule.h"
#include "coll/simulate.h"

#define ALGO_MAX_RANKS	  1024u
#define ALGO_MAX_CHUNKS	  65536u /* of one buffer of one rank */
#define ALGO_MAX_BLOCKS	  1024u	 /* of one rank */
#define ALGO_MAX_CHANNELS 64u
#define ALGO_MAX_STEPS	  (1u << 20) /* of all ranks */
#define ALGO_MAX_LINES	  (1u << 22) /* run by a text's loops */
#define ALGO_NAME_MAX	  64 /* bytes with the NUL: letters, digits, . _ - ; a letter or digit first */
#define ALGO_SLOTS	  8 /* messages that a connection of NCCL's Simple protocol holds */
#define ALGO_NONE	  UINT32_MAX /* no peer, no dependency */

enum algo_buf { ALGO_IN, ALGO_OUT, ALGO_SCRATCH, ALGO_NBUFS };

enum algo_kind {
	ALGO_NOP,    /* nop: only waits */
	ALGO_SEND,   /* s: send src */
	ALGO_RECV,   /* r: dst = received */
	ALGO_RCS,    /* rcs: dst = received, and send it on */
	ALGO_RRC,    /* rrc: dst = received + src */
	ALGO_RRS,    /* rrs: send (received + src), store nothing */
	ALGO_RRCS,   /* rrcs: dst = received + src, and send it on */
	ALGO_COPY,   /* cpy: dst = src */
	ALGO_REDUCE, /* re: dst = dst + src */
	ALGO_NKINDS
};

/* One step. Offsets and counts in chunks; count 0 only for ALGO_NOP. */
struct algo_step {
	uint8_t kind;	  /* enum algo_kind */
	uint8_t src, dst; /* enum algo_buf; ALGO_IN if the kind has none */
	uint8_t has_dep;  /* in XML: others wait for it; only used by its parser */
	uint32_t src_at, dst_at, count;
	uint32_t dep_block,
	    dep_step;	/* the step (of the block with that index) it waits for; ALGO_NONE */
	uint32_t line;	/* of the file, for messages; 0: unknown */
	uint32_t order; /* of the file's transfers, ascending; 0: it has thread blocks */
};

struct algo_block {
	uint32_t id;	     /* in the file; dep_block is an index in the rank instead */
	uint32_t send, recv; /* peers; ALGO_NONE: none */
	uint32_t channel;
	struct algo_step *step;
	size_t nstep, cap;
};

struct algo_rank {
	uint32_t chunks[ALGO_NBUFS]; /* by enum algo_buf */
	struct algo_block *block;
	size_t nblock, cap;
};

/* The total work that parser, proof and lowering may do, for a caller that cannot wait for long. */
struct algo_budget {
	uint32_t max_steps;	 /* of all ranks */
	uint64_t max_work;	 /* units of about 10 ns */
	uint64_t work;		 /* done so far */
	const atomic_bool *stop; /* end early; NULL: never */
};

struct algo {
	char name[ALGO_NAME_MAX];
	bool custom;	       /* not a built-in collective: shown and simulated, not run */
	enum gpusim_coll coll; /* unless custom */
	uint32_t root;	       /* of broadcast and reduce */
	uint32_t nranks, nchunks, nchannels;
	bool in_place,
	    out_of_place; /* how it may be called; if in_place, the steps are written for that */
	char proto[8];	  /* "Simple", "LL", "LL128": a hint; "" none */
	uint64_t min_bytes, max_bytes; /* of the vector; max 0: no bound */
	struct algo_rank *rank;	       /* nranks */
	struct algo_budget *budget;    /* borrowed; NULL: only the limits of each part */
};

#define ALGO_MAX_BYTES (64u << 20) /* of a file */

/* Append with growth. NULL: out of memory. What they return moves with the next append. */
struct algo_block *algo_add_block(struct algo_rank *rank, uint32_t send, uint32_t recv,
				  uint32_t channel);
struct algo_step *algo_add_step(struct algo_block *block, struct algo_step step);

/* Empty, of nranks ranks (1..ALGO_MAX_RANKS); NULL: out of memory. */
struct algo *algo_new(uint32_t nranks);

/* NULL is legal. */
void algo_free(struct algo *a);

/* Chunks of a buffer of a rank. In place input and output are one buffer, of the larger number; not of custom
 * algorithms. */
uint32_t algo_chunks(const struct algo *a, uint32_t rank, unsigned buf);

/* Return true if the text is a legal name. */
bool algo_name_ok(const char *name);

/* "allreduce", "custom"; and back, with or without dashes: sets a->coll or a->custom. RC_BADDATA. */
const char *algo_coll_name(const struct algo *a);
enum rc algo_coll_parse(const char *word, struct algo *a, struct err *err);

/*
 * algo_check_shape - check the structure itself, before any proof. Every parser ends with it.
 *
 * Limits, name, ranks, chunks as the collective requires, ranges inside buffers, peers that exist and are
 * not the rank itself, a thread block with the peer that its steps need, one thread block for each end of a
 * connection, dependencies that exist. RC_BADDATA with a sentence that names rank, thread block and step
 * (and the line).
 */
enum rc algo_check_shape(const struct algo *a, struct err *err);

/* "s", "rcs" ... as in MSCCL's XML; "i", "o", "s"; "input", "output", "scratch". Static storage. */
const char *algo_kind_name(unsigned kind);
const char *algo_buf_name(unsigned buf);
const char *algo_buf_word(unsigned buf);
bool algo_kind_sends(unsigned kind);
bool algo_kind_recvs(unsigned kind);
bool algo_kind_reads(unsigned kind);  /* it has a source of its own rank */
bool algo_kind_writes(unsigned kind); /* it has a destination */

/* Parse a file's bytes: XML begins with '<', else our text form. It is not proven. The algorithm keeps the
 * budget for proof and lowering; NULL: none. RC_BADDATA "NAME:LINE: reason", RC_NOMEM; also as
 * algo_spend. */
enum rc algo_parse(const char *bytes, size_t n, const char *name, struct algo_budget *budget,
		   struct algo **out, struct err *err);

/* Charge work to the budget. RC_INVAL: the budget is exceeded; RC_ABORTED: it was stopped. */
enum rc algo_spend(struct algo_budget *b, uint64_t work, struct err *err);
/* Steps that an algorithm may have. */
uint32_t algo_max_steps(const struct algo_budget *b);

/* 16 hexadecimal digits: a hash of the structure, independent of the file's form. */
void algo_digest(const struct algo *a, char out[static 17]);

/* ---- the proof: it implements its collective, for every interleaving */

/* Larger algorithms are rejected. */
#define PROVE_MAX_CELLS (1u << 22) /* chunks of all buffers of all ranks */
#define PROVE_MAX_MOVED (1u << 23) /* chunks of all steps */

struct proof {
	/* Messages that a connection must hold, 1..ALGO_SLOTS; 0: nothing is sent */
	uint32_t min_slots;
	size_t nsteps, nmessages;
};

/*
 * algo_prove - verify an algorithm, exactly.
 *
 * Proves: every message is received, with the count that it was sent with; no deadlock with connections of
 * ALGO_SLOTS messages or more, for every interleaving; no race: of two accesses to a chunk one of which
 * writes, one happens before the other; nothing is read before it was written; every chunk of every output
 * that the collective defines has each contribution that it should have, once, and no other. For custom
 * algorithms all but the last.
 *
 * Errors: RC_BADDATA with the first error, such as "rank 7 chunk 63 ends without the contribution of
 * rank 3", "deadlock: rank 0 block 1 step 4 waits for ...", "rank 2 block 0 step 5 reads scratch 3 before it
 * is written"; RC_INVAL it would need more memory than allowed; RC_NOMEM.
 */
enum rc algo_prove(const struct algo *a, struct proof *out, struct err *err);

/* ---- lowering: one order of steps for each rank, which cannot block */

/*
 * algo_lower - every rank's schedule.
 *
 *	a	proven, not custom
 *	model	costs by which the variants are compared; NULL: the tuner's defaults for sockets
 *	out	[out] nranks schedules, to release with schedule_free_all
 *
 * The result has been run on the checker of coll/check.h, in and out of place.
 * Errors: RC_INTERNAL the checker rejected the result (a defect of this room); RC_INVAL more than
 * PLAN_MAX_STEPS; RC_NOMEM.
 */
enum rc algo_lower(const struct algo *a, const struct cost_model *model, struct schedule **out,
		   struct err *err);

/* ---- its thread blocks as concurrent plans of a rank, for simulation */

#define BLOCKS_MAX_STEPS (1u << 20) /* of all ranks */

/*
 * algo_blocks - every rank's thread blocks.
 *
 *	a		proven, custom or not
 *	chunk		elements of a chunk
 *	plans, blocks	[out] plan r * blocks + b is block b of rank r, and so are peers; released with plan_free_all(plans,
 *			nranks * blocks)
 *
 * A dependency on another block is a message of no elements between them.
 * Errors: RC_INVAL more than BLOCKS_MAX_STEPS; RC_NOMEM.
 */
enum rc algo_blocks(const struct algo *a, uint64_t chunk, struct plan **plans, uint32_t *blocks,
		    struct err *err);

/* ---- its thread blocks and steps, as text or JSON */

/* Append; one line a step, under its block, under its rank. False: out of memory. */
bool algo_show(const struct algo *a, const struct proof *proof, struct buf *out);

/* As algo_show, as one JSON object. */
bool algo_show_json(const struct algo *a, const struct proof *proof, struct buf *out);

/* ---- forms of files: MSCCL's XML, and our own text form, see gpusim-algo(5) */

/*
 * An algorithm from the bytes of one form, as algo_parse.
 *
 * XML. One addition of ours: the attribute root of algo (0), for broadcast and reduce. Unknown attributes are
 * ignored; unknown elements, DOCTYPE and with it all entities are rejected. A character that is illegal in
 * our names becomes '_'. Text: the work is bounded for any loops.
 */
enum rc msccl_parse(const char *bytes, size_t n, const char *name, struct algo_budget *budget,
		    struct algo **out, struct err *err);
enum rc text_parse(const char *bytes, size_t n, const char *name, struct algo_budget *budget,
		   struct algo **out, struct err *err);

/* Append an algorithm, as steps of blocks; the parser makes the same structure of it. False: out of memory. */
bool msccl_print(const struct algo *a, struct buf *out);
bool text_print(const struct algo *a, struct buf *out);

/*
 * text_print_plans - append an algorithm of coll as transfers.
 *
 *	a	as for plan_build_all; a chunk of the algorithm is the largest number of elements that divides all
 *		offsets and counts of the plans
 *	algo	its name
 *
 * RC_INVAL it cannot be expressed as transfers: one-sided steps, or a collective that files do not have. As
 * plan_build_all.
 */
enum rc text_print_plans(const struct plan_args *a, const char *algo, struct buf *out,
			 struct err *err);

#endif
