/*
 * What devices tell of their progress with their heartbeats: listed, and used to say who holds up the
 * others.
 */
#include "coord_harness.h"

/* A heartbeat of device `id` that is in step `step` of operation 0 of communicator 1. */
static void
beat(struct harness *h, uint64_t id, uint32_t step, uint64_t idle_ms, int waits_for)
{
	GpuSim__RegisterRequest q = GPU_SIM__REGISTER_REQUEST__INIT;
	GpuSim__Progress p = GPU_SIM__PROGRESS__INIT, *list = &p;
	struct h_metadata m;

	h_metadata(h, id, &m);
	p.commid = 1;
	p.epoch = 1;
	p.step = step;
	p.steps = 6;
	p.idlems = idle_ms;
	p.waitsfor = (uint32_t)(waits_for + 1);
	q.metadata = &m.m;
	q.progress = &list;
	q.n_progress = step != 0;
	h_ask(h, 1000 + id, REGISTER_DEVICE, registerdevice, &q);
}

static const GpuSim__CommSummary *
summary(struct harness *h)
{
	GpuSim__StatusRequest q = GPU_SIM__STATUS_REQUEST__INIT;

	return h_reply(h, h_ask(h, 9, STATUS, status, &q))->status->comms[0];
}

/* Rank r's run fails: nothing from rank `missing` for a second. */
static void
time_out(struct harness *h, uint64_t id, uint32_t missing)
{
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	GpuSim__Failure f = GPU_SIM__FAILURE__INIT;

	f.collective = (char *)"allreduce";
	f.algo = (char *)"ring";
	f.step = 2;
	f.steps = 6;
	f.n_missing = 1;
	f.missing = &missing;
	f.idlems = 1000;
	reply.code = RC_TIMEOUT;
	reply.message = (char *)"no progress for 1.0s";
	reply.failure = &f;
	h_end_call(h, (size_t)h_find(h, H_RUN, id), &reply, RC_OK, NULL);
}

static uint64_t
begin(struct harness *h, enum gpusim_on_failure policy)
{
	struct h_ops o;

	h_init(h);
	h->policy = policy;
	h_devices(h, 3);
	h_comm(h, 9, 3);
	h_allreduce(&o, 3, 30);
	return h_submit(h, 9, 1, &o, true);
}

static void
t_listed(void)
{
	const GpuSim__CommSummary *s;
	struct harness h;

	begin(&h, GPUSIM_ON_FAILURE_ABORT);
	ok(summary(&h)->n_progress == 0, "nothing is said: nothing is known");
	beat(&h, 2, 3, 40, 0);
	h.now += 100;
	s = summary(&h);
	ok(s->n_progress == 1 && s->progress[0]->rank == 1 && s->progress[0]->deviceid == 2 &&
	       s->progress[0]->step == 3 && s->progress[0]->steps == 6 &&
	       s->progress[0]->idlems == 140 && s->progress[0]->waitsfor == 1,
	   "a rank's progress is listed, and how long it stands");
	h.now += 100;
	beat(&h, 2, 3, 0, 0);
	ok(summary(&h)->progress[0]->idlems == 240, "the step counts, not what it waits for in it");
	beat(&h, 2, 4, 0, 0);
	ok(summary(&h)->progress[0]->idlems == 0, "a next one is progress");
	beat(&h, 2, 0, 0, 0);
	ok(summary(&h)->n_progress == 0, "a device that is in no operation says so by silence");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* Rank 0 waits for 1, 1 for 2, and 2 for nobody. */
static void
stand_still(struct harness *h)
{
	beat(h, 1, 2, 900, 1);
	beat(h, 2, 2, 900, 2);
	beat(h, 3, 2, 950, -1);
}

static void
t_stuck(void)
{
	struct harness h;
	uint64_t t = begin(&h, GPUSIM_ON_FAILURE_ABORT);

	stand_still(&h);
	time_out(&h, 1, 1);
	h_refuse(&h, (size_t)h_find(&h, H_RUN, 2), RC_ABORTED, "told to");
	h_refuse(&h, (size_t)h_find(&h, H_RUN, 3), RC_ABORTED, "told to");
	h_serve(&h);
	ok(h_failed(
	       &h, t, RC_TIMEOUT,
	       "comm 1: allreduce #0 (ring), step 2 of 6: rank 2 (device 0000000000000003) is "
	       "stuck: it is alive, and has been in step 2 of 6 for 0.9s; last progress 1.0s ago"),
	   "the rank that stands still is named, and not its victim that another waited for");
	h_fini(&h);
	t = begin(&h, GPUSIM_ON_FAILURE_SHRINK);
	stand_still(&h);
	time_out(&h, 1, 1);
	h_refuse(&h, (size_t)h_find(&h, H_RUN, 2), RC_ABORTED, "told to");
	h_refuse(&h, (size_t)h_find(&h, H_RUN, 3), RC_ABORTED, "told to");
	h_serve(&h);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->submit->nranks == 2 &&
	       summary(&h)->deviceids[0] == 1 && summary(&h)->deviceids[1] == 2,
	   "a communicator that shrinks goes on without it");
	h_fini(&h);
}

static void
t_apart(void)
{
	struct harness h;
	uint64_t t = begin(&h, GPUSIM_ON_FAILURE_ABORT);

	beat(&h, 1, 4, 900, 2);
	beat(&h, 2, 2, 900, 0);
	beat(&h, 3, 3, 900, 1);
	time_out(&h, 3, 1);
	h_refuse(&h, (size_t)h_find(&h, H_RUN, 1), RC_ABORTED, "told to");
	h_refuse(&h, (size_t)h_find(&h, H_RUN, 2), RC_ABORTED, "told to");
	h_serve(&h);
	ok(h_failed(
	       &h, t, RC_TIMEOUT,
	       "comm 1: allreduce #0 (ring), step 2 of 6: rank 1 (device 0000000000000002) "
	       "has received nothing from rank 0 (device 0000000000000001) for 0.9s; last progress "
	       "1.0s ago"),
	   "where all wait for each other, the link is named that starves the one least far");
	h_fini(&h);
}

/* The run of device `id` ends: so long it waited for each rank. */
static void
end_run(struct harness *h, uint64_t id, uint64_t w0, uint64_t w1, uint64_t w2)
{
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	GpuSim__RunResponse run = GPU_SIM__RUN_RESPONSE__INIT;
	uint64_t waited[3] = {w0, w1, w2};

	run.waitedns = waited;
	run.n_waitedns = 3;
	reply.body_case = GPU_SIM__REPLY__BODY_RUN;
	reply.run = &run;
	h_end_call(h, (size_t)h_find(h, H_RUN, id), &reply, RC_OK, NULL);
}

static bool
is_late(struct harness *h, uint32_t r, uint64_t operations, uint64_t sum, uint64_t max)
{
	GpuSim__GetCommStatusRequest q = GPU_SIM__GET_COMM_STATUS_REQUEST__INIT;
	const GpuSim__GetCommStatusResponse *s;
	const GpuSim__Lateness *l;

	q.commid = 1;
	q.lateness = true;
	s = h_reply(h, h_ask(h, 9, GET_COMM_STATUS, getcommstatus, &q))->getcommstatus;
	l = s->n_lateness == 3 ? s->lateness[r] : NULL;
	return l && l->rank == r && l->deviceid == r + 1 && l->operations == operations &&
	       l->sumns == sum && l->maxns == max;
}

static void
t_lateness(void)
{
	struct harness h;
	struct h_ops o;

	begin(&h, GPUSIM_ON_FAILURE_ABORT);
	/* A ring: rank 0 is late by 500, its successor 1 passes that on, and 2 to 0, a little. */
	end_run(&h, 1, 0, 0, 20);
	end_run(&h, 2, 500, 0, 0);
	end_run(&h, 3, 0, 490, 0);
	ok(is_late(&h, 0, 1, 480, 480) && is_late(&h, 1, 1, 0, 0) && is_late(&h, 2, 1, 0, 0),
	   "the rank that is late by itself is told, and not who waited for it");
	h_allreduce(&o, 3, 30);
	h_submit(&h, 9, 1, &o, true);
	/* All meet: two wait for the third. */
	end_run(&h, 1, 0, 100, 0);
	end_run(&h, 2, 0, 0, 0);
	end_run(&h, 3, 0, 90, 0);
	ok(is_late(&h, 0, 2, 480, 480) && is_late(&h, 1, 2, 100, 100) && is_late(&h, 2, 2, 0, 0),
	   "runs add up, and who was waited for by several is as late as the longest wait");
	h_submit(&h, 9, 1, &o, true);
	end_run(&h, 1, 0, 0, 7000);
	h_refuse(&h, (size_t)h_find(&h, H_RUN, 2), RC_FAILED, "kaputt");
	h_refuse(&h, (size_t)h_find(&h, H_RUN, 3), RC_ABORTED, "told to");
	h_serve(&h);
	ok(is_late(&h, 2, 2, 0, 0), "a run that fails does not count");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

int
main(void)
{
	t_listed();
	t_stuck();
	t_apart();
	t_lateness();
	return tap_done();
}
