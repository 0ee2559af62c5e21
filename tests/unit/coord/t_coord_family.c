/* Communicators of a communicator by a call of each rank: split, shrink, grow. */
#include "coord_harness.h"

#define COMM(h, t) (h_code(h, t) == 0 ? h_reply(h, t)->comminit->commid : 0)
#define USER	   1001u
#define MANY	   8

/* A queued communicator of devices 1 .. nranks, of clients 100 .. */
static uint64_t
make(struct harness *h, uint64_t n, uint32_t nranks)
{
	GpuSim__CommInitRankRequest q = GPU_SIM__COMM_INIT_RANK_REQUEST__INIT;
	uint64_t t = 0;

	q.idlow = n;
	q.numranks = nranks;
	q.host = (char *)H_HOST;
	q.user = USER;
	q.optimeoutms = 7000;
	for (q.rank = 0; q.rank < nranks; q.rank++) {
		q.deviceid = 1 + q.rank;
		t = h_ask(h, 100 + q.rank, COMM_INIT_RANK, comminitrank, &q);
	}
	h_serve(h);
	return COMM(h, t);
}

static uint64_t
split(struct harness *h, uint64_t comm, uint32_t rank, uint32_t call, int color, int key)
{
	GpuSim__CommSplitRankRequest q = GPU_SIM__COMM_SPLIT_RANK_REQUEST__INIT;

	q.commid = comm;
	q.rank = rank;
	q.call = call;
	q.color = color;
	q.key = key;
	return h_ask(h, 100 + rank, COMM_SPLIT_RANK, commsplitrank, &q);
}

static uint64_t
shrink(struct harness *h, uint64_t comm, uint32_t rank, uint32_t exclude, bool abort)
{
	GpuSim__CommShrinkRankRequest q = GPU_SIM__COMM_SHRINK_RANK_REQUEST__INIT;

	q.commid = comm;
	q.rank = rank;
	q.exclude = &exclude;
	q.n_exclude = 1;
	q.abort = abort;
	return h_ask(h, 100 + rank, COMM_SHRINK_RANK, commshrinkrank, &q);
}

/* comm 0: a new rank, on device 1 + rank. */
static uint64_t
grow(struct harness *h, uint64_t comm, uint32_t rank, uint32_t nranks, uint64_t id)
{
	GpuSim__CommGrowRankRequest q = GPU_SIM__COMM_GROW_RANK_REQUEST__INIT;

	q.commid = comm;
	q.rank = rank;
	q.numranks = nranks;
	q.idlow = id;
	if (!comm) {
		q.deviceid = 1 + rank;
		q.host = (char *)H_HOST;
		q.user = USER;
	}
	return h_ask(h, 100 + rank, COMM_GROW_RANK, commgrowrank, &q);
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

static uint64_t
fail(struct harness *h, uint64_t comm)
{
	GpuSim__CommAbortRequest q = GPU_SIM__COMM_ABORT_REQUEST__INIT;

	q.commid = comm;
	q.reason = (char *)"rank 2's process 9 has ended";
	q.code = RC_UNREACHABLE;
	return h_ask(h, 1003, COMM_ABORT, commabort, &q);
}

/* The answer is of a queued communicator of these devices, by their digits in order. */
static bool
is_of(struct harness *h, uint64_t t, const char *devices)
{
	const GpuSim__CommInitResponse *r = h_code(h, t) == 0 ? h_reply(h, t)->comminit : NULL;
	bool good = r && r->commid && r->queued && r->n_devices == strlen(devices);

	for (size_t i = 0; good && i < r->n_devices; i++)
		good = r->devices[i]->deviceid->value == (uint64_t)(devices[i] - '0');
	if (!good)
		printf("# %d %s\n", h_code(h, t), h_text(h, t));
	return good;
}

static void
test_split(void)
{
	struct harness h;
	uint64_t t[MANY];
	long i;

	h_init(&h);
	h_devices(&h, 5);
	make(&h, 7, 5);
	t[0] = split(&h, 1, 0, 0, 3, 9);
	t[1] = split(&h, 1, 1, 0, 0, 0);
	t[2] = split(&h, 1, 2, 0, -1, 0);
	t[3] = split(&h, 1, 3, 0, 3, -9);
	ok(h.ncall == 0 && h_code(&h, t[2]) == -1,
	   "all ranks wait for the last, also without color");
	t[4] = split(&h, 1, 4, 0, 3, 9);
	i = h_find(&h, H_ATTACH, 1);
	ok(i >= 0 && h.call[i].req->commattach->optimeoutms == 7000 &&
	       h.call[i].req->commattach->queued,
	   "the new ones are as the old one");
	h_serve(&h);
	ok(is_of(&h, t[0], "415") && is_of(&h, t[3], "415") && is_of(&h, t[4], "415") &&
	       COMM(&h, t[0]) == COMM(&h, t[3]),
	   "ranks of a color are in the order of their keys, then of their ranks");
	ok(is_of(&h, t[1], "2") && COMM(&h, t[1]) != COMM(&h, t[0]),
	   "another color is another one");
	ok(h_code(&h, t[2]) == 0 && COMM(&h, t[2]) == 0, "a rank without color is in none");
	ok(h_failed(&h, split(&h, 1, 1, 0, 0, 0), RC_INVAL,
		    "rank 1 asks for split 1 of comm 1, which has been split 1 times"),
	   "a split that is over is not made again");
	for (uint32_t r = 0; r < 5; r++)
		t[r] = split(&h, 1, r, 1, 0, 0);
	h_serve(&h);
	ok(is_of(&h, t[0], "12345"), "the next one is");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
test_split_fails(void)
{
	struct harness h;
	uint64_t a, b;

	h_init(&h);
	h_devices(&h, 3);
	make(&h, 7, 3);
	ok(h_failed(&h, split(&h, 9, 0, 0, 0, 0), RC_NOTFOUND, "no communicator 9") &&
	       h_failed(&h, split(&h, 1, 3, 0, 0, 0), RC_INVAL, "rank 3: comm 1 has 3 ranks"),
	   "only ranks of a communicator split it");
	a = split(&h, 1, 0, 0, 0, 0);
	ok(h_failed(&h, split(&h, 1, 0, 0, 1, 0), RC_INVAL,
		    "split of comm 1: rank 0 has joined already"),
	   "a rank comes once");
	b = split(&h, 1, 1, 1, 0, 0);
	h_advance(&h, H_COMM_MS);
	ok(h_failed(&h, a, RC_TIMEOUT,
		    "split of comm 1: ranks 1-2 of 3 have not joined while rank 0 waited for "
		    "40.0s"),
	   "ranks that are missing are told");
	ok(h_failed(&h, b, RC_TIMEOUT,
		    "split of comm 1: ranks 0, 2 of 3 have not joined while rank 1 waited for "
		    "40.0s"),
	   "and no rank's first split meets another's second");
	a = split(&h, 1, 0, 0, 0, 0);
	h_gone(&h, 100);
	h_advance(&h, 1000);
	b = split(&h, 1, 1, 0, 0, 0);
	split(&h, 1, 2, 0, 0, 0);
	ok(h_count(&h, H_ATTACH) == 0, "nothing is made for a client that is away");
	h_advance(&h, 2000);
	ok(h_failed(&h, a, RC_ABORTED, "the client disconnected"), "which loses its seat");
	ok(h_failed(&h, b, RC_FAILED, "comm 1: rank 0's process has ended"),
	   "and fails the parent");
	h_serve(&h);
	make(&h, 8, 3);
	b = split(&h, 2, 1, 0, 0, 0);
	leave(&h, 2, 0);
	ok(h_failed(&h, b, RC_INVAL, "rank 0 has left comm 2"),
	   "who waits for one that left hears it");
	ok(h_failed(&h, split(&h, 2, 0, 0, 0, 0), RC_INVAL, "rank 0 has left comm 2"),
	   "and it comes no more");
	h_fini(&h);
	h_init(&h);
	h_devices(&h, 3);
	make(&h, 7, 3);
	a = split(&h, 1, 0, 0, 0, 0);
	fail(&h, 1);
	ok(h_failed(&h, a, RC_UNREACHABLE, "comm 1: rank 2's process 9 has ended"),
	   "who waits when the parent fails hears why");
	ok(h_failed(&h, split(&h, 1, 1, 0, 0, 0), RC_FAILED,
		    "comm 1 failed earlier: comm 1: rank 2's process 9 has ended; its ranks may "
		    "shrink it with abort"),
	   "and who comes then");
	h_serve(&h);
	make(&h, 8, 2);
	a = split(&h, 2, 0, 0, 0, 0);
	h_destroy(&h, 9, 2);
	ok(h_failed(&h, a, RC_ABORTED, "communicator 2 destroyed"),
	   "so does who waits for its end");
	h_serve(&h);
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
test_shrink(void)
{
	struct harness h;
	uint64_t a, b, c;

	h_init(&h);
	h_devices(&h, 3);
	make(&h, 7, 3);
	ok(h_failed(&h, shrink(&h, 1, 1, 1, false), RC_INVAL, "rank 1 of comm 1 excludes itself") &&
	       h_failed(&h, shrink(&h, 1, 1, 3, false), RC_INVAL,
			"rank 3 is to be excluded from comm 1, which has 3"),
	   "ranks that cannot be excluded");
	a = shrink(&h, 1, 0, 1, false);
	b = shrink(&h, 1, 2, 1, false);
	h_serve(&h);
	ok(is_of(&h, a, "13") && is_of(&h, b, "13"),
	   "the ranks that are left are another communicator");
	ok(h_reply(&h, h_status(&h, 5, 1, false))->getcommstatus->status ==
	       GPU_SIM__STATUS__SUCCESS,
	   "and the parent stays");
	a = shrink(&h, 1, 0, 1, false);
	ok(h_failed(&h, shrink(&h, 1, 2, 1, true), RC_INVAL,
		    "shrink of comm 1: rank 2 shrinks with abort, earlier ranks without"),
	   "all say the same of abort");
	c = shrink(&h, 1, 1, 2, false);
	h_advance(&h, H_COMM_MS);
	ok(h_failed(&h, a, RC_TIMEOUT,
		    "shrink of comm 1: rank 2 of 3 has not joined while rank 0 waited for 40.0s") &&
	       h_failed(
		   &h, c, RC_TIMEOUT,
		   "shrink of comm 1: rank 0 of 3 has not joined while rank 1 waited for 40.0s"),
	   "an excluded rank is not missing");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
test_shrink_failed(void)
{
	struct harness h;
	uint64_t a, b;

	h_init(&h);
	h_devices(&h, 3);
	make(&h, 7, 3);
	fail(&h, 1);
	h_serve(&h);
	h_gone(&h, 102);
	a = shrink(&h, 1, 0, 2, true);
	b = shrink(&h, 1, 1, 2, true);
	h_serve(&h);
	ok(is_of(&h, a, "12") && is_of(&h, b, "12"),
	   "the ranks that live shrink a parent that has failed");
	make(&h, 8, 3);
	a = shrink(&h, 3, 0, 2, true);
	ok(h_count(&h, H_ABORT) == 3 &&
	       strcmp(h_reply(&h, h_status(&h, 5, 3, false))->getcommstatus->reason,
		      "comm 3: aborted by the shrink of rank 0") == 0,
	   "to shrink with abort ends the parent's operations at once");
	h_serve(&h);
	ok(h_code(&h, a) == -1, "and waits for the others");
	b = shrink(&h, 3, 1, 2, true);
	h_serve(&h);
	ok(is_of(&h, a, "12") && is_of(&h, b, "12"), "who come then");
	h.alive[1] = false;
	h_advance(&h, 20000);
	h_serve(&h);
	a = shrink(&h, 4, 0, 1, true);
	h_serve(&h);
	ok(h_code(&h, a) > 0 &&
	       strncmp(h_text(&h, a), "shrink of comm 4: comm 4 rank 0 (", 33) == 0,
	   "a rank without its device is told so");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
test_grow(void)
{
	struct harness h;
	uint64_t t[MANY];

	h_init(&h);
	h_devices(&h, 5);
	make(&h, 7, 2);
	t[0] = grow(&h, 1, 0, 4, 0);
	t[3] = grow(&h, 0, 3, 4, 70);
	t[1] = grow(&h, 1, 1, 4, 70);
	ok(h.ncall == 0, "all wait for the last");
	t[2] = grow(&h, 0, 2, 4, 70);
	h_serve(&h);
	ok(is_of(&h, t[0], "1234") && is_of(&h, t[1], "1234") && is_of(&h, t[2], "1234") &&
	       is_of(&h, t[3], "1234"),
	   "new ranks are behind the old ones");
	ok(h_failed(&h, grow(&h, 0, 2, 3, 70), RC_INVAL,
		    "id 00000000000000000000000000000046 is used up: it made communicator 2"),
	   "an id is used once");
	t[1] = grow(&h, 1, 1, 3, 71);
	t[2] = grow(&h, 0, 2, 3, 71);
	t[0] = grow(&h, 1, 0, 3, 0);
	h_serve(&h);
	ok(is_of(&h, t[0], "123") && is_of(&h, t[2], "123"), "in any order");
	t[2] = grow(&h, 0, 2, 3, 72);
	t[1] = grow(&h, 0, 1, 3, 72);
	t[0] = grow(&h, 1, 0, 3, 72);
	ok(h_failed(&h, t[1], RC_INVAL, "rank 1 is not new: comm 1 has 2 ranks") &&
	       h_failed(&h, grow(&h, 0, 0, 3, 72), RC_INVAL,
			"rank 0 is not new: comm 1 has 2 ranks"),
	   "a new rank has no old one's place");
	t[1] = grow(&h, 1, 1, 3, 0);
	h_serve(&h);
	ok(is_of(&h, t[0], "123") && is_of(&h, t[1], "123") && is_of(&h, t[2], "123"),
	   "the others grow nevertheless");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
test_grow_fails(void)
{
	struct harness h;
	uint64_t a, b, c;

	h_init(&h);
	h_devices(&h, 4);
	make(&h, 7, 2);
	make(&h, 8, 2);
	ok(h_failed(&h, grow(&h, 1, 0, 2, 0), RC_INVAL,
		    "comm 1 of 2 ranks: can grow to at most 1024, not 2") &&
	       h_failed(&h, grow(&h, 0, 2, 3, 0), RC_INVAL, "rank 2 is new but names no id") &&
	       h_failed(&h, grow(&h, 0, 3, 3, 70), RC_INVAL,
			"rank 3 of 3 ranks: the limit is 1024"),
	   "calls that cannot be");
	a = grow(&h, 1, 0, 3, 70);
	ok(h_failed(&h, grow(&h, 1, 1, 4, 0), RC_INVAL,
		    "grow of comm 1: rank 1 gives 4 ranks, earlier ranks 3") &&
	       h_failed(&h, grow(&h, 1, 1, 3, 71), RC_INVAL,
			"grow of comm 1: rank 1 names another id than earlier ranks") &&
	       h_failed(&h, grow(&h, 2, 0, 3, 70), RC_INVAL,
			"id 00000000000000000000000000000046 is to grow comm 1 already") &&
	       h_failed(&h, grow(&h, 0, 3, 4, 70), RC_INVAL,
			"grow of comm 1: rank 3 gives 4 ranks, earlier ranks 3"),
	   "calls that do not fit each other");
	b = grow(&h, 2, 1, 4, 0);
	c = grow(&h, 0, 2, 4, 72);
	h_advance(&h, H_COMM_MS);
	ok(h_failed(
	       &h, a, RC_TIMEOUT,
	       "grow of comm 1: ranks 1-2 of 3 have not joined while rank 0 waited for 40.0s") &&
	       h_failed(&h, b, RC_TIMEOUT,
			"grow of comm 2: ranks 0, 2-3 of 4 have not joined while rank 1 waited for "
			"40.0s") &&
	       h_failed(&h, c, RC_TIMEOUT,
			"id 00000000000000000000000000000048: ranks 0-1, 3 of 4 have not joined "
			"while rank 2 waited for 40.0s"),
	   "who does not come is told");
	a = grow(&h, 0, 0, 1, 73);
	ok(h_failed(&h, a, RC_INVAL,
		    "id 00000000000000000000000000000049: no rank of a communicator has named this "
		    "id to grow with"),
	   "new ranks alone are no communicator");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
test_restart(void)
{
	struct harness h;
	uint64_t t[MANY];

	h_init(&h);
	h_devices(&h, 3);
	make(&h, 7, 3);
	t[0] = split(&h, 1, 0, 0, 0, 0);
	h_crash(&h);
	h_repeat_all(&h);
	h_serve(&h);
	t[1] = split(&h, 1, 1, 0, 0, 2);
	t[2] = split(&h, 1, 2, 0, 0, 1);
	ok(h_count(&h, H_ATTACH) == 3, "who asks again after a restart waits as before");
	h_crash(&h);
	h_advance(&h, 100);
	h_repeat(&h, t[0]);
	h_repeat(&h, t[2]);
	h_serve(&h);
	ok(is_of(&h, t[0], "132") && is_of(&h, t[2], "132"),
	   "a restart while it is made: it is made again");
	h_repeat(&h, t[1]);
	ok(is_of(&h, t[1], "132"), "for each that comes back");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

int
main(void)
{
	test_split();
	test_split_fails();
	test_shrink();
	test_shrink_failed();
	test_grow();
	test_grow_fails();
	test_restart();
	return tap_done();
}
