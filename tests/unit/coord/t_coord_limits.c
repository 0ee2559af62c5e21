/* What one client may have, and that others still get theirs when it has that. */
#include "coord_harness.h"

#define HOG   7
#define OTHER 8
#define OWNER 9

/* A communicator over device 1, which may be in many. */
static uint64_t
init_named(struct harness *h, uint64_t client)
{
	GpuSim__CommInitRequest q = GPU_SIM__COMM_INIT_REQUEST__INIT;
	uint64_t id = 1, t;

	q.n_deviceids = 1;
	q.deviceids = &id;
	t = h_ask(h, client, COMM_INIT, comminit, &q);
	h_serve(h);
	return t;
}

static void
t_comms(void)
{
	struct harness h;
	unsigned good = 0;

	h_init(&h);
	h_devices(&h, 1);
	for (int i = 0; i < 128; i++)
		good += h_code(&h, init_named(&h, HOG)) == 0;
	ok(good == 128 && h_failed(&h, init_named(&h, HOG), RC_BUSY,
				   "this client has 128 communicators, which is its limit"),
	   "a client has at most 128 communicators");
	ok(h_code(&h, init_named(&h, OTHER)) == 0, "others make theirs");
	h_destroy(&h, HOG, 1);
	h_serve(&h);
	ok(h_code(&h, init_named(&h, HOG)) == 0, "who destroys one may make another");
	ok(h_clean(&h), "clean");
	h_fini(&h);
}

static void
t_requests(void)
{
	struct harness h;
	struct h_ops o;
	uint64_t t, last = 0;

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, OWNER, 2);
	h_allreduce(&o, 2, 4);
	t = h_submit(&h, OWNER, 1, &o, true);
	for (int i = 0; i < 1024; i++)
		last = h_status(&h, HOG, 1, true);
	ok(h_code(&h, last) == -1, "1024 requests of a client wait");
	ok(h_failed(&h, h_status(&h, HOG, 1, true), RC_BUSY,
		    "1024 requests of this client are pending, which is its limit"),
	   "and no more");
	ok(h_code(&h, h_status(&h, OTHER, 1, true)) == -1 &&
	       h_code(&h, h_status(&h, OTHER, 1, false)) == 0,
	   "others wait, and are answered");
	h_serve(&h);
	ok(h_code(&h, t) == 0 && h_code(&h, last) == 0 &&
	       h_code(&h, h_status(&h, HOG, 1, false)) == 0,
	   "when all are answered it may ask again");
	ok(h_clean(&h), "clean");
	h_fini(&h);
}

static uint64_t
make_graph(struct harness *h, uint64_t client)
{
	GpuSim__GraphCreateRequest q = GPU_SIM__GRAPH_CREATE_REQUEST__INIT;
	struct h_ops o;
	uint64_t t;

	h_allreduce(&o, 2, 4);
	q.commid = 1;
	q.n_ranks = 2;
	q.ranks = o.rankp;
	t = h_ask(h, client, GRAPH_CREATE, graphcreate, &q);
	h_serve(h);
	return t;
}

static void
t_guests(void)
{
	struct harness h;
	struct h_ops o;
	unsigned good = 0;

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, OWNER, 2);
	for (int i = 0; i < 64; i++)
		good += h_code(&h, make_graph(&h, HOG)) == 0;
	ok(good == 64 && h_failed(&h, make_graph(&h, HOG), RC_BUSY,
				  "comm 1: this client has 64 graphs, which is its limit on "
				  "another client's communicator"),
	   "a client keeps at most 64 graphs on another's communicator");
	ok(h_code(&h, make_graph(&h, OTHER)) == 0 && h_code(&h, make_graph(&h, OWNER)) == 0,
	   "others, and who made it, keep theirs");
	h_allreduce(&o, 2, 4);
	good = 0;
	for (int i = 0; i < 256; i++)
		good += h_code(&h, h_submit(&h, HOG, 1, &o, false)) == 0;
	ok(good == 256 && h_failed(&h, h_submit(&h, HOG, 1, &o, false), RC_BUSY,
				   "comm 1: 256 runs of this client are pending, which is its "
				   "limit on another client's communicator"),
	   "a client has at most 256 runs pending there");
	good = 0;
	for (int i = 0; i < 700; i++)
		good += h_code(&h, h_submit(&h, OWNER, 1, &o, false)) == 0;
	ok(good == 700 && h_code(&h, h_submit(&h, OTHER, 1, &o, false)) == 0,
	   "who made it has more, and others theirs");
	h_serve(&h);
	ok(h_code(&h, h_submit(&h, HOG, 1, &o, false)) == 0, "when they have ended it may go on");
	ok(h_clean(&h), "clean");
	h_fini(&h);
}

/* A submit of about 750 KB, for one rank. */
static uint64_t
submit_large(struct harness *h, uint64_t client)
{
	static char kernel[256];
	static GpuSim__Op *ops[3000];
	GpuSim__Launch l = GPU_SIM__LAUNCH__INIT;
	GpuSim__Op op = GPU_SIM__OP__INIT;
	GpuSim__RankOps rank = GPU_SIM__RANK_OPS__INIT, *ranks = &rank;
	GpuSim__SubmitRequest q = GPU_SIM__SUBMIT_REQUEST__INIT;

	memset(kernel, 'k', 250);
	l.kernel = kernel;
	op.kind_case = GPU_SIM__OP__KIND_LAUNCH;
	op.launch = &l;
	for (size_t i = 0; i < 3000; i++)
		ops[i] = &op;
	rank.n_ops = 3000;
	rank.ops = ops;
	q.commid = 1;
	q.n_ranks = 1;
	q.ranks = &ranks;
	return h_ask(h, client, SUBMIT, submit, &q);
}

static void
t_held(void)
{
	struct harness h;
	unsigned good = 0;
	uint64_t t;

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, HOG, 2);
	while (h_code(&h, t = submit_large(&h, HOG)) == 0 && good < 1000)
		good++;
	ok(good > 80 && good < 96 && h_code(&h, t) == RC_BUSY &&
	       strstr(h_text(&h, t), "MiB at the coordinator; the limit is 64; try again later"),
	   "a client has at most 64 MiB of operations waiting");
	printf("# %u submits: %s\n", good, h_text(&h, t));
	ok(h_code(&h, submit_large(&h, OTHER)) == 0, "others get theirs in");
	ok(h_clean(&h), "clean");
	h_fini(&h);
}

int
main(void)
{
	t_comms();
	t_requests();
	t_guests();
	t_held();
	return tap_done();
}
