/* Carries out instructions of a run, on a stream's thread. */
#include <string.h>

#include "base/clock.h"
#include "dev/stream_impl.h"
#include "dev/times.h"

uint64_t
run_op(const struct run *r, const struct inst_coll *c, uint64_t iteration)
{
	const struct run_spec *s = &r->spec;

	return c->fixed_op ? c->fixed_op : s->first_op + iteration * s->stride + c->op_offset;
}

static enum rc
run_one(struct stream *st, const struct run *r, uint64_t iteration, uint32_t at, struct err *err)
{
	const struct program_env *env = &st->all->env;
	const struct program *p = r->spec.program;
	const struct inst *i = &p->inst[at];
	const struct event_number *e = &r->event[at];
	union kernel_value v[KERNEL_MAX_PARAMS];

	switch (i->kind) {
	case INST_KERNEL:
		memcpy(v, i->kernel.v, sizeof v);
		for (unsigned k = 0; i->kernel.stepped && k < KERNEL_MAX_PARAMS; k++)
			if (i->kernel.step[k])
				v[k].u += i->kernel.step[k] * (r->spec.first_iteration + iteration);
		return kernel_run(i->kernel.kernel, env->mem, v, err);
	case INST_MEMSET:
		if (i->bytes.nbytes)
			memset(i->bytes.dst, i->bytes.value, i->bytes.nbytes);
		return RC_OK;
	case INST_COPY:
		if (i->bytes.nbytes)
			memmove(i->bytes.dst, i->bytes.src, i->bytes.nbytes);
		return RC_OK;
	case INST_RECORD:
		event_record(i->event.event, e->first + iteration * e->step);
		return RC_OK;
	case INST_WAIT:
		return event_wait(i->event.event, e->first + iteration * e->step,
				  deadline_in_ms(EVENT_WAIT_MS), err);
	case INST_COLL:
		return collective_run(env->xport, &r->tickets,
				      r->tickets.first + iteration * p->ncoll + i->coll.ticket, p,
				      &i->coll, run_op(r, &i->coll, iteration), &st->recorder, err);
	case INST_SENDRECV:
		break;
	}
	return err_set(err, RC_INTERNAL, "unknown instruction");
}

/* An instruction without peers has ended. */
static void
record(struct stream *st, const struct inst *i, const struct flight_now *now, enum rc rc)
{
	struct recorder *m = &st->recorder;
	struct flight_kernel k = {.result = (uint8_t)rc, .begin = now->since};
	struct flight_copy c = {.what = i->kind == INST_COPY ? FLIGHT_COPY_DEVICE : FLIGHT_MEMSET,
				.result = (uint8_t)rc,
				.begin = now->since};

	recorder_clock(m);
	if (!flight_on(&m->w))
		return;
	if (i->kind == INST_KERNEL) {
		k.argbytes = i->kernel.argbytes;
		memcpy(k.name, now->name, sizeof k.name);
		recorder_kernel(m, &k);
	} else if (i->kind == INST_COPY || i->kind == INST_MEMSET) {
		c.nbytes = i->bytes.nbytes;
		if (c.nbytes)
			c.dst = devmem_addr(st->all->env.mem, i->bytes.dst);
		if (c.nbytes && i->kind == INST_COPY)
			c.src = devmem_addr(st->all->env.mem, i->bytes.src);
		recorder_copy(m, &c);
	} else if (i->kind == INST_WAIT) {
		recorder_pause(m, FLIGHT_PAUSE_EVENT, now->queue, now->since);
	}
}

enum rc
execute(struct stream *st, const struct segment *g, uint64_t iteration, size_t from, size_t *ndone,
	struct err *err)
{
	const struct program *p = g->run->spec.program;
	const struct inst *i = &p->inst[g->at[from]];
	const char *name = inst_name(i);
	bool shown = i->kind == INST_KERNEL || i->kind == INST_WAIT;
	struct flight_now now = {.what =
				     i->kind == INST_WAIT ? FLIGHT_TASK_EVENT : FLIGHT_TASK_KERNEL};
	size_t n = 0;
	enum rc rc;

	*ndone = 1;
	/* Iterations have phases of their own. */
	if (i->kind != INST_WAIT && i->kind != INST_RECORD)
		recorder_phase(&st->recorder, i->phase ? (iteration << 32) + i->phase : 0,
			       i->label);
	if (i->kind == INST_SENDRECV) { /* with those that follow */
		for (; from + n < g->n && p->inst[g->at[from + n]].kind == INST_SENDRECV; n++) {
			const struct inst_coll *c = &p->inst[g->at[from + n]].coll;

			g->pair[n] = (struct pair){.c = c, .op = run_op(g->run, c, iteration)};
		}
		*ndone = n;
		return pairs_run(st->all->env.xport, p, g->pair, n, &st->recorder, err);
	}
	now.since = recorder_now(&st->recorder);
	if (shown) {
		/* It may take long: show it in the recorder. */
		if (i->kind == INST_WAIT)
			now.queue = event_id(i->event.event);
		else
			memcpy(now.name, name, strnlen(name, FLIGHT_NAME - 5));
		recorder_task(&st->recorder, &now);
	}
	rc = run_one(st, g->run, iteration, g->at[from], err);
	if (shown)
		recorder_task(&st->recorder, NULL);
	if (i->kind == INST_COLL)
		return rc;
	record(st, i, &now, rc);
	/* A kernel's message begins with its name. */
	if (rc != RC_OK &&
	    (strncmp(err->text, name, strlen(name)) != 0 || err->text[strlen(name)] != ':'))
		err_prefix(err, "%s", name);
	return rc;
}
