/*
 * simulate.c - a discrete-event run of plans.
 *
 * Which receive takes which send is known before: the k-th of a pair of ranks the k-th. The rank
 * with the least time does its next step; one whose message is not yet posted leaves the heap until
 * it is. So messages are posted, and ways reserved, in order of time.
 */
#include "coll/simulate.h"

#include <math.h>
#include <stdlib.h>

#define NOBODY UINT32_MAX

struct meeting {
	uint64_t pair; /* from << 32 | to */
	size_t at;     /* number of the step among all ranks' */
};

struct sim {
	const struct plan *plans;
	uint32_t nranks;
	size_t elem;
	const struct cost_model *m;
	size_t *first;	  /* by rank: the number of its first step */
	size_t *pc;	  /* by rank */
	double *clock;	  /* by rank */
	double *out, *in; /* by rank: when the way is free */
	size_t *send_of;  /* by step: of a receive, the number of its send */
	double *arrival;  /* by step: of a send; NAN until it is posted */
	double *nbytes;	  /* by step: of a send */
	uint32_t *waiter; /* by step: of a send, the rank that waits for it */
	uint32_t *heap;	  /* ranks, least clock first */
	uint32_t nheap;
};

static int
by_pair(const void *x, const void *y)
{
	const struct meeting *a = x, *b = y;

	if (a->pair != b->pair)
		return a->pair < b->pair ? -1 : 1;
	return a->at < b->at ? -1 : a->at > b->at;
}

/* All sends and all receives, by pair and order. */
static void
collect(const struct sim *s, struct meeting *sends, struct meeting *recvs, size_t *nsend,
	size_t *nrecv)
{
	*nsend = *nrecv = 0;
	for (uint32_t r = 0; r < s->nranks; r++) {
		for (size_t i = 0; i < s->plans[r].nstep; i++) {
			const struct plan_step *step = &s->plans[r].step[i];

			if (step->kind == STEP_SEND)
				sends[(*nsend)++] = (struct meeting){(uint64_t)r << 32 | step->peer,
								     s->first[r] + i};
			else if (step->kind == STEP_RECV || step->kind == STEP_RECV_REDUCE)
				recvs[(*nrecv)++] = (struct meeting){(uint64_t)step->peer << 32 | r,
								     s->first[r] + i};
		}
	}
	qsort(sends, *nsend, sizeof *sends, by_pair);
	qsort(recvs, *nrecv, sizeof *recvs, by_pair);
}

static enum rc
match(struct sim *s, size_t nstep, struct err *err)
{
	struct meeting *sends = alloc_zeroed(nstep + 1, sizeof *sends);
	struct meeting *recvs = alloc_zeroed(nstep + 1, sizeof *recvs);
	size_t nsend, nrecv;
	enum rc rc = RC_OK;

	if (!sends || !recvs) {
		rc = err_set(err, RC_NOMEM, "no memory to simulate %u ranks", s->nranks);
		goto out;
	}
	collect(s, sends, recvs, &nsend, &nrecv);
	for (size_t i = 0; i < nsend && i < nrecv && rc == RC_OK; i++) {
		if (sends[i].pair != recvs[i].pair)
			rc = RC_FAILED;
		s->send_of[recvs[i].at] = sends[i].at;
	}
	if (nsend != nrecv || rc != RC_OK)
		rc = err_set(err, RC_FAILED, "%zu sends do not meet %zu receives", nsend, nrecv);
out:
	free(sends);
	free(recvs);
	return rc;
}

/* ---- the heap */

static bool
before(const struct sim *s, uint32_t a, uint32_t b)
{
	return s->clock[a] < s->clock[b] || (s->clock[a] == s->clock[b] && a < b);
}

static void
push(struct sim *s, uint32_t r)
{
	uint32_t i = s->nheap++;

	for (; i && before(s, r, s->heap[(i - 1) / 2]); i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = r;
}

static uint32_t
pop(struct sim *s)
{
	uint32_t top = s->heap[0], r = s->heap[--s->nheap], i = 0, k;

	for (; (k = 2 * i + 1) < s->nheap; i = k) {
		if (k + 1 < s->nheap && before(s, s->heap[k + 1], s->heap[k]))
			k++;
		if (!before(s, s->heap[k], r))
			break;
		s->heap[i] = s->heap[k];
	}
	s->heap[i] = r;
	return top;
}

/* ---- the run */

/* Partial sums are f32. */
static double
message_bytes(const struct sim *s, const struct plan_step *send)
{
	size_t elem = send->src == PLAN_WIDE ? sizeof(float) : s->elem;

	return (double)send->count * (double)elem;
}

static void
post(struct sim *s, uint32_t r, const struct plan_step *step, size_t number)
{
	double takes = s->m->alpha_us + s->m->beta_us * message_bytes(s, step);
	double start = fmax(s->clock[r], s->out[r]);

	s->out[r] = start + takes;
	s->in[step->peer] = fmax(start, s->in[step->peer]) + takes;
	s->arrival[number] = s->in[step->peer];
	s->nbytes[number] = message_bytes(s, step);
	if (s->waiter[number] != NOBODY)
		push(s, s->waiter[number]);
}

/* The rank's next step; false: it has to wait. */
static bool
do_step(struct sim *s, uint32_t r)
{
	const struct plan_step *step = &s->plans[r].step[s->pc[r]];
	size_t number = s->first[r] + s->pc[r], send;

	switch ((enum plan_step_kind)step->kind) {
	case STEP_SEND:
		post(s, r, step, number);
		break;
	case STEP_RECV:
	case STEP_RECV_REDUCE:
		send = s->send_of[number];
		if (isnan(s->arrival[send])) {
			s->waiter[send] = r;
			return false;
		}
		s->clock[r] = fmax(s->clock[r], s->arrival[send]);
		if (step->kind == STEP_RECV)
			break;
		s->clock[r] += s->m->gamma_us * s->nbytes[send];
		break;
	case STEP_COPY:
	case STEP_REDUCE:
		s->clock[r] += s->m->gamma_us * (double)step->count *
			       (double)(step->dst == PLAN_WIDE ? sizeof(float) : s->elem);
		break;
	default:
		break;
	}
	s->pc[r]++;
	return true;
}

static enum rc
run(struct sim *s, double *us, struct err *err)
{
	double last = 0;

	for (uint32_t r = 0; r < s->nranks; r++)
		push(s, r);
	while (s->nheap) {
		uint32_t r = pop(s);

		if (s->pc[r] < s->plans[r].nstep && do_step(s, r))
			push(s, r);
	}
	for (uint32_t r = 0; r < s->nranks; r++) {
		if (s->pc[r] < s->plans[r].nstep)
			return err_set(err, RC_FAILED, "rank %u waits for ever in step %zu", r,
				       s->pc[r]);
		last = fmax(last, s->clock[r]);
	}
	*us = last;
	return RC_OK;
}

enum rc
plan_simulate(const struct plan *plans, uint32_t nranks, size_t elem, const struct cost_model *m,
	      double *us, struct err *err)
{
	struct sim s = {.plans = plans, .nranks = nranks, .elem = elem, .m = m};
	size_t nstep = 0;
	enum rc rc;

	s.first = alloc_zeroed(nranks, sizeof *s.first);
	for (uint32_t r = 0; s.first && r < nranks; r++) {
		s.first[r] = nstep;
		nstep += plans[r].nstep;
	}
	s.pc = alloc_zeroed(nranks, sizeof *s.pc);
	s.clock = alloc_zeroed(nranks, sizeof *s.clock);
	s.out = alloc_zeroed(nranks, sizeof *s.out);
	s.in = alloc_zeroed(nranks, sizeof *s.in);
	s.heap = alloc_zeroed(nranks, sizeof *s.heap);
	s.send_of = alloc_zeroed(nstep + 1, sizeof *s.send_of);
	s.arrival = alloc_zeroed(nstep + 1, sizeof *s.arrival);
	s.nbytes = alloc_zeroed(nstep + 1, sizeof *s.nbytes);
	s.waiter = alloc_zeroed(nstep + 1, sizeof *s.waiter);
	if (!s.first || !s.pc || !s.clock || !s.out || !s.in || !s.heap || !s.send_of ||
	    !s.arrival || !s.nbytes || !s.waiter) {
		rc = err_set(err, RC_NOMEM, "no memory to simulate %u ranks", nranks);
		goto out;
	}
	for (size_t i = 0; i < nstep; i++) {
		s.arrival[i] = NAN;
		s.waiter[i] = NOBODY;
	}
	rc = match(&s, nstep, err);
	if (rc == RC_OK)
		rc = run(&s, us, err);
out:
	free(s.first);
	free(s.pc);
	free(s.clock);
	free(s.out);
	free(s.in);
	free(s.heap);
	free(s.send_of);
	free(s.arrival);
	free(s.nbytes);
	free(s.waiter);
	return rc;
}
