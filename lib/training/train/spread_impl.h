/*
 * spread_impl.h - recording a step of a spread training: what its files share.
 *
 * spread_row.c has the operations of a stage's ranks, the row; spread_unit.c the parameters and gradients of a
 * unit; spread_pass.c passes and messages; spread_end.c the end of a step; spread_step.c follows the schedule.
 */
#ifndef TRAIN_SPREAD_IMPL_H
#define TRAIN_SPREAD_IMPL_H

#include "nn/launch.h"
#include "train/leaves.h"
#include "train/spread.h"
#include "train/trainer_impl.h"

#define P2P_FIRST  2  /* streams to and from each stage's rank of the grid */
#define COLL_BYTES 80 /* of a collective in a list */

/*
 * The lists of a step. One that becomes too large ends, and the next begins, on all stages at once and only where no
 * receive is without its send. A list is launched when the one before has ended, so nothing waits for its events.
 */
struct lists {
	struct gpusim_ops **v;
	unsigned n, most;
	bool full;		     /* more than `most` would be needed */
	uint64_t *ops, worst, bytes; /* of the last list: by rank, the most of them, together */
	uint64_t events;	     /* of the last list, at most */
	uint32_t open;		     /* receives without their sends */
	struct row_recorder *row;    /* all stages */
	uint32_t nrows;
};

/* A list of actions of a stage's ranks, being recorded. */
struct row_recorder {
	struct lists *lists;
	size_t next;		 /* action of the row */
	char pass[GPUSIM_LABEL]; /* the current one */
	struct trainer *t;
	struct gpusim_ops *o;
	const struct layout *l;
	const struct pipeline *s;
	const struct layout_row *row;
	uint32_t p, first, n; /* pipeline rank; its ranks */
	struct emit_sink sink;
	struct emit_place *place; /* by rank of the stage, as the next */
	uint64_t *rows;
	struct gpusim_addr *send, *recv;
	uint32_t *members;
	uint64_t events; /* used so far in the list, on each rank of the stage */
	/* [chunk * nmicro + slot]: the event after a slot's last message back; 0: none */
	uint64_t *sent;
	/* [chunk * nmicro + micro]: the event after its input, its gradient, came */
	uint64_t *came[2];
	bool *talks;	 /* by stream between stages: used */
	uint32_t *left;	 /* by chunk: passes that make gradients and have yet to come */
	uint32_t *begun; /* by unit: contributions to its gradient so far */
	/* The event after the last reduction out of each of the two buffers; 0: none */
	uint64_t busy[2];
	uint32_t turn;		   /* the buffer for the next unit's gradients */
	uint32_t *use, nuse;	   /* zero 3: the units whose parameters are used, in order */
	uint32_t used, asked;	   /* of those: begun; gathers that have been issued */
	uint64_t got[2];	   /* the event after the gather into each buffer */
	bool moving, test, narrow; /* narrow: only spread_narrow */
	unsigned tested;	   /* the tested part */
	const struct batch *batch; /* by data-parallel rank: of the whole step */
	uint64_t total;		   /* rows of a step on all ranks */
};

static inline uint64_t
base_of(const struct row_recorder *r, uint32_t i)
{
	return r->t->replica[r->first + i].spread;
}

static inline uint32_t
tp_of(const struct row_recorder *r)
{
	return r->l->c.grid.tp;
}

/* Bytes of a parameter. */
static inline uint64_t
each_of(const struct row_recorder *r)
{
	return layout_size(r->l);
}

/* Of the gradients that are added up. */
static inline enum gpusim_dtype
type_of(const struct row_recorder *r)
{
	return r->l->c.leaf ? GPUSIM_I64 : r->l->c.dtype;
}

static inline uint64_t
size_of(const struct row_recorder *r)
{
	return r->l->c.leaf ? sizeof(int64_t) : each_of(r);
}

/* Is the loss scaled? */
static inline bool
scales(const struct row_recorder *r)
{
	return config_scales(r->t->o);
}

/* Pieces of a microbatch; a test batch is one. */
static inline uint32_t
npieces(const struct row_recorder *r)
{
	return r->test ? 1 : r->l->pieces;
}

/* The slot of a microbatch; a test has one. */
static inline uint32_t
slot_of(const struct row_recorder *r, const struct layout_chunk *c, uint32_t micro)
{
	return r->test ? 0 : r->l->slot[(size_t)c->stage * r->s->nmicro + micro];
}

/* Index of a microbatch or slot of a chunk. */
static inline size_t
index_of(const struct row_recorder *r, const struct layout_chunk *c, uint32_t k)
{
	return (size_t)(c - r->row->chunk) * r->s->nmicro + k;
}

/* Over the data-parallel ranks, for each tensor-parallel one: from offset `send` of each rank's memory, plus
 * send_part times the rank's part, to offset recv. An all-reduce is over all of them, anything else within each
 * group that shards. */
struct over_dp {
	enum gpusim_coll coll;
	enum gpusim_dtype type;
	uint64_t n; /* elements */
	uint64_t send, recv;
	/* Bytes of an element, if it is the rank's part of n elements; 0: it is all */
	uint64_t send_part, recv_part;
	/* Only the rank's part of n elements, over the ranks that have the same one */
	bool replicas;
};

/* Which half of backward. */
enum half { HALF_BOTH, HALF_INPUT, HALF_WEIGHTS };

/* ---- spread_row.c */

/* Count an operation of a rank. */
void row_count(struct row_recorder *r, uint32_t rank, uint64_t nbytes);
/* A sink's launch on the compute stream, on the communication stream; arg: the row. */
void row_launch(void *arg, uint32_t i, const char *kernel, const struct gpusim_arg *args,
		size_t nargs);
void row_launch_comm(void *arg, uint32_t i, const char *kernel, const struct gpusim_arg *args,
		     size_t nargs);
/* Mark a moment of a stream of all the stage's ranks. */
uint64_t row_mark(struct row_recorder *r, struct gpusim_stream stream);
/* Later work of a stream waits for an event; 0: for nothing. */
void row_await(struct row_recorder *r, struct gpusim_stream stream, uint64_t event);
void row_join(struct row_recorder *r, struct gpusim_stream from, struct gpusim_stream to);
/* The algorithm of --algo, which is of all-reduces; another collective may have one of the same name. One of a
 * file is of the sums of gradients alone. */
const char *row_algo(const struct row_recorder *r, const char *group, enum gpusim_coll coll);
/* A collective of some of the stage's ranks: r->members, with the addresses in r->send and r->recv. */
void row_collect(struct row_recorder *r, const char *group, uint32_t n, enum gpusim_coll coll,
		 enum gpusim_redop op, enum gpusim_dtype type, uint64_t nelem,
		 struct gpusim_stream stream);
void row_over_dp(struct row_recorder *r, const struct over_dp *x, struct gpusim_stream stream);
/* The sink's exchange within each tensor-parallel group. */
void row_tensor(void *arg, const struct emit_tensor *x);
/* Begin another list, if this one is large and the stages are where it may end. */
void row_end_list(struct row_recorder *r);
/* A data-parallel rank's rows of a piece of a microbatch; first: its first sample in the device's order. */
struct batch row_piece(const struct row_recorder *r, uint32_t d, uint32_t micro, uint32_t piece);
/* The addresses and rows of a piece, on all ranks of the stage. */
struct emit_batch row_bind(struct row_recorder *r, const struct layout_chunk *c, uint32_t micro,
			   uint32_t piece);
/* The unit's parameters and gradients begin at offsets of each rank's memory. */
void row_bind_unit(struct row_recorder *r, const struct part_unit *u, uint64_t params,
		   uint64_t grads);
/* What follows on the compute stream is a pass, "F 2 (stage 1)", or "step". */
void row_name_pass(struct row_recorder *r, const struct pipeline_action *a);
/* What follows on the communication stream is of a unit: "gather block1". */
void row_name_unit(struct row_recorder *r, const char *what, uint32_t unit);

/* ---- spread_unit.c */

/* The offset of a unit's parameters, from now on to be used. */
uint64_t row_params(struct row_recorder *r, uint32_t unit);
/* The unit will be used, after those that were added before. */
void row_add_use(struct row_recorder *r, uint32_t unit);
/* Where a unit's gradient is made: at once in its place, or first in a buffer. */
uint64_t row_fresh(const struct row_recorder *r, uint32_t unit);
/* Add up a piece's gradient of a unit. */
void row_accumulate(struct row_recorder *r, uint32_t unit, uint32_t piece);
/* A unit's gradient of one microbatch is complete; last: of all. */
void row_end_unit(struct row_recorder *r, const struct layout_chunk *c, uint32_t unit, bool last);
/* Before a unit's gradient is made in a buffer, its last reduction has ended. */
void row_begin_unit(struct row_recorder *r);

/* ---- spread_pass.c */

/* The row's chunk of a stage; NULL: it is another row's. */
const struct layout_chunk *row_chunk(const struct row_recorder *r, uint32_t stage);
/* A message to or from another stage's ranks. */
void row_message(struct row_recorder *r, const struct pipeline_action *a, bool back, bool out);
/* A microbatch's passes, which wait for what other stages send. */
void row_forward(struct row_recorder *r, const struct layout_chunk *c, uint32_t micro);
void row_backward(struct row_recorder *r, const struct layout_chunk *c, uint32_t micro,
		  enum half half);
/* The right answers of a test batch. */
void row_end_test(struct row_recorder *r, const struct layout_chunk *c);

/* ---- spread_end.c */

/* One decision of all ranks of the grid: clip, unscale, or skip. rows: all stages. */
void row_decide(struct row_recorder *rows);
/* All ranks get the parameters that each has stepped. */
void row_spread(struct row_recorder *r, uint32_t unit);
/* Gradients are complete: the loss, and what the norm needs. */
void row_close(struct row_recorder *r);
/* The optimizer's step of all units, after which all ranks have their parameters. */
void row_step(struct row_recorder *r);

#endif
