/* The operations of a stage's ranks, as a list: launches, marks, collectives. */
#include "train/spread_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "coll/plan.h"

#define EVENT_FIRST 0x73707265616400u /* ids of events; they are per device */

/* When a list ends: well below WIRE_MAX_OPS of a rank, the size of a request, and half of a device's events. */
#define MAX_OPERATIONS	3500
#define MAX_BYTES	(3u << 18)
#define MAX_EVENTS	512
#define OPERATION_BYTES 40
#define ARG_BYTES	15
#define STEP_BYTES	11

void
row_count(struct row_recorder *r, uint32_t rank, uint64_t nbytes)
{
	struct lists *l = r->lists;

	l->bytes += nbytes;
	if (++l->ops[rank] > l->worst)
		l->worst = l->ops[rank];
}

static void
launch_on(struct row_recorder *r, uint32_t i, struct gpusim_stream stream, const char *kernel,
	  const struct gpusim_arg *args, size_t nargs)
{
	uint64_t nbytes = OPERATION_BYTES + strlen(kernel);

	for (size_t k = 0; k < nargs; k++)
		nbytes += ARG_BYTES + strlen(args[k].name) + (args[k].step ? STEP_BYTES : 0);
	row_count(r, r->first + i, nbytes);
	gpusim_ops_launch(r->o, r->first + i, stream, kernel, args, nargs);
}

void
row_launch(void *arg, uint32_t i, const char *kernel, const struct gpusim_arg *args, size_t nargs)
{
	launch_on(arg, i, STREAM_COMPUTE, kernel, args, nargs);
}

void
row_launch_comm(void *arg, uint32_t i, const char *kernel, const struct gpusim_arg *args,
		size_t nargs)
{
	launch_on(arg, i, STREAM_COMM, kernel, args, nargs);
}

uint64_t
row_mark(struct row_recorder *r, struct gpusim_stream stream)
{
	uint64_t event = EVENT_FIRST + ++r->events;

	if (r->events > r->lists->events)
		r->lists->events = r->events;
	for (uint32_t i = 0; i < r->n; i++) {
		row_count(r, r->first + i, OPERATION_BYTES);
		gpusim_ops_record(r->o, r->first + i, stream, (struct gpusim_event){event});
	}
	return event;
}

void
row_await(struct row_recorder *r, struct gpusim_stream stream, uint64_t event)
{
	for (uint32_t i = 0; event && i < r->n; i++) {
		row_count(r, r->first + i, OPERATION_BYTES);
		gpusim_ops_wait(r->o, r->first + i, stream, (struct gpusim_event){event});
	}
}

void
row_join(struct row_recorder *r, struct gpusim_stream from, struct gpusim_stream to)
{
	row_await(r, to, row_mark(r, from));
}

const char *
row_algo(const struct row_recorder *r, const char *group, enum gpusim_coll coll)
{
	const char *algo = r->t->o->algo;
	const struct plan_algo *found;

	if (plan_algo_is_built_in(algo))
		return plan_algo_find(coll, algo, &found, NULL) == RC_OK ? algo : "auto";
	return coll == GPUSIM_ALLREDUCE && strcmp(group, "dp") == 0 ? algo : "auto";
}

void
row_collect(struct row_recorder *r, const char *group, uint32_t n, enum gpusim_coll coll,
	    enum gpusim_redop op, enum gpusim_dtype type, uint64_t nelem,
	    struct gpusim_stream stream)
{
	/* Groups are numbered by their first ranks, as gpuctl topo does; members are equally far apart. */
	uint32_t first = r->members[0], apart = n < 2 ? 1 : r->members[1] - first;
	uint32_t number = first / (apart * n) * apart + first % apart;
	char name[GPUSIM_GROUP_NAME];
	const struct gpusim_collective c = {GPUSIM_COLLECTIVE_INIT,
					    .coll = coll,
					    .dtype = type,
					    .redop = op,
					    .algo = row_algo(r, group, coll),
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
		row_count(r, r->members[i], COLL_BYTES + 2ull * n + strlen(c.algo ? c.algo : ""));
	gpusim_ops_collective(r->o, &c);
}

void
row_over_dp(struct row_recorder *r, const struct over_dp *x, struct gpusim_stream stream)
{
	uint32_t dp = r->l->c.grid.dp, tp = tp_of(r), shards = r->l->c.shards;
	uint32_t n = x->replicas ? dp / shards : x->coll == GPUSIM_ALLREDUCE ? dp : shards;
	const char *name = x->replicas ? "rep" : n == dp ? "dp" : "shard";

	for (uint32_t g = 0; g < dp / n * tp; g++) {
		uint32_t first = g / tp * (x->replicas ? 1 : n), t = g % tp;
		uint64_t each = 0;

		for (uint32_t k = 0; k < n; k++) {
			uint32_t d = first + k * (x->replicas ? shards : 1), i = d * tp + t;
			uint64_t part = layout_part(r->l, x->n, d, &each); /* replicas: alike */

			r->members[k] = r->first + i;
			r->send[k].addr = base_of(r, i) + x->send + part * x->send_part;
			r->recv[k].addr = base_of(r, i) + x->recv + part * x->recv_part;
		}
		row_collect(r, name, n, x->coll, GPUSIM_SUM, x->type, x->replicas ? each : x->n,
			    stream);
	}
}

void
row_tensor(void *arg, const struct emit_tensor *x)
{
	struct row_recorder *r = arg;
	uint32_t tp = tp_of(r);

	for (uint32_t t = 0; t < tp; t++) {
		r->members[t] = r->first + x->rank + t;
		r->send[t].addr = x->send[t];
		r->recv[t].addr = x->recv[t];
	}
	row_collect(r, "tp", tp, x->coll, x->redop, x->dtype, x->nelem, STREAM_COMPUTE);
}

void
row_end_list(struct row_recorder *r)
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

struct batch
row_piece(const struct row_recorder *r, uint32_t d, uint32_t micro, uint32_t piece)
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

struct emit_batch
row_bind(struct row_recorder *r, const struct layout_chunk *c, uint32_t micro, uint32_t piece)
{
	uint32_t slot = slot_of(r, c, micro);

	for (uint32_t i = 0; i < r->n; i++) {
		r->rows[i] = row_piece(r, i / tp_of(r), micro, piece).rows;
		layout_place(r->l, c, slot, piece, i % tp_of(r), r->rows[i], base_of(r, i),
			     &r->place[i]);
	}
	return (struct emit_batch){.nranks = r->n,
				   .place = r->place,
				   .rows = r->rows,
				   .single = r->l->c.leaf != 0,
				   .apart = c->split};
}

void
row_bind_unit(struct row_recorder *r, const struct part_unit *u, uint64_t params, uint64_t grads)
{
	for (uint32_t i = 0; i < r->n; i++) {
		r->place[i].params = base_of(r, i) + params - u->first * each_of(r);
		r->place[i].grads = base_of(r, i) + grads - u->first * each_of(r);
	}
}

/* ---- names in timelines */

void
row_name_pass(struct row_recorder *r, const struct pipeline_action *a)
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

void
row_name_unit(struct row_recorder *r, const char *what, uint32_t unit)
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
