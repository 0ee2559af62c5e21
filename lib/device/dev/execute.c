#include "dev/stream_impl.h"

#include <string.h>

#include "base/clock.h"
#include "dev/times.h"

static enum rc
run_kernel(const struct execution *x, const struct inst_kernel *k, uint64_t iteration,
	   struct err *err)
{
	union kernel_value v[KERNEL_MAX_PARAMS];

	iteration += x->first_iteration;
	if (!k->stepped || iteration == 0)
		return kernel_run(k->kernel, x->mem, k->v, err);
	memcpy(v, k->v, sizeof v);
	for (unsigned i = 0; i < KERNEL_MAX_PARAMS; i++)
		if (k->step[i])
			v[i].u += k->step[i] * iteration;
	return kernel_run(k->kernel, x->mem, v, err);
}

uint64_t
execution_number(const struct execution *x, const struct inst_coll *c, uint64_t iteration)
{
	return c->fixed_op ? c->fixed_op : x->first_op + iteration * x->stride + c->op_offset;
}

/* Run the sends and receives at the head of the list together. */
static enum rc
run_pairs(const struct execution *x, uint64_t iteration, const uint32_t *at, size_t n,
	  size_t *ndone, struct err *err)
{
	size_t k = 1;

	while (k < n && x->program->inst[at[k]].kind == INST_SENDRECV)
		k++;
	for (size_t i = 0; i < k; i++) {
		const struct inst_coll *c = &x->program->inst[at[i]].coll;

		x->pair[i] = (struct pair){.c = c, .op = execution_number(x, c, iteration)};
	}
	*ndone = k;
	return pairs_run(x->xport, x->program, x->pair, k, x->recorder, err);
}

static enum rc
run_one(const struct execution *x, uint64_t iteration, uint32_t at, struct err *err)
{
	const struct inst *i = &x->program->inst[at];
	const struct event_number *e = &x->event[at];

	switch (i->kind) {
	case INST_KERNEL:
		return run_kernel(x, &i->kernel, iteration, err);
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
		return collective_run(
		    x->xport, x->tickets,
		    x->tickets->first + iteration * x->program->ncoll + i->coll.ticket, x->program,
		    &i->coll, execution_number(x, &i->coll, iteration), x->recorder, err);
	case INST_SENDRECV:
		break;
	}
	return err_set(err, RC_INTERNAL, "unknown instruction");
}

/* An instruction without peers has ended. */
static void
record(const struct execution *x, const struct inst *i, const struct flight_now *now, enum rc rc)
{
	struct recorder *m = x->recorder;
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
			c.dst = devmem_addr(x->mem, i->bytes.dst);
		if (c.nbytes && i->kind == INST_COPY)
			c.src = devmem_addr(x->mem, i->bytes.src);
		recorder_copy(m, &c);
	} else if (i->kind == INST_WAIT) {
		recorder_pause(m, FLIGHT_PAUSE_EVENT, now->queue, now->since);
	}
}

enum rc
execute(const struct execution *x, uint64_t iteration, const uint32_t *at, size_t n, size_t *ndone,
	struct err *err)
{
	const struct inst *i = &x->program->inst[at[0]];
	const char *name = inst_name(i);
	bool shown = x->recorder && (i->kind == INST_KERNEL || i->kind == INST_WAIT);
	struct flight_now now;
	enum rc rc;

	*ndone = 1;
	if (i->kind == INST_SENDRECV)
		return run_pairs(x, iteration, at, n, ndone, err);
	now = (struct flight_now){.what =
				      i->kind == INST_WAIT ? FLIGHT_TASK_EVENT : FLIGHT_TASK_KERNEL,
				  .since = x->recorder ? recorder_now(x->recorder) : 0};
	if (shown) {
		/* It may take long: show it in the recorder. */
		if (i->kind == INST_WAIT)
			now.queue = event_id(i->event.event);
		else
			memcpy(now.name, name, strnlen(name, FLIGHT_NAME - 5));
		recorder_task(x->recorder, &now);
	}
	rc = run_one(x, iteration, at[0], err);
	if (shown)
		recorder_task(x->recorder, NULL);
	if (x->recorder && i->kind != INST_COLL)
		record(x, i, &now, rc);
	/* A kernel's message begins with its name. */
	if (rc != RC_OK && i->kind != INST_COLL &&
	    (strncmp(err->text, name, strlen(name)) != 0 || err->text[strlen(name)] != ':'))
		err_prefix(err, "%s", name);
	return rc;
}
