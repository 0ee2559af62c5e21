/* What a rank says of an operation that fails, of its progress meanwhile, and for whom it waited. */
#include "dev_test.h"

#define NRANKS	   3
#define NELEM	   96
#define COMM	   5
#define OP	   7
#define TIMEOUT_MS 1000 /* so long that what a rank waits for is seen before it gives up */

static struct nodes v;

/* A collective on rank r, of the algorithm. */
static void
start(uint32_t r, enum gpusim_coll coll, const char *algo, struct ending *e)
{
	struct list *l = calloc(1, sizeof *l);
	struct node *d = &v.node[r];
	uint64_t in = node_alloc(d, NELEM), out = node_alloc(d, NELEM);

	list_coll(l, 0, coll, in, out, NELEM)->algo = (char *)algo;
	node_run(d, COMM, l, OP, e);
	free(l);
}

static bool
failed(struct ending *e, const char *algo, const char *sentence)
{
	const struct failure *f = &e->result.failure;
	bool good = ending_wait(e) != RC_OK && f->coll && f->op == OP &&
		    strcmp(f->coll, "allreduce") == 0 && strcmp(f->algo, algo) == 0 &&
		    f->step >= 1 && f->step <= f->steps && strstr(e->result.err.text, sentence);

	if (!good)
		printf("# %s; operation %" PRIu64 " %s step %u of %u, %u missing\n",
		       e->result.err.text, f->op, f->coll ? f->coll : "?", f->step, f->steps,
		       f->nmissing);
	return good;
}

/* Rank 2 is not there; the two others wait, say so, and fail. */
static void
test_missing(enum nodes_way way, const char *by)
{
	struct ending e[2] = {ENDING, ENDING};
	struct progress p;

	nodes_open_by(&v, NRANKS, 1 << 20, way);
	nodes_attach(&v, COMM, 1, NRANKS, TIMEOUT_MS);
	start(0, GPUSIM_ALLREDUCE, "ring", &e[0]);
	do
		sched_yield();
	while (streams_progress(v.node[0].streams, &p, 1) == 0 || !p.waits_for);
	ok(p.comm == COMM && p.epoch == 1 && p.op == OP && p.step >= 1 && p.step <= p.steps &&
	       p.waits_for == 3,
	   "%s: a rank that waits tells in which step, and for whom", by);
	ok(failed(&e[0], "ring", "allreduce #7 (ring) step ") &&
	       strstr(e[0].result.err.text, "s: nothing from rank 2 (device 00000000000000d2)") &&
	       strstr(e[0].result.err.text, ": no progress for ") &&
	       e[0].result.failure.nmissing == 1 && e[0].result.failure.missing[0] == 2 &&
	       e[0].result.failure.idle_ns >= TIMEOUT_MS * NS_PER_MS,
	   "%s: and when it fails, the operation, step, idle time and missing rank", by);
	ok(streams_progress(v.node[0].streams, &p, 1) == 0, "%s: then it is in no operation", by);
	start(1, GPUSIM_ALLREDUCE, "ring", &e[1]);
	ok(failed(&e[1], "ring", "rank 0 (device 00000000000000d0) gave up") &&
	       e[1].result.err.rc == RC_ABORTED,
	   "%s: who hears that another has given up says so", by);
	nodes_close(&v);
}

/* Where all ranks meet, all who are missing are named. */
static void
test_all_missing(void)
{
	struct ending e = ENDING;

	nodes_open_by(&v, NRANKS, 1 << 20, NODES_BY_MEMORY);
	nodes_attach(&v, COMM, 1, NRANKS, TIMEOUT_MS);
	start(0, GPUSIM_ALLREDUCE, "twoshot", &e);
	ok(failed(&e, "twoshot", "allreduce #7 (twoshot) step 1 of ") &&
	       e.result.failure.nmissing == 2 && e.result.failure.missing[0] == 1 &&
	       e.result.failure.missing[1] == 2,
	   "where all meet, all who are missing are named");
	nodes_close(&v);
}

/* Of a collective of two of the ranks one is missing; the steps after the failed one have no one peer. */
static void
test_group_missing(void)
{
	static const char *const algos[] = {"oneshot", "twoshot"};

	for (unsigned i = 0; i < 2; i++) {
		struct ending e = ENDING;
		struct list *l = calloc(1, sizeof *l);
		uint32_t members[] = {0, 2};
		GpuSim__Coll *m;

		nodes_open_by(&v, NRANKS, 1 << 20, NODES_BY_MEMORY);
		nodes_attach(&v, COMM, 1, NRANKS, TIMEOUT_MS);
		m = list_coll(l, 0, GPUSIM_ALLREDUCE, node_alloc(&v.node[0], NELEM),
			      node_alloc(&v.node[0], NELEM), NELEM);
		m->algo = (char *)algos[i];
		m->members = members;
		m->n_members = 2;
		m->group = (char *)"dp";
		node_run(&v.node[0], COMM, l, OP, &e);
		ok(failed(&e, algos[i], "allreduce of dp #7") && e.result.failure.nmissing == 1 &&
		       e.result.failure.missing[0] == 2,
		   "%s of two ranks: the one that is missing is named", algos[i]);
		free(l);
		nodes_close(&v);
	}
}

/* Rank 1 comes last; each rank says for whom it waited. */
static void
test_waited(enum nodes_way way, const char *by)
{
	struct ending e[NRANKS] = {ENDING, ENDING, ENDING};
	struct progress p;
	uint64_t waited[NRANKS][NRANKS], began_ns, ran_ns;

	nodes_open_by(&v, NRANKS, 1 << 20, way);
	nodes_attach(&v, COMM, 1, NRANKS, 60000);
	for (uint32_t r = 0; r < NRANKS; r++)
		if (r != 1)
			start(r, GPUSIM_ALLREDUCE, "ring", &e[r]);
	for (uint32_t r = 0; r < NRANKS; r += 2)
		do
			sched_yield();
		while (streams_progress(v.node[r].streams, &p, 1) == 0 ||
		       p.idle_ns < 20 * NS_PER_MS);
	began_ns = clock_now_ns();
	start(1, GPUSIM_ALLREDUCE, "ring", &e[1]);
	for (uint32_t r = 0; r < NRANKS; r++)
		ending_wait(&e[r]);
	ran_ns = clock_now_ns() - began_ns;
	for (uint32_t r = 0; r < NRANKS; r++)
		memcpy(waited[r], e[r].waited_ns, sizeof waited[r]);
	ok(e[0].result.err.rc == RC_OK && e[0].result.failure.coll == NULL,
	   "%s: a run that succeeds tells of no failure", by);
	/* In a ring rank 2 waits for rank 1, and rank 0 for rank 2, which waits. */
	ok(waited[2][1] >= 20 * NS_PER_MS && waited[0][2] >= 20 * NS_PER_MS &&
	       waited[1][0] <= ran_ns,
	   "%s: and of how long each rank was waited for", by);
	printf("# %.1f ms for rank 1, %.1f ms for rank 2\n", (double)waited[2][1] / 1e6,
	       (double)waited[0][2] / 1e6);
	nodes_close(&v);
}

int
main(void)
{
	test_missing(NODES_BY_SOCKETS, "by sockets");
	test_missing(NODES_BY_MEMORY, "by memory");
	test_all_missing();
	test_group_missing();
	test_waited(NODES_BY_SOCKETS, "by sockets");
	test_waited(NODES_BY_MEMORY, "by memory");
	return tap_done();
}
