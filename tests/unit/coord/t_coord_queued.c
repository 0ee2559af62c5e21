/* Queued communicators: their ranks enqueue operations themselves. How they are made, left and lost. */
#include "coord_harness.h"

#define COMM(h, t) (h_code(h, t) == 0 ? h_reply(h, t)->comminit->commid : 0)
#define USER	   1001u
#define ID7	   "id 00000000000000000000000000000007: "

/* The call of rank r by id 0..0n, of client 100 + r, on device 1 + r. */
static GpuSim__CommInitRankRequest
call_of(uint64_t n, uint32_t rank, uint32_t nranks)
{
	GpuSim__CommInitRankRequest q = GPU_SIM__COMM_INIT_RANK_REQUEST__INIT;

	q.idlow = n;
	q.rank = rank;
	q.numranks = nranks;
	q.deviceid = 1 + rank;
	q.host = (char *)H_HOST;
	q.user = USER;
	q.optimeoutms = UINT32_MAX;
	return q;
}

static uint64_t
come(struct harness *h, const GpuSim__CommInitRankRequest *q)
{
	return h_ask(h, 100 + q->rank, COMM_INIT_RANK, comminitrank,
		     (GpuSim__CommInitRankRequest *)q);
}

/* A queued communicator of devices 1 .. nranks; its id. */
static uint64_t
make(struct harness *h, uint64_t n, uint32_t nranks)
{
	uint64_t t = 0;

	for (uint32_t r = 0; r < nranks; r++) {
		GpuSim__CommInitRankRequest q = call_of(n, r, nranks);

		t = come(h, &q);
	}
	h_serve(h);
	return COMM(h, t);
}

/* How many communicators there are. */
static size_t
comms(struct harness *h)
{
	GpuSim__StatusRequest q = GPU_SIM__STATUS_REQUEST__INIT;

	return h_reply(h, h_ask(h, 1, STATUS, status, &q))->status->n_comms;
}

static uint64_t
leave(struct harness *h, uint64_t comm, uint32_t rank)
{
	GpuSim__CommDestroyRequest q = GPU_SIM__COMM_DESTROY_REQUEST__INIT;

	q.commid = comm;
	q.leave = true;
	q.rank = rank;
	return h_ask(h, 100 + rank, COMM_DESTROY, commdestroy, &q);
}

static const GpuSim__CommAttachRequest *
attach_to(const struct harness *h, uint64_t device)
{
	long i = h_find(h, H_ATTACH, device);

	return i < 0 ? NULL : h->call[i].req->commattach;
}

static void
test_made(void)
{
	GpuSim__CommInitRankRequest q[2];
	const GpuSim__CommAttachRequest *attach;
	struct harness h;
	struct tuner tuner;
	struct err err;
	uint64_t a, b;

	tuner_init(&tuner);
	ok(tuner_select(&tuner, "allreduce:^ring", &err) == RC_OK &&
	       tuner_rules(&tuner,
			   "allreduce,0,64,tree,-1,-1,-1,2\nbroadcast,5,-1,ring,net,-1,-1,3\n", "f",
			   &err) == RC_OK,
	   "the coordinator has an own choice of algorithms");
	h_init_with(&h, &tuner);
	h_devices(&h, 2);
	q[0] = call_of(7, 0, 2);
	q[1] = call_of(7, 1, 2);
	a = come(&h, &q[0]);
	b = come(&h, &q[1]);
	attach = attach_to(&h, 2);
	ok(attach && attach->queued && attach->optimeoutms == UINT32_MAX,
	   "devices hear that it is queued, and of waits for ever");
	ok(attach && attach->algos.len == strlen("allreduce:^ring") &&
	       memcmp(attach->algos.data, "allreduce:^ring", attach->algos.len) == 0 &&
	       attach->rules.len == strlen("allreduce,0,64,tree,-1\n") &&
	       memcmp(attach->rules.data, "allreduce,0,64,tree,-1\n", attach->rules.len) == 0,
	   "and how the coordinator would choose for two ranks");
	h_serve(&h);
	ok(COMM(&h, a) == 1 && COMM(&h, b) == 1 && h_reply(&h, a)->comminit->queued &&
	       h_reply(&h, b)->comminit->queued,
	   "ranks beside their devices make a queued communicator");
	ok(COMM(&h, a) && h_reply(&h, h_status(&h, 5, 1, false))->getcommstatus->queued,
	   "and its status says so");
	ok(make(&h, 8, 2) == 2 && make(&h, 9, 2) == 3, "devices may be in several");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
	tuner_fini(&tuner);
}

/* Whether two ranks, the second as told, make a queued communicator; and with mustQueue the refusal. */
static bool
is_plain(struct harness *h, GpuSim__CommInitRankRequest second, const char *why)
{
	GpuSim__CommInitRankRequest first = call_of(7, 0, 2);
	uint64_t a, b;
	bool plain;

	first.onfailure = second.onfailure;
	a = come(h, &first);
	b = come(h, &second);
	h_serve(h);
	plain = COMM(h, a) && COMM(h, a) == COMM(h, b) && !h_reply(h, a)->comminit->queued &&
		!h_reply(h, b)->comminit->queued;
	h_destroy(h, 9, COMM(h, a));
	h_serve(h);
	first.idlow = second.idlow = 70 + COMM(h, a);
	first.mustqueue = true;
	a = come(h, &first);
	b = come(h, &second);
	plain &= h_code(h, a) == RC_INVAL && h_code(h, b) == RC_INVAL &&
		 strcmp(strchr(h_text(h, a), ':') + 2, why) == 0;
	if (!plain)
		printf("# %s\n", h_text(h, a));
	return plain;
}

static void
test_plain(void)
{
	GpuSim__CommInitRankRequest q = call_of(7, 1, 2);
	struct harness h;

	h_init(&h);
	h_devices(&h, 2);
	q.host = (char *)"";
	ok(is_plain(&h, q, "rank 1 (device 0000000000000002) does not enqueue operations itself"),
	   "one rank that does not want to makes a plain communicator");
	q = call_of(8, 1, 2);
	h_fini(&h);
	h_init(&h);
	h_devices(&h, 2);
	q = call_of(7, 1, 2);
	q.host = (char *)"another-host";
	ok(is_plain(&h, q,
		    "rank 1's process is on another host than its device 0000000000000002, or "
		    "belongs to another user"),
	   "so does one on another host");
	h_fini(&h);
	h_init(&h);
	h_devices(&h, 2);
	q = call_of(7, 1, 2);
	q.onfailure = GPU_SIM__ON_FAILURE__SHRINK;
	ok(is_plain(&h, q,
		    "ranks that enqueue operations themselves need the policy abort on failure"),
	   "and a policy that recovers");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
test_refused(void)
{
	static const char no[] = "comm 1: its ranks enqueue operations themselves";
	struct harness h;
	struct h_ops o;
	GpuSim__GraphCreateRequest g = GPU_SIM__GRAPH_CREATE_REQUEST__INIT;
	GpuSim__SubmitRequest s = GPU_SIM__SUBMIT_REQUEST__INIT;
	GpuSim__AllReduceRingRequest ring = GPU_SIM__ALL_REDUCE_RING_REQUEST__INIT;

	h_init(&h);
	h_devices(&h, 2);
	make(&h, 7, 2);
	h_allreduce(&o, 2, 8);
	g.commid = s.commid = ring.commid = 1;
	s.meet = true;
	ok(h_failed(&h, h_submit(&h, 100, 1, &o, true), RC_INVAL, no) &&
	       h_failed(&h, h_ask(&h, 100, SUBMIT, submit, &s), RC_INVAL, no) &&
	       h_failed(&h, h_group_start(&h, 100, 1), RC_INVAL, no) &&
	       h_failed(&h, h_group_end(&h, 100, 1, true), RC_INVAL, no) &&
	       h_failed(&h, h_ask(&h, 100, GRAPH_CREATE, graphcreate, &g), RC_INVAL, no) &&
	       h_failed(&h, h_ask(&h, 100, ALL_REDUCE_RING, allreducering, &ring), RC_INVAL, no),
	   "the coordinator starts no operation of a queued communicator");
	ok(h_failed(&h, h_shrink(&h, 100, 1, NULL, 0), RC_INVAL,
		    "comm 1: its ranks enqueue operations themselves, so each rank must call "
		    "shrink or grow itself"),
	   "and changes none of its ranks");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
test_left(void)
{
	struct harness h;
	uint64_t a, b, plain;

	h_init(&h);
	h_devices(&h, 3);
	make(&h, 7, 3);
	a = leave(&h, 1, 1);
	ok(h_code(&h, a) == 0 && h_count(&h, H_DETACH) == 0 && comms(&h) == 1,
	   "one rank leaves, and the communicator stays");
	h_gone(&h, 101);
	h_advance(&h, 5000);
	ok(comms(&h) == 1 && h_count(&h, H_ABORT) == 0, "it may end without failing the others");
	ok(h_code(&h, leave(&h, 1, 1)) == 0, "to leave twice changes nothing");
	leave(&h, 1, 0);
	h_crash(&h);
	h_advance(&h, 100);
	h_serve(&h);
	b = leave(&h, 1, 2);
	ok(h_count(&h, H_DETACH) == 3 && h_code(&h, b) == -1,
	   "the last one's leaving ends it, over a restart too");
	h_serve(&h);
	ok(h_code(&h, b) == 0 && comms(&h) == 0, "and it hears of the end");
	ok(h_failed(&h, leave(&h, 1, 2), RC_NOTFOUND, "no communicator 1"), "then it is gone");
	plain = h_comm(&h, 9, 2);
	ok(h_failed(
	       &h, leave(&h, plain, 0), RC_INVAL,
	       "comm 2: ranks leave only communicators whose ranks enqueue operations themselves"),
	   "a rank leaves no other communicator");
	make(&h, 8, 2);
	ok(h_failed(&h, leave(&h, 3, 2), RC_INVAL, "rank 2: comm 3 has 2 ranks"),
	   "and a rank that there is not leaves none");
	leave(&h, 3, 0);
	h_gone(&h, 101);
	h_advance(&h, 1000);
	ok(comms(&h) == 2, "a client that is away may come back");
	h_advance(&h, 2000);
	h_serve(&h);
	ok(comms(&h) == 1, "one that stays away has left, and so it ends");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static const GpuSim__CommSummary *
summary(struct harness *h)
{
	GpuSim__StatusRequest q = GPU_SIM__STATUS_REQUEST__INIT;
	GpuSim__StatusResponse *s = h_reply(h, h_ask(h, 1, STATUS, status, &q))->status;

	return s->n_comms ? s->comms[0] : NULL;
}

/* Device 1 + rank tells that its rank is lost. */
static uint64_t
tell_lost(struct harness *h, uint64_t comm, uint32_t rank, const char *reason)
{
	GpuSim__CommAbortRequest q = GPU_SIM__COMM_ABORT_REQUEST__INIT;

	q.commid = comm;
	q.epoch = 1;
	q.reason = (char *)reason;
	q.code = RC_UNREACHABLE;
	return h_ask(h, 1001 + rank, COMM_ABORT, commabort, &q);
}

static void
test_rank_lost(void)
{
	static const char why[] = "comm 1: rank 1's process 123 (train) has ended";
	const GpuSim__CommAbortRequest *abort;
	struct harness h;
	uint64_t t;
	long i;

	h_init(&h);
	h_devices(&h, 3);
	make(&h, 7, 3);
	t = tell_lost(&h, 1, 1, why + strlen("comm 1: "));
	i = h_find(&h, H_ABORT, 3);
	abort = i < 0 ? NULL : h.call[i].req->commabort;
	ok(h_count(&h, H_ABORT) == 3 && abort && abort->commid == 1 && abort->epoch == 1 &&
	       abort->code == RC_UNREACHABLE && strcmp(abort->reason, why) == 0,
	   "all devices hear at once which rank is lost, and why");
	ok(h_code(&h, t) == 0, "and the one that told has its answer");
	ok(summary(&h)->status == GPU_SIM__STATUS__FAILED && strcmp(summary(&h)->reason, why) == 0,
	   "the status says it");
	h_serve(&h);
	t = tell_lost(&h, 1, 2, "rank 2's process 124 (train) has ended");
	ok(h_code(&h, t) == 0 && h_count(&h, H_ABORT) == 0 && strcmp(summary(&h)->reason, why) == 0,
	   "the first reason stays");
	h_gone(&h, 101);
	leave(&h, 1, 0);
	ok(h_code(&h, leave(&h, 1, 2)) == 0 && comms(&h) == 1, "the other ranks leave it");
	h_advance(&h, 3000);
	h_serve(&h);
	ok(comms(&h) == 0, "and the lost one's client does not keep it");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* Device 1 tells that rank 0 of communicator 1 has waited for a rank, in an operation. */
static void
tell_waiting(struct harness *h, uint64_t operation, uint32_t other, uint64_t idle_ms)
{
	GpuSim__RegisterRequest q = GPU_SIM__REGISTER_REQUEST__INIT;
	GpuSim__Progress p = GPU_SIM__PROGRESS__INIT, *list = &p;
	struct h_metadata m;

	h_metadata(h, 1, &m);
	p.commid = 1;
	p.epoch = 1;
	p.operation = operation;
	p.step = 1;
	p.steps = 2;
	p.idlems = idle_ms;
	p.waitsfor = other + 1;
	q.metadata = &m.m;
	q.progress = &list;
	q.n_progress = 1;
	h_ask(h, 1001, REGISTER_DEVICE, registerdevice, &q);
}

static void
test_waits_for_left(void)
{
	struct harness h;

	h_init(&h);
	h_devices(&h, 3);
	make(&h, 7, 3);
	leave(&h, 1, 2);
	h_advance(&h, 10000);
	tell_waiting(&h, 1, 1, 9000);
	ok(summary(&h)->status != GPU_SIM__STATUS__FAILED, "a rank may wait for one that is there");
	tell_waiting(&h, 2, 2, 100);
	ok(summary(&h)->status != GPU_SIM__STATUS__FAILED,
	   "and for one that has left, until what that has sent is there");
	tell_waiting(&h, 2, 2, 600);
	ok(summary(&h)->status == GPU_SIM__STATUS__FAILED && h_count(&h, H_ABORT) == 3 &&
	       strcmp(summary(&h)->reason, "comm 1: rank 2 has left, and others wait for it") == 0,
	   "not longer: it fails, and says why");
	h_serve(&h);
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* How late a rank of communicator 1 is said to be. */
static uint64_t
late_ns(struct harness *h, uint32_t rank)
{
	GpuSim__GetCommStatusRequest q = GPU_SIM__GET_COMM_STATUS_REQUEST__INIT;
	GpuSim__GetCommStatusResponse *s;

	q.commid = 1;
	q.lateness = true;
	s = h_reply(h, h_ask(h, 1, GET_COMM_STATUS, getcommstatus, &q))->getcommstatus;
	return s->n_lateness == 2 ? s->lateness[rank]->sumns : UINT64_MAX;
}

static void
test_counts(void)
{
	uint64_t waited[2][2] = {{0, 500}, {20, 0}};
	GpuSim__RegisterRequest q = GPU_SIM__REGISTER_REQUEST__INIT;
	GpuSim__QueuedCount count = GPU_SIM__QUEUED_COUNT__INIT, *counts = &count;
	struct h_metadata m;
	struct harness h;

	h_init(&h);
	h_devices(&h, 2);
	make(&h, 7, 2);
	for (uint64_t id = 1; id <= 2; id++) {
		h_metadata(&h, id, &m);
		q.metadata = &m.m;
		q.n_queued = 1;
		q.queued = &counts;
		count.commid = 1;
		count.operations = 10 * id;
		count.waitedns = waited[id - 1];
		count.n_waitedns = 2;
		h_ask(&h, 1000 + id, REGISTER_DEVICE, registerdevice, &q);
	}
	ok(summary(&h)->operations == 20, "the status has the count of the rank that is furthest");
	ok(late_ns(&h, 0) == 0 && late_ns(&h, 1) == 480,
	   "the rank that the other waited for is late, less what it waited itself");
	count.n_waitedns = 1;
	h_ask(&h, 1002, REGISTER_DEVICE, registerdevice, &q);
	ok(late_ns(&h, 1) == 480, "waits for other than all ranks are not counted");
	count.commid = 99;
	h_ask(&h, 1002, REGISTER_DEVICE, registerdevice, &q);
	ok(summary(&h)->operations == 20, "a count of another communicator changes nothing");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* Device 1 + rank registers, and tells of the communicator or (0) of none. */
static void
beat(struct harness *h, uint32_t rank, uint64_t comm)
{
	GpuSim__RegisterRequest q = GPU_SIM__REGISTER_REQUEST__INIT;
	GpuSim__QueuedCount count = GPU_SIM__QUEUED_COUNT__INIT, *counts = &count;
	struct h_metadata m;

	h_metadata(h, 1 + rank, &m);
	q.metadata = &m.m;
	count.commid = comm;
	q.queued = &counts;
	q.n_queued = comm != 0;
	h_ask(h, 1001 + rank, REGISTER_DEVICE, registerdevice, &q);
}

static void
test_deserted(void)
{
	struct coord_event tick = {.kind = COORD_TICK};
	struct harness h;

	h_init(&h);
	h_devices(&h, 2);
	make(&h, 7, 2);
	h_gone(&h, 101);
	h_advance(&h, 1000);
	ok(summary(&h)->status == GPU_SIM__STATUS__SUCCESS, "a client may be away for a while");
	beat(&h, 0, 1);
	beat(&h, 1, 1);
	h.now += 3000;
	h_step(&h, &tick);
	ok(summary(&h)->status == GPU_SIM__STATUS__SUCCESS,
	   "and longer while its device tells of its process");
	beat(&h, 1, 0);
	h_step(&h, &tick);
	ok(summary(&h)->status == GPU_SIM__STATUS__FAILED &&
	       strcmp(summary(&h)->reason, "comm 1: rank 1's process has ended") == 0,
	   "without process a rank fails it, also when it has enqueued nothing yet");
	h_serve(&h);
	leave(&h, 1, 0);
	h_advance(&h, 200);
	h_serve(&h);
	ok(comms(&h) == 0, "and does not keep it");
	make(&h, 8, 2);
	h_crash(&h);
	for (int i = 0; i < 60; i++) {
		h.now += 1000;
		beat(&h, 0, 2);
		beat(&h, 1, 2);
		h_step(&h, &tick);
	}
	ok(comms(&h) == 1 && summary(&h)->status == GPU_SIM__STATUS__SUCCESS,
	   "processes that only enqueue keep it when the coordinator is another");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

int
main(void)
{
	test_made();
	test_plain();
	test_refused();
	test_left();
	test_rank_lost();
	test_waits_for_left();
	test_counts();
	test_deserted();
	return tap_done();
}
