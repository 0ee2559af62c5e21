/* Groups and graphs. */
#include "coord_harness.h"

static void
t_group(void)
{
	struct harness h;
	struct h_ops o, bad;
	GpuSim__RunRequest *q;
	uint64_t t, u;

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, 9, 2);
	h_allreduce(&o, 2, 10);
	h_allreduce(&bad, 2, 10);
	bad.coll[1][0].nelem = 11;
	ok(h_code(&h, h_group_start(&h, 9, 1)) == 0, "a group starts");
	ok(h_failed(&h, h_group_start(&h, 9, 1), RC_INVAL,
		    "comm 1: the client's group is open already"),
	   "but not twice");
	t = h_submit(&h, 9, 1, &o, true);
	ok(h_code(&h, t) == 0 && h.ncall == 0, "what is submitted inside is gathered");
	ok(h_failed(&h, h_submit(&h, 9, 1, &bad, true), RC_INVAL,
		    "collective 0 (allreduce): nelem is 10 on rank 0 and 11 on rank 1"),
	   "argument errors come at once");
	h_submit(&h, 8, 1, &o, false);
	ok(h.ncall == 2, "other clients are not in the group");
	h_serve(&h);
	h_ops_init(&o, 2);
	h_coll(&o, 1, GPUSIM_RECV, 8, 0);
	h_submit(&h, 9, 1, &o, true);
	h_ops_init(&o, 2);
	h_coll(&o, 0, GPUSIM_SEND, 9, 1);
	ok(h_failed(&h, h_submit(&h, 9, 1, &o, true), RC_INVAL,
		    "rank 0 operation 0: send of 36 bytes, but rank 1's recv has 32"),
	   "also those between submits");
	o.coll[0][0].nelem = 8;
	h_submit(&h, 9, 1, &o, true);
	h_ops_init(&o, 2);
	h_coll(&o, 1, GPUSIM_RECV, 4, 0);
	h_coll(&o, 0, GPUSIM_SEND, 4, 1);
	h_coll(&o, 0, GPUSIM_SEND, 5, 1);
	h_coll(&o, 1, GPUSIM_RECV, 6, 0);
	ok(h_code(&h, h_submit(&h, 9, 1, &o, true)) == RC_INVAL,
	   "a submit is taken as a whole or not");
	u = h_group_end(&h, 9, 1, true);
	q = h.ncall == 2 ? h.call[1].req->run : NULL;
	ok(q && q->n_ops == 2 && q->firstop == 1 && q->ops[0]->coll->opoffset == 0 &&
	       q->ops[1]->coll->opoffset == 1 &&
	       q->ops[1]->coll->coll == GPU_SIM__COLLECTIVE__RECV &&
	       h.call[0].req->run->ops[1]->coll->opoffset == 1,
	   "the end starts one run of all that was right");
	ok(h_code(&h, u) == -1, "with wait, the end waits");
	h_serve(&h);
	ok(h_code(&h, u) == 0 && h_reply(&h, u)->groupend->success, "and has the group's result");
	h_allreduce(&o, 2, 10);
	t = h_submit(&h, 9, 1, &o, false);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->submit->operation == 3,
	   "what was refused has taken no number");
	h_serve(&h);
	ok(h_failed(&h, h_group_end(&h, 9, 1, true), RC_INVAL,
		    "comm 1: the client has no open group"),
	   "an end without a start is refused");
	h_group_start(&h, 9, 1);
	t = h_group_end(&h, 9, 1, true);
	ok(h_code(&h, t) == 0 && h.ncall == 0, "an empty group succeeds");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* One rank's submit. */
static uint64_t
submit_one(struct harness *h, uint64_t client, struct h_ops *o, uint32_t rank)
{
	GpuSim__SubmitRequest q = GPU_SIM__SUBMIT_REQUEST__INIT;

	q.commid = 1;
	q.n_ranks = 1;
	q.ranks = &o->rankp[rank];
	q.meet = true;
	return h_ask(h, client, SUBMIT, submit, &q);
}

static void
t_meet(void)
{
	struct harness h;
	struct h_ops o, bad;
	uint64_t t[2];

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, 9, 2);
	h_allreduce(&o, 2, 10);
	h_allreduce(&bad, 2, 11);
	t[1] = submit_one(&h, 8, &o, 1);
	ok(h_code(&h, t[1]) == -1 && h.ncall == 0, "one rank's submit waits for the other's");
	ok(h_failed(&h, submit_one(&h, 7, &o, 1), RC_BUSY,
		    "comm 1: rank 1 already has a submit that waits for other ranks"),
	   "a rank has one at a time");
	t[0] = submit_one(&h, 9, &o, 0);
	ok(h_code(&h, t[0]) == 0 && h_code(&h, t[1]) == 0 && h.ncall == 2 &&
	       h_reply(&h, t[0])->submit->operation == h_reply(&h, t[1])->submit->operation,
	   "then they run as one, and both are answered");
	h_serve(&h);
	t[0] = submit_one(&h, 9, &o, 0);
	t[1] = submit_one(&h, 8, &bad, 1);
	ok(h_failed(&h, t[1], RC_INVAL,
		    "collective 0 (allreduce): nelem is 10 on rank 0 and 11 on rank 1") &&
	       h_code(&h, t[0]) == RC_INVAL,
	   "both hear how they differ");
	t[0] = submit_one(&h, 9, &o, 0);
	h_advance(&h, 3600000);
	ok(h_code(&h, t[0]) == RC_TIMEOUT &&
	       strstr(h_text(&h, t[0]), "rank 1 has not submitted its part; 1 of 2 have"),
	   "a rank that never comes is named");
	t[0] = submit_one(&h, 9, &o, 0);
	h_destroy(&h, 9, 1);
	ok(h_code(&h, t[0]) > 0, "who waits hears of the communicator's end: %s", h_text(&h, t[0]));
	h_serve(&h);
	h_comm(&h, 9, 2);
	submit_one(&h, 9, &o, 0);
	h_fini(&h);
}

static void
t_group_fails(void)
{
	struct harness h;
	struct h_ops o;
	uint64_t t;

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, 9, 2);
	h_allreduce(&o, 2, 10);
	h_group_start(&h, 9, 1);
	h_submit(&h, 9, 1, &o, false);
	h_submit(&h, 9, 1, &o, false);
	t = h_group_end(&h, 9, 1, true);
	h_refuse(&h, 0, RC_FAILED, "operation 1: kaputt");
	h_refuse(&h, (size_t)h_find(&h, H_RUN, 2), RC_ABORTED, "told to");
	ok(h_failed(&h, t, RC_FAILED,
		    "comm 1 rank 0 (device 0000000000000001): operation 1: kaputt"),
	   "a failure while running is the whole group's");
	ok(h_code(&h, h_group_start(&h, 9, 1)) == RC_FAILED,
	   "a failed communicator takes no group");
	h_fini(&h);
}

static void
t_group_bounds(void)
{
	struct harness h;
	struct h_ops o;
	bool good = true;
	uint64_t t = 0;

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, 9, 2);
	for (uint64_t client = 100; client < 164; client++)
		good = good && h_code(&h, h_group_start(&h, client, 1)) == 0;
	ok(good && h_failed(&h, h_group_start(&h, 9, 1), RC_BUSY,
			    "comm 1: 64 groups are open, which is the limit"),
	   "open groups are bounded");
	h_gone(&h, 100);
	h_advance(&h, 2100);
	ok(h_code(&h, h_group_start(&h, 9, 1)) == 0, "a client that is gone leaves its group");
	ok(h_code(&h, h_group_end(&h, 100, 1, false)) == RC_INVAL, "which is gone too");
	h_ops_init(&o, 2);
	for (int i = 0; i < 16; i++)
		h_launch(&o, 0);
	for (int i = 0; i < 4096 / 16; i++)
		good = good && h_code(&h, h_submit(&h, 9, 1, &o, false)) == 0;
	t = h_submit(&h, 9, 1, &o, false);
	ok(good &&
	       h_failed(&h, t, RC_INVAL, "rank 0: 4112 operations in the group; the limit is 4096"),
	   "a group's operations are bounded");
	t = h_group_end(&h, 9, 1, true);
	ok(h.ncall == 1 && h.call[0].req->run->n_ops == 4096, "what was taken is all run");
	h_destroy(&h, 9, 1);
	h_serve(&h);
	ok(h_code(&h, t) == RC_ABORTED && h_clean(&h), "groups end with their communicator");
	h_fini(&h);
}

/* ---- graphs */

static uint64_t
create(struct harness *h, struct h_ops *o)
{
	GpuSim__GraphCreateRequest q = GPU_SIM__GRAPH_CREATE_REQUEST__INIT;

	q.commid = 1;
	q.n_ranks = o->nranks;
	q.ranks = o->rankp;
	return h_ask(h, 9, GRAPH_CREATE, graphcreate, &q);
}

static uint64_t
launch(struct harness *h, uint64_t graph, uint64_t iterations, bool wait)
{
	GpuSim__GraphLaunchRequest q = GPU_SIM__GRAPH_LAUNCH_REQUEST__INIT;

	q.commid = 1;
	q.graphid = graph;
	q.iterations = iterations;
	q.wait = wait;
	return h_ask(h, 9, GRAPH_LAUNCH, graphlaunch, &q);
}

static uint64_t
destroy(struct harness *h, uint64_t graph)
{
	GpuSim__GraphDestroyRequest q = GPU_SIM__GRAPH_DESTROY_REQUEST__INIT;

	q.commid = 1;
	q.graphid = graph;
	return h_ask(h, 9, GRAPH_DESTROY, graphdestroy, &q);
}

static void
t_graph(void)
{
	struct harness h;
	struct h_ops o;
	GpuSim__GraphDefineRequest *d;
	GpuSim__RunRequest *q;
	uint64_t t, u;

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, 9, 2);
	h_ops_init(&o, 2);
	for (uint32_t r = 0; r < 2; r++) {
		h_launch(&o, r);
		h_coll(&o, r, GPUSIM_ALLREDUCE, 10, 0);
		h_coll(&o, r, r ? GPUSIM_RECV : GPUSIM_SEND, 4, 1 - r);
	}
	t = create(&h, &o);
	d = h_count(&h, H_DEFINE) == 2 ? h.call[1].req->graphdefine : NULL;
	ok(d && d->commid == 1 && d->graphid == 1 && d->n_ops == 3 &&
	       d->ops[1]->coll->opoffset == 0 && d->ops[2]->coll->opoffset == 1 &&
	       h_code(&h, t) == -1,
	   "a graph is defined at every rank, numbered");
	h_serve(&h);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->graphcreate->graphid == 1, "and has a number");
	t = launch(&h, 1, 50, true);
	q = h_count(&h, H_RUN) == 2 ? h.call[0].req->run : NULL;
	ok(q && q->graphid == 1 && q->iterations == 50 && q->firstop == 0 && q->n_ops == 0,
	   "a launch is one call to each rank");
	u = launch(&h, 1, 1, false);
	ok(h_code(&h, u) == 0 && h_reply(&h, u)->submit->operation == 100,
	   "all its iterations are counted");
	ok(h_failed(&h, destroy(&h, 1), RC_BUSY, "graph 1: 2 of its launches are pending"),
	   "a graph at work cannot be destroyed");
	h_serve(&h);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->submit->n_ranks == 2, "the launch is answered");
	ok(h_failed(&h, launch(&h, 1, 0, true), RC_INVAL, "graph 1: 0 iterations"),
	   "0 iterations are refused");
	ok(h_failed(&h, launch(&h, 1, UINT64_MAX, true), RC_INVAL,
		    "graph 1: 18446744073709551615 iterations are too many"),
	   "so are more than can be numbered");
	h_group_start(&h, 9, 1);
	ok(h_code(&h, launch(&h, 1, 1, true)) == RC_INVAL, "so is a launch inside a group");
	h_group_end(&h, 9, 1, false);
	t = destroy(&h, 1);
	ok(h_count(&h, H_DROP) == 2 && h_code(&h, t) == -1, "destroying drops it everywhere");
	h_serve(&h);
	ok(h_code(&h, t) == 0 &&
	       h_failed(&h, launch(&h, 1, 1, true), RC_NOTFOUND, "comm 1 has no graph 1"),
	   "and then it is gone");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
t_graph_fails(void)
{
	struct harness h;
	struct h_ops o;
	bool good = true;
	uint64_t t;

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, 9, 2);
	h_ops_init(&o, 2);
	h_coll(&o, 0, GPUSIM_SEND, 4, 1);
	ok(h_failed(&h, create(&h, &o), RC_INVAL,
		    "rank 0: send to rank 1 matches no recv; in a graph all must match"),
	   "half a transfer is refused");
	h_ops_init(&o, 2);
	h_launch(&o, 0);
	h_launch(&o, 1);
	t = create(&h, &o);
	h_accept(&h, 0);
	h_refuse(&h, 0, RC_NOTFOUND, "launch: no kernel 'fill'");
	ok(h_count(&h, H_DROP) == 1 && h_code(&h, t) == -1, "a graph one refuses the others drop");
	h_serve(&h);
	ok(h_failed(&h, t, RC_NOTFOUND,
		    "comm 1 rank 1 (device 0000000000000002): launch: no kernel 'fill'"),
	   "and the reason is told");
	ok(h_reply(&h, h_status(&h, 9, 1, false))->getcommstatus->status ==
	       GPU_SIM__STATUS__SUCCESS,
	   "the communicator is well");
	for (int i = 0; i < 256; i++) {
		t = create(&h, &o);
		h_serve(&h);
		good = good && h_code(&h, t) == 0;
	}
	ok(good && h_failed(&h, create(&h, &o), RC_BUSY,
			    "comm 1: 256 graphs exist, which is the limit"),
	   "graphs are bounded");
	destroy(&h, 200);
	h_serve(&h);
	t = create(&h, &o);
	h.timeout_ms = 100;
	h_destroy(&h, 9, 1);
	ok(h_code(&h, t) == RC_ABORTED, "graphs end with their communicator");
	h_serve(&h);
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

int
main(void)
{
	t_group();
	t_meet();
	t_group_fails();
	t_group_bounds();
	t_graph();
	t_graph_fails();
	return tap_done();
}
