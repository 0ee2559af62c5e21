/* A recording's operations and faults, submitted again in the order of its units. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/must.h"
#include "client/ops.h"
#include "coll/plan.h"
#include "coll/shape.h"
#include "mem/dtype.h"
#include "mem/redop.h"
#include "replay/play_impl.h"

#define LOST_MS	  5000 /* until the coordinator knows that a process has ended */
#define LOST_TICK 10

/* The unit at hand. */
struct unit {
	size_t n;
	struct story_op *o; /* with those of ranks that had died before */
	struct play_op *as; /* as they are submitted */
	uint32_t wait_ms;   /* until its communicator is aborted */
	bool failed, alone; /* alone: runs by itself, because it has faults */
};

/* ---- faults */

static void
await_loss(struct play *p, struct gpusim_device device)
{
	uint64_t deadline = deadline_in_ms(LOST_MS);
	bool lost = false;

	while (!lost && clock_now_ns() < deadline) {
		struct gpusim_device_info *v;
		size_t n;

		if (gpusim_devices(p->cfg->g, &v, &n) != GPUSIM_OK)
			return;
		lost = true;
		for (size_t i = 0; i < n; i++)
			lost &= v[i].device.id != device.id || v[i].lost;
		free(v);
		if (!lost)
			clock_sleep(LOST_TICK * NS_PER_MS);
	}
}

/* A device that cannot be called has already ended. */
static void
inject(struct play *p, uint32_t proc, const struct gpusim_fault *f)
{
	gpusim_inject(p->cfg->g, p->cfg->device[proc], 0, f, 1, NULL);
	if (f->kind != GPUSIM_FAULT_KILL)
		return;
	p->dead[proc] = true;
	if (!f->at)
		await_loss(p, p->cfg->device[proc]);
}

/* Inject the faults between two operations of a process; the second is about to be submitted. */
static void
inject_now(struct play *p, uint32_t proc)
{
	for (size_t i = 0; i < p->s->nfaults; i++) {
		const struct story_fault *f = &p->s->fault[i];

		if (p->fault_done[i] || f->proc != proc || f->op != STORY_NONE ||
		    f->position > p->played[proc])
			continue;
		p->fault_done[i] = true;
		play_drain(p, p->cfg->wait_ms);
		inject(p, proc, &f->f);
	}
}

static struct gpusim_fault
at_step(const struct play *p, const struct story_op *o, struct gpusim_fault f, uint32_t step)
{
	f.comm.id = p->map->comm[o->comm];
	f.at = 1;
	f.coll = o->coll;
	f.next = 1;
	f.step = step;
	return f;
}

/* Arm the faults at a step of this operation. */
static void
arm(struct play *p, uint32_t op)
{
	const struct story_op *o = &p->s->op[op];
	const struct story_proc *proc = &p->s->proc[o->proc];
	struct gpusim_fault f;
	bool explained = false;

	for (size_t i = 0; i < p->s->nfaults; i++)
		if (p->s->fault[i].op == op) {
			f = at_step(p, o, p->s->fault[i].f, p->s->fault[i].step);
			inject(p, o->proc, &f);
			explained |= f.kind == GPUSIM_FAULT_KILL || f.kind == GPUSIM_FAULT_STOP;
		}
	if (o->state != STORY_OPEN || proc->closed || explained || p->dead[o->proc])
		return;
	/* A signal from outside, at an unknown step: use the first. */
	f = at_step(p, o, (struct gpusim_fault){.kind = GPUSIM_FAULT_KILL}, 0);
	inject(p, o->proc, &f);
}

/* Return true if a fault belongs to the operation, or its process did not end it. */
static bool
has_fault(const struct play *p, uint32_t op)
{
	for (size_t i = 0; i < p->s->nfaults; i++)
		if (p->s->fault[i].op == op)
			return true;
	return p->s->op[op].state == STORY_OPEN && !p->s->proc[p->s->op[op].proc].closed;
}

static void
disarm(struct play *p)
{
	for (size_t i = 0; i < p->s->nprocs; i++)
		if (!p->dead[i])
			gpusim_inject(p->cfg->g, p->cfg->device[i], 1, NULL, 0, NULL);
}

/* ---- the unit */

/* A dead rank has no part in the recording, but the coordinator needs all ranks. */
static void
add_missing(struct play *p, struct unit *u)
{
	const struct story_op *like = &u->o[0];
	const struct story_comm *c = &p->s->comm[like->comm];
	size_t elem = dtype_size((enum gpusim_dtype)like->dtype);
	uint64_t have[(WIRE_MAX_RANKS + 63) / 64] = {0};

	if (coll_is_sendrecv((enum gpusim_coll)like->coll))
		return;
	for (size_t i = 0; i < u->n; i++)
		have[u->o[i].rank / 64] |= UINT64_C(1) << u->o[i].rank % 64;
	for (uint32_t r = 0; r < c->nranks; r++) {
		struct story_op o = *like;
		struct shape sh =
		    shape_of((enum gpusim_coll)like->coll, like->nelem, c->nranks, like->root, r);

		if (have[r / 64] >> r % 64 & 1)
			continue;
		inject_now(p, c->proc[r]);
		if (!p->s->proc[c->proc[r]].closed && !p->dead[c->proc[r]] &&
		    p->played[c->proc[r]] == p->s->proc[c->proc[r]].nops)
			inject(p, c->proc[r], &(struct gpusim_fault){.kind = GPUSIM_FAULT_KILL});
		if (like->by_queue || like->parts)
			continue;
		o.rank = r;
		o.number = 0;
		o.proc = c->proc[r];
		o.nin = o.nbefore = 0;
		o.in_place = o.gaps = false;
		o.in_bytes = sh.in * elem;
		o.out_bytes = sh.out * elem;
		u->o[u->n++] = o;
	}
}

/* The time to wait for a failed unit; an end from outside happens again after the same time. */
static uint32_t
wait_of(const struct play *p, size_t unit)
{
	const struct story *s = p->s;
	uint64_t most = 0;

	if (!story_unit_aborted(s, unit))
		return p->cfg->wait_ms;
	for (uint32_t i = s->unit[unit]; i < s->unit[unit + 1]; i++) {
		const struct story_op *o = &s->op[s->order[i]];

		if (o->state == STORY_FAILED && o->end_ns > o->at_ns &&
		    (o->end_ns - o->at_ns) / NS_PER_MS > most)
			most = (o->end_ns - o->at_ns) / NS_PER_MS;
	}
	return most < p->cfg->wait_ms ? (uint32_t)most + 1 : p->cfg->wait_ms;
}

/* Gather the unit's operations, and have its faults wait for them. */
static void
take_unit(struct play *p, size_t k, struct unit *u)
{
	const struct story *s = p->s;
	const uint32_t *v = s->order + s->unit[k];
	size_t n = s->unit[k + 1] - s->unit[k];
	size_t room = n + s->comm[s->op[v[0]].comm].nranks;

	*u = (struct unit){.n = n, .failed = story_unit_failed(s, k)};
	u->o = must_alloc(room, sizeof *u->o);
	u->as = must_alloc(room, sizeof *u->as);
	for (size_t i = 0; i < n; i++) {
		u->o[i] = s->op[v[i]];
		u->alone |= has_fault(p, v[i]);
		inject_now(p, u->o[i].proc);
	}
	u->wait_ms = wait_of(p, k);
	if (u->failed)
		add_missing(p, u);
	for (size_t i = 0; i < u->n; i++)
		if (p->dead[u->o[i].proc])
			u->wait_ms = p->cfg->wait_ms;
	if (u->alone || u->failed)
		play_drain(p, p->cfg->wait_ms);
	for (size_t i = 0; i < n && u->alone; i++)
		arm(p, v[i]);
}

/* Reserve room for all buffers of a unit; wait if necessary. */
static void
have_room(struct play *p, const struct unit *u)
{
	bool fits = true;

	for (size_t i = 0; i < u->n; i++)
		p->used[u->o[i].proc] += play_bytes(p->s, &u->o[i]);
	for (size_t i = 0; i < p->s->nprocs; i++)
		fits &= p->used[i] <= p->cfg->room;
	for (size_t i = 0; i < u->n; i++)
		p->used[u->o[i].proc] -= play_bytes(p->s, &u->o[i]);
	if (!fits)
		play_drain(p, 0);
}

/* ---- submitting; refused operations are missing in the devices' recordings, and are compared */

static void
submit_run(struct play *p, const struct unit *u)
{
	struct play_comm *k = &p->comm[u->o[0].comm];
	struct gpusim_ops *list = gpusim_ops_new(p->s->comm[u->o[0].comm].nranks);

	for (size_t i = 0; i < u->n; i++)
		ops_collective_of(list, u->o[i].rank, &u->as[i].c);
	k->busy = true;
	gpusim_submit(k->all, list, GPUSIM_ASYNC, NULL);
	gpusim_ops_free(list);
}

static struct cmdq_command
command(const struct story_op *o, const struct play_op *as)
{
	const struct plan_algo *algo = NULL;
	bool pair = coll_is_sendrecv((enum gpusim_coll)o->coll);

	if (o->schedule)
		algo = &plan_algo_file;
	else
		plan_algo_find((enum gpusim_coll)o->coll, o->algo, &algo, NULL);
	return (struct cmdq_command){
	    .kind = pair ? CMDQ_SENDRECV : CMDQ_COLL,
	    .flags = o->redop == GPUSIM_PREMULSUM && coll_reduces((enum gpusim_coll)o->coll)
			 ? CMDQ_SCALAR
			 : 0,
	    .coll = o->coll,
	    .dtype = o->dtype,
	    .redop = o->redop,
	    .algo = pair || !algo ? 0 : (uint8_t)(plan_algo_number(algo) + 1),
	    .mark = o->schedule ? cmdq_algo_mark(as->algo) : 0,
	    .u.coll = {.send = as->send.addr,
		       .recv = as->recv.addr,
		       .count = o->nelem,
		       .root = o->root,
		       .scalar = o->scalar}};
}

/* Submit operations i to i + n - 1 of the unit: a set, or a single one. */
static enum rc
append(struct play *p, const struct unit *u, size_t i, size_t n, struct err *err)
{
	const struct story_op *o = &u->o[i];
	struct cmdq_command *c = must_alloc(n, sizeof *c);
	struct cmdq_bind **b = must_alloc(n, sizeof(struct cmdq_bind *));
	struct cmdq *q;
	enum rc rc = play_queue_of(p, o->proc, o->lane, &q, err);

	for (size_t k = 0; k < n && rc == RC_OK; k++) {
		c[k] = command(&u->o[i + k], &u->as[i + k]);
		b[k] = p->comm[o->comm].bind[o->rank];
	}
	if (rc == RC_OK)
		cmdq_append_colls(q, b, c, n, NULL);
	free(c);
	free(b);
	return p->dead[o->proc] ? RC_OK : rc;
}

static enum rc
submit_queued(struct play *p, const struct unit *u, struct err *err)
{
	enum rc rc = RC_OK;

	p->comm[u->o[0].comm].busy = true;
	for (size_t i = 0, n; i < u->n && rc == RC_OK; i += n) {
		n = 1;
		while (u->o[i].set && i + n < u->n && u->o[i + n].proc == u->o[i].proc &&
		       u->o[i + n].set == u->o[i].set)
			n++;
		rc = append(p, u, i, n, err);
	}
	return rc;
}

static enum rc
play_unit(struct play *p, size_t k, struct err *err)
{
	struct unit u;
	uint32_t comm = p->s->op[p->s->order[p->s->unit[k]]].comm;
	enum rc rc = play_make_comms(p, comm, err);

	if (rc != RC_OK)
		return rc;
	take_unit(p, k, &u);
	have_room(p, &u);
	for (size_t i = 0; i < u.n && rc == RC_OK; i++)
		rc = play_prepare(p, &u.o[i], &u.as[i], err);
	if (rc == RC_OK && u.o[0].by_queue)
		rc = submit_queued(p, &u, err);
	else if (rc == RC_OK)
		submit_run(p, &u);
	for (size_t i = p->s->unit[k]; i < p->s->unit[k + 1]; i++)
		p->played[p->s->op[p->s->order[i]].proc]++;
	p->comm[comm].left -= p->s->unit[k + 1] - p->s->unit[k];
	if (rc == RC_OK && (u.failed || u.alone || p->comm[comm].left == 0))
		play_drain(p, u.failed ? u.wait_ms : 0);
	if (rc == RC_OK && u.alone)
		disarm(p);
	if (p->comm[comm].left == 0)
		play_drop_comm(p, comm);
	free(u.o);
	free(u.as);
	return rc;
}

/* ---- all nodes */

static enum rc
begin(struct play *p, struct err *err)
{
	const struct story *s = p->s;
	enum rc rc = RC_OK;

	p->comm = must_alloc(s->ncomms + 1, sizeof *p->comm);
	p->base = must_alloc(s->nprocs + 1, sizeof *p->base);
	p->used = must_alloc(s->nprocs + 1, sizeof *p->used);
	p->played = must_alloc(s->nprocs + 1, sizeof *p->played);
	p->dead = must_alloc(s->nprocs + 1, sizeof *p->dead);
	p->fault_done = must_alloc(s->nfaults + 1, sizeof *p->fault_done);
	p->map->comm = must_alloc(s->ncomms + 1, sizeof *p->map->comm);
	for (size_t i = 0; i < s->nprocs && rc == RC_OK; i++)
		rc = api(gpusim_malloc(p->cfg->g, p->cfg->device[i], p->cfg->room, GPUSIM_LEASE,
				       &p->base[i]),
			 err);
	return rc;
}

enum rc
replay_play(const struct replay_config *cfg, struct replay_map *out, struct err *err)
{
	struct play p = {.cfg = cfg, .s = cfg->story, .map = out};
	enum rc rc;

	*out = (struct replay_map){0};
	rc = begin(&p, err);
	if (rc == RC_OK)
		rc = play_add_algos(&p, err);
	for (size_t k = 0; k < p.s->nunits && rc == RC_OK; k++)
		rc = play_unit(&p, k, err);
	if (rc == RC_OK)
		play_drain(&p, cfg->wait_ms);
	play_drop_all(&p);
	free(p.comm);
	free(p.queue);
	free(p.base);
	free(p.used);
	free(p.played);
	free(p.dead);
	free(p.fault_done);
	return rc;
}

void
replay_map_fini(struct replay_map *m)
{
	free(m->comm);
	free(m->queue);
	*m = (struct replay_map){0};
}

uint64_t
replay_room(const struct story *s)
{
	uint64_t most = REPLAY_ROOM_MIN;

	for (size_t k = 0; k < s->nunits; k++)
		for (uint32_t i = s->unit[k], j; i < s->unit[k + 1]; i = j) {
			uint64_t sum = 0;

			for (j = i; j < s->unit[k + 1] &&
				    s->op[s->order[j]].proc == s->op[s->order[i]].proc;
			     j++)
				if (__builtin_add_overflow(sum, play_bytes(s, &s->op[s->order[j]]),
							   &sum))
					sum = UINT64_MAX / 4;
			if (sum > most)
				most = sum;
		}
	return most;
}
