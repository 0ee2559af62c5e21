/* dev/stream: order within a stream, concurrency between streams, events, failures, transfers. */
#include "dev_test.h"

#include "wire/frame.h"

#define N 4096 /* bytes of a buffer */

static struct nodes v;
static struct list l;
static struct node *d = &v.node[0];
static uint64_t a, b, c; /* buffers of device 0 */

static unsigned char *
host(uint64_t addr)
{
	return devmem_at(d->mem, addr, N);
}

static bool
all(uint64_t addr, unsigned char value)
{
	const unsigned char *p = host(addr);

	for (size_t i = 0; i < N; i++)
		if (p[i] != value)
			return false;
	return true;
}

/* A receive on stream s whose peer comes when the test says: what the stream does until then waits.
 */
static void
add_gate(uint32_t stream, uint64_t op)
{
	GpuSim__Coll *k = list_coll(&l, stream, GPUSIM_RECV, 0, c, 1);

	k->root = 1;
	k->opoffset = op;
}

static void
open_gate(uint64_t op)
{
	static struct list one;
	uint64_t from = node_alloc(&v.node[1], 1);
	struct ending e = ENDING;
	GpuSim__Coll *k;

	one.n = 0;
	k = list_coll(&one, 0, GPUSIM_SEND, from, 0, 1);
	k->opoffset = op;
	node_run(&v.node[1], 1, &one, 0, &e);
	ending_wait(&e);
	devmem_free(v.node[1].mem, from, NULL);
}

static unsigned
told(struct ending *e)
{
	unsigned n;

	pthread_mutex_lock(&e->lock);
	n = e->told;
	pthread_mutex_unlock(&e->lock);
	return n;
}

static void
start(struct ending *e)
{
	node_run(d, 1, &l, 0, e);
	l.n = 0;
}

static void
test_order(void)
{
	struct ending e[3] = {ENDING, ENDING, ENDING};

	list_memset(&l, 0, a, 1, N);
	list_copy(&l, 0, b, a, N);
	list_memset(&l, 0, a, 2, N);
	start(&e[0]);
	ok(ending_wait(&e[0]) == RC_OK && all(a, 2) && all(b, 1), "a stream does things in order");
	add_gate(0, 1);
	list_memset(&l, 0, a, 3, N);
	start(&e[1]);
	list_memset(&l, 0, a, 4, N);
	start(&e[2]);
	list_memset(&l, 5, b, 5, N);
	e[0] = (struct ending)ENDING;
	start(&e[0]);
	ok(ending_wait(&e[0]) == RC_OK && all(b, 5), "another stream does not wait for it");
	ok(!told(&e[1]) && !told(&e[2]) && all(a, 2), "while what is behind a wait waits");
	open_gate(1);
	ok(ending_wait(&e[1]) == RC_OK && ending_wait(&e[2]) == RC_OK && all(a, 4),
	   "then runs go one after the other");
	ok(told(&e[1]) == 1 && told(&e[2]) == 1, "each told once");
}

static void
test_times(void)
{
	struct ending e = ENDING;

	list_memset(&l, 0, a, 1, N);
	add_gate(0, 2);
	start(&e);
	open_gate(2);
	ok(ending_wait(&e) == RC_OK && e.result.comm_ns > 0 && e.result.compute_ns > 0,
	   "time goes to communication and to computing");
	e = (struct ending)ENDING;
	list_event(&l, 1, 90, RECORD);
	list_event(&l, 0, 90, WAIT);
	start(&e);
	ok(ending_wait(&e) == RC_OK && e.result.comm_ns == 0 && e.result.compute_ns == 0,
	   "waiting for events is neither");
	start(&e); /* an empty list */
	ok(ending_wait(&e) == RC_OK, "nothing to do is done at once");
}

/* ---- events */

static void
test_events(void)
{
	struct ending e[3] = {ENDING, ENDING, ENDING};

	list_event(&l, 1, 10, WAIT);
	start(&e[0]);
	ok(ending_wait(&e[0]) == RC_OK, "an event nobody has recorded holds nobody");
	e[0] = (struct ending)ENDING;
	host(b)[0] = 0;
	add_gate(0, 3);
	list_memset(&l, 0, a, 7, N);
	list_event(&l, 0, 10, RECORD);
	start(&e[0]);
	list_event(&l, 1, 10, WAIT);
	list_copy(&l, 1, b, a, N);
	start(&e[1]);
	list_memset(&l, 2, c, 1, N);
	start(&e[2]);
	ok(ending_wait(&e[2]) == RC_OK && !told(&e[1]), "a stream waits for the recording");
	open_gate(3);
	ok(ending_wait(&e[0]) == RC_OK && ending_wait(&e[1]) == RC_OK && all(b, 7),
	   "and sees what was done before it");
}

/*
 * Two streams of one graph take turns: stream 0 copies the next place of a ramp to one mailbox,
 * which stream 1 empties into the next place of a log. Overtaking loses or doubles a value.
 */
static void
test_graph_events(void)
{
	enum { TURNS = 200 };
	struct program *p;
	struct err err = {0};
	struct ending e = ENDING;
	GpuSim__KernelArg arg[2][4], *argp[2][4];
	static const char *const name[4] = {"dst", "src", "n", "dtype"};
	uint64_t value[2][4] = {{c, a, 1, GPUSIM_U64}, {b, c, 1, GPUSIM_U64}};
	uint64_t ramp[TURNS];

	for (unsigned i = 0; i < TURNS; i++)
		ramp[i] = 1000 + i;
	memcpy(host(a), ramp, sizeof ramp);
	memset(host(b), 0, N);
	for (unsigned s = 0; s < 2; s++)
		for (unsigned i = 0; i < 4; i++) {
			arg[s][i] = (GpuSim__KernelArg)GPU_SIM__KERNEL_ARG__INIT;
			arg[s][i].name = (char *)name[i];
			arg[s][i].value_case = GPU_SIM__KERNEL_ARG__VALUE_U;
			arg[s][i].u = value[s][i];
			argp[s][i] = &arg[s][i];
		}
	arg[0][1].step = arg[1][0].step = 8;
	list_event(&l, 0, 21, WAIT); /* the mailbox was emptied, in the turn before */
	list_launch(&l, 0, "copy", argp[0], 4);
	list_event(&l, 0, 20, RECORD);
	list_event(&l, 1, 20, WAIT); /* it was filled, in this one */
	list_launch(&l, 1, "copy", argp[1], 4);
	list_event(&l, 1, 21, RECORD);
	must(list_build(d, 1, &l, &p, &err), &err);
	l.n = 0;
	node_start(d, p, 0, 0, TURNS, &e);
	ok(ending_wait(&e) == RC_OK, "a graph of two streams that wait for each other, %d times",
	   TURNS);
	ok(!memcmp(host(b), ramp, sizeof ramp), "neither overtakes the other");
}

/* A wait in a graph for an event recorded outside is for that one recording, in every iteration. */
static void
test_graph_foreign(void)
{
	struct program *p;
	struct err err = {0};
	struct ending e[2] = {ENDING, ENDING};

	add_gate(0, 4);
	list_event(&l, 0, 40, RECORD);
	start(&e[0]);
	list_event(&l, 1, 40, WAIT);
	list_memset(&l, 1, b, 8, N);
	must(list_build(d, 1, &l, &p, &err), &err);
	l.n = 0;
	node_start(d, p, 0, 0, 5, &e[1]);
	open_gate(4);
	ok(ending_wait(&e[0]) == RC_OK && ending_wait(&e[1]) == RC_OK && all(b, 8),
	   "a graph that waits for an event from outside");
}

/* ---- failures */

/* An operation that fails when it runs: its number is taken. */
static void
add_failure(uint32_t stream)
{
	list_coll(&l, stream, GPUSIM_BARRIER, 0, 0, 0)->opoffset = 1;
}

static void
test_failure(void)
{
	struct ending e[3] = {ENDING, ENDING, ENDING};
	struct err why = {0}, err = {0};
	enum stream_state state;

	memset(host(a), 0, N);
	memset(host(b), 0, N);
	add_failure(0);
	list_memset(&l, 0, a, 1, N);
	list_event(&l, 0, 50, RECORD);
	list_event(&l, 1, 50, WAIT);
	list_memset(&l, 1, b, 1, N);
	start(&e[0]);
	list_memset(&l, 0, c, 9, N);
	start(&e[1]);
	list_event(&l, 2, 50, WAIT);
	start(&e[2]);
	ok(ending_wait(&e[0]) == RC_INVAL && strstr(e[0].result.err.text, "barrier: "), "%s",
	   e[0].result.err.text);
	ok(all(a, 0), "what stood behind it in the run is not done");
	ok(all(b, 0), "nor what waited for that on another stream");
	ok(ending_wait(&e[1]) == RC_OK && all(c, 9), "the next run goes on");
	ok(ending_wait(&e[2]) == RC_OK, "who waits for its events elsewhere goes on");
	ok(told(&e[0]) == 1, "it is told once");
	ok(streams_status(d->streams, 0, &state, &why, &err) == RC_OK && state == STREAM_IDLE,
	   "and not kept by the stream");
}

static void
test_queued_failure(void)
{
	struct ending e = ENDING;
	struct err why = {0}, err = {0};
	enum stream_state state;

	add_failure(3);
	list_memset(&l, 4, a, 1, N / 2);
	list_event(&l, 3, 51, RECORD);
	list_event(&l, 5, 51, WAIT);
	list_memset(&l, 5, a + N / 2, 1, N - N / 2);
	start(NULL);
	list_memset(&l, 3, b, 1, N);
	list_event(&l, 6, 51, WAIT);
	list_memset(&l, 4, c, 1, N / 2);
	list_memset(&l, 5, c + N / 2, 1, N - N / 2);
	start(&e);
	ok(ending_wait(&e) == RC_OK, "what is queued behind a failure runs");
	ok(streams_status(d->streams, 3, &state, &why, &err) == RC_OK && state == STREAM_FAILED &&
	       why.rc == RC_INVAL && strstr(why.text, "barrier: "),
	   "the failure stays with its stream: %s", why.text);
	ok(streams_status(d->streams, 3, &state, &why, &err) == RC_OK && state == STREAM_IDLE,
	   "until it is asked for");
	ok(streams_status(d->streams, 5, &state, &why, &err) == RC_OK && state == STREAM_FAILED &&
	       why.rc == RC_INVAL,
	   "and with a stream that could not go on for it");
}

/* ---- waiting */

static void
on_idle(void *arg)
{
	struct run_result none = {.comm_ns = 0};

	ending_tell(arg, &none);
}

static void
test_waiting(void)
{
	struct ending e = ENDING, idle[3] = {ENDING, ENDING, ENDING};
	struct err err = {0};

	must(streams_when_idle(d->streams, 7, UINT64_MAX, on_idle, &idle[0], &err), &err);
	ok(told(&idle[0]) == 1, "an idle stream is idle at once");
	add_gate(7, 5);
	start(&e);
	idle[0] = (struct ending)ENDING;
	must(streams_when_idle(d->streams, 7, UINT64_MAX, on_idle, &idle[0], &err), &err);
	must(streams_when_idle(d->streams, 7, clock_now_ns(), on_idle, &idle[1], &err), &err);
	must(streams_when_idle(d->streams, 7, UINT64_MAX, on_idle, &idle[2], &err), &err);
	streams_tick(d->streams);
	ok(told(&idle[1]) == 1 && !told(&idle[0]) && !told(&idle[2]),
	   "who has waited too long is told");
	open_gate(5);
	ending_wait(&idle[0]);
	ending_wait(&idle[2]);
	ending_wait(&e);
	streams_tick(d->streams);
	ok(told(&idle[0]) == 1 && told(&idle[1]) == 1 && told(&idle[2]) == 1,
	   "the others when it is idle, each once");
}

static void
test_limits(void)
{
	struct ending e = ENDING, last = ENDING;
	struct program *p;
	struct err err = {0};
	struct run_spec spec = {.iterations = 1};
	unsigned n = 0;
	enum rc rc;

	add_gate(8, 6);
	start(&e);
	list_memset(&l, 8, a, 1, 1);
	must(list_build(d, 0, &l, &p, &err), &err);
	l.n = 0;
	spec.program = p;
	while ((rc = streams_run(d->streams, &spec, &err)) == RC_OK)
		n++;
	ok(rc == RC_BUSY && n == STREAM_MAX_QUEUED - 1, "a full queue says so: %s", err.text);
	spec.iterations = 0;
	ok(streams_run(d->streams, &spec, &err) == RC_INVAL, "%s", err.text);
	spec.iterations = UINT64_MAX;
	ok(streams_run(d->streams, &spec, &err) == RC_INVAL, "%s", err.text);
	streams_drop(d->streams, p);
	open_gate(6);
	ending_wait(&e);
	must(streams_when_idle(d->streams, 8, UINT64_MAX, on_idle, &last, &err), &err);
	ending_wait(&last);
	ok(d->held == 0, "the last run lets go of the program");
}

/* ---- the lab's transfers */

static enum rc
begin(unsigned r, enum gpusim_coll way, uint64_t addr, uint64_t nbytes, uint64_t id,
      struct err *err)
{
	struct node *n = &v.node[r];
	struct program *p;
	enum rc rc;

	rc =
	    program_build_transfer(&n->env, way, 1, 1 - r, addr, nbytes, FRAME_OP_LAB(id), &p, err);
	if (rc != RC_OK)
		return rc;
	rc = streams_transfer(n->streams, id, p, 0, err);
	streams_drop(n->streams, p);
	return rc;
}

static void
wait_transfer(unsigned r, uint64_t id, enum stream_state *state, struct err *why)
{
	struct ending idle = ENDING;
	struct err err = {0};

	must(streams_when_idle(v.node[r].streams, id, UINT64_MAX, on_idle, &idle, &err), &err);
	ending_wait(&idle);
	must(streams_status(v.node[r].streams, id, state, why, &err), &err);
}

static void
test_transfers(void)
{
	uint64_t to = node_alloc(&v.node[1], N);
	enum stream_state state[2];
	struct err why[2] = {{0}, {0}}, err = {0};
	bool good = true;

	for (unsigned i = 0; i < 100; i++) {
		memset(host(a), (int)i, N);
		must(begin(i % 2, i % 2 ? GPUSIM_RECV : GPUSIM_SEND, i % 2 ? to : a, N, 1000 + i,
			   &err),
		     &err);
		must(begin(1 - i % 2, i % 2 ? GPUSIM_SEND : GPUSIM_RECV, i % 2 ? a : to, N,
			   1000 + i, &err),
		     &err);
		wait_transfer(0, 1000 + i, &state[0], &why[0]);
		wait_transfer(1, 1000 + i, &state[1], &why[1]);
		good &= state[0] == STREAM_IDLE && state[1] == STREAM_IDLE &&
			((unsigned char *)devmem_at(v.node[1].mem, to, N))[N - 1] == i;
	}
	ok(good, "a hundred transfers, either end first");
	ok(begin(0, GPUSIM_SEND, a, N, 1000, &err) == RC_BUSY, "%s", err.text);
	ok(begin(0, GPUSIM_SEND, a, N, 3, &err) == RC_BUSY, "%s", err.text);
	ok(streams_status(v.node[0].streams, 12345, &state[0], &why[0], &err) == RC_NOTFOUND, "%s",
	   err.text);
	must(begin(0, GPUSIM_SEND, a, N, 5000, &err), &err);
	must(begin(1, GPUSIM_RECV, to, N - 1, 5000, &err), &err);
	for (unsigned r = 0; r < 2; r++)
		wait_transfer(r, 5000, &state[r], &why[r]);
	ok(state[1] == STREAM_FAILED && why[1].rc == RC_BADDATA, "%s", why[1].text);
	ok(state[0] == STREAM_FAILED && why[0].rc == RC_ABORTED, "%s", why[0].text);
	must(streams_status(v.node[0].streams, 5000, &state[0], &why[0], &err), &err);
	ok(state[0] == STREAM_FAILED, "a transfer's failure can be asked for again");
}

/* More than may be at work; then the end of the device, which tells everybody. */
static void
test_stop(void)
{
	struct ending e[2] = {ENDING, ENDING}, idle[2] = {ENDING, ENDING};
	struct err err = {0}, why = {0};
	enum stream_state state;
	uint64_t id = 20000;
	struct program *p;
	struct run_spec spec = {.iterations = 1};
	enum rc rc;

	while ((rc = begin(0, GPUSIM_RECV, a, N, id, &err)) == RC_OK)
		id++;
	ok(rc == RC_BUSY && id - 20000 == STREAM_MAX_TRANSFER, "%s", err.text);
	add_gate(9, 7);
	list_event(&l, 9, 60, RECORD);
	start(&e[0]);
	list_event(&l, 10, 60, WAIT);
	start(&e[1]);
	must(streams_when_idle(d->streams, 9, UINT64_MAX, on_idle, &idle[0], &err), &err);
	must(streams_when_idle(d->streams, 20000, UINT64_MAX, on_idle, &idle[1], &err), &err);
	xport_abort_all(d->xport, "lights out");
	streams_stop(d->streams);
	/* Aborted in the middle, or before it began. */
	ok(told(&e[0]) == 1 && e[0].result.err.rc == RC_ABORTED, "a run is told");
	ok(told(&e[1]) == 1, "who waited for its event");
	ok(told(&idle[0]) == 1 && told(&idle[1]) == 1, "who waited for streams");
	must(streams_status(d->streams, 20000, &state, &why, &err), &err);
	ok(state == STREAM_FAILED && why.rc == RC_ABORTED, "a transfer");
	list_memset(&l, 0, a, 1, 1);
	must(list_build(d, 0, &l, &p, &err), &err);
	l.n = 0;
	spec.program = p;
	ok(streams_run(d->streams, &spec, &err) == RC_ABORTED, "nothing new: %s", err.text);
	streams_drop(d->streams, p);
}

int
main(void)
{
	nodes_open(&v, 2, 1u << 20);
	nodes_attach(&v, 1, 1, 2, 20000);
	a = node_alloc(d, N);
	b = node_alloc(d, N);
	c = node_alloc(d, N);
	test_order();
	test_times();
	test_events();
	test_graph_events();
	test_graph_foreign();
	test_failure();
	test_queued_failure();
	test_waiting();
	test_limits();
	test_transfers();
	test_stop();
	ok(nodes_close(&v), "no program is left");
	return tap_done();
}
