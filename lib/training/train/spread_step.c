/* Records a step of a spread training: the actions of the schedule on each stage's ranks. */
#include "train/spread.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "coll/plan.h"
#include "nn/launch.h"
#include "train/leaves.h"
#include "train/trainer_impl.h"

#define EVENT_FIRST 0x73707265616400u /* ids of events; they are per device */
#define P2P_FIRST   2		      /* streams to and from each stage's rank of the grid */

/* When a list ends: well below WIRE_MAX_OPS of a rank, the size of a request, and half of a device's events. */
#define MAX_OPERATIONS	3500
#define MAX_BYTES	(3u << 18)
#define MAX_EVENTS	512
#define OPERATION_BYTES 40
#define ARG_BYTES	15
#define STEP_BYTES	11
#define COLL_BYTES	80

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

/* ---- small things */

static uint64_t
base_of(const struct row_recorder *r, uint32_t i)
{
	return r->t->replica[r->first + i].spread;
}

static uint32_t
tp_of(const struct row_recorder *r)
{
	return r->l->c.grid.tp;
}

/* Bytes of a parameter. */
static uint64_t
each_of(const struct row_recorder *r)
{
	return layout_size(r->l);
}

/* Of the gradients that are added up. */
static enum gpusim_dtype
type_of(const struct row_recorder *r)
{
	return r->l->c.leaf ? GPUSIM_I64 : r->l->c.dtype;
}

static uint64_t
size_of(const struct row_recorder *r)
{
	return r->l->c.leaf ? sizeof(int64_t) : each_of(r);
}

/* Count an operation of a rank. */
static void
count(struct row_recorder *r, uint32_t rank, uint64_t nbytes)
{
	struct lists *l = r->lists;

	l->bytes += nbytes;
	if (++l->ops[rank] > l->worst)
		l->worst = l->ops[rank];
}

/* Is the loss scaled? */
static bool
scales(const struct row_recorder *r)
{
	return config_scales(r->t->o);
}

static void
launch_on(struct row_recorder *r, uint32_t i, struct gpusim_stream stream, const char *kernel,
	  const struct gpusim_arg *args, size_t nargs)
{
	uint64_t nbytes = OPERATION_BYTES + strlen(kernel);

	for (size_t k = 0; k < nargs; k++)
		nbytes += ARG_BYTES + strlen(args[k].name) + (args[k].step ? STEP_BYTES : 0);
	count(r, r->first + i, nbytes);
	gpusim_ops_launch(r->o, r->first + i, stream, kernel, args, nargs);
}

static void
launch(void *arg, uint32_t i, const char *kernel, const struct gpusim_arg *args, size_t nargs)
{
	launch_on(arg, i, STREAM_COMPUTE, kernel, args, nargs);
}

static void
launch_comm(void *arg, uint32_t i, const char *kernel, const struct gpusim_arg *args, size_t nargs)
{
	launch_on(arg, i, STREAM_COMM, kernel, args, nargs);
}

/* Mark a moment of a stream of all the stage's ranks. */
static uint64_t
mark(struct row_recorder *r, struct gpusim_stream stream)
{
	uint64_t event = EVENT_FIRST + ++r->events;

	if (r->events > r->lists->events)
		r->lists->events = r->events;
	for (uint32_t i = 0; i < r->n; i++) {
		count(r, r->first + i, OPERATION_BYTES);
		gpusim_ops_record(r->o, r->first + i, stream, (struct gpusim_event){event});
	}
	return event;
}

static void
await(struct row_recorder *r, struct gpusim_stream stream, uint64_t event)
{
	for (uint32_t i = 0; event && i < r->n; i++) {
		count(r, r->first + i, OPERATION_BYTES);
		gpusim_ops_wait(r->o, r->first + i, stream, (struct gpusim_event){event});
	}
}

static void
join(struct row_recorder *r, struct gpusim_stream from, struct gpusim_stream to)
{
	await(r, to, mark(r, from));
}

/* Pieces of a microbatch; a test batch is one. */
static uint32_t
npieces(const struct row_recorder *r)
{
	return r->test ? 1 : r->l->pieces;
}

/* The slot of a microbatch; a test has one. */
static uint32_t
slot_of(const struct row_recorder *r, const struct layout_chunk *c, uint32_t micro)
{
	return r->test ? 0 : r->l->slot[(size_t)c->stage * r->s->nmicro + micro];
}

/* Index of a microbatch or slot of a chunk. */
static size_t
index_of(const struct row_recorder *r, const struct layout_chunk *c, uint32_t k)
{
	return (size_t)(c - r->row->chunk) * r->s->nmicro + k;
}

/* The algorithm of --algo, which is of all-reduces; another collective may have one of the same name. One of a file is
 * of the sums of gradients alone. */
static const char *
algo_of(const struct row_recorder *r, const char *group, enum gpusim_coll coll)
{
	const char *algo = r->t->o->algo;
	const struct plan_algo *found;

	if (plan_algo_is_built_in(algo))
		return plan_algo_find(coll, algo, &found, NULL) == RC_OK ? algo : "auto";
	return coll == GPUSIM_ALLREDUCE && strcmp(group, "dp") == 0 ? algo : "auto";
}

/* A collective of some of the stage's ranks: r->members, with the addresses in r->send and r->recv. */
static void
collect(struct row_recorder *r, const char *group, uint32_t n, enum gpusim_coll coll,
	enum gpusim_redop op, enum gpusim_dtype type, uint64_t nelem, struct gpusim_stream stream)
{
	/* Groups are numbered by their first ranks, as gpuctl topo does. */
	uint32_t first = r->members[0], tp = tp_of(r), dp = r->l->c.grid.dp;
	uint32_t number = *group == 't' ? first / tp : first / (tp * dp) * tp + first % tp;
	char name[GPUSIM_GROUP_NAME];
	const struct gpusim_collective c = {GPUSIM_COLLECTIVE_INIT,
					    .coll = coll,
					    .dtype = type,
					    .redop = op,
					    .algo = algo_of(r, group, coll),
					    .nelem = nelem,
					    .send = r->send,
					    .recv = r->recv,
					    .stream = stream,
					    .deterministic = r->l->c.leaf && type != GPUSIM_I64,
					    .members = r->members,
					    .nmembers = n,
					    .group = name};

	if (nelem == 0 || n < 2)
		return;
	snprintf(name, sizeof name, "%s%" PRIu32, group, number);
	for (uint32_t i = 0; i < n; i++)
		count(r, r->members[i], COLL_BYTES + 2ull * n + strlen(c.algo ? c.algo : ""));
	gpusim_ops_collective(r->o, &c);
}

/* Over the data-parallel ranks, for each tensor-parallel one: from offset `send` (plus own_send times the
 * rank's part) of each rank's memory to offset recv. */
struct over_dp {
	enum gpusim_coll coll;
	enum gpusim_dtype type;
	uint64_t n; /* elements */
	uint64_t send, recv;
	uint64_t send_part,
	    recv_part; /* bytes of an element, if it is the rank's part of n elements; 0: it is all */
};

static void
over_dp(struct row_recorder *r, const struct over_dp *x, struct gpusim_stream stream)
{
	uint32_t dp = r->l->c.grid.dp, tp = tp_of(r);

	for (uint32_t t = 0; t < tp; t++) {
		for (uint32_t d = 0; d < dp; d++) {
			uint64_t part = x->n * d / dp;

			r->members[d] = r->first + d * tp + t;
			r->send[d].addr = base_of(r, d * tp + t) + x->send + part * x->send_part;
			r->recv[d].addr = base_of(r, d * tp + t) + x->recv + part * x->recv_part;
		}
		collect(r, "dp", dp, x->coll, GPUSIM_SUM, x->type, x->n, stream);
	}
}

/* The sink's exchange within each tensor-parallel group. */
static void
tensor(void *arg, const struct emit_tensor *x)
{
	struct row_recorder *r = arg;
	uint32_t tp = tp_of(r);

	for (uint32_t t = 0; t < tp; t++) {
		r->members[t] = r->first + x->rank + t;
		r->send[t].addr = x->send[t];
		r->recv[t].addr = x->recv[t];
	}
	collect(r, "tp", tp, x->coll, x->redop, x->dtype, x->nelem, STREAM_COMPUTE);
}

/* Begin another list, if this one is large and the stages are where it may end. */
static void
end_list(struct row_recorder *r)
{
	struct lists *l = r->lists;

	if (l->open ||
	    (l->worst < MAX_OPERATIONS && l->bytes < MAX_BYTES && l->events < MAX_EVENTS))
		return;
	l->full |= l->n == l->most;
	if (l->full)
		return;
	l->v[l->n] = gpusim_ops_new(gpusim_comm_count(r->t->comm));
	l->worst = l->bytes = l->events = 0;
	memset(l->ops, 0, gpusim_comm_count(r->t->comm) * sizeof *l->ops);
	for (uint32_t p = 0; p < l->nrows; p++) {
		struct row_recorder *row = &l->row[p];
		size_t each = (size_t)row->row->nchunks * row->s->nmicro;

		row->o = l->v[l->n];
		row->events = 0;
		memset(row->sent, 0, each * sizeof *row->sent);
		memset(row->came[0], 0, each * sizeof *row->came[0]);
		memset(row->came[1], 0, each * sizeof *row->came[1]);
		memset(row->busy, 0, sizeof row->busy);
		memset(row->got, 0, sizeof row->got);
	}
	l->n++;
	gpusim_ops_label(r->o, STREAM_COMPUTE, r->pass);
}

/* ---- a microbatch */

/* A data-parallel rank's rows of a piece of a microbatch; first: its first sample in the device's order. */
static struct batch
piece_batch(const struct row_recorder *r, uint32_t d, uint32_t micro, uint32_t piece)
{
	struct batch b = r->batch[d];
	uint64_t begin, end, whole = r->l->c.leaf ? r->l->c.leaf : 1, rows = r->l->piece_rows;
	uint64_t stride = b.stride ? b.stride : b.rows;

	order_share(b.rows, (uint32_t)whole, micro, r->s->nmicro, &begin, &end);
	begin += piece * rows < end - begin ? piece * rows : end - begin;
	b.first += begin;
	b.rows = end - begin < rows ? end - begin : rows;
	b.stride = stride;
	return b;
}

/* The addresses and rows of a piece, on all ranks of the stage. */
static struct emit_batch
bind(struct row_recorder *r, const struct layout_chunk *c, uint32_t micro, uint32_t piece)
{
	uint32_t slot = slot_of(r, c, micro);

	for (uint32_t i = 0; i < r->n; i++) {
		r->rows[i] = piece_batch(r, i / tp_of(r), micro, piece).rows;
		layout_place(r->l, r->row, c, slot, piece, i % tp_of(r), r->rows[i], base_of(r, i),
			     &r->place[i]);
	}
	return (struct emit_batch){.nranks = r->n,
				   .place = r->place,
				   .rows = r->rows,
				   .single = r->l->c.leaf != 0,
				   .apart = c->split};
}

/* The unit's parameters and gradients begin at offsets of each rank's memory. */
static void
bind_unit(struct row_recorder *r, const struct part_unit *u, uint64_t params, uint64_t grads)
{
	for (uint32_t i = 0; i < r->n; i++) {
		r->place[i].params = base_of(r, i) + params - u->first * each_of(r);
		r->place[i].grads = base_of(r, i) + grads - u->first * each_of(r);
	}
}

/* ---- names in timelines */

/* What follows on the compute stream is a pass, "F 2 (stage 1)", or "step". */
static void
name_pass(struct row_recorder *r, const struct pipeline_action *a)
{
	if (!a)
		snprintf(r->pass, sizeof r->pass, "step");
	else if (!pipeline_computes(a->kind))
		return;
	else if (r->test)
		snprintf(r->pass, sizeof r->pass, "test (stage %" PRIu32 ")", a->stage);
	else
		snprintf(r->pass, sizeof r->pass, "%s %" PRIu32 " (stage %" PRIu32 ")",
			 pipeline_kind_name(a->kind), a->micro, a->stage);
	gpusim_ops_label(r->o, STREAM_COMPUTE, r->pass);
}

/* What follows on the communication stream is of a unit: "gather block1". */
static void
name_unit(struct row_recorder *r, const char *what, uint32_t unit)
{
	const struct layout_unit *u = &r->row->unit[unit];
	const struct part *part = r->row->chunk[u->chunk].part;
	uint32_t node = part->unit[u->number].node + part->unit[u->number].nnodes;
	char text[GPUSIM_LABEL];
	const char *name = "";

	while (!*name && node-- > part->unit[u->number].node)
		name = part->net.node[node].name;
	snprintf(text, sizeof text, "%s %.*s", what, (int)strcspn(name, "."), name);
	gpusim_ops_label(r->o, STREAM_COMM, text);
}

/* ---- parameters: zero 3 gathers a unit ahead */

static uint64_t
gathered_at(const struct row_recorder *r, uint32_t use)
{
	if (r->l->c.keep)
		return r->row->gathered[0] + r->row->unit[r->use[use]].first * each_of(r);
	return r->row->gathered[use % 2];
}

static void
gather(struct row_recorder *r, uint32_t use)
{
	const struct layout_unit *u = &r->row->unit[r->use[use]];
	const struct over_dp x = {.coll = GPUSIM_ALLGATHER,
				  .type = r->l->c.dtype,
				  .n = u->n,
				  .send = r->row->params + u->shard * each_of(r),
				  .recv = gathered_at(r, use)};

	join(r, STREAM_COMPUTE, STREAM_COMM); /* the buffer's last use */
	name_unit(r, "gather", r->use[use]);
	over_dp(r, &x, STREAM_COMM);
	r->got[use % 2] = mark(r, STREAM_COMM);
}

/* The offset of a unit's parameters, from now on to be used. */
static uint64_t
params_at(struct row_recorder *r, uint32_t unit)
{
	if (!layout_shards_params(r->l))
		return r->row->params + r->row->unit[unit].first * each_of(r);
	for (uint32_t k = 0; r->l->c.keep && k < r->used; k++) /* gathered once a step */
		if (r->use[k] == unit)
			return gathered_at(r, k);
	if (r->used == 0 || r->use[r->used - 1] != unit)
		r->used++;
	while (r->asked < r->nuse && r->asked <= r->used)
		gather(r, r->asked++);
	await(r, STREAM_COMPUTE, r->got[(r->used - 1) % 2]);
	return gathered_at(r, r->used - 1);
}

static void
add_use(struct row_recorder *r, uint32_t unit)
{
	for (uint32_t k = r->l->c.keep || !r->nuse ? 0 : r->nuse - 1; k < r->nuse; k++)
		if (r->use[k] == unit)
			return;
	r->use[r->nuse++] = unit;
}

/* ---- gradients */

/* Where a unit's gradient is made: at once in its place, or first in a buffer. */
static bool
direct(const struct row_recorder *r, uint32_t unit)
{
	return !r->l->c.leaf && !layout_shards_grads(r->l) && r->begun[unit] == 0;
}

static uint64_t
grads_at(const struct row_recorder *r, uint32_t unit)
{
	return r->row->grads + r->row->unit[unit].first * size_of(r);
}

static uint64_t
fresh_at(const struct row_recorder *r, uint32_t unit)
{
	return direct(r, unit) ? grads_at(r, unit) : r->row->fresh[r->turn];
}

/* Add up a piece's gradient of a unit. */
static void
accumulate(struct row_recorder *r, uint32_t unit, uint32_t piece)
{
	bool shards = layout_shards_grads(r->l), begun = shards ? piece > 0 : r->begun[unit] > 0;
	uint64_t to = shards ? r->row->sums[r->turn] : grads_at(r, unit),
		 from = r->row->fresh[r->turn];
	uint64_t n = r->row->unit[unit].n;

	for (uint32_t i = 0; i < r->n; i++) {
		if (r->l->c.leaf)
			LAUNCH(&r->sink, i, "fixed_add", U("sum", base_of(r, i) + to),
			       U("src", base_of(r, i) + from), U("n", n), F("scale", LEAVES_SCALE),
			       U("add", begun), U("dtype", r->l->c.dtype));
		else if (!shards && begun)
			LAUNCH(&r->sink, i, "axpy", U("y", base_of(r, i) + to),
			       U("x", base_of(r, i) + from), U("n", n), U("dtype", r->l->c.dtype));
	}
	if (!shards)
		r->begun[unit]++;
}

/* Add a reduced part of a unit's gradient to the rank's. */
static void
add_part(struct row_recorder *r, uint32_t unit)
{
	const struct layout_unit *u = &r->row->unit[unit];
	const struct emit_sink sink = {.arg = r, .launch = launch_comm};
	uint64_t from = r->row->part[r->turn], to = r->row->grads + u->shard * size_of(r);

	for (uint32_t i = 0; i < r->n; i++) {
		uint64_t n, at = base_of(r, i);

		layout_part(r->l, u, i / tp_of(r), &n);
		if (r->begun[unit])
			LAUNCH(&sink, i, "add", U("y", at + to), U("a", at + to), U("b", at + from),
			       U("n", n), U("dtype", type_of(r)));
		else
			LAUNCH(&sink, i, "copy", U("dst", at + to), U("src", at + from), U("n", n),
			       U("dtype", type_of(r)));
	}
	r->begun[unit]++;
}

/* With sequence parallelism a rank has seen only its rows of what lies between the split layers. */
static void
sum_over_rows(struct row_recorder *r, const struct layout_chunk *c, const struct part_unit *u,
	      uint64_t at)
{
	const struct net *net = &c->part->net;
	uint32_t tp = tp_of(r);

	for (uint32_t k = u->node; k < u->node + u->nnodes; k++) {
		const struct net_node *node = &net->node[k];
		uint64_t n = node->nweight + node->nbias;
		uint64_t first = node->nweight ? node->weight : node->bias;

		if (!node->sharded || n == 0)
			continue;
		for (uint32_t d = 0; d < r->l->c.grid.dp; d++) {
			for (uint32_t t = 0; t < tp; t++) {
				r->members[t] = r->first + d * tp + t;
				r->send[t].addr =
				    base_of(r, d * tp + t) + at + (first - u->first) * size_of(r);
				r->recv[t] = r->send[t];
			}
			collect(r, "tp", tp, GPUSIM_ALLREDUCE, GPUSIM_SUM, type_of(r), n,
				STREAM_COMM);
		}
	}
}

/* Reduce a unit's gradient over the data-parallel ranks. */
static void
reduce_unit(struct row_recorder *r, const struct layout_chunk *c, uint32_t unit)
{
	const struct layout_unit *u = &r->row->unit[unit];
	bool shards = layout_shards_grads(r->l), in_parts = layout_shards_state(r->l);
	uint64_t from = !shards	       ? grads_at(r, unit)
			: r->l->c.leaf ? r->row->sums[r->turn]
				       : r->row->fresh[r->turn];
	const struct over_dp x = {.coll = in_parts ? GPUSIM_REDUCESCATTER : GPUSIM_ALLREDUCE,
				  .type = type_of(r),
				  .n = u->n,
				  .send = from,
				  .recv = shards ? r->row->part[r->turn] : from,
				  .recv_part = in_parts && !shards ? size_of(r) : 0};

	join(r, STREAM_COMPUTE, STREAM_COMM);
	name_unit(r, "reduce", unit);
	sum_over_rows(r, c, &c->part->unit[u->number], from);
	over_dp(r, &x, STREAM_COMM);
	if (!shards)
		return;
	add_part(r, unit);
	r->busy[r->turn] = mark(r, STREAM_COMM);
	r->turn = !r->turn;
}

/* A unit's gradient of one microbatch is complete; last: of all. */
static void
end_unit(struct row_recorder *r, const struct layout_chunk *c, uint32_t unit, bool last)
{
	if (layout_shards_grads(r->l) || last)
		reduce_unit(r, c, unit);
}

/* Before a unit's gradient is made in a buffer, its last reduction has ended. */
static void
begin_unit(struct row_recorder *r)
{
	if (layout_shards_grads(r->l))
		await(r, STREAM_COMPUTE, r->busy[r->turn]);
}

/* ---- what passes between stages */

/* Elements of a node's output that a rank of the stage has. */
static uint64_t
boundary(const struct row_recorder *r, const struct layout_chunk *c, uint32_t node, uint32_t i)
{
	const struct net *n = &c->part->net;

	return emit_have(n, &n->node[node], r->rows[i], i % tp_of(r)) *
	       net_shape_size(n->node[node].shape);
}

static const struct layout_chunk *
chunk_of(const struct row_recorder *r, uint32_t stage)
{
	for (uint32_t i = 0; i < r->row->nchunks; i++)
		if (r->row->chunk[i].stage == stage)
			return &r->row->chunk[i];
	return NULL;
}

/* Offsets of a piece's gradients on their way, in a slot. */
static uint64_t
box_at(const struct row_recorder *r, const struct layout_chunk *c, uint32_t micro, uint32_t piece,
       bool in)
{
	const struct net *n = &c->part->net;
	const struct net_node *node = &n->node[in ? n->nnodes - 1 : 0];
	uint64_t rows = emit_room(n, node, r->l->piece_rows),
		 each = rows * net_shape_size(node->shape) * each_of(r);
	uint32_t slot = slot_of(r, c, micro);

	return c->slots + slot * c->slot_bytes + (in ? c->inbox : c->outbox) + piece * each;
}

static void
copy(struct row_recorder *r, uint32_t i, uint64_t dst, uint64_t src, uint64_t n)
{
	LAUNCH(&r->sink, i, "copy", U("dst", dst), U("src", src), U("n", n),
	       U("dtype", r->l->c.dtype));
}

/* The address of a piece's message on rank i. back: a gradient; out: it is sent. */
static uint64_t
message_at(struct row_recorder *r, const struct layout_chunk *c, uint32_t micro, uint32_t piece,
	   uint32_t i, bool back, bool out)
{
	if (back)
		return base_of(r, i) + box_at(r, c, micro, piece, !out);
	return r->place[i].y[out ? c->part->net.nnodes - 1 : 0];
}

/* A message to or from another stage's ranks. */
static void
message(struct row_recorder *r, const struct pipeline_action *a, bool back, bool out)
{
	const struct layout_chunk *c = chunk_of(r, a->stage);
	uint32_t other = out == back ? a->stage - 1 : a->stage + 1, q = r->s->rank_of[other];
	struct gpusim_stream stream = {P2P_FIRST + 2ull * q + out};
	uint64_t *sent = &r->sent[index_of(r, c, slot_of(r, c, a->micro))];
	char name[GPUSIM_LABEL];

	if (!out && !back) /* it overwrites the slot's last microbatch */
		await(r, STREAM_COMPUTE, *sent);
	join(r, STREAM_COMPUTE, stream);
	snprintf(name, sizeof name, "%s %c %" PRIu32, out ? "send" : "recv", back ? 'B' : 'F',
		 a->micro);
	gpusim_ops_label(r->o, stream, name);
	for (uint32_t piece = 0; piece < npieces(r); piece++) {
		bind(r, c, a->micro, piece);
		for (uint32_t i = 0; i < r->n; i++) {
			uint32_t node = out != back ? c->part->net.nnodes - 1 : 0;
			const struct gpusim_addr at = {
			    message_at(r, c, a->micro, piece, i, back, out)};
			const struct gpusim_collective x = {GPUSIM_COLLECTIVE_INIT,
							    .coll = out ? GPUSIM_SEND : GPUSIM_RECV,
							    .dtype = r->l->c.dtype,
							    .nelem = boundary(r, c, node, i),
							    .rank = r->first + i,
							    .root = q * r->n + i,
							    .send = &at,
							    .recv = &at,
							    .stream = stream};

			if (x.nelem == 0)
				continue;
			count(r, x.rank, COLL_BYTES);
			gpusim_ops_collective(r->o, &x);
		}
	}
	r->talks[2 * q + out] = true;
	if (out && back)
		*sent = mark(r, stream);
	else if (!out)
		r->came[back][index_of(r, c, a->micro)] = mark(r, stream);
}

/* The input of a stage's piece, from the data or from the stage before on the same rank. */
static void
take_input(struct row_recorder *r, const struct layout_chunk *c, uint32_t micro, uint32_t piece)
{
	const struct layout_chunk *before = c->stage ? chunk_of(r, c->stage - 1) : NULL;
	struct emit_place *own;

	if (c->stage == 0) {
		for (uint32_t i = 0; i < r->n; i++) {
			struct replica at = r->t->replica[r->first + i];
			struct batch b = piece_batch(r, i / tp_of(r), micro, piece);

			at.net.x = r->place[i].x;
			at.net.dtype = r->l->c.dtype;
			if (r->test)
				replica_load_tests(&r->sink, i, &at, &r->t->shape, &b, r->tested);
			else
				replica_load(&r->sink, i, &at, &r->t->shape, &b);
		}
		return;
	}
	if (!before)
		return;
	own = must_alloc(r->n, sizeof *own);
	bind(r, before, micro, piece);
	for (uint32_t i = 0; i < r->n; i++)
		own[i] = r->place[i];
	bind(r, c, micro, piece);
	for (uint32_t i = 0; i < r->n; i++)
		copy(r, i, r->place[i].y[0], own[i].y[before->part->net.nnodes - 1],
		     boundary(r, c, 0, i));
	free(own);
}

static void
forward(struct row_recorder *r, const struct layout_chunk *c, uint32_t micro)
{
	if (c->stage)
		await(r, STREAM_COMPUTE, r->came[0][index_of(r, c, micro)]);
	for (uint32_t piece = 0; piece < npieces(r); piece++) {
		bind(r, c, micro, piece);
		take_input(r, c, micro, piece);
	}
	for (uint32_t u = 0; u < c->nunits; u++) {
		const struct part_unit *unit = &c->part->unit[u];
		uint64_t params = params_at(r, c->unit0 + u);

		for (uint32_t piece = 0; piece < npieces(r); piece++) {
			struct emit_batch b = bind(r, c, micro, piece);

			bind_unit(r, unit, params, 0);
			for (uint32_t k = unit->node; k < unit->node + unit->nnodes; k++) {
				end_list(r);
				emit_forward_nodes(&c->part->net, &b, k, k + 1,
						   r->test ? EMIT_EVAL : EMIT_TRAIN, &r->sink);
			}
		}
	}
}

/* ---- back */

/* The loss of a piece, and the gradient of the last node's output. */
static void
take_loss(struct row_recorder *r, const struct layout_chunk *c, const struct emit_batch *b,
	  uint32_t micro, uint32_t piece)
{
	uint32_t number = micro * npieces(r) + piece;
	double scale = r->l->c.leaf ? 1 : 1 / (double)b->total;
	struct emit_target *target = must_alloc(r->n, sizeof *target);

	for (uint32_t i = 0; i < r->n; i++) {
		struct batch rows = piece_batch(r, i / tp_of(r), micro, piece);

		target[i] = replica_target(&r->t->replica[r->first + i], &rows, scale);
		target[i].loss = base_of(r, i) + r->row->losses + number * sizeof(float);
		target[i].loss_step = 0;
		target[i].scratch = base_of(r, i) + r->row->scratch;
		target[i].scale_at = scales(r) ? base_of(r, i) + r->row->scaler : 0;
	}
	emit_loss(&c->part->net, b, target, &r->sink);
	for (uint32_t i = 0; r->l->c.leaf && i < r->n; i++)
		LAUNCH(&r->sink, i, "fixed_add", U("sum", base_of(r, i) + r->row->loss_sum),
		       U("src", target[i].loss), U("n", 1), F("scale", LEAVES_LOSS_SCALE),
		       U("add", number > 0));
	free(target);
}

/* The gradient of a stage's output, from the loss or from the stage after. */
static void
take_gradient(struct row_recorder *r, const struct layout_chunk *c, uint32_t micro, uint32_t piece)
{
	const struct layout_chunk *after = chunk_of(r, c->stage + 1);
	struct emit_batch b = bind(r, c, micro, piece);
	uint32_t last = c->part->net.nnodes - 1;

	b.total = r->total;
	if (c->stage + 1 == r->s->nstages) {
		take_loss(r, c, &b, micro, piece);
		return;
	}
	for (uint32_t i = 0; i < r->n; i++)
		copy(r, i, r->place[i].dy[last],
		     base_of(r, i) + (after ? box_at(r, after, micro, piece, false)
					    : box_at(r, c, micro, piece, true)),
		     boundary(r, c, last, i));
}

/* Which half of backward. */
enum half { HALF_BOTH, HALF_INPUT, HALF_WEIGHTS };

static void
backward_nodes(struct row_recorder *r, const struct layout_chunk *c, const struct part_unit *u,
	       const struct emit_batch *b, enum half half)
{
	const struct net *n = &c->part->net;

	for (uint32_t k = u->node; half != HALF_WEIGHTS && k < u->node + u->nnodes; k++) {
		end_list(r);
		if (layout_volatile(r->l, c, k))
			emit_forward_nodes(n, b, k, k + 1, EMIT_TRAIN, &r->sink);
	}
	for (uint32_t k = u->node + u->nnodes; c->split && half != HALF_WEIGHTS && k-- > u->node;) {
		end_list(r);
		emit_propagate(n, b, k, &r->sink);
	}
	for (uint32_t k = u->node + u->nnodes; half != HALF_INPUT && k-- > u->node;) {
		end_list(r);
		emit_gradients(n, b, k, &r->sink);
		if (!c->split)
			emit_propagate(n, b, k, &r->sink);
	}
}

static void
backward(struct row_recorder *r, const struct layout_chunk *c, uint32_t micro, enum half half)
{
	bool weights = half != HALF_INPUT, last = weights && --r->left[c - r->row->chunk] == 0;

	if (half != HALF_WEIGHTS && c->stage + 1 < r->s->nstages)
		await(r, STREAM_COMPUTE, r->came[1][index_of(r, c, micro)]);
	for (uint32_t u = c->nunits; u-- > 0;) {
		const struct part_unit *unit = &c->part->unit[u];
		uint32_t number = c->unit0 + u;
		uint64_t params = half == HALF_WEIGHTS ? 0 : params_at(r, number);

		if (weights)
			begin_unit(r);
		for (uint32_t piece = 0; piece < npieces(r); piece++) {
			struct emit_batch b;

			if (half != HALF_WEIGHTS && u + 1 == c->nunits)
				take_gradient(r, c, micro, piece);
			b = bind(r, c, micro, piece);
			bind_unit(r, unit, params, fresh_at(r, number));
			backward_nodes(r, c, unit, &b, half);
			if (weights)
				accumulate(r, number, piece);
			if (half != HALF_WEIGHTS && u == 0 && c->stage)
				for (uint32_t i = 0; i < r->n; i++)
					copy(r, i,
					     base_of(r, i) + box_at(r, c, micro, piece, false),
					     r->place[i].dy[0], boundary(r, c, 0, i));
		}
		if (weights)
			end_unit(r, c, number, last);
	}
}

/* ---- the end of a step */

/* The step's loss, on the ranks of the last stage: the sum over microbatches; exact sums also over the ranks. */
static void
end_loss(struct row_recorder *r)
{
	uint32_t n = r->s->nmicro * npieces(r);
	const struct over_dp x = {.coll = GPUSIM_ALLREDUCE,
				  .type = GPUSIM_I64,
				  .n = 1,
				  .send = r->row->loss_sum,
				  .recv = r->row->loss_sum};

	if (r->l->c.leaf)
		over_dp(r, &x, STREAM_COMPUTE);
	for (uint32_t i = 0; i < r->n; i++) {
		struct batch b = r->batch[i / tp_of(r)];
		struct emit_target to = replica_target(&r->t->replica[r->first + i], &b, 1);

		if (r->l->c.leaf)
			LAUNCH(&r->sink, i, "cast", MOVES("dst", to.loss, to.loss_step),
			       U("src", base_of(r, i) + r->row->loss_sum), U("n", 1),
			       U("from", GPUSIM_I64), U("to", GPUSIM_F32),
			       F("scale", 1 / LEAVES_LOSS_SCALE));
		else
			LAUNCH(&r->sink, i, "bias_grad", MOVES("db", to.loss, to.loss_step),
			       U("dy", base_of(r, i) + r->row->losses), U("rows", n), U("cols", 1));
	}
}

/* A rank's gradient of a unit, of which it has n values from `first` on, in f32 or a half type. */
static uint64_t
gradient_at(struct row_recorder *r, const struct layout_unit *u, uint32_t i, uint64_t first,
	    uint64_t n)
{
	uint64_t base = base_of(r, i);
	uint64_t at = base + r->row->grads +
		      (layout_shards_grads(r->l) ? u->shard : u->first + first) * size_of(r);

	if (!r->l->c.leaf)
		return at;
	LAUNCH(&r->sink, i, "cast", U("dst", base + r->row->fresh[0]), U("src", at), U("n", n),
	       U("from", GPUSIM_I64), U("to", GPUSIM_F32),
	       F("scale", 1 / (LEAVES_SCALE * (double)r->total)));
	return base + r->row->fresh[0];
}

/* Add the squares of a rank's gradient of a unit, each value once in the grid: of its part over the data-parallel
 * ranks, and what all tensor-parallel ranks have alike only on the first. */
static void
add_squares(struct row_recorder *r, uint32_t unit, uint32_t i)
{
	const struct layout_unit *u = &r->row->unit[unit];
	const struct part *part = r->row->chunk[u->chunk].part;
	enum gpusim_dtype type = r->l->c.leaf ? GPUSIM_F32 : r->l->c.dtype;
	uint64_t n, first = layout_part(r->l, u, i / tp_of(r), &n);
	uint64_t grad = gradient_at(r, u, i, first, n), sum = base_of(r, i) + r->row->norm;

	first += part->unit[u->number].first;
	if (i % tp_of(r) == 0)
		LAUNCH(&r->sink, i, "sum_squares", U("sum", sum), U("x", grad), U("n", n),
		       U("add", 1), U("dtype", type));
	for (uint32_t k = 0; k < part->narrays && i % tp_of(r) > 0; k++) {
		const struct part_array *a = &part->array[k];
		uint64_t begin = a->part, end = a->part + part_array_size(a);

		begin = begin < first ? first : begin;
		end = end < first + n ? end : first + n;
		if (a->split != PART_WHOLE && begin < end)
			LAUNCH(&r->sink, i, "sum_squares", U("sum", sum),
			       U("x", grad + (begin - first) * emit_type_size(type)),
			       U("n", end - begin), U("add", 1), U("dtype", type));
	}
}

/* The squares of all units of the stage's ranks. */
static void
square(struct row_recorder *r)
{
	for (uint32_t i = 0; i < r->n; i++)
		LAUNCH(&r->sink, i, "fill", U("dst", base_of(r, i) + r->row->norm),
		       U("n", LAYOUT_NORM), U("dtype", GPUSIM_I64));
	for (uint32_t u = 0; u < r->row->nunits; u++) {
		end_list(r);
		for (uint32_t i = 0; i < r->n; i++)
			add_squares(r, u, i);
	}
}

/* One decision of all ranks of the grid: clip, unscale, or skip. rows: all stages. */
static void
decide(struct row_recorder *rows)
{
	const struct train_config *c = rows->t->o;
	uint32_t n = grid_size(&rows->l->c.grid), all = gpusim_comm_count(rows->t->comm);
	struct gpusim_addr *at = must_alloc(n, sizeof *at);
	uint32_t *members = must_alloc(n, sizeof *members);
	const struct gpusim_collective x = {GPUSIM_COLLECTIVE_INIT,
					    .coll = GPUSIM_ALLREDUCE,
					    .dtype = GPUSIM_I64,
					    .redop = GPUSIM_SUM,
					    .algo = algo_of(rows, "grid", GPUSIM_ALLREDUCE),
					    .nelem = LAYOUT_NORM,
					    .send = at,
					    .recv = at,
					    .stream = STREAM_COMPUTE,
					    .members = n < all ? members : NULL,
					    .nmembers = n < all ? n : 0,
					    .group = n < all ? "grid" : NULL};

	for (uint32_t p = 0; p < rows->s->nranks; p++)
		for (uint32_t i = 0; i < rows[p].n; i++) {
			members[rows[p].first + i] = rows[p].first + i;
			at[rows[p].first + i].addr = base_of(&rows[p], i) + rows[p].row->norm;
			count(rows, rows[p].first + i, COLL_BYTES + 2ull * n);
		}
	if (n > 1)
		gpusim_ops_collective(rows->o, &x);
	for (uint32_t p = 0; p < rows->s->nranks; p++)
		for (uint32_t i = 0; i < rows[p].n; i++) {
			uint64_t base = base_of(&rows[p], i);
			uint64_t scale = scales(rows) ? base + rows[p].row->scaler : 0;
			bool fixed = c->loss_scale > 0;

			LAUNCH(&rows[p].sink, i, "grad_scaler", U("gate", base + rows[p].row->gate),
			       U("sum", base + rows[p].row->norm), U("scale", scale),
			       U("counts", scale ? scale + sizeof(float) : 0), F("clip", c->clip),
			       F("growth", fixed ? 1 : 2), F("backoff", fixed ? 1 : 0.5));
		}
	free(at);
	free(members);
}

/* Where a rank has its n values of a unit's parameters, and of their masters. */
static uint64_t
values_at(const struct row_recorder *r, const struct layout_unit *u, uint32_t i, uint64_t *master,
	  uint64_t *n)
{
	uint64_t part = 0, base = base_of(r, i);

	*n = u->n;
	if (layout_shards_state(r->l))
		part = layout_part(r->l, u, i / tp_of(r), n);
	*master = base + r->row->master +
		  (layout_shards_master(r->l) ? u->shard : u->first + part) * sizeof(float);
	return base + r->row->params +
	       (layout_shards_params(r->l) ? u->shard : u->first + part) * each_of(r);
}

/* The optimizer's step of a rank's values of a unit: its part, or all. */
static void
update_unit(struct row_recorder *r, uint32_t unit, uint32_t i)
{
	const struct layout_unit *u = &r->row->unit[unit];
	const struct batch *b = &r->batch[i / tp_of(r)];
	struct emit_optimizer o = replica_optimizer(&r->t->replica[r->first + i], &r->t->shape, b);
	uint64_t base = base_of(r, i), n = u->n, part = 0, master, grad, state;

	if (layout_shards_state(r->l))
		part = layout_part(r->l, u, i / tp_of(r), &n);
	values_at(r, u, i, &master, &n);
	grad = gradient_at(r, u, i, part, n);
	state = layout_shards_state(r->l) ? u->shard : u->first;
	for (unsigned k = 0; k < 2; k++)
		o.state[k] = r->row->state[k] ? base + r->row->state[k] + state * sizeof(float) : 0;
	o.count = base + r->row->counts + unit * sizeof(uint64_t);
	o.gate = r->row->gate ? base + r->row->gate : 0;
	o.grad_dtype = r->l->c.leaf ? GPUSIM_F32 : r->l->c.dtype;
	emit_optimize(&r->sink, i, master, grad, n, GPUSIM_F32, &o);
}

/* All ranks get the parameters that each has stepped. */
static void
spread_parameters(struct row_recorder *r, uint32_t unit)
{
	const struct layout_unit *u = &r->row->unit[unit];
	uint64_t at = r->row->params + u->first * each_of(r);
	const struct over_dp x = {.coll = GPUSIM_ALLGATHER,
				  .type = r->l->c.dtype,
				  .n = u->n,
				  .send = at,
				  .recv = at,
				  .send_part = each_of(r)};

	for (uint32_t i = 0; i < r->n && r->l->c.dtype != GPUSIM_F32; i++) {
		uint64_t master, n, params = values_at(r, u, i, &master, &n);

		LAUNCH(&r->sink, i, "cast", U("dst", params), U("src", master), U("n", n),
		       U("from", GPUSIM_F32), U("to", r->l->c.dtype));
	}
	if (!layout_shards_state(r->l) || layout_shards_params(r->l))
		return;
	join(r, STREAM_COMPUTE, STREAM_COMM);
	name_unit(r, "gather", unit);
	over_dp(r, &x, STREAM_COMM);
}

/* Gradients are complete: the loss, and what the norm needs. */
static void
close_step(struct row_recorder *r)
{
	name_pass(r, NULL);
	join(r, STREAM_COMM, STREAM_COMPUTE);
	if (r->p == r->s->rank_of[r->s->nstages - 1])
		end_loss(r);
	if (r->l->c.normed)
		square(r);
}

static void
end_step(struct row_recorder *r)
{
	for (uint32_t u = 0; u < r->row->nunits; u++) {
		end_list(r);
		for (uint32_t i = 0; i < r->n; i++)
			update_unit(r, u, i);
		spread_parameters(r, u);
	}
}

/* The right answers of a test batch. */
static void
end_test(struct row_recorder *r, const struct layout_chunk *c)
{
	struct emit_target *target = must_alloc(r->n, sizeof *target);
	struct emit_batch b = bind(r, c, 0, 0);

	for (uint32_t i = 0; i < r->n; i++) {
		const struct batch *rows = &r->batch[i / tp_of(r)];

		target[i] = replica_test_target(&r->t->replica[r->first + i], rows, r->tested);
		target[i].scratch = base_of(r, i) + r->row->scratch;
	}
	emit_count(&c->part->net, &b, target, &r->sink);
	free(target);
}

/* ---- a stage's actions */

static void
act(struct row_recorder *r, const struct pipeline_action *a)
{
	const struct layout_chunk *c = chunk_of(r, a->stage);

	name_pass(r, a);
	switch (a->kind) {
	case PIPELINE_F:
		forward(r, c, a->micro);
		if (r->test && a->stage + 1 == r->s->nstages)
			end_test(r, c);
		break;
	case PIPELINE_B:
		backward(r, c, a->micro, HALF_BOTH);
		break;
	case PIPELINE_I:
		backward(r, c, a->micro, HALF_INPUT);
		break;
	case PIPELINE_W:
		backward(r, c, a->micro, HALF_WEIGHTS);
		break;
	case PIPELINE_SEND_F:
	case PIPELINE_RECV_F:
		message(r, a, false, a->kind == PIPELINE_SEND_F);
		break;
	case PIPELINE_SEND_B:
	case PIPELINE_RECV_B:
		message(r, a, true, a->kind == PIPELINE_SEND_B);
		break;
	default: /* parameters and gradients follow --zero */
		break;
	}
}

/* What lies ahead: uses of parameters, passes that make gradients. */
static void
look_ahead(struct row_recorder *r)
{
	const struct pipeline_row *row = &r->s->row[r->p];

	for (size_t i = 0; i < row->n; i++) {
		const struct pipeline_action *a = &row->v[i];
		const struct layout_chunk *c = chunk_of(r, a->stage);

		for (uint32_t u = 0; a->kind == PIPELINE_F && u < c->nunits; u++)
			add_use(r, c->unit0 + u);
		for (uint32_t u = c->nunits;
		     (a->kind == PIPELINE_B || a->kind == PIPELINE_I) && u-- > 0;)
			add_use(r, c->unit0 + u);
		r->left[c - r->row->chunk] += a->kind == PIPELINE_B || a->kind == PIPELINE_W;
	}
}

static void
begin_row(struct row_recorder *r)
{
	const struct pipeline_row *row = &r->s->row[r->p];
	size_t each = (size_t)r->row->nchunks * r->s->nmicro;

	r->n = r->l->c.grid.dp * r->l->c.grid.tp;
	r->first = r->p * r->n;
	r->place = must_alloc(r->n, sizeof *r->place);
	r->rows = must_alloc(r->n, sizeof *r->rows);
	r->send = must_alloc(r->n, sizeof *r->send);
	r->recv = must_alloc(r->n, sizeof *r->recv);
	r->members = must_alloc(r->n, sizeof *r->members);
	r->sent = must_alloc(each, sizeof *r->sent);
	r->came[0] = must_alloc(each, sizeof *r->came[0]);
	r->came[1] = must_alloc(each, sizeof *r->came[1]);
	r->talks = must_alloc(2ull * r->s->nranks, sizeof *r->talks);
	r->left = must_alloc(r->row->nchunks, sizeof *r->left);
	r->begun = must_alloc(r->row->nunits, sizeof *r->begun);
	r->use = must_alloc(row->n * r->row->nunits + 1, sizeof *r->use);
	look_ahead(r);
}

static void
end_row(struct row_recorder *r)
{
	for (uint32_t u = 0; r->narrow && u < r->row->nunits; u++)
		spread_parameters(r, u);
	if (!r->test && !r->narrow)
		end_step(r);
	for (uint32_t q = 0; q < 2 * r->s->nranks; q++)
		if (r->talks[q])
			join(r, (struct gpusim_stream){P2P_FIRST + q}, STREAM_COMPUTE);
	join(r, STREAM_COMM, STREAM_COMPUTE);
}

static void
free_row(struct row_recorder *r)
{
	free(r->place);
	free(r->rows);
	free(r->send);
	free(r->recv);
	free(r->members);
	free(r->sent);
	free(r->came[0]);
	free(r->came[1]);
	free(r->talks);
	free(r->left);
	free(r->begun);
	free(r->use);
}

/* The next action of a stage's ranks; NULL: no more. */
static const struct pipeline_action *
next_of(const struct row_recorder *r)
{
	const struct pipeline_row *row = &r->s->row[r->p];

	return r->next < row->n ? &row->v[r->next] : NULL;
}

/* The rank at the other end of a message. */
static uint32_t
peer_of(const struct row_recorder *r, const struct pipeline_action *a)
{
	bool up = a->kind == PIPELINE_SEND_F || a->kind == PIPELINE_RECV_B;

	return r->s->rank_of[up ? a->stage + 1 : a->stage - 1];
}

/* Record the next action, except a receive, which comes right before its send, and a send that has to wait for it. */
static bool
advance(struct row_recorder *r, uint32_t *posted)
{
	const struct pipeline_action *a = next_of(r), *other;
	struct row_recorder *peer;
	uint32_t *early;

	if (!a || a->kind == PIPELINE_RECV_F || a->kind == PIPELINE_RECV_B)
		return false;
	if (a->kind == PIPELINE_SEND_F || a->kind == PIPELINE_SEND_B) {
		peer = &r->lists->row[peer_of(r, a)];
		early = &posted[(size_t)r->p * r->s->nranks + peer->p];
		other = next_of(peer);
		if (*early) {
			--*early;
			r->lists->open--;
		} else if (other &&
			   (other->kind == PIPELINE_RECV_F || other->kind == PIPELINE_RECV_B) &&
			   peer_of(peer, other) == r->p) {
			act(peer, other);
			peer->next++;
		} else {
			return false;
		}
	} else {
		end_list(r);
	}
	act(r, a);
	r->next++;
	return true;
}

/* Nothing else can go on: post a receive before its send. */
static bool
post(struct lists *l, uint32_t *posted)
{
	for (uint32_t p = 0; p < l->nrows; p++) {
		struct row_recorder *r = &l->row[p];
		const struct pipeline_action *a = next_of(r);

		if (!a || (a->kind != PIPELINE_RECV_F && a->kind != PIPELINE_RECV_B))
			continue;
		act(r, a);
		r->next++;
		posted[(size_t)peer_of(r, a) * l->nrows + p]++;
		l->open++;
		return true;
	}
	return false;
}

/* All stages' actions, in an order in which they may run. */
static void
record(struct trainer *t, struct lists *l, const struct pipeline *s,
       const struct row_recorder *common)
{
	uint32_t *posted = must_alloc((size_t)s->nranks * s->nranks, sizeof *posted);
	bool more = !common->narrow, steps = !common->narrow && !common->test;

	l->nrows = s->nranks;
	l->row = must_alloc(s->nranks, sizeof *l->row);
	for (uint32_t p = 0; p < s->nranks; p++) {
		struct row_recorder *r = &l->row[p];

		*r = *common;
		r->events = l->events;
		r->lists = l;
		r->t = t;
		r->o = l->v[l->n - 1];
		r->l = t->spread->layout;
		r->s = s;
		r->row = &r->l->row[p];
		r->p = p;
		r->sink = (struct emit_sink){.arg = r, .launch = launch, .tensor = tensor};
		begin_row(r);
	}
	while (more && !l->full) {
		more = false;
		for (uint32_t p = 0; p < s->nranks; p++)
			more |= advance(&l->row[p], posted);
		more = more || post(l, posted);
	}
	for (uint32_t p = 0; p < s->nranks && steps; p++)
		close_step(&l->row[p]);
	if (steps && l->row->l->c.normed)
		decide(l->row);
	for (uint32_t p = 0; p < s->nranks; p++)
		end_row(&l->row[p]);
	for (uint32_t p = 0; p < s->nranks; p++)
		free_row(&l->row[p]);
	free(l->row);
	free(posted);
}

/* Begin with an empty list. */
static struct lists
lists_of(struct trainer *t, struct gpusim_ops **v, unsigned most)
{
	uint32_t n = gpusim_comm_count(t->comm);

	v[0] = gpusim_ops_new(n);
	return (struct lists){.v = v, .n = 1, .most = most, .ops = must_alloc(n, sizeof(uint64_t))};
}

/* The number of lists, or 0 and none. */
static unsigned
lists_end(struct lists *l)
{
	free(l->ops);
	while (l->full && l->n > 0)
		gpusim_ops_free(l->v[--l->n]);
	return l->n;
}

unsigned
spread_step(struct trainer *t, bool moving, struct gpusim_ops **lists, unsigned most)
{
	const struct grid *g = &t->spread->grid;
	struct lists l = lists_of(t, lists, most);
	struct batch *batch = must_alloc(g->dp, sizeof *batch);
	const struct row_recorder common = {
	    .moving = moving, .batch = batch, .total = moving ? t->global : t->rest};

	for (uint32_t d = 0; d < g->dp; d++)
		batch[d] = train_batch(t, moving, grid_rank(g, d, 0, 0));
	record(t, &l, t->spread->schedule, &common);
	free(batch);
	return lists_end(&l);
}

struct gpusim_ops *
spread_narrow(struct trainer *t)
{
	const struct row_recorder common = {.narrow = true};
	struct gpusim_ops *o;
	struct lists l = lists_of(t, &o, 1);

	record(t, &l, t->spread->forward, &common);
	lists_end(&l);
	return o;
}

unsigned
spread_test(struct trainer *t, unsigned part, bool moving, struct gpusim_ops **lists, unsigned most)
{
	const struct grid *g = &t->spread->grid;
	const struct tests *tests = &t->tests[part];
	struct lists l = lists_of(t, lists, most);
	struct batch *batch = must_alloc(g->dp, sizeof *batch);
	const struct row_recorder common = {
	    .moving = moving, .batch = batch, .test = true, .tested = part};

	for (uint64_t k = 0; k < (moving ? 1 : tests->more) && !l.full; k++) {
		for (uint32_t d = 0; d < g->dp; d++)
			batch[d] = test_batch(t, part, moving ? 0 : tests->full + k, moving,
					      grid_rank(g, d, 0, 0));
		record(t, &l, t->spread->forward, &common);
	}
	free(batch);
	return lists_end(&l);
}
