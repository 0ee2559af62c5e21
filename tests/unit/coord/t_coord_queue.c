/* Requests that wait for free devices: first come, first served; who has devices is told. */
#include "coord_harness.h"

static uint64_t
ask(struct harness *h, uint64_t client, uint32_t n, uint32_t wait_ms)
{
	GpuSim__CommInitRequest q = GPU_SIM__COMM_INIT_REQUEST__INIT;
	char program[32];

	snprintf(program, sizeof program, "program %" PRIu64, client);
	q.numdevices = n;
	q.lease = true;
	q.waitms = wait_ms;
	q.program = program;
	q.pid = (uint32_t)(4700 + client);
	return h_ask(h, client, COMM_INIT, comminit, &q);
}

/* The same, made at once; its id. */
static uint64_t
take(struct harness *h, uint64_t client, uint32_t n)
{
	uint64_t t = ask(h, client, n, 0);

	h_serve(h);
	return h_code(h, t) == 0 ? h_reply(h, t)->comminit->commid : 0;
}

static uint64_t
grow(struct harness *h, uint64_t client, uint64_t comm, uint32_t n, uint32_t wait_ms)
{
	GpuSim__CommGrowRequest q = GPU_SIM__COMM_GROW_REQUEST__INIT;

	q.commid = comm;
	q.numdevices = n;
	q.waitms = wait_ms;
	return h_ask(h, client, COMM_GROW, commgrow, &q);
}

static void
destroy(struct harness *h, uint64_t client, uint64_t comm)
{
	h_destroy(h, client, comm);
	h_serve(h);
}

static void
seen(struct harness *h, uint64_t client)
{
	struct coord_event ev = {.kind = COORD_SEEN, .client_id = client};

	h_step(h, &ev);
}

static void
t_in_order(void)
{
	struct harness h;
	uint64_t large, small, last;

	h_init(&h);
	h_devices(&h, 4);
	take(&h, 1, 3);
	ok(h_failed(&h, ask(&h, 2, 2, 0), RC_BUSY,
		    "busy: needs 2 devices; 1 of 4 is free: comm 1 of program 1 (pid 4701) has 3"),
	   "who does not wait hears at once who has them");
	large = ask(&h, 3, 4, 10000);
	small = ask(&h, 4, 1, 10000);
	last = ask(&h, 5, 3, 10000);
	ok(h.ncall == 0 && h_code(&h, large) == -1 && h_code(&h, small) == -1,
	   "who waits, waits; small ones do not overtake a large one");
	ok(h_failed(&h, ask(&h, 6, 1, 0), RC_BUSY,
		    "busy: needs 1 device; 1 of 4 is free: comm 1 of program 1 (pid 4701) has 3, "
		    "program 3 "
		    "(pid 4703) waits for 4"),
	   "nor does one that does not wait");
	destroy(&h, 1, 1);
	ok(h_code(&h, large) == 0 && h_code(&h, small) == -1, "then the first has them");
	destroy(&h, 3, 2);
	ok(h_code(&h, small) == 0 && h_code(&h, last) == 0, "then the next ones, as many as can");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
t_time(void)
{
	struct harness h;
	uint64_t t, u;

	h_init(&h);
	h_devices(&h, 2);
	take(&h, 1, 2);
	t = ask(&h, 2, 1, 500);
	u = ask(&h, 3, 1, 3000);
	h_advance(&h, 400);
	ok(h_code(&h, t) == -1, "it waits as long as it was to");
	h_advance(&h, 100);
	ok(h_failed(&h, t, RC_TIMEOUT,
		    "waited 0.5 s: busy: needs 1 device; 0 of 2 are free: comm 1 of program 1 (pid "
		    "4701) has 2, "
		    "program 3 (pid 4703) waits for 1"),
	   "and no longer");
	destroy(&h, 1, 1);
	ok(h_code(&h, u) == 0, "it has left the line");
	h.timeout_ms = 1000;
	t = ask(&h, 4, 2, 60000);
	h_advance(&h, 1000);
	ok(h_code(&h, t) == RC_TIMEOUT, "no longer than its client waits for the answer");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
t_clients_go(void)
{
	struct harness h;
	uint64_t first, second, third;

	h_init(&h);
	h_devices(&h, 3);
	take(&h, 1, 2);
	first = ask(&h, 2, 2, 20000);
	second = ask(&h, 3, 1, 20000);
	h_gone(&h, 2);
	h_serve(&h);
	ok(h_code(&h, second) == 0, "one whose client is away lets others go first");
	third = ask(&h, 4, 1, 20000);
	seen(&h, 2);
	destroy(&h, 1, 1);
	ok(h_code(&h, first) == 0 && h_code(&h, third) == -1,
	   "and has its place when that is back");
	h_gone(&h, 4);
	h_advance(&h, 1900);
	ok(h_code(&h, third) == -1, "it may be away for a while");
	h_advance(&h, 100);
	ok(h_failed(&h, third, RC_ABORTED, "the client disconnected"), "but not longer");
	h_gone(&h, 2);
	h_advance(&h, 600);
	ok(h_failed(&h, ask(&h, 5, 2, 0), RC_BUSY,
		    "busy: needs 2 devices; 0 of 3 are free: comm 2 of program 3 (pid 4703) has 1, "
		    "comm 3 of "
		    "program 2 (pid 4702), which disconnected: free in 1.4 s"),
	   "a lease whose client is gone is told with its end");
	third = ask(&h, 5, 2, 20000);
	h_advance(&h, 1400);
	h_serve(&h);
	ok(h_code(&h, third) == 0, "at which the next has the devices");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
t_lost(void)
{
	struct harness h;
	uint64_t all, one;

	h_init(&h);
	h_devices(&h, 3);
	ok(h_failed(&h, ask(&h, 1, 4, 10000), RC_NOTFOUND, "needs 4 devices; 3 exist"),
	   "more than there are are not waited for");
	h.alive[2] = false;
	h_advance(&h, H_LOST_MS);
	ok(h_failed(&h, ask(&h, 1, 3, 0), RC_FAILED,
		    "needs 3 devices; 2 of 3 are available; device 0000000000000002 (gpu 0) was "
		    "lost 0.0 "
		    "s ago: no heartbeat for 5.0s"),
	   "one that is lost is none that is in use");
	all = ask(&h, 1, 3, 50000);
	one = ask(&h, 2, 2, 50000);
	h_serve(&h);
	ok(h_code(&h, all) == -1 && h_code(&h, one) == 0,
	   "who waits for a lost one does not hold up others");
	destroy(&h, 2, 1);
	h.alive[2] = true;
	h_register(&h, 2);
	h_serve(&h);
	ok(h_code(&h, all) == 0, "and has all when it is back");
	destroy(&h, 1, 2);
	h.alive[2] = false;
	h_advance(&h, H_LOST_MS);
	h.timeout_ms = 4000000;
	all = ask(&h, 1, 3, 3900000);
	h_advance(&h, 3600000);
	ok(h_failed(&h, all, RC_NOTFOUND, "needs 3 devices; 2 exist"),
	   "one that is forgotten is waited for no more");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
t_grow(void)
{
	struct harness h;
	uint64_t a, b, t;

	h_init(&h);
	h_devices(&h, 4);
	a = take(&h, 1, 2);
	b = take(&h, 2, 2);
	t = grow(&h, 1, a, 1, 10000);
	ok(h_failed(&h, grow(&h, 1, a, 1, 0), RC_BUSY,
		    "busy: needs 1 device; 0 of 4 are free: comm 1 of program 1 (pid 4701) has 2, "
		    "comm 2 of "
		    "program 2 (pid 4702) has 2, a client waits for 1"),
	   "without waiting it is busy");
	destroy(&h, 2, b);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->comminit->n_devices == 3,
	   "a communicator waits to grow");
	t = grow(&h, 1, a, 1, 10000);
	h_serve(&h);
	ok(h_code(&h, t) == 0, "or need not");
	t = grow(&h, 3, a, 1, 10000);
	destroy(&h, 1, a);
	ok(h_failed(&h, t, RC_ABORTED, "communicator 1 destroyed"), "one that goes does not grow");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
t_restart(void)
{
	struct harness h;
	uint64_t first, second;

	h_init(&h);
	h_devices(&h, 2);
	take(&h, 1, 2);
	first = ask(&h, 2, 2, 20000);
	second = ask(&h, 3, 1, 20000);
	h_crash(&h);
	h_repeat_all(&h);
	h_serve(&h);
	h_register(&h, 1);
	h_register(&h, 2);
	seen(&h, 1);
	ok(h_code(&h, first) == -1 && h_code(&h, second) == -1,
	   "who asks again stands in line again");
	ok(h_failed(&h, ask(&h, 4, 1, 0), RC_BUSY,
		    "busy: needs 1 device; 0 of 2 are free: comm 1 of program 1 (pid 4701) has 2, "
		    "program 2 "
		    "(pid 4702) waits for 2"),
	   "it is still known who has what");
	destroy(&h, 1, 1);
	ok(h_code(&h, first) == 0 && h_code(&h, second) == -1, "and is served");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
t_hostile(void)
{
	struct harness h;
	GpuSim__CommInitRequest q = GPU_SIM__COMM_INIT_REQUEST__INIT;
	char program[200];
	unsigned waiting = 0;
	uint64_t t;

	memset(program, 'x', sizeof program - 1);
	program[sizeof program - 1] = '\0';
	h_init(&h);
	h_devices(&h, 2);
	q.numdevices = 2;
	q.program = program;
	h_ask(&h, 1, COMM_INIT, comminit, &q);
	h_serve(&h);
	program[63] = '\0';
	t = ask(&h, 2, 1, 0);
	ok(strstr(h_text(&h, t), program) && strstr(h_text(&h, t), "x (pid 0), has 2"),
	   "a long name is cut");
	for (int i = 0; i < 1100; i++)
		waiting += h_code(&h, ask(&h, 3, 1, UINT32_MAX)) == -1;
	ok(waiting == 1024, "a client waits with as many requests as with any others");
	for (uint64_t i = 0; i < 70; i++)
		h_gone(&h, i);
	h_advance(&h, 2000);
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

int
main(void)
{
	t_in_order();
	t_time();
	t_clients_go();
	t_lost();
	t_grow();
	t_restart();
	t_hostile();
	return tap_done();
}
