/*
 * pipeline.h - schedules of pipeline parallelism: which rank runs which pass of which stage and microbatch, in which
 * order.
 *
 * A schedule has a row of actions for each rank. A stage is some consecutive layers and belongs to the rank whose row
 * has its actions; stage 0 has the input, the last one the loss. Each microbatch passes each stage forward (F), and
 * back: at once (B), or its input's gradient (I) and later the weights' (W).
 *
 * The text is PyTorch's: gpusim-pipeline(5). Who runs a schedule takes it from pipeline_named and proves it with
 * pipeline_check, which also puts in sends and receives. Then each rank runs its row in order: RECV posts a receive
 * and goes on, SEND may wait until its receive is posted, a pass waits for its value, and the joined ones of a cell
 * run together. That ends, whatever the timing.
 */
#ifndef PIPELINE_PIPELINE_H
#define PIPELINE_PIPELINE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"

#define PIPELINE_MAX_RANKS   1024u
#define PIPELINE_MAX_STAGES  4096u
#define PIPELINE_MAX_MICRO   4096u
#define PIPELINE_MAX_ACTIONS (1u << 20)
#define PIPELINE_MAX_BYTES   (16u << 20)
#define PIPELINE_NOBODY	     UINT32_MAX

enum pipeline_kind {
	PIPELINE_F,
	PIPELINE_B,
	PIPELINE_I,
	PIPELINE_W,
	PIPELINE_SEND_F,
	PIPELINE_RECV_F,
	PIPELINE_SEND_B,
	PIPELINE_RECV_B,
	PIPELINE_UNSHARD,
	PIPELINE_RESHARD,
	PIPELINE_REDUCE_GRAD,
	PIPELINE_NKINDS
};

struct pipeline_action {
	enum pipeline_kind kind;
	uint32_t stage, micro; /* micro: 0 for the kinds that have none */
	uint32_t column;       /* of its cell, from 1 */
	bool joined;	       /* it runs together with the action after it, in one cell */
};

struct pipeline_row {
	struct pipeline_action *v;
	size_t n, cap;
};

struct pipeline {
	uint32_t nranks, nstages, nmicro;
	bool sends;		  /* it has sends and receives; after pipeline_check it does */
	bool splits;		  /* it has I and W */
	bool shards;		  /* it has UNSHARD or RESHARD */
	bool reduces;		  /* it has REDUCE_GRAD */
	struct pipeline_row *row; /* by rank */
	uint32_t *rank_of;	  /* by stage */
};

/* The name of a kind in the text, "SEND_F". */
const char *pipeline_kind_name(enum pipeline_kind k);

/* F, B, I, W. */
static inline bool
pipeline_computes(enum pipeline_kind k)
{
	return k <= PIPELINE_W;
}

/* The stage at the other end of a send or a receive; its rank is the peer. PIPELINE_NOBODY: there is none. */
static inline uint32_t
pipeline_peer(const struct pipeline *p, const struct pipeline_action *a)
{
	bool up = a->kind == PIPELINE_SEND_F || a->kind == PIPELINE_RECV_B;

	if (up)
		return a->stage + 1 < p->nstages ? a->stage + 1 : PIPELINE_NOBODY;
	return a->stage ? a->stage - 1 : PIPELINE_NOBODY;
}

/*
 * pipeline_parse - read a schedule.
 *
 *	out  released with pipeline_free
 *
 * Errors: BADDATA with row and column (from 1): not an action, a stage of two rows, a row without a stage, a stage
 * without a row; too large; NOMEM. What it means is not checked: pipeline_check.
 * Checked by: tests/unit/pipeline/t_pipeline.c, tests/fuzz
 */
enum rc pipeline_parse(const char *text, size_t nbytes, struct pipeline **out, struct err *err);
void pipeline_free(struct pipeline *p); /* NULL is legal */

/* Append the text, as PyTorch reads it. False: out of memory. */
bool pipeline_print(const struct pipeline *p, struct buf *out);
/* Append one action, "2F0". */
bool pipeline_print_action(const struct pipeline_action *a, struct buf *out);

/* ---- making */

enum pipeline_scheme {
	PIPELINE_GPIPE,	      /* all forward, then all back */
	PIPELINE_1F1B,	      /* one forward, one back, at most p in progress */
	PIPELINE_INTERLEAVED, /* 1F1B over v stages a rank */
	PIPELINE_ZB_H1,	      /* W later, where a rank would be idle; no more memory than 1F1B */
	PIPELINE_ZB_H2, /* and 2p - 1 in progress: no rank is idle between its first action and its last */
	PIPELINE_ZB_V, /* two stages a rank, there and back, as a V */
	PIPELINE_NSCHEMES
};

const char *pipeline_scheme_name(enum pipeline_scheme s);

/* Make one of p ranks and m microbatches, without sends; v: stages of a rank, for PIPELINE_INTERLEAVED, else 1.
 * INVAL: a number that it cannot have; NOMEM. Bubbles and peaks: gpusim-pipeline(5). */
enum rc pipeline_make(enum pipeline_scheme s, uint32_t p, uint32_t m, uint32_t v,
		      struct pipeline **out, struct err *err);

/*
 * pipeline_named - make the schedule of a name, or read that of a file.
 *
 *	name	the name of a scheme; "interleaved=V" (2 without V) has V stages a rank; else the path of a file
 *	p, m	ranks, microbatches; a file must have these numbers; 0: any, for a file
 *
 * Errors: as of pipeline_make and pipeline_parse, with the name; INVAL: a scheme without p or m, a file with others;
 * FAILED: the file cannot be read.
 */
enum rc pipeline_named(const char *name, uint32_t p, uint32_t m, struct pipeline **out,
		       struct err *err);

/* Is it the name of a scheme, and not of a file? */
bool pipeline_is_scheme(const char *name);

/* ---- proof */

struct pipeline_facts {
	uint32_t peak
	    [PIPELINE_MAX_RANKS]; /* by rank: most passes forward whose back pass has not ended */
	uint32_t messages[PIPELINE_MAX_RANKS]; /* by rank: that it sends */
};

/*
 * pipeline_check - prove that a schedule is right for every timing, also if a send waits until its receive is posted.
 *
 *	p	gets sends and receives if it has none
 *
 * Each microbatch passes each stage once, forward before back, I before W; values are sent and received once, after
 * they are made and before they are used, and the k-th send from a rank to another is the k-th receive; no rank waits
 * for ever; parameters are there when they are used; gradients are reduced after the last of them. Time and memory
 * grow with the actions, and those with the ranks for a schedule without sends.
 *
 * Errors: BADDATA: the first error, with row and column; NOMEM.
 * Checked by: tests/unit/pipeline/t_mutants.c against a simulation of its own
 */
enum rc pipeline_check(struct pipeline *p, struct pipeline_facts *out, struct err *err);

/* ---- time */

struct pipeline_costs {
	double f, b,
	    w; /* of one stage: forward, the input's gradient, the weights' gradients; B is b + w */
	double comm; /* from the end of an action to the use of its value on another rank */
};

struct pipeline_span {
	double begin, end;
};

struct pipeline_times {
	struct pipeline_span **span; /* by rank, by index of action; of actions that compute */
	double *idle;		     /* by rank, between its first pass and its last */
	double bubble;		     /* most of these */
	double end;		     /* of the last pass */
	double busy;		     /* most of a rank */
};

/* Run it: each rank takes its actions in order, as early as their values are there; sends take no time of a rank. The
 * schedule is right (pipeline_check). Release *out with pipeline_times_fini. NOMEM. */
enum rc pipeline_time(const struct pipeline *p, const struct pipeline_costs *costs,
		      struct pipeline_times *out, struct err *err);
void pipeline_times_fini(struct pipeline_times *t);

/* Draw it: lines of text at most `columns` wide, with colours or without. False: out of memory. */
bool pipeline_show_text(const struct pipeline *p, const struct pipeline_times *t, unsigned columns,
			bool colours, struct buf *out);

#define PIPELINE_SVG_MAX (1u << 17) /* actions of an SVG */

/* Draw it as an SVG, of at most PIPELINE_SVG_MAX actions. INVAL: it has more; NOMEM. */
enum rc pipeline_show_svg(const struct pipeline *p, const struct pipeline_times *t, struct buf *out,
			  struct err *err);

#endif
