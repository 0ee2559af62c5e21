/* Ranks that come one by one by an id: what becomes of them when all come, some, or others. */
#include "coord_harness.h"

#define COMM(h, t) (h_code(h, t) == 0 ? h_reply(h, t)->comminit->commid : 0)

/* A rank's call by id 0...0n, of a client of its own. */
static uint64_t
come(struct harness *h, uint64_t n, uint32_t rank, uint32_t nranks)
{
	GpuSim__CommInitRankRequest q = GPU_SIM__COMM_INIT_RANK_REQUEST__INIT;

	q.idlow = n;
	q.rank = rank;
	q.numranks = nranks;
	return h_ask(h, 100 + rank, COMM_INIT_RANK, comminitrank, &q);
}

static uint64_t
come_on(struct harness *h, uint32_t rank, uint32_t nranks, uint64_t device)
{
	GpuSim__CommInitRankRequest q = GPU_SIM__COMM_INIT_RANK_REQUEST__INIT;

	q.idlow = 7;
	q.rank = rank;
	q.numranks = nranks;
	q.deviceid = device;
	return h_ask(h, 100 + rank, COMM_INIT_RANK, comminitrank, &q);
}

#define ID7 "id 00000000000000000000000000000007: "

/* The device of a rank of the communicator that a call was answered with. */
static uint64_t
device(struct harness *h, uint64_t t, uint32_t rank)
{
	return COMM(h, t) ? h_reply(h, t)->comminit->devices[rank]->deviceid->value : 0;
}

static void
test_all_come(void)
{
	struct harness h;
	uint64_t a, b, c, d;

	h_init(&h);
	h_devices(&h, 4);
	b = come(&h, 7, 1, 3);
	a = come(&h, 7, 0, 3);
	ok(h.ncall == 0 && h_code(&h, a) == -1 && h_code(&h, b) == -1,
	   "who comes before the last waits, and nothing is done");
	d = come(&h, 8, 0, 1);
	ok(h_count(&h, H_ATTACH) == 1, "another id is another matter");
	h_serve(&h);
	ok(COMM(&h, d) == 1, "and may be complete at once");
	c = come(&h, 7, 2, 3);
	ok(h_count(&h, H_ATTACH) == 3 && h_code(&h, c) == -1, "the last one's coming attaches all");
	h_serve(&h);
	ok(COMM(&h, a) == 2 && COMM(&h, b) == 2 && COMM(&h, c) == 2,
	   "all hear of the same communicator");
	ok(device(&h, a, 0) == 2 && device(&h, b, 1) == 3 && device(&h, c, 2) == 4,
	   "with the ranks in order, over free devices");
	ok(h_failed(&h, come(&h, 7, 1, 3), RC_INVAL, ID7 "used up: it made communicator 2"),
	   "the id is used up");
	h_destroy(&h, 9, 2);
	h_serve(&h);
	ok(h_failed(&h, come(&h, 7, 1, 3), RC_INVAL, ID7 "used up: it made communicator 2"),
	   "and stays so when the communicator is gone");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
test_disagree(void)
{
	GpuSim__CommInitRankRequest q = GPU_SIM__COMM_INIT_RANK_REQUEST__INIT;
	struct harness h;
	uint64_t a, b;

	h_init(&h);
	h_devices(&h, 4);
	a = come(&h, 7, 0, 2);
	ok(h_failed(&h, come(&h, 7, 0, 2), RC_INVAL, ID7 "rank 0 has joined already"),
	   "a rank comes once");
	ok(h_failed(&h, come(&h, 7, 1, 3), RC_INVAL, ID7 "rank 1 gives 3 ranks, earlier ranks 2"),
	   "all say the same number of ranks");
	ok(h_failed(&h, come(&h, 7, 2, 2), RC_INVAL, ID7 "rank 2 of 2 ranks: ranks count from 0") &&
	       h_failed(&h, come(&h, 7, 0, 0), RC_INVAL,
			ID7 "0 ranks: a communicator has 1 to 1024") &&
	       h_failed(&h, come(&h, 7, 0, 1025), RC_INVAL,
			ID7 "1025 ranks: a communicator has 1 to 1024"),
	   "ranks are below their number, which has its limits");
	ok(h_failed(&h, come(&h, 0, 0, 2), RC_INVAL,
		    "id 00000000000000000000000000000000: the id is all zeros"),
	   "nobody meets by an id that was left empty");
	q.idlow = 7;
	q.rank = 1;
	q.numranks = 2;
	q.onfailure = GPU_SIM__ON_FAILURE__SHRINK;
	b = h_ask(&h, 101, COMM_INIT_RANK, comminitrank, &q);
	ok(h_failed(
	       &h, b, RC_INVAL,
	       ID7
	       "rank 1 gives another lease, policy on failure, timeout or grid than earlier ranks"),
	   "all say the same of the communicator");
	q.onfailure = (GpuSim__OnFailure)9;
	b = h_ask(&h, 101, COMM_INIT_RANK, comminitrank, &q);
	ok(h_failed(&h, b, RC_INVAL,
		    ID7 "policy on failure: unknown number 9, must be less than 4"),
	   "a policy that there is not is refused");
	b = come(&h, 7, 1, 2);
	h_serve(&h);
	ok(COMM(&h, a) == 1 && COMM(&h, b) == 1, "who was refused has disturbed nobody");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* Register device id again, with an ordinal. */
static void
give_ordinal(struct harness *h, uint64_t id, uint32_t ordinal)
{
	GpuSim__RegisterRequest q = GPU_SIM__REGISTER_REQUEST__INIT;
	struct h_metadata m;

	h_metadata(h, id, &m);
	m.m.ordinal = ordinal;
	q.metadata = &m.m;
	h_ask(h, 1000 + id, REGISTER_DEVICE, registerdevice, &q);
}

static void
test_devices(void)
{
	struct harness h;
	uint64_t a, b, c;

	h_init(&h);
	h_devices(&h, 4);
	give_ordinal(&h, 1, 2);
	give_ordinal(&h, 3, 1);
	a = come_on(&h, 0, 3, 0);
	b = come_on(&h, 1, 3, 0);
	c = come_on(&h, 2, 3, 0);
	h_serve(&h);
	ok(device(&h, a, 0) == 2 && device(&h, b, 1) == 3 && device(&h, c, 2) == 1,
	   "a rank has the device whose ordinal it is");
	h_fini(&h);

	h_init(&h);
	h_devices(&h, 4);
	a = come_on(&h, 0, 3, 3);
	ok(h_failed(&h, come_on(&h, 1, 3, 3), RC_INVAL,
		    ID7 "device 0000000000000003 is named twice, as rank 0 and rank 1"),
	   "a device named twice is refused, to the second");
	ok(h_failed(&h, come_on(&h, 1, 3, 99), RC_NOTFOUND, ID7 "no device 0000000000000063"),
	   "so is one that there is not");
	h.alive[4] = false;
	h_advance(&h, H_LOST_MS);
	ok(h_failed(&h, come_on(&h, 1, 3, 4), RC_UNREACHABLE,
		    ID7 "device 0000000000000004 lost: no heartbeat for 5.0s"),
	   "and one that is lost");
	b = come_on(&h, 1, 3, 1);
	c = come_on(&h, 2, 3, 0);
	h_serve(&h);
	ok(device(&h, a, 0) == 3 && device(&h, a, 1) == 1 && device(&h, a, 2) == 2,
	   "who names none has the next that nobody named");
	ok(h_code(&h, b) == 0 && h_code(&h, c) == 0, "all hear of it");
	h_fini(&h);

	h_init(&h);
	h_devices(&h, 3);
	h_comm(&h, 9, 2);
	a = come_on(&h, 0, 2, 0);
	b = come_on(&h, 1, 2, 0);
	ok(h_failed(&h, a, RC_BUSY, ID7 "busy: needs 2 devices; 1 of 3 is free: comm 1 has 2") &&
	       h_failed(&h, b, RC_BUSY, ID7 "busy: needs 2 devices; 1 of 3 is free: comm 1 has 2"),
	   "too few free devices: each hears it");
	h_destroy(&h, 9, 1);
	h_serve(&h);
	a = come_on(&h, 0, 2, 2);
	h.alive[2] = false;
	h_advance(&h, H_LOST_MS);
	b = come_on(&h, 1, 2, 0);
	ok(h_failed(&h, a, RC_UNREACHABLE,
		    ID7 "device 0000000000000002 lost: no heartbeat for 5.0s") &&
	       h_code(&h, b) == RC_UNREACHABLE,
	   "a device that is lost while its rank waits ends it, by the same id another may begin");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
test_attach_fails(void)
{
	struct harness h;
	uint64_t a, b;

	h_init(&h);
	h_devices(&h, 2);
	a = come(&h, 7, 0, 2);
	b = come(&h, 7, 1, 2);
	h_refuse(&h, 0, RC_BUSY, "attach: 64 communicators already");
	h_serve(&h);
	ok(h_failed(&h, a, RC_BUSY,
		    "rank 0 (device 0000000000000001): attach: 64 communicators already") &&
	       h_failed(&h, b, RC_BUSY,
			"rank 0 (device 0000000000000001): attach: 64 communicators already"),
	   "a device that refuses: each rank hears why");
	a = come(&h, 7, 0, 2);
	b = come(&h, 7, 1, 2);
	h_serve(&h);
	ok(COMM(&h, a) == 2 && COMM(&h, b) == 2, "the id is good for another try");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
test_missing(void)
{
	struct harness h;
	uint64_t t[8], last;
	unsigned same = 0;

	h_init(&h);
	h_devices(&h, 8);
	h.timeout_ms = 5000;
	t[0] = come(&h, 7, 2, 8);
	h.timeout_ms = 20000;
	h_advance(&h, 1000);
	t[1] = come(&h, 7, 6, 8);
	h_advance(&h, 3900);
	for (int i = 0; i < 2; i++)
		same += h_failed(
		    &h, t[i], RC_TIMEOUT,
		    ID7 "ranks 0-1, 3-5, 7 of 8 have not joined while rank 2 waited for 4.9s");
	ok(same == 2, "the first that waits no longer ends it, and each hears who is missing");
	h.timeout_ms = H_TIMEOUT_MS;
	t[0] = come(&h, 7, 1, 2);
	h_advance(&h, H_COMM_MS);
	ok(h_failed(&h, t[0], RC_TIMEOUT,
		    ID7 "rank 0 of 2 has not joined while rank 1 waited for 40.0s"),
	   "nobody waits longer than a communicator's timeout");
	for (uint32_t r = 1; r < 1024; r += 2)
		last = come(&h, 7, r, 1024);
	h_advance(&h, H_COMM_MS);
	ok(h_code(&h, last) == RC_TIMEOUT && strstr(h_text(&h, last), ", ... of 1024 have not"),
	   "a sentence has room for so many");
	t[0] = come(&h, 7, 0, 2);
	t[1] = come(&h, 7, 1, 2);
	h_serve(&h);
	ok(COMM(&h, t[0]) == 1 && COMM(&h, t[1]) == 1, "the id is not used up by that");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* The connection of a client is back: whatever it asks. */
static void
back(struct harness *h, uint64_t client)
{
	struct coord_event ev = {.kind = COORD_SEEN, .client_id = client};

	h_step(h, &ev);
}

static void
test_killed(void)
{
	GpuSim__CommInitRankRequest q = GPU_SIM__COMM_INIT_RANK_REQUEST__INIT;
	struct harness h;
	uint64_t a, b, c;

	h_init(&h);
	h_devices(&h, 2);
	a = come(&h, 7, 0, 2);
	h_gone(&h, 100);
	b = come(&h, 7, 1, 2);
	ok(h.ncall == 0, "one whose client has gone does not count");
	q.idlow = 7;
	q.numranks = 2;
	c = h_ask(&h, 50, COMM_INIT_RANK, comminitrank, &q);
	h_serve(&h);
	ok(h_failed(&h, a, RC_ABORTED, "the client disconnected, and another took the rank") &&
	       COMM(&h, b) == 1 && COMM(&h, c) == 1,
	   "another has its place at once");
	h_destroy(&h, 9, 1);
	h_serve(&h);
	a = come(&h, 8, 0, 2);
	h_gone(&h, 100);
	h_advance(&h, 1000);
	b = come(&h, 8, 1, 2);
	back(&h, 100);
	ok(h_count(&h, H_ATTACH) == 2, "one that comes back in time counts again");
	h_serve(&h);
	ok(COMM(&h, a) == 2 && COMM(&h, b) == 2, "and hears of its communicator");
	h_destroy(&h, 9, 2);
	h_serve(&h);
	a = come(&h, 9, 0, 2);
	b = come(&h, 9, 1, 3);
	h_gone(&h, 100);
	h_advance(&h, 2100);
	ok(h_failed(&h, a, RC_ABORTED, "the client disconnected"), "its place is kept for a while");
	b = come(&h, 9, 1, 3);
	ok(h_code(&h, b) == -1, "then the id is as new");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static uint64_t
come_leased(struct harness *h, uint32_t rank)
{
	GpuSim__CommInitRankRequest q = GPU_SIM__COMM_INIT_RANK_REQUEST__INIT;

	q.idlow = 7;
	q.rank = rank;
	q.numranks = 2;
	q.lease = true;
	return h_ask(h, 100 + rank, COMM_INIT_RANK, comminitrank, &q);
}

/* How many communicators there are. */
static size_t
comms(struct harness *h)
{
	GpuSim__StatusRequest q = GPU_SIM__STATUS_REQUEST__INIT;

	return h_reply(h, h_ask(h, 1, STATUS, status, &q))->status->n_comms;
}

static void
test_lease(void)
{
	struct harness h;
	uint64_t a;

	h_init(&h);
	h_devices(&h, 2);
	a = come_leased(&h, 0);
	come_leased(&h, 1);
	h_serve(&h);
	h_gone(&h, 100);
	h_advance(&h, 5000);
	h_serve(&h);
	ok(COMM(&h, a) == 1 && comms(&h) == 1, "a lease lives as long as one who called");
	h_crash(&h);
	h_advance(&h, 100);
	h_serve(&h);
	back(&h, 101);
	h_advance(&h, 40000);
	ok(comms(&h) == 1, "over a restart too");
	h_gone(&h, 101);
	h_advance(&h, 5000);
	h_serve(&h);
	ok(comms(&h) == 0, "and ends after the last of them");
	come(&h, 8, 0, 2);
	come(&h, 8, 1, 2);
	h_serve(&h);
	h_gone(&h, 100);
	h_gone(&h, 101);
	h_advance(&h, 5000);
	ok(comms(&h) == 1, "without a lease it lives until it is destroyed");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
test_restart(void)
{
	struct harness h;
	uint64_t a, b;

	h_init(&h);
	h_devices(&h, 2);
	a = come(&h, 7, 0, 2);
	h_crash(&h);
	h_repeat_all(&h);
	h_serve(&h);
	b = come(&h, 7, 1, 2);
	ok(h_count(&h, H_ATTACH) == 2, "who asks again after a restart waits as before");
	h_crash(&h);
	h_advance(&h, 100);
	ok(h_count(&h, H_ATTACH) == 2 && h.call[h.ncall - 1].req->commattach->epoch == 2,
	   "a restart while it is made: it is made again");
	h_repeat(&h, a);
	h_serve(&h);
	ok(COMM(&h, a) == 1 && h_code(&h, b) == -1, "one has come back and hears of it");
	h_repeat(&h, b);
	ok(COMM(&h, b) == 1, "and the other when it comes");
	h_crash(&h);
	h_advance(&h, 100);
	h_serve(&h);
	ok(h_failed(&h, come(&h, 7, 1, 2), RC_INVAL, ID7 "used up: it made communicator 1"),
	   "the id of a communicator is known after a restart");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
test_limits(void)
{
	GpuSim__CommInitRankRequest q = GPU_SIM__COMM_INIT_RANK_REQUEST__INIT;
	struct harness h;
	uint64_t t = 0;

	h_init(&h);
	h_devices(&h, 2);
	q.numranks = 2;
	for (q.idlow = 1; q.idlow <= 64; q.idlow++)
		t = h_ask(&h, 5, COMM_INIT_RANK, comminitrank, &q);
	ok(h_code(&h, t) == -1 &&
	       h_failed(&h, h_ask(&h, 5, COMM_INIT_RANK, comminitrank, &q), RC_BUSY,
			"id 00000000000000000000000000000041: 64 ids of this client wait for "
			"ranks, which is its limit"),
	   "a client begins 64 ids and no more");
	for (q.idhigh = 1; q.idhigh < 4; q.idhigh++)
		for (q.idlow = 1; q.idlow <= 64; q.idlow++)
			t = h_ask(&h, 10 + q.idhigh, COMM_INIT_RANK, comminitrank, &q);
	ok(h_code(&h, t) == -1 &&
	       h_failed(&h, h_ask(&h, 20, COMM_INIT_RANK, comminitrank, &q), RC_BUSY,
			"id 00000000000000040000000000000041: 256 ids wait for ranks, which is the "
			"limit"),
	   "all together 256");
	q.idhigh = 0;
	q.idlow = 1;
	q.rank = 1;
	t = h_ask(&h, 20, COMM_INIT_RANK, comminitrank, &q);
	h_serve(&h);
	ok(COMM(&h, t) == 1, "who comes to one of them is let in");
	h_advance(&h, H_COMM_MS);
	q.idlow = 99;
	ok(h_code(&h, h_ask(&h, 5, COMM_INIT_RANK, comminitrank, &q)) == -1,
	   "when they have ended others may begin");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

int
main(void)
{
	test_all_come();
	test_disagree();
	test_devices();
	test_attach_fails();
	test_missing();
	test_killed();
	test_lease();
	test_restart();
	test_limits();
	return tap_done();
}
