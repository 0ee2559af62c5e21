/*
 * Communicators that lose ranks: drained, shrunk, respawned, given spares, changed by request; what ran
 * is run again or said not to be.
 */
#include "coord_harness.h"

/* Device `id` dies: what it was asked is answered by nobody. */
static void
die(struct harness *h, uint64_t id)
{
	long i;

	h->alive[id] = false;
	while ((i = h_find(h, GPU_SIM__REQUEST__BODY__NOT_SET, id)) >= 0 ||
	       (i = h_find(h, H_RUN, id)) >= 0 || (i = h_find(h, H_ABORT, id)) >= 0 ||
	       (i = h_find(h, H_ATTACH, id)) >= 0)
		h_end_call(h, (size_t)i, NULL, RC_UNREACHABLE, "nobody listens there");
}

/* The living do as told, runs included or not, until nothing more is asked of them. */
static void
serve_living(struct harness *h, bool runs)
{
	for (bool any = true; any;) {
		any = false;
		for (size_t i = 0; i < h->ncall && !any; i++)
			if (h->alive[h->call[i].device_id] &&
			    (runs || h->call[i].req->body_case != H_RUN)) {
				h_accept(h, i);
				any = true;
			}
	}
}

/* What survivors make of an abort: their runs end. */
static void
runs_aborted(struct harness *h)
{
	long i;

	while ((i = h_find(h, H_RUN, 0)) >= 0)
		h_refuse(h, (size_t)i, RC_ABORTED, "told to");
}

static void
come_back(struct harness *h, uint64_t id)
{
	h->incarnation[id] += 1000;
	h->alive[id] = true;
	h_register(h, id);
}

static const GpuSim__RunRequest *
run_of(struct harness *h, uint64_t id)
{
	long i = h_find(h, H_RUN, id);

	return i < 0 ? NULL : h->call[i].req->run;
}

static void
begin(struct harness *h, uint64_t ndev, uint32_t n, enum gpusim_on_failure policy)
{
	h_init(h);
	h->policy = policy;
	h_devices(h, ndev);
	h_comm(h, 9, n);
}

static void
t_shrink(void)
{
	const GpuSim__GetCommStatusResponse *s;
	const GpuSim__RunRequest *r;
	struct harness h;
	struct h_ops o;
	uint64_t t, later, number;

	begin(&h, 3, 3, GPUSIM_ON_FAILURE_SHRINK);
	h_allreduce(&o, 3, 30);
	t = h_submit(&h, 9, 1, &o, true);
	r = run_of(&h, 3);
	number = r->run;
	ok(r->keep && !r->restore && number && r->epoch == 1, "devices keep what a run overwrites");
	later = h_submit(&h, 9, 1, &o, true);
	die(&h, 2);
	ok(h_code(&h, t) == -1 && h_count(&h, H_ABORT) == 2, "the survivors are told");
	runs_aborted(&h);
	serve_living(&h, false);
	r = run_of(&h, 3);
	ok(r && r->epoch == 2 && r->run == number && r->keep && r->restore && !run_of(&h, 2),
	   "then it is run again without the lost rank, from what was kept");
	ok(r && r->n_ops == 1 && r->ops[0]->coll->nelem == 30, "all of its vector");
	ok(h_code(&h, t) == -1, "and nobody is answered yet");
	serve_living(&h, true);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->submit->nranks == 2 &&
	       strstr(h_reply(&h, t)->submit->note,
		      "rank 1 (device 0000000000000002) lost: nobody listens there; shrink, "
		      "2 ranks at epoch 2"),
	   "the answer says so");
	ok(h_code(&h, later) == 0 && h_reply(&h, later)->submit->nranks == 2,
	   "what was waiting behind it ran for the ranks of then");
	s = h_reply(&h, h_status(&h, 9, 1, false))->getcommstatus;
	ok(s->status == GPU_SIM__STATUS__SUCCESS && s->epoch == 2 && s->n_devices == 2 &&
	       s->recoveries == 1 && s->devices[1]->deviceid->value == 3,
	   "and the status");
	h_allreduce(&o, 2, 8);
	t = h_submit(&h, 9, 1, &o, true);
	serve_living(&h, true);
	ok(h_code(&h, t) == 0 && !*h_reply(&h, t)->submit->note, "then all is as before");
	ok(h_clean(&h), "all answers came once");
	h_fini(&h);
}

static void
t_last_rank(void)
{
	struct harness h;
	struct h_ops o;
	uint64_t t;

	begin(&h, 2, 2, GPUSIM_ON_FAILURE_SHRINK);
	h_allreduce(&o, 2, 30);
	t = h_submit(&h, 9, 1, &o, true);
	die(&h, 1);
	die(&h, 2);
	h_advance(&h, H_GRACE_MS);
	ok(h_code(&h, t) > 0 && strstr(h_text(&h, t), "; no rank is left"),
	   "without any rank left it fails: %s", h_text(&h, t));
	ok(h_code(&h, h_submit(&h, 9, 1, &o, true)) == RC_FAILED, "and stays so");
	h_fini(&h);
}

static void
t_respawn(void)
{
	const GpuSim__RunRequest *r;
	struct harness h;
	struct h_ops o;
	uint64_t t;

	begin(&h, 3, 3, GPUSIM_ON_FAILURE_RESPAWN);
	h_allreduce(&o, 3, 30);
	t = h_submit(&h, 9, 1, &o, true);
	die(&h, 2);
	runs_aborted(&h);
	serve_living(&h, false);
	ok(h.spawned[2] == 1 && h_count(&h, H_ATTACH) == 0,
	   "the lost device is started again, and waited for");
	come_back(&h, 2);
	serve_living(&h, false);
	r = run_of(&h, 2);
	ok(r && r->epoch == 2 && r->restore && h_count(&h, H_RUN) == 3,
	   "it takes part in the next try");
	serve_living(&h, true);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->submit->nranks == 3, "which succeeds");

	t = h_submit(&h, 9, 1, &o, true);
	die(&h, 2);
	runs_aborted(&h);
	serve_living(&h, false);
	die(&h, 3);
	come_back(&h, 2);
	serve_living(&h, false);
	h_advance(&h, 6000);
	serve_living(&h, false);
	ok(h.spawned[2] == 2 && h.spawned[3] == 1 && h_code(&h, t) == -1,
	   "one that is lost in mid recovery is started again too");
	come_back(&h, 3);
	serve_living(&h, true);
	ok(h_code(&h, t) == 0, "and the operation succeeds");

	t = h_submit(&h, 9, 1, &o, true);
	die(&h, 1);
	runs_aborted(&h);
	serve_living(&h, false);
	h_advance(&h, H_RESPAWN_MS + 100);
	ok(h_code(&h, t) == RC_FAILED &&
	       strstr(h_text(&h, t), "the device did not return within 3."),
	   "who does not come back is named: %s", h_text(&h, t));
	ok(h_clean(&h), "all answers came once");
	h_fini(&h);
}

/* Somebody else starts devices again. */
static void
t_supervised(void)
{
	struct harness h;
	struct h_ops o;
	uint64_t t;

	h_init(&h);
	h.policy = GPUSIM_ON_FAILURE_RESPAWN;
	h.supervised = true;
	h_devices(&h, 3);
	h_comm(&h, 9, 3);
	h_allreduce(&o, 3, 30);
	t = h_submit(&h, 9, 1, &o, true);
	die(&h, 2);
	runs_aborted(&h);
	serve_living(&h, false);
	ok(h.spawned[2] == 1 && h_count(&h, H_ATTACH) == 0,
	   "a device that somebody else looks after is ended, if it is frozen, and waited for");
	come_back(&h, 2);
	serve_living(&h, true);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->submit->nranks == 3 && h.spawned[2] == 1,
	   "and the operation succeeds when it is back");

	t = h_submit(&h, 9, 1, &o, true);
	die(&h, 2);
	runs_aborted(&h);
	serve_living(&h, false);
	h.inode[2] = 7;
	come_back(&h, 2);
	serve_living(&h, true);
	ok(h_code(&h, t) == RC_RECOVERED && strstr(h_text(&h, t), "fill the lost memory again"),
	   "one that comes back without its memory is told: %s", h_text(&h, t));
	t = h_submit(&h, 9, 1, &o, true);
	serve_living(&h, true);
	ok(h_code(&h, t) == 0, "the communicator is usable");
	ok(h_clean(&h), "all answers came once");
	h_fini(&h);
}

static void
t_overdue(void)
{
	struct harness h;
	struct h_ops o;
	uint64_t t;

	begin(&h, 2, 2, GPUSIM_ON_FAILURE_RESPAWN);
	h.timeout_ms = 10 * H_COMM_MS;
	h_allreduce(&o, 2, 30);
	t = h_submit(&h, 9, 1, &o, true);
	die(&h, 2);
	runs_aborted(&h);
	serve_living(&h, false);
	come_back(&h, 2);
	serve_living(&h, false);
	ok(run_of(&h, 2) && run_of(&h, 2)->restore, "a run is under way again");
	h_advance(&h, H_COMM_MS);
	die(&h, 2);
	runs_aborted(&h);
	h_advance(&h, H_GRACE_MS);
	ok(h_code(&h, t) > 0 &&
	       strstr(h_text(&h, t), "the time limit, recoveries included, is over"),
	   "recoveries do not go on for ever: %s", h_text(&h, t));
	h_fini(&h);
}

static void
t_spare(void)
{
	const GpuSim__AdoptRequest *a;
	const GpuSim__GetCommStatusResponse *s;
	struct harness h;
	struct h_ops o;
	uint64_t t;
	long i;

	begin(&h, 4, 2, GPUSIM_ON_FAILURE_SPARE);
	h_allreduce(&o, 2, 30);
	t = h_submit(&h, 9, 1, &o, true);
	die(&h, 2);
	runs_aborted(&h);
	while ((i = h_find(&h, H_ABORT, 0)) >= 0)
		h_accept(&h, (size_t)i);
	i = h_find(&h, H_ADOPT, 3);
	a = i < 0 ? NULL : h.call[i].req->adopt;
	ok(a && a->deviceid == 2 && !strcmp(a->path, "/dev/shm/memory"),
	   "a free device is told to take the lost one's memory");
	h_refuse(&h, (size_t)i, RC_INVAL, "my own is in use");
	i = h_find(&h, H_ADOPT, 4);
	ok(i >= 0, "if it cannot, another is");
	serve_living(&h, true);
	s = h_reply(&h, h_status(&h, 9, 1, false))->getcommstatus;
	ok(h_code(&h, t) == 0 && s->n_devices == 2 && s->devices[1]->deviceid->value == 4,
	   "which has the rank then");
	t = h_submit(&h, 9, 1, &o, true);
	die(&h, 4);
	die(&h, 3);
	h_advance(&h, 6000);
	runs_aborted(&h);
	serve_living(&h, false);
	ok(h_code(&h, t) == RC_FAILED && strstr(h_text(&h, t), "no spare device is left"),
	   "without a spare it fails at once: %s", h_text(&h, t));
	ok(h_clean(&h), "all answers came once");
	h_fini(&h);
}

/* An algorithm of a file for three ranks, when two are left. */
static void
t_outgrown(void)
{
	static char text[] = "algorithm star\ncollective allreduce\nranks 3\nchunks 1\n"
			     "reduce 1.data[0] -> 0.data[0]\nreduce 2.data[0] -> 0.data[0]\n"
			     "copy 0.data[0] -> 1.data[0]\ncopy 0.data[0] -> 2.data[0]\n";
	GpuSim__AlgoPutRequest put = GPU_SIM__ALGO_PUT_REQUEST__INIT;
	GpuSim__GraphCreateRequest create = GPU_SIM__GRAPH_CREATE_REQUEST__INIT;
	GpuSim__GraphLaunchRequest launch = GPU_SIM__GRAPH_LAUNCH_REQUEST__INIT;
	const GpuSim__Coll *k;
	struct harness h;
	struct h_ops o;
	uint64_t t, g;

	begin(&h, 3, 3, GPUSIM_ON_FAILURE_SHRINK);
	put.nbytes = put.data.len = strlen(text);
	put.data.data = (uint8_t *)text;
	ok(h_code(&h, h_ask(&h, 9, ALGO_PUT, algoput, &put)) == 0, "an algorithm of a file");
	h_allreduce(&o, 3, 30);
	for (uint32_t r = 0; r < 3; r++)
		o.coll[r][0].algo = (char *)"star";
	create.commid = launch.commid = 1;
	create.n_ranks = 3;
	create.ranks = o.rankp;
	g = h_ask(&h, 9, GRAPH_CREATE, graphcreate, &create);
	h_serve(&h);
	t = h_submit(&h, 9, 1, &o, true);
	ok(run_of(&h, 1) && run_of(&h, 1)->ops[0]->coll->schedule.len, "runs");
	die(&h, 3);
	runs_aborted(&h);
	serve_living(&h, false);
	k = run_of(&h, 1) ? run_of(&h, 1)->ops[0]->coll : NULL;
	ok(k && strcmp(k->algo, "star") != 0 && *k->algo && !k->schedule.len,
	   "another is taken for the ranks that are left");
	serve_living(&h, true);
	ok(h_code(&h, t) == 0 && strstr(h_reply(&h, t)->submit->note,
					"algorithm star is for more ranks, so another was used"),
	   "which its caller is told");
	launch.graphid = h_reply(&h, g)->graphcreate->graphid;
	launch.iterations = 2;
	launch.wait = true;
	t = h_ask(&h, 9, GRAPH_LAUNCH, graphlaunch, &launch);
	serve_living(&h, true);
	ok(h_code(&h, t) == 0, "and so for a graph that was recorded before (%s)", h_text(&h, t));
	ok(h_clean(&h), "all answers came once");
	h_fini(&h);
}

static void
t_not_again(void)
{
	GpuSim__GraphCreateRequest create = GPU_SIM__GRAPH_CREATE_REQUEST__INIT;
	GpuSim__GraphLaunchRequest launch = GPU_SIM__GRAPH_LAUNCH_REQUEST__INIT;
	struct harness h;
	struct h_ops o;
	uint64_t t, g;

	begin(&h, 3, 3, GPUSIM_ON_FAILURE_SHRINK);
	h_allreduce(&o, 3, 30);
	create.commid = launch.commid = 1;
	create.n_ranks = 3;
	create.ranks = o.rankp;
	g = h_ask(&h, 9, GRAPH_CREATE, graphcreate, &create);
	h_serve(&h);
	launch.graphid = h_reply(&h, g)->graphcreate->graphid;
	launch.iterations = 5;
	launch.wait = true;
	t = h_ask(&h, 9, GRAPH_LAUNCH, graphlaunch, &launch);
	ok(!run_of(&h, 1)->keep, "a graph may hold kernels: nothing is kept");
	die(&h, 3);
	runs_aborted(&h);
	serve_living(&h, true);
	ok(h_code(&h, t) == RC_RECOVERED, "its run is not run again: %s", h_text(&h, t));
	t = h_ask(&h, 9, GRAPH_LAUNCH, graphlaunch, &launch);
	ok(h_count(&h, H_RUN) == 2, "but the graph is there, for the ranks that are left");
	serve_living(&h, true);
	ok(h_code(&h, t) == 0, "and runs");

	h_ops_init(&o, 2);
	for (uint32_t r = 0; r < 2; r++)
		h_coll(&o, r, GPUSIM_BROADCAST, 8, 1);
	t = h_submit(&h, 9, 1, &o, true);
	die(&h, 2);
	runs_aborted(&h);
	serve_living(&h, true);
	ok(h_code(&h, t) == RC_RECOVERED && strstr(h_text(&h, t), "meaningless"),
	   "a broadcast from the lost rank has no meaning: %s", h_text(&h, t));
	h_ops_init(&o, 1);
	h_launch(&o, 0);
	t = h_submit(&h, 9, 1, &o, true);
	h_refuse(&h, (size_t)h_find(&h, H_RUN, 1), RC_NOTFOUND, "no such kernel");
	serve_living(&h, true);
	ok(h_code(&h, t) == RC_NOTFOUND, "what fails for a reason of its own is not tried again");
	ok(h_clean(&h), "all answers came once");
	h_fini(&h);
}

static void
t_parts(void)
{
	struct harness h;
	struct h_ops o;
	uint64_t t;

	begin(&h, 4, 4, GPUSIM_ON_FAILURE_SHRINK);
	h_ops_init(&o, 4);
	for (uint32_t r = 0; r < 4; r++)
		h_coll(&o, r, GPUSIM_ALLGATHER, 40, 0);
	t = h_submit(&h, 9, 1, &o, true);
	die(&h, 1);
	runs_aborted(&h);
	serve_living(&h, false);
	ok(run_of(&h, 2) && run_of(&h, 2)->ops[0]->coll->nelem == 30,
	   "an all-gather has fewer parts, of the same size");
	serve_living(&h, true);
	ok(h_code(&h, t) == 0, "and succeeds");
	h_ops_init(&o, 3);
	for (uint32_t r = 0; r < 3; r++)
		h_coll(&o, r, GPUSIM_REDUCESCATTER, 30, 0);
	t = h_submit(&h, 9, 1, &o, true);
	die(&h, 3);
	runs_aborted(&h);
	serve_living(&h, true);
	ok(h_code(&h, t) == RC_RECOVERED, "a reduce-scatter has a part for the lost rank: %s",
	   h_text(&h, t));
	h_fini(&h);
}

static void
t_stuck(void)
{
	struct harness h;
	struct h_ops o;
	uint64_t t;

	begin(&h, 3, 3, GPUSIM_ON_FAILURE_SHRINK);
	h_allreduce(&o, 3, 30);
	t = h_submit(&h, 9, 1, &o, true);
	h_refuse(&h, (size_t)h_find(&h, H_RUN, 1), RC_TIMEOUT, "nothing from rank 2");
	h_refuse(&h, (size_t)h_find(&h, H_RUN, 2), RC_ABORTED, "told to");
	for (long i; (i = h_find(&h, H_ABORT, 0)) >= 0;)
		h_accept(&h, (size_t)i);
	h_advance(&h, H_GRACE_MS);
	serve_living(&h, false);
	ok(h_count(&h, H_RUN) == 3 - 0 && h_find(&h, H_ATTACH, 0) < 0 && h_code(&h, t) == -1,
	   "who acknowledges the abort but not the end of its run is left out");
	ok(run_of(&h, 1) && run_of(&h, 1)->epoch == 2, "and the others go on");
	h_fini(&h);
}

static void
t_changes(void)
{
	const uint32_t rank = 0, wrong = 7;
	struct harness h;
	struct h_ops o;
	uint64_t t, a;

	begin(&h, 4, 3, GPUSIM_ON_FAILURE_ABORT);
	h_allreduce(&o, 3, 30);
	t = h_submit(&h, 9, 1, &o, true);
	ok(h_failed(&h, h_grow(&h, 9, 1, 1), RC_BUSY, "comm 1: 1 runs are in progress"),
	   "nothing changes while something runs");
	a = h_comm_abort(&h, 9, 1, "enough");
	runs_aborted(&h);
	serve_living(&h, false);
	ok(h_code(&h, a) == 0 && h_failed(&h, t, RC_ABORTED, "comm 1: enough"),
	   "an abort ends what runs, with its reason");
	ok(h_code(&h, h_comm_abort(&h, 9, 1, "again")) == 0, "twice is once");
	t = h_shrink(&h, 9, 1, NULL, 0);
	serve_living(&h, true);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->comminit->n_devices == 3 &&
	       h_reply(&h, t)->comminit->epoch == 2,
	   "a shrink makes it usable again, with all who are there");
	ok(h_code(&h, h_shrink(&h, 9, 1, &wrong, 1)) == RC_INVAL, "a rank that is none is refused");
	t = h_shrink(&h, 9, 1, &rank, 1);
	serve_living(&h, true);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->comminit->n_devices == 2 &&
	       h_reply(&h, t)->comminit->devices[0]->deviceid->value == 2,
	   "ranks that are named leave");
	t = h_grow(&h, 9, 1, 2);
	serve_living(&h, true);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->comminit->n_devices == 4 &&
	       h_reply(&h, t)->comminit->devices[2]->deviceid->value == 1,
	   "free devices come, as the last ranks");
	ok(h_code(&h, h_grow(&h, 9, 1, 1)) == RC_BUSY, "if there are any");
	h_allreduce(&o, 4, 30);
	t = h_submit(&h, 9, 1, &o, true);
	die(&h, 3);
	runs_aborted(&h);
	h_advance(&h, H_GRACE_MS);
	ok(h_code(&h, t) == RC_UNREACHABLE, "with policy abort a lost rank is a failure: %s",
	   h_text(&h, t));
	t = h_shrink(&h, 9, 1, NULL, 0);
	serve_living(&h, true);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->comminit->n_devices == 3,
	   "and a shrink leaves out who is lost: %d %s", h_code(&h, t), h_text(&h, t));
	t = h_destroy(&h, 9, 1);
	serve_living(&h, true);
	ok(h_code(&h, t) == 0 && h_clean(&h), "it can be destroyed");
	h_fini(&h);
}

static void
t_sent_back(void)
{
	struct harness h;
	struct h_ops o;
	uint64_t t;

	begin(&h, 3, 2, GPUSIM_ON_FAILURE_ABORT);
	t = h_grow(&h, 9, 1, 1);
	die(&h, 3);
	serve_living(&h, true);
	ok(h_code(&h, t) == RC_UNREACHABLE, "a device that dies as it comes is not taken in: %s",
	   h_text(&h, t));
	h_allreduce(&o, 2, 30);
	t = h_submit(&h, 9, 1, &o, true);
	serve_living(&h, true);
	ok(h_code(&h, t) == 0, "and the communicator is what it was");
	ok(h_clean(&h), "all answers came once");
	h_fini(&h);
}

/* ---- the lab's clients, which know nothing of ours */

/* n devices, a communicator of `ranks` of them as the lab's client asks for it. */
static void
lab_begin(struct harness *h, uint64_t n, uint32_t ranks, enum gpusim_on_failure own)
{
	GpuSim__CommInitRequest q = GPU_SIM__COMM_INIT_REQUEST__INIT;

	h_init(h);
	coord_free(h->c);
	h->own_policy = own;
	h->c = h_coord_with(77, NULL, own);
	h_devices(h, n);
	q.numdevices = ranks;
	h_ask(h, 9, COMM_INIT, comminit, &q);
	h_serve(h);
}

/* Ranks 0 to n - 1 of CommInit, of which rank r's vector lies at H_MIN + 64 r. */
static uint64_t
lab_ring(struct harness *h, uint32_t n)
{
	GpuSim__AllReduceRingRequest q = GPU_SIM__ALL_REDUCE_RING_REQUEST__INIT;
	GpuSim__AllReduceRingRequest__MemAddrsEntry e[8], *ep[8];
	GpuSim__MemAddr a[8];

	for (uint32_t r = 0; r < n; r++) {
		gpu_sim__all_reduce_ring_request__mem_addrs_entry__init(&e[r]);
		gpu_sim__mem_addr__init(&a[r]);
		a[r].value = H_MIN + 64 * r;
		e[r].key = r;
		e[r].value = &a[r];
		ep[r] = &e[r];
	}
	q.commid = 1;
	q.count = 5;
	q.n_memaddrs = n;
	q.memaddrs = ep;
	return h_ask(h, 9, ALL_REDUCE_RING, allreducering, &q);
}

static bool
lab_status_is(struct harness *h, GpuSim__Status want)
{
	return h_reply(h, h_status(h, 9, 1, false))->getcommstatus->status == want;
}

static uint64_t
address_of(struct harness *h, uint64_t id)
{
	return run_of(h, id) ? run_of(h, id)->ops[0]->coll->sendaddr : 0;
}

/* A communicator that names no policy has the coordinator's; one that names one keeps it. */
static void
t_lab_policy(void)
{
	struct harness h;

	for (uint32_t own = 0; own <= GPUSIM_ON_FAILURE_SPARE; own++) {
		lab_begin(&h, 4, 2, own);
		h.policy = GPUSIM_ON_FAILURE_ABORT;
		h_serve(&h);
		h_comm(&h, 9, 2);
		ok(h_reply(&h, h_status(&h, 9, 1, false))->getcommstatus->onfailure ==
			   (GpuSim__OnFailure)own &&
		       h_reply(&h, h_status(&h, 9, 2, false))->getcommstatus->onfailure ==
			   GPU_SIM__ON_FAILURE__ABORT,
		   "none is the coordinator's policy %u, abort is abort", own);
		h_fini(&h);
	}
}

static void
t_lab_shrink(void)
{
	struct harness h;

	lab_begin(&h, 3, 3, GPUSIM_ON_FAILURE_SHRINK);
	lab_ring(&h, 3);
	die(&h, 1);
	runs_aborted(&h);
	serve_living(&h, false);
	ok(address_of(&h, 2) == H_MIN + 64 && address_of(&h, 3) == H_MIN + 128,
	   "rank 0 is lost: the others' vectors are summed where they lie");
	serve_living(&h, true);
	ok(lab_status_is(&h, GPU_SIM__STATUS__SUCCESS), "and the status is success");
	h_crash(&h);
	h_register(&h, 2);
	h_register(&h, 3);
	serve_living(&h, true);
	ok(h_code(&h, lab_ring(&h, 3)) == 0 && address_of(&h, 2) == H_MIN + 64 &&
	       address_of(&h, 3) == H_MIN + 128,
	   "the same call again, after a restart: its ranks are those of CommInit");
	serve_living(&h, true);
	ok(h_code(&h, lab_ring(&h, 2)) == 0 && address_of(&h, 2) == H_MIN &&
	       address_of(&h, 3) == H_MIN + 64,
	   "a client that names two means the two that are left");
	serve_living(&h, true);
	ok(h_failed(&h, lab_ring(&h, 4), RC_INVAL,
		    "memAddrs names rank 3, but communicator 1 has 2 ranks"),
	   "there never was a rank 3");
	ok(h_clean(&h), "all answers came once");
	h_fini(&h);
}

/* What is not run again is not success. */
static void
t_lab_not_again(void)
{
	struct harness h;

	lab_begin(&h, 2, 2, GPUSIM_ON_FAILURE_RESPAWN);
	lab_ring(&h, 2);
	die(&h, 1);
	runs_aborted(&h);
	serve_living(&h, false);
	h.inode[1]++;
	come_back(&h, 1);
	serve_living(&h, true);
	ok(lab_status_is(&h, GPU_SIM__STATUS__FAILED) &&
	       strstr(h_reply(&h, h_status(&h, 9, 1, true))->getcommstatus->reason,
		      "fill the lost memory again"),
	   "a rank's memory is lost: the status says so");
	ok(h_code(&h, lab_ring(&h, 2)) == 0 && lab_status_is(&h, GPU_SIM__STATUS__IN_PROGRESS),
	   "and the communicator goes on");
	serve_living(&h, true);
	ok(lab_status_is(&h, GPU_SIM__STATUS__SUCCESS), "with success");
	h_fini(&h);
}

static uint64_t
lab_write(struct harness *h, uint64_t id)
{
	GpuSim__MemcpyRequest q = GPU_SIM__MEMCPY_REQUEST__INIT;
	GpuSim__MemcpyHostToDeviceRequest in = GPU_SIM__MEMCPY_HOST_TO_DEVICE_REQUEST__INIT;
	GpuSim__DeviceId dev = GPU_SIM__DEVICE_ID__INIT;
	GpuSim__MemAddr addr = GPU_SIM__MEM_ADDR__INIT;

	dev.value = id;
	addr.value = H_MIN;
	in.hostsrcdata = (ProtobufCBinaryData){4, (uint8_t *)"data"};
	in.dstdeviceid = &dev;
	in.dstmemaddr = &addr;
	q.either_case = GPU_SIM__MEMCPY_REQUEST__EITHER_HOST_TO_DEVICE;
	q.hosttodevice = &in;
	return h_ask(h, 9, MEMCPY, memcpy, &q);
}

static bool
lab_writes_to(struct harness *h, uint64_t id, uint64_t real)
{
	uint64_t t = lab_write(h, id);
	bool there = h_find(h, GPU_SIM__REQUEST__BODY_WRITE, real) >= 0;

	serve_living(h, true);
	return there && h_code(h, t) == 0;
}

/* Memcpy names the devices of CommInit: a spare that has taken a place gets what was for the lost one. */
static void
t_lab_spare(void)
{
	struct harness h;

	lab_begin(&h, 3, 2, GPUSIM_ON_FAILURE_SPARE);
	lab_ring(&h, 2);
	die(&h, 2);
	runs_aborted(&h);
	serve_living(&h, true);
	ok(lab_status_is(&h, GPU_SIM__STATUS__SUCCESS) && lab_writes_to(&h, 2, 3),
	   "Memcpy to a lost device goes to the one in its place");
	come_back(&h, 2);
	ok(lab_writes_to(&h, 2, 3) && lab_writes_to(&h, 1, 1), "also when it is back");
	h_comm(&h, 9, 1);
	ok(lab_writes_to(&h, 2, 2), "until it is in a communicator again");
	ok(h_clean(&h), "all answers came once");
	h_fini(&h);
}

/* Groups that are open while the ranks change. */
static void
t_groups(void)
{
	const char *changed = "comm 1: the group's operations are for ranks that have changed";
	struct harness h;
	struct h_ops all, pair, left;
	uint64_t t;

	begin(&h, 3, 3, GPUSIM_ON_FAILURE_SHRINK);
	h_allreduce(&all, 3, 30);
	h_allreduce(&left, 2, 20);
	h_ops_init(&pair, 3);
	h_coll(&pair, 0, GPUSIM_SEND, 8, 1);
	h_coll(&pair, 1, GPUSIM_RECV, 8, 0);
	for (uint64_t client = 6; client <= 8; client++)
		h_group_start(&h, client, 1);
	h_submit(&h, 6, 1, &all, true);
	h_submit(&h, 7, 1, &pair, true);
	h_submit(&h, 9, 1, &all, true);
	die(&h, 2);
	runs_aborted(&h);
	serve_living(&h, false);
	serve_living(&h, true);
	t = h_group_end(&h, 6, 1, true);
	ok(run_of(&h, 1) && run_of(&h, 3) && run_of(&h, 3)->ops[0]->coll->nelem == 30,
	   "a group's all-reduce is one of the ranks that are left");
	serve_living(&h, true);
	ok(h_code(&h, t) == 0, "and succeeds");
	ok(h_failed(&h, h_group_end(&h, 7, 1, true), RC_RECOVERED, changed),
	   "a send to the lost rank has no meaning: the end says so");
	ok(h_code(&h, h_group_end(&h, 7, 1, true)) == RC_INVAL, "once");
	h_submit(&h, 8, 1, &left, true);
	t = h_group_end(&h, 8, 1, true);
	serve_living(&h, true);
	ok(h_code(&h, t) == 0, "a group that had nothing yet takes operations of today's ranks");
	h_group_start(&h, 6, 1);
	h_group_start(&h, 8, 1);
	h_submit(&h, 6, 1, &left, true);
	come_back(&h, 2);
	t = h_grow(&h, 9, 1, 1);
	serve_living(&h, true);
	ok(h_code(&h, t) == 0, "the communicator grows: %s", h_text(&h, t));
	ok(h_failed(&h, h_submit(&h, 6, 1, &all, true), RC_RECOVERED, changed) &&
	       h_failed(&h, h_group_end(&h, 6, 1, true), RC_RECOVERED, changed),
	   "an all-reduce without the new rank has no meaning");
	h_submit(&h, 8, 1, &all, true);
	t = h_group_end(&h, 8, 1, true);
	serve_living(&h, true);
	ok(h_code(&h, t) == 0, "one with it has");
	ok(h_clean(&h), "all answers came once");
	h_fini(&h);
}

int
main(void)
{
	t_groups();
	t_shrink();
	t_last_rank();
	t_respawn();
	t_supervised();
	t_overdue();
	t_spare();
	t_outgrown();
	t_not_again();
	t_parts();
	t_stuck();
	t_changes();
	t_sent_back();
	t_lab_policy();
	t_lab_shrink();
	t_lab_not_again();
	t_lab_spare();
	return tap_done();
}
