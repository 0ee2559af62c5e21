#include "dev/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/hoist.h"
#include "coll/parts.h"
#include "coll/schedule.h"
#include "coll/shape.h"
#include "wire/frame.h"
#include "wire/wire.h"

const char *
inst_name(const struct inst *i)
{
	switch (i->kind) {
	case INST_KERNEL:
		return i->kernel.kernel->name;
	case INST_MEMSET:
		return "memset";
	case INST_COPY:
		return "copy";
	case INST_RECORD:
		return "record";
	case INST_WAIT:
		return "wait";
	case INST_COLL:
	case INST_SENDRECV:
		return coll_name(i->coll.args.coll);
	}
	return "?";
}

static enum rc
build_kernel(const GpuSim__Launch *l, struct inst *i, struct err *err)
{
	struct kernel_arg args[WIRE_MAX_ARGS];
	struct inst_kernel *k = &i->kernel;
	enum rc rc;

	i->kind = INST_KERNEL;
	if (l->n_args > WIRE_MAX_ARGS)
		return err_set(err, RC_INVAL, "%zu arguments: the limit is %d", l->n_args,
			       WIRE_MAX_ARGS);
	k->kernel = kernel_find(l->kernel);
	if (!k->kernel)
		return kernel_unknown(l->kernel, err);
	for (size_t a = 0; a < l->n_args; a++) {
		const GpuSim__KernelArg *from = l->args[a];

		args[a].name = from->name;
		args[a].is_real = from->value_case == GPU_SIM__KERNEL_ARG__VALUE_F;
		if (args[a].is_real)
			args[a].value.f = from->f;
		else
			args[a].value.u =
			    from->value_case == GPU_SIM__KERNEL_ARG__VALUE_U ? from->u : 0;
		args[a].step = from->step;
	}
	rc = kernel_bind(k->kernel, args, l->n_args, k->v, k->step, err);
	for (unsigned p = 0; rc == RC_OK && p < KERNEL_MAX_PARAMS; p++)
		k->stepped |= k->step[p] != 0;
	while (k->kernel->params[k->argbytes / sizeof *k->v].kind != KP_END)
		k->argbytes += sizeof *k->v;
	return rc;
}

/* The schedule of operation k, if any: its own, or an earlier operation's. */
static enum rc
take_schedule(GpuSim__Op *const *ops, size_t k, struct schedule **out, struct err *err)
{
	const GpuSim__Coll *m = ops[k]->coll, *from = m;
	uint32_t of = m->scheduleof;

	if (of) {
		if (m->schedule.len || of > k || ops[of - 1]->kind_case != GPU_SIM__OP__KIND_COLL ||
		    !ops[of - 1]->coll->schedule.len)
			return err_set(err, RC_INVAL,
				       "op %u carries no schedule for this algorithm", of - 1);
		from = ops[of - 1]->coll;
	}
	return from->schedule.len
		   ? schedule_unpack(from->schedule.data, from->schedule.len, out, err)
		   : RC_OK;
}

/* Shape, buffers and plan of c->args. */
static enum rc
build_plan(const struct program_env *env, const char *algo, uint64_t send, uint64_t recv,
	   uint64_t chunk_bytes, struct inst_coll *c, struct err *err)
{
	enum rc rc = inst_coll_shape(c, algo, chunk_bytes, err);

	if (rc == RC_OK)
		rc = inst_coll_place(c, env->mem, send, recv, err);
	return rc == RC_OK ? inst_coll_plan(c, err) : rc;
}

/* The ranks that take part, and their name. */
static enum rc
take_members(const struct program_env *env, const struct program *p, const GpuSim__Coll *m,
	     struct inst_coll *c, struct err *err)
{
	bool found = false;
	uint32_t *rank;

	if (strlen(m->group) >= sizeof c->group)
		return err_set(err, RC_INVAL, "group: longer than %zu letters",
			       sizeof c->group - 1);
	memcpy(c->group, m->group, strlen(m->group) + 1);
	if (!m->n_members)
		return RC_OK;
	if (m->n_members > p->nranks || coll_is_sendrecv(c->args.coll))
		return err_set(err, RC_INVAL, "%zu members of %u ranks", m->n_members, p->nranks);
	rank = alloc_zeroed(m->n_members, sizeof *rank);
	c->members = alloc_zeroed(1, sizeof *c->members);
	if (!rank || !c->members) {
		free(rank);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	c->members->rank = memcpy(rank, m->members, m->n_members * sizeof *rank);
	c->members->n = (uint32_t)m->n_members;
	for (uint32_t r = 0; r < c->members->n; r++) {
		if (rank[r] >= p->nranks || (found && rank[r] == p->rank))
			return err_set(err, RC_INVAL, "bad member %u", rank[r]);
		if (rank[r] == p->rank)
			c->args.rank = r;
		found |= rank[r] == p->rank;
	}
	c->args.nranks = (uint32_t)m->n_members;
	c->group_number = flight_group(env->flight, c->group, rank, c->members->n);
	return found ? RC_OK : err_set(err, RC_INVAL, "rank %u is not among the members", p->rank);
}

static enum rc
build_coll(const struct program_env *env, struct program *p, GpuSim__Op *const *ops, size_t k,
	   struct inst *i, struct err *err)
{
	const GpuSim__Coll *m = ops[k]->coll;
	const struct parts_given counts = {m->counts, m->displs, m->n_counts, m->n_displs};
	const struct parts_given recv_counts = {m->recvcounts, m->recvdispls, m->n_recvcounts,
						m->n_recvdispls};
	struct inst_coll *c = &i->coll;
	struct plan_part *parts;
	struct schedule *schedule = NULL;
	enum rc rc;

	c->args = (struct plan_args){.coll = (enum gpusim_coll)m->coll,
				     .dtype = (enum gpusim_dtype)m->dtype,
				     .redop = (enum gpusim_redop)m->redop,
				     .rank = p->rank,
				     .nranks = p->nranks,
				     .root = m->root,
				     .nelem = m->nelem,
				     .canonical = m->deterministic};
	i->kind = coll_is_sendrecv(c->args.coll) ? INST_SENDRECV : INST_COLL;
	if (p->comm == 0)
		return err_set(err, RC_INVAL, "a collective needs a communicator");
	c->scalar = m->scalar;
	c->stream = i->stream;
	c->op_offset = m->opoffset;
	if (m->opoffset >= FRAME_OP_MAX)
		return err_set(err, RC_INVAL, "bad operation number");
	if (m->opoffset >= p->op_offsets)
		p->op_offsets = m->opoffset + 1;
	if (m->p2p >= FRAME_SENDRECV_MAX || (m->p2p && i->kind != INST_SENDRECV))
		return err_set(err, RC_INVAL, "bad pair number");
	c->fixed_op = m->p2p ? inst_coll_pair(c, m->p2p) : 0;
	rc = take_members(env, p, m, c, err);
	if (rc != RC_OK)
		return rc;
	c->ticket = i->kind == INST_COLL && !c->members ? p->ncoll++ : 0;
	rc = parts_take(&c->args, &counts, &recv_counts, &parts, err);
	if (rc == RC_OK)
		rc = take_schedule(ops, k, &schedule, err);
	c->args.schedule = schedule;
	if (rc == RC_OK)
		rc = build_plan(env, m->algo, m->sendaddr, m->recvaddr, m->chunkbytes, c, err);
	schedule_free_all(schedule, 1);
	if (rc == RC_OK && p->tape)
		return RC_OK;
	free(parts);
	c->args.part = c->args.recv_part = NULL;
	return rc;
}

static enum rc
build_inst(const struct program_env *env, struct program *p, GpuSim__Op *const *ops, size_t k,
	   struct inst *i, struct err *err)
{
	const GpuSim__Op *op = ops[k];
	void *dst, *src;
	enum rc rc;

	i->stream = op->stream;
	i->untimed = op->untimed;
	i->phase = op->phase;
	snprintf(i->label, sizeof i->label, "%s", op->label);
	if (op->stream >= STREAM_MAX)
		return err_set(err, RC_INVAL, "stream %u: must be 0 to %d", op->stream,
			       STREAM_MAX - 1);
	switch (op->kind_case) {
	case GPU_SIM__OP__KIND_COLL:
		return build_coll(env, p, ops, k, i, err);
	case GPU_SIM__OP__KIND_LAUNCH:
		return build_kernel(op->launch, i, err);
	case GPU_SIM__OP__KIND_MEMSET:
		i->kind = INST_MEMSET;
		rc = inst_range(env->mem, "address", op->memset->addr, op->memset->nbytes, &dst,
				err);
		if (rc != RC_OK)
			return rc;
		i->bytes = (struct inst_bytes){.dst = dst,
					       .nbytes = op->memset->nbytes,
					       .value = (int)(op->memset->value & 0xff)};
		return RC_OK;
	case GPU_SIM__OP__KIND_COPY:
		i->kind = INST_COPY;
		rc =
		    inst_range(env->mem, "destination", op->copy->dst, op->copy->nbytes, &dst, err);
		if (rc == RC_OK)
			rc = inst_range(env->mem, "source", op->copy->src, op->copy->nbytes, &src,
					err);
		if (rc != RC_OK)
			return rc;
		i->bytes = (struct inst_bytes){.dst = dst, .src = src, .nbytes = op->copy->nbytes};
		return RC_OK;
	case GPU_SIM__OP__KIND_RECORD:
		i->kind = INST_RECORD;
		return event_get(env->events, op->record->id, &i->event.event, err);
	case GPU_SIM__OP__KIND_WAIT:
		i->kind = INST_WAIT;
		return event_get(env->events, op->wait->id, &i->event.event, err);
	default:
		return err_set(err, RC_INVAL, "an operation of an unknown kind");
	}
}

static const char *
op_word(const GpuSim__Op *op)
{
	switch (op->kind_case) {
	case GPU_SIM__OP__KIND_COLL:
		return coll_name((enum gpusim_coll)op->coll->coll);
	case GPU_SIM__OP__KIND_LAUNCH:
		return op->launch->kernel;
	case GPU_SIM__OP__KIND_MEMSET:
		return "memset";
	case GPU_SIM__OP__KIND_COPY:
		return "copy";
	default:
		return "event";
	}
}

static enum rc
program_new(const struct program_env *env, uint64_t comm, size_t ninst, struct program **out,
	    struct err *err)
{
	struct program *p = calloc(1, sizeof *p);
	struct xport_membership m = {0};
	enum rc rc = RC_OK;

	if (!p || !(p->inst = calloc(ninst ? ninst : 1, sizeof *p->inst))) {
		free(p);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	p->refs = 1;
	p->mem = env->mem;
	p->inject = env->inject;
	p->tape = env->tape;
	if (comm)
		rc = xport_member(env->xport, comm, &m, err);
	p->comm = m.comm;
	p->epoch = m.epoch;
	p->rank = m.rank;
	p->nranks = m.nranks;
	if (rc != RC_OK)
		program_free(p);
	else
		*out = p;
	return rc;
}

/* A program records an event at most once, so that iterations can be distinguished. Each wait learns the
 * instruction that records for it. */
static enum rc
match_events(struct program *p, struct err *err)
{
	for (size_t i = 0; i < p->ninst; i++)
		if (p->inst[i].kind == INST_RECORD || p->inst[i].kind == INST_WAIT)
			p->inst[i].event.record = INST_NONE;
	for (size_t i = 0; i < p->ninst; i++) {
		if (p->inst[i].kind != INST_RECORD)
			continue;
		for (size_t j = 0; j < p->ninst; j++) {
			struct inst *in = &p->inst[j];

			if ((in->kind != INST_RECORD && in->kind != INST_WAIT) ||
			    in->event.event != p->inst[i].event.event || j == i)
				continue;
			if (in->kind == INST_RECORD)
				return err_set(err, RC_INVAL,
					       "ops %zu and %zu record the same event", i, j);
			in->event.record = i;
		}
	}
	return RC_OK;
}

static bool
is_coll(const struct inst *i)
{
	return i->kind == INST_COLL || i->kind == INST_SENDRECV;
}

/* Allocate scratch for each stream, shared by its collectives, which run in order. */
static enum rc
make_scratch(struct program *p, struct err *err)
{
	uint64_t most[STREAM_MAX] = {0};

	for (size_t i = 0; i < p->ninst; i++) {
		const struct inst *in = &p->inst[i];
		uint64_t n = is_coll(in) ? inst_coll_scratch(&in->coll) : 0;

		if (n > most[in->stream])
			most[in->stream] = n;
	}
	for (unsigned s = 0; s < STREAM_MAX; s++)
		if (most[s] && devmem_own_alloc(p->mem, most[s], &p->scratch[s], err) != RC_OK)
			return err_prefix(err, "scratch");
	for (size_t i = 0; i < p->ninst; i++)
		if (is_coll(&p->inst[i]))
			inst_coll_place_scratch(&p->inst[i].coll, p->scratch[p->inst[i].stream]);
	return RC_OK;
}

enum rc
program_hold(atomic_size_t *held, size_t n, size_t *charged, struct err *err)
{
	if (held && atomic_fetch_add(held, n) > PROGRAMS_MAX_HELD - n) {
		atomic_fetch_sub(held, n);
		return err_set(err, RC_BUSY,
			       "the device already holds %d MiB of operations: run or drop some",
			       PROGRAMS_MAX_HELD >> 20);
	}
	*charged = n;
	return RC_OK;
}

static enum rc
finish(const struct program_env *env, struct program *p, struct err *err)
{
	size_t n = sizeof *p + p->ninst * sizeof *p->inst;
	enum rc rc = match_events(p, err);

	for (size_t i = 0; i < p->ninst; i++)
		if (is_coll(&p->inst[i]))
			n += p->inst[i].coll.plan.cap * sizeof(struct plan_step) +
			     p->inst[i].coll.plan.nstep * sizeof(uint32_t);
	if (rc == RC_OK)
		rc = program_hold(env->held, n, &p->nbytes, err);
	p->held = env->held;
	if (rc == RC_OK)
		rc = make_scratch(p, err);
	for (size_t i = 0; i < p->ninst && rc == RC_OK; i++) {
		struct xport_pair **pairs = &p->pairs[p->inst[i].stream];

		if (!is_coll(&p->inst[i]) || !p->inst[i].coll.members)
			continue;
		if (!*pairs && !(*pairs = alloc_zeroed(2 * (size_t)p->nranks, sizeof **pairs)))
			rc = err_set(err, RC_NOMEM, "out of memory");
		p->inst[i].coll.members->pairs = *pairs;
	}
	/* With all buffers known, find the sends that may be hoisted. */
	for (size_t i = 0; i < p->ninst && rc == RC_OK; i++) {
		struct inst_coll *c = &p->inst[i].coll;

		if (p->inst[i].kind == INST_COLL &&
		    !(c->after = hoist_compute(&c->plan, c->base, c->elem)))
			rc = err_set(err, RC_NOMEM, "out of memory");
	}
	return rc;
}

enum rc
program_build(const struct program_env *env, uint64_t comm, GpuSim__Op *const *ops, size_t nops,
	      struct program **out, struct err *err)
{
	struct program *p;
	size_t nstep = 0;
	enum rc rc = program_new(env, comm, nops, &p, err);

	if (rc != RC_OK)
		return rc;
	for (size_t k = 0; k < nops && rc == RC_OK; k++) {
		p->ninst = k + 1;
		rc = build_inst(env, p, ops, k, &p->inst[k], err);
		if (rc == RC_OK && is_coll(&p->inst[k])) {
			nstep += p->inst[k].coll.plan.nstep;
			if (nstep > PROGRAM_MAX_STEPS)
				rc = err_set(err, RC_INVAL,
					     "more than %u messages in one list of operations",
					     PROGRAM_MAX_STEPS);
		}
		if (rc != RC_OK && err)
			err_prefix(err, "op %zu (%s)", k, op_word(ops[k]));
	}
	if (rc == RC_OK)
		rc = finish(env, p, err);
	if (rc != RC_OK)
		program_free(p);
	else
		*out = p;
	return rc;
}

enum rc
program_check_numbers(const struct program *p, uint64_t first_op, uint64_t stride,
		      uint64_t iterations, struct err *err)
{
	uint64_t last = p->op_offsets;

	if (p->op_offsets == 0)
		return RC_OK;
	if (first_op >= FRAME_OP_MAX ||
	    (stride && iterations - 1 > (FRAME_OP_MAX - first_op) / stride))
		last = UINT64_MAX;
	else
		last += first_op + (iterations - 1) * stride;
	return last <= FRAME_OP_MAX ? RC_OK
				    : err_set(err, RC_INVAL, "operation numbers out of range");
}

enum rc
program_build_transfer(const struct program_env *env, enum gpusim_coll send_or_recv, uint64_t comm,
		       uint32_t peer, uint64_t addr, uint64_t nbytes, uint64_t op,
		       struct program **out, struct err *err)
{
	struct program *p;
	enum rc rc = program_new(env, comm, 1, &p, err);

	if (rc != RC_OK)
		return rc;
	p->ninst = 1;
	p->inst[0].kind = INST_SENDRECV;
	p->inst[0].coll.fixed_op = op;
	p->inst[0].coll.args = (struct plan_args){.coll = send_or_recv,
						  .dtype = GPUSIM_U8,
						  .redop = GPUSIM_SUM,
						  .rank = p->rank,
						  .nranks = p->nranks,
						  .root = peer,
						  .nelem = nbytes};
	rc = build_plan(env, NULL, addr, addr, 0, &p->inst[0].coll, err);
	if (rc == RC_OK)
		rc = finish(env, p, err);
	if (rc != RC_OK)
		program_free(p);
	else
		*out = p;
	return rc;
}

void
program_free(struct program *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->ninst; i++)
		if (is_coll(&p->inst[i])) {
			inst_coll_fini(&p->inst[i].coll);
			free(p->inst[i].coll.after);
			free((struct plan_part *)p->inst[i].coll.args.part);
		}
	for (unsigned s = 0; s < STREAM_MAX; s++) {
		devmem_own_free(p->mem, p->scratch[s]);
		free(p->pairs[s]);
	}
	if (p->held)
		atomic_fetch_sub(p->held, p->nbytes);
	free(p->inst);
	free(p);
}
