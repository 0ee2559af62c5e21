/* Sends and receives that run together, on one thread. */
#include <stdbool.h>
#include <stdlib.h>

#include "dev/collective_impl.h"
#include "dev/injector.h"
#include "dev/taping.h"

static bool
steps_left(const struct pair *q)
{
	return q->next < q->c->plan.nstep;
}

/* The peer and direction of the pair's next step. A pair has one peer in all steps; a pair without steps
 * never waits. */
static uint32_t
waits_for(const struct pair *q, enum xport_way *way)
{
	const struct plan *plan = &q->c->plan;

	*way = q->c->args.coll == GPUSIM_RECV ? XPORT_RECV
	       : steps_left(q)		      ? XPORT_SEND
					      : XPORT_TAKEN;
	return plan->step[steps_left(q) ? q->next : plan->nstep - 1].peer;
}

/* Several pairs that are run together. */
struct set {
	const struct program *p;
	struct pair *pair;
	size_t n;
	struct recorder *recorder;
	uint64_t begin; /* ticks */
	uint8_t ways;	/* FLIGHT_SENDS, FLIGHT_RECEIVES */
};

/* End a pair; if it has failed, with *err. */
static enum rc
end_pair(const struct set *t, struct pair *q, enum xport_ending how, struct err *err)
{
	enum rc rc;

	if (how == XPORT_GIVE_UP)
		collective_involve(&q->o, q->c, 0);
	q->open = false;
	rc = xport_end(&q->o, how, err);
	if (t->recorder) {
		collective_name(t->recorder, t->p, q->c, q->op, t->begin);
		collective_record_end(t->recorder, q->c, &q->o, rc);
	}
	return rc;
}

static enum rc
do_step(const struct set *t, struct pair *q, struct err *err)
{
	if (t->recorder && t->recorder->traces) {
		collective_name(t->recorder, t->p, q->c, q->op, t->begin);
		return collective_step_traced(t->recorder, &q->o, q->c, q->next, t->p->nranks, err);
	}
	return collective_step(&q->o, q->c, &q->c->plan.step[q->next], t->p->nranks, err);
}

/* The message of a failure, with the name of the operation. */
static enum rc
name_it(const struct pair *q, struct err *err)
{
	return err_prefix(err, "%s", coll_name(q->c->args.coll));
}

/* Do the steps that can be done without waiting, and end the pair when it can; *moved is set when
 * anything was done. */
static enum rc
advance(const struct set *t, struct pair *q, bool *moved, struct err *err)
{
	enum xport_way way;
	enum rc rc = RC_OK;

	while (rc == RC_OK && steps_left(q)) {
		uint32_t peer = waits_for(q, &way);

		if (!xport_ready(&q->o, peer, way))
			return RC_OK;
		inject_step(t->p, q->c, q->op, q->next);
		rc = do_step(t, q, err);
		q->next += rc == RC_OK;
		*moved = true;
	}
	if (rc != RC_OK)
		return rc;
	/* A receive ends as soon as it is done, so that its sender is notified. */
	if (q->next > 0 && q->c->args.coll == GPUSIM_SEND) {
		uint32_t peer = waits_for(q, &way);

		if (!xport_ready(&q->o, peer, way))
			return RC_OK;
	}
	*moved = true;
	return end_pair(t, q, XPORT_COMPLETE, err);
}

/* Try all pairs once. *stuck is the first pair that has not ended, or NULL. */
static enum rc
go_round(const struct set *t, struct pair **stuck, bool *moved, struct err *err)
{
	struct pair *q = t->pair;
	enum rc rc = RC_OK;

	*stuck = NULL;
	*moved = false;
	for (size_t i = 0; i < t->n && rc == RC_OK; i++) {
		if (!q[i].open)
			continue;
		rc = advance(t, &q[i], moved, err);
		if (rc != RC_OK)
			return name_it(&q[i], err);
		if (q[i].open && !*stuck)
			*stuck = &q[i];
	}
	return rc;
}

static enum rc
drive(const struct set *t, struct err *err)
{
	struct pair *q = t->pair;
	uint64_t deadline = xport_deadline(&q[0].o), seen = 0;
	struct pair *stuck;
	bool moved;
	enum rc rc;

	while ((rc = go_round(t, &stuck, &moved, err)) == RC_OK && stuck) {
		enum xport_way way;
		uint32_t peer;
		size_t step = steps_left(stuck) ? stuck->next : stuck->next - 1;

		/* Anything that moves after this reading ends the wait, so try all pairs once more before
		 * waiting. */
		if (moved || seen != xport_moves(&stuck->o)) {
			seen = xport_moves(&stuck->o);
			deadline = moved ? xport_deadline(&stuck->o) : deadline;
			continue;
		}
		peer = waits_for(stuck, &way);
		collective_record_begin(t->recorder, t->p, stuck->c, stuck->op, t->begin, t->ways);
		recorder_step(t->recorder, step + 1, stuck->c->plan.step[step].kind + 1u,
			      stuck->c->plan.step[step].count * stuck->c->elem);
		rc = xport_wait(&stuck->o, peer, way, seen, deadline, err);
		if (rc != RC_OK)
			return name_it(stuck, err);
		for (size_t i = 0; i < t->n && rc == RC_OK; i++)
			if (q[i].open)
				rc = xport_poll(&q[i].o, err);
		if (rc != RC_OK)
			return rc;
	}
	return rc;
}

static enum rc
run_set(struct xport *x, const struct program *p, struct pair *q, size_t n,
	struct recorder *recorder, struct err *err)
{
	struct xport_opening how = {
	    .comm = p->comm, .epoch = p->epoch, .recorder = recorder, .pair = true};
	struct set t = {p, q, n, recorder, recorder ? recorder_now(recorder) : 0, 0};
	enum rc rc = RC_OK;

	for (size_t i = 0; i < n; i++) {
		how.nbytes += q[i].c->args.nelem * q[i].c->elem;
		t.ways |= q[i].c->args.coll == GPUSIM_SEND ? FLIGHT_SENDS : FLIGHT_RECEIVES;
	}
	collective_record_begin(recorder, p, q[0].c, q[0].op, t.begin, t.ways);
	for (size_t i = 0; i < n && rc == RC_OK; i++) {
		how.op = q[i].op;
		how.pair_mark = q[i].c->args.nelem * q[i].c->elem;
		rc = xport_begin(x, &how, &q[i].o, err);
		q[i].open = rc == RC_OK;
		if (rc != RC_OK)
			name_it(&q[i], err);
	}
	if (rc == RC_OK)
		rc = drive(&t, err);
	if (rc == RC_OK)
		recorder_end(recorder);
	for (size_t i = 0; i < n; i++)
		if (q[i].open)
			end_pair(&t, &q[i], XPORT_GIVE_UP, err);
	return rc;
}

enum rc
pairs_run(struct xport *x, const struct program *p, struct pair *q, size_t n,
	  struct recorder *recorder, struct err *err)
{
	enum rc rc;

	for (size_t i = 0; p->tape && i < n; i++)
		q[i].taped = taping_begin(p, q[i].c, q[i].op, q[0].taped);
	rc = run_set(x, p, q, n, recorder, err);
	for (size_t i = 0; p->tape && i < n; i++)
		taping_end(p, q[i].c, q[i].taped, rc, err);
	return rc;
}
