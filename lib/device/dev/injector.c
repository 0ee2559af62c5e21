#include "dev/injector.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "dev/times.h"
#include "base/freeze.h"
#include "coll/fault.h"
#include "dev/taping.h"
#include "mem/num.h"
#include "wire/frame.h"
#include "xport/fault.h"

struct injector *
injector_new(struct xport *x, struct tape *tape, void (*say)(const char *line))
{
	struct injector *i = calloc(1, sizeof *i);

	if (!i)
		return NULL;
	inject_init(&i->table);
	i->xport = x;
	i->tape = tape;
	i->say = say;
	return i;
}

void
injector_free(struct injector *i)
{
	if (!i)
		return;
	inject_fini(&i->table);
	free(i);
}

static void
say(const struct injector *i, const char *line)
{
	if (i->say)
		i->say(line);
}

/* A fault takes place now, at a point of an operation or not. */
static void
record(struct injector *i, const struct program *p, const struct inject_point *at, const char *line)
{
	struct flight_mark m = {.what = FLIGHT_MARK_FAULT};

	if (p) {
		m.comm = p->comm;
		m.epoch = p->epoch;
		m.rank = p->rank + 1;
		m.seq = at->op;
		m.step = at->step;
	}
	device_recorder_mark(i->recorder, &m, line);
}

static bool
is_of_frames(const struct gpusim_fault *f)
{
	return f->kind == GPUSIM_FAULT_DROP || f->kind == GPUSIM_FAULT_CORRUPT ||
	       f->kind == GPUSIM_FAULT_CUT;
}

enum rc
injector_add(struct injector *i, const struct gpusim_fault *f, struct err *err)
{
	char text[GPUSIM_TEXT], line[GPUSIM_TEXT + 32];
	enum rc rc = fault_check(f, err);

	if (rc == RC_OK && is_of_frames(f))
		rc = xport_fault_check(i->xport, f, err);
	if (rc != RC_OK)
		return rc;
	if (f->at || f->kind == GPUSIM_FAULT_SLOW) {
		rc = inject_arm(&i->table, f, clock_now_ns(), err);
		fault_show(f, text, sizeof text);
		if (rc == RC_OK && !f->at)
			record(i, NULL, NULL, text);
		return rc;
	}
	if (!is_of_frames(f)) { /* kill and stop wait until their request has been answered */
		pthread_mutex_lock(&i->table.lock);
		if (i->nsoon == INJECT_SOON)
			rc = err_set(err, RC_BUSY, "%d such faults already wait", INJECT_SOON);
		else
			i->soon[i->nsoon++] = *f;
		pthread_mutex_unlock(&i->table.lock);
		return rc;
	}
	fault_show(f, text, sizeof text);
	rc = xport_fault_set(i->xport, f, err);
	if (rc == RC_OK) {
		inject_fired(&i->table, 1);
		taping_fault(i->tape, f, NULL, NULL, 0, 0);
		snprintf(line, sizeof line, "inject: %s", text);
		say(i, line);
		record(i, NULL, NULL, text);
	}
	return rc;
}

void
injector_clear(struct injector *i)
{
	inject_clear(&i->table);
	xport_fault_clear(i->xport);
	record(i, NULL, NULL, "cleared");
}

/* The process's own faults. */
static void
carry_out(const struct gpusim_fault *f)
{
	if (f->kind == GPUSIM_FAULT_KILL)
		freeze_kill();
	freeze_stop(f->for_ns);
}

void
injector_tick(struct injector *i)
{
	struct gpusim_fault f = {0};
	bool any = false;
	char line[64];

	if (!i)
		return;
	pthread_mutex_lock(&i->table.lock);
	if (i->nsoon) {
		any = true;
		f = i->soon[0];
		for (unsigned k = 1; k < i->nsoon; k++)
			i->soon[k - 1] = i->soon[k];
		i->nsoon--;
		i->table.fired++;
	}
	pthread_mutex_unlock(&i->table.lock);
	if (!any)
		return;
	snprintf(line, sizeof line, "inject: %s now", fault_name(f.kind));
	say(i, line);
	taping_fault(i->tape, &f, NULL, NULL, 0, 0);
	record(i, NULL, NULL, line);
	carry_out(&f);
}

/* The memory that a step reads, or at the end the result; elements of *size bytes. NULL: none. */
static unsigned char *
data_at(const struct inst_coll *c, uint32_t step, uint64_t *count, size_t *size)
{
	const struct plan_step *s;
	unsigned buf;
	uint64_t off;

	*size = c->elem;
	*count = c->shape.out;
	if (step == FAULT_AT_END)
		return c->base[PLAN_OUT];
	s = &c->plan.step[step - 1];
	buf = s->kind == STEP_FINISH ? s->dst : s->src;
	off = s->kind == STEP_FINISH ? s->dst_off : s->src_off;
	if (s->kind == STEP_RECV || s->kind == STEP_SYNC || buf >= PLAN_NBUFS || !c->base[buf])
		return NULL;
	*size = buf == PLAN_WIDE ? sizeof(float) : c->elem;
	*count = s->count;
	return c->base[buf] + off * *size;
}

/* The seed selects element and bit: a high bit; of a NaN a bit that makes it a number. False: no memory. */
static bool
flip(const struct gpusim_fault *f, const struct inst_coll *c, uint32_t step, char *text,
     size_t room)
{
	uint64_t count = 0, h = (f->seed + 1) * 0x9e3779b97f4a7c15u, i;
	char was[NUM_MAX_CHARS], is[NUM_MAX_CHARS];
	size_t size, nwas, nis;
	unsigned char *at = data_at(c, step, &count, &size), top;
	enum gpusim_dtype t = size == c->elem ? c->args.dtype : GPUSIM_F32;

	h ^= h >> 29;
	if (!at || !count) {
		snprintf(text, room, ": not done: %s",
			 step == FAULT_AT_END ? "the rank has no result"
					      : "the step reads nothing of the rank's");
		return false;
	}
	i = h % count;
	at += i * size;
	top = at[size - 1];
	nwas = num_format(t, at, was);
	do {
		at[size - 1] = top ^ (unsigned char)(1u << (h >> 32) % 6);
		nis = num_format(t, at, is);
		h += UINT64_C(1) << 32;
	} while (nis == nwas && memcmp(was, is, nwas) == 0);
	snprintf(text, room, ", element %" PRIu64 ": was %.*s, is %.*s", i, (int)nwas, was,
		 (int)nis, is);
	return true;
}

/* A fault has reached its point. */
static void
take_place(struct injector *i, struct gpusim_fault *f, const struct program *p,
	   const struct inst_coll *c, uint64_t op, const struct inject_point *at)
{
	char line[GPUSIM_TEXT + 512], step[24];
	struct err err = {0};
	bool done = true;
	int n;

	snprintf(step, sizeof step, at->step == FAULT_AT_END ? "end" : "step%u", at->step);
	n = snprintf(line, sizeof line,
		     "inject: %s at %s#%" PRIu64 ".%s, %s, communicator %" PRIu64 ", rank %u",
		     fault_name(f->kind), coll_name(at->coll), at->op, step, inst_coll_algo(c),
		     at->comm, p->rank);

	f->comm.id = at->comm;
	f->coll = (int)at->coll;
	if (f->kind == GPUSIM_FAULT_FLIP)
		done = flip(f, c, at->step, line + n, sizeof line - (size_t)n);
	if (is_of_frames(f) && xport_fault_set(i->xport, f, &err) != RC_OK) {
		done = false;
		snprintf(line + n, sizeof line - (size_t)n, ": not done: %s", err.text);
	}
	say(i, line);
	inject_fired(&i->table, done);
	taping_fault(i->tape, f, p, c, op, at->step);
	record(i, p, at, line);
	if (!is_of_frames(f) && f->kind != GPUSIM_FAULT_FLIP)
		carry_out(f);
}

static struct inject_point
point_of(const struct program *p, const struct inst_coll *c, uint64_t op, uint32_t step)
{
	/* A pair's number holds its ranks too, unless it takes part in the count. */
	return (struct inject_point){.comm = p->comm,
				     .coll = c->args.coll,
				     .op = op < FRAME_OP_MAX ? op : op & (FRAME_SENDRECV_MAX - 1),
				     .step = step};
}

void
injector_end(struct injector *i, const struct program *p, const struct inst_coll *c, uint64_t op)
{
	struct inject_point at = point_of(p, c, op, FAULT_AT_END);
	struct gpusim_fault f;

	while (inject_due(&i->table, &at, &f))
		take_place(i, &f, p, c, op, &at);
}

void
injector_step(struct injector *i, const struct program *p, const struct inst_coll *c, uint64_t op,
	      size_t step)
{
	struct inject_point at = point_of(p, c, op, (uint32_t)step + 1);
	struct gpusim_fault f;
	uint64_t ns, until, now;

	while (inject_due(&i->table, &at, &f))
		take_place(i, &f, p, c, op, &at);
	ns = inject_slow_ns(&i->table, &at, clock_now_ns());
	if (ns == 0)
		return;
	taping_fault(i->tape,
		     &(struct gpusim_fault){.kind = GPUSIM_FAULT_SLOW, .by_ns = ns, .count = 1}, p,
		     c, op, at.step);
	/* Wait, at most as long as the communicator lives. */
	until = clock_now_ns() + ns;
	while ((now = clock_now_ns()) < until && xport_is_live(i->xport, p->comm, p->epoch))
		clock_sleep(until - now < FAULT_SLICE_NS ? until - now : FAULT_SLICE_NS);
}
