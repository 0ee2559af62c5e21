/* Runs: started at every rank, in order, numbered; and failing as one. */
#include "coord_harness.h"

static GpuSim__Coll *
run_coll(const struct harness *h, uint64_t device, size_t op)
{
	long i = h_find(h, H_RUN, device);

	return i < 0 ? NULL : h->call[i].req->run->ops[op]->coll;
}

static void
t_submit(void)
{
	struct harness h;
	struct h_ops o;
	GpuSim__SubmitResponse *s;
	GpuSim__RunRequest *q;
	uint64_t t;

	h_init(&h);
	h_devices(&h, 3);
	h_comm(&h, 9, 3);
	h_ops_init(&o, 3);
	for (uint32_t r = 0; r < 3; r++) {
		h_coll(&o, r, GPUSIM_ALLREDUCE, 10, 0)->opoffset = 99;
		h_launch(&o, r);
		h_coll(&o, r, GPUSIM_BROADCAST, 10, 1);
	}
	t = h_submit(&h, 9, 1, &o, true);
	ok(h.ncall == 3 && h_count(&h, H_RUN) == 3, "a run starts at every rank at once");
	q = h.call[1].req->run;
	ok(q->commid == 1 && q->epoch == 1 && q->firstop == 0 && q->iterations == 1 &&
	       q->graphid == 0 && q->n_ops == 3 && !q->queued,
	   "with its operations and the place of the first");
	ok(q->ops[0]->coll->opoffset == 0 && q->ops[2]->coll->opoffset == 1 &&
	       !strcmp(q->ops[1]->launch->kernel, "fill") && q->ops[0]->coll->p2p == 0,
	   "collectives are numbered by the coordinator, the rest is passed on");
	h_accept(&h, 2);
	h_accept(&h, 0);
	ok(h_code(&h, t) == -1, "the client waits for all ranks");
	h_accept(&h, 0);
	s = h_code(&h, t) == 0 ? h_reply(&h, t)->submit : NULL;
	ok(s && s->operation == 0 && s->n_ranks == 3 && s->ranks[2]->computens == 3,
	   "and gets each rank's times in order");
	t = h_submit(&h, 9, 1, &o, false);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->submit->operation == 2 && h.ncall == 3,
	   "without wait the answer comes at once, with the operation's number");
	ok(h.call[0].req->run->firstop == 2, "numbers go on from run to run");
	o.nranks = 0;
	t = h_submit(&h, 9, 1, &o, true);
	ok(h_code(&h, t) == 0, "a submit of nothing succeeds");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* Members' collectives count with the others, and the k-th of a set is one on all of its ranks. */
static void
t_members(void)
{
	static uint32_t front[] = {0, 1}, back[] = {2, 1};
	struct harness h;
	struct h_ops o;

	h_init(&h);
	h_devices(&h, 3);
	h_comm(&h, 9, 3);
	h_ops_init(&o, 3);
	for (uint32_t r = 0; r < 3; r++)
		for (int k = 0; k < 5; k++) {
			uint32_t *m = k == 4 ? NULL : k % 2 ? back : front;
			GpuSim__Coll *c;

			if (m && m[0] != r && m[1] != r)
				continue;
			c = h_coll(&o, r, GPUSIM_ALLREDUCE, 10, 0);
			c->members = m;
			c->n_members = m ? 2 : 0;
		}
	h_submit(&h, 9, 1, &o, true);
	ok(h_count(&h, H_RUN) == 3 && h.call[0].req->run->n_ops == 3 &&
	       h.call[1].req->run->n_ops == 5 && h.call[2].req->run->n_ops == 3,
	   "each rank gets the collectives that it takes part in");
	for (int k = 0; k < 2; k++) {
		uint64_t f = run_coll(&h, 1, (size_t)k)->opoffset,
			 b = run_coll(&h, 3, (size_t)k)->opoffset;

		ok(f != b && run_coll(&h, 2, (size_t)(2 * k))->opoffset == f &&
		       run_coll(&h, 2, (size_t)(2 * k + 1))->opoffset == b,
		   "pair %d of them has one number on its ranks", k);
	}
	ok(run_coll(&h, 1, 2)->opoffset == run_coll(&h, 2, 4)->opoffset &&
	       run_coll(&h, 1, 2)->opoffset == run_coll(&h, 3, 2)->opoffset &&
	       run_coll(&h, 2, 0)->n_members == 2,
	   "as has one of all ranks");
	h_accept(&h, 0);
	h_accept(&h, 0);
	h_accept(&h, 0);
	h_submit(&h, 9, 1, &o, true);
	ok(h.call[0].req->run->firstop == 5, "five numbers in all");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* Both ranks are told the same algorithm and size of messages; returns its name. */
static const char *
told(struct harness *h, struct h_ops *o)
{
	const GpuSim__Coll *a, *b;
	static char name[64];

	h_submit(h, 9, 1, o, false);
	a = h->ncall == 2 ? h->call[0].req->run->ops[0]->coll : NULL;
	b = h->ncall == 2 ? h->call[1].req->run->ops[0]->coll : NULL;
	if (!a || !b || strcmp(a->algo, b->algo) != 0 || a->chunkbytes != b->chunkbytes ||
	    !a->chunkbytes)
		return "";
	snprintf(name, sizeof name, "%s %" PRIu64, a->algo, a->chunkbytes);
	h_accept(h, 0);
	h_accept(h, 0);
	return name;
}

static void
t_algorithm(void)
{
	static char auto_[] = "auto", naive[] = "naive";
	struct harness h;
	struct h_ops o;
	struct tuner tuner;
	struct err err = {0};

	tuner_init(&tuner);
	if (tuner_rules(&tuner, "allreduce,0,100,tree,net,-1,-1,2", "f", &err) != RC_OK)
		printf("# %s\n", err.text);
	h_init_with(&h, &tuner);
	h_devices(&h, 2);
	h_comm(&h, 9, 2);
	h_allreduce(&o, 2, 10);
	o.coll[1][0].algo = auto_;
	ok(!strcmp(told(&h, &o), "tree 262144"),
	   "an algorithm left open is the tuner's, the same for all ranks");
	o.coll[0][0].chunkbytes = o.coll[1][0].chunkbytes = 4096;
	ok(!strcmp(told(&h, &o), "tree 4096"), "the size of messages stays the caller's");
	o.coll[0][0].algo = o.coll[1][0].algo = naive;
	ok(!strcmp(told(&h, &o), "naive 4096"), "and so does the algorithm");
	h_allreduce(&o, 2, 1000);
	ok(!strcmp(told(&h, &o), "recursive-doubling 262144"), "another size, another algorithm");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
	tuner_fini(&tuner);
}

/* Where messages cost nothing, bytes count; with a latency, rounds. */
static void
t_links(void)
{
	static const char *const best[] = {"halving-doubling 262144", "recursive-doubling 262144"};
	struct tuner tuner;
	struct h_ops o;

	tuner_init(&tuner);
	tuner.model[TUNE_NET].alpha_us = tuner.model[TUNE_NET].host_us = 0;
	for (int slow = 0; slow < 2; slow++) {
		struct harness h;

		h_init_with(&h, &tuner);
		h.latency_ns = slow * UINT64_C(5000000);
		h_devices(&h, 2);
		h_comm(&h, 9, 2);
		h_allreduce(&o, 2, 1000);
		ok(!strcmp(told(&h, &o), best[slow]), "%s links: %s", slow ? "slow" : "fast",
		   best[slow]);
		h_fini(&h);
	}
	tuner_fini(&tuner);
}

static void
t_order(void)
{
	struct harness h;
	struct h_ops o;
	uint64_t t = 0;
	bool good = true;

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, 9, 2);
	h_allreduce(&o, 2, 10);
	h_submit(&h, 9, 1, &o, false);
	h_submit(&h, 9, 1, &o, false);
	h_ops_init(&o, 2);
	h_launch(&o, 0);
	h_submit(&h, 9, 1, &o, false);
	ok(h.ncall == 2, "the second run waits for the first");
	h_accept(&h, 0);
	ok(h.ncall == 1, "for all of it");
	h_accept(&h, 0);
	ok(h.ncall == 2 && h.call[0].req->run->firstop == 1, "then it starts");
	h_ops_init(&o, 2);
	h_coll(&o, 0, GPUSIM_SEND, 4, 1);
	h_submit(&h, 9, 1, &o, false);
	ok(h.ncall == 3 && h.call[2].req->run->ops[0]->coll->p2p == 1, "send alone starts at once");
	h_accept(&h, 0);
	h_accept(&h, 0);
	ok(h_count(&h, H_RUN) == 2, "kernels keep their place behind collectives");
	h_serve(&h);
	h_allreduce(&o, 2, 10);
	for (int i = 0; i < 1024; i++)
		good = good && h_code(&h, h_submit(&h, 9, 1, &o, false)) == 0;
	t = h_submit(&h, 9, 1, &o, false);
	ok(good && h_failed(&h, t, RC_BUSY, "comm 1: 1024 runs are pending, which is the limit"),
	   "the queue is bounded");
	h_serve(&h);
	ok(h_code(&h, h_submit(&h, 9, 1, &o, false)) == 0, "and works again when it is drained");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
t_sendrecv(void)
{
	struct harness h;
	struct h_ops o;
	uint64_t t;

	h_init(&h);
	h_devices(&h, 3);
	h_comm(&h, 9, 3);
	h_ops_init(&o, 3);
	h_coll(&o, 0, GPUSIM_SEND, 4, 1);
	h_coll(&o, 0, GPUSIM_SEND, 8, 1);
	h_coll(&o, 0, GPUSIM_ALLREDUCE, 9, 0);
	h_coll(&o, 1, GPUSIM_ALLREDUCE, 9, 0);
	h_coll(&o, 1, GPUSIM_RECV, 4, 0);
	h_coll(&o, 1, GPUSIM_RECV, 8, 0);
	h_coll(&o, 2, GPUSIM_ALLREDUCE, 9, 0);
	t = h_submit(&h, 9, 1, &o, true);
	ok(run_coll(&h, 1, 0)->opoffset == 0 && run_coll(&h, 1, 1)->opoffset == 1 &&
	       run_coll(&h, 1, 2)->opoffset == 2 && run_coll(&h, 2, 0)->opoffset == 2 &&
	       run_coll(&h, 2, 1)->opoffset == 0 && run_coll(&h, 2, 2)->opoffset == 1 &&
	       run_coll(&h, 3, 0)->opoffset == 2 && run_coll(&h, 2, 1)->p2p == 0,
	   "the k-th send and the k-th receive get one number among the collectives");
	h_serve(&h);
	ok(h_code(&h, t) == 0, "and run as one");
	h_ops_init(&o, 3);
	h_coll(&o, 0, GPUSIM_SEND, 4, 1);
	h_coll(&o, 0, GPUSIM_SEND, 4, 1);
	h_coll(&o, 0, GPUSIM_SEND, 4, 2);
	h_submit(&h, 9, 1, &o, false);
	h_submit(&h, 9, 1, &o, false);
	ok(run_coll(&h, 1, 0)->p2p == 1 && run_coll(&h, 1, 1)->p2p == 2 &&
	       run_coll(&h, 1, 2)->p2p == 1 && h.call[1].req->run->ops[0]->coll->p2p == 3 &&
	       h.call[1].req->run->ops[2]->coll->p2p == 2,
	   "sends alone are numbered per pair, from submit to submit");
	h_ops_init(&o, 3);
	h_coll(&o, 1, GPUSIM_RECV, 4, 0);
	h_submit(&h, 9, 1, &o, false);
	ok(run_coll(&h, 2, 0)->p2p == 1,
	   "receives alone likewise, so that the first meets the first");
	h_ops_init(&o, 3);
	h_coll(&o, 1, GPUSIM_RECV, 4, 0);
	h_coll(&o, 1, GPUSIM_RECV, 4, 0);
	h_coll(&o, 0, GPUSIM_SEND, 4, 1);
	h_submit(&h, 9, 1, &o, false);
	ok(h.call[h.ncall - 1].req->run->ops[0]->coll->p2p == 0 &&
	       h.call[h.ncall - 1].req->run->ops[1]->coll->p2p == 2,
	   "what meets its half in the submit does not count");
	h_ops_init(&o, 3);
	h_coll(&o, 0, GPUSIM_SEND, 4, 1);
	h_coll(&o, 1, GPUSIM_RECV, 5, 0);
	ok(h_failed(&h, h_submit(&h, 9, 1, &o, false), RC_INVAL,
		    "rank 1 operation 0: recv of 20 bytes, but rank 0's send has 16"),
	   "halves of unequal size are refused");
	h_fini(&h);
}

static void
t_failure(void)
{
	struct harness h;
	struct h_ops o;
	GpuSim__GetCommStatusResponse *s;
	static const char why[] =
	    "comm 1 rank 2 (device 0000000000000003): allreduce: no progress for 5.0s in step 4/6";
	uint64_t first, queued, idle;

	h_init(&h);
	h_devices(&h, 4);
	h_comm(&h, 9, 4);
	h_allreduce(&o, 4, 10);
	first = h_submit(&h, 9, 1, &o, true);
	queued = h_submit(&h, 9, 1, &o, true);
	idle = h_status(&h, 9, 1, true);
	h_accept(&h, 0);
	h_refuse(&h, 0, RC_ABORTED, "allreduce: rank 2 refused");
	ok(h_count(&h, H_ABORT) == 4 && h_find(&h, H_ABORT, 1) >= 0,
	   "when one rank fails, all are told to end");
	ok(h_code(&h, queued) == RC_ABORTED && h_code(&h, first) == -1,
	   "what was queued fails at once, the run waits for its ranks");
	s = h_reply(&h, h_status(&h, 9, 1, false))->getcommstatus;
	ok(s->status == GPU_SIM__STATUS__FAILED && s->pending == 1, "the communicator has failed");
	h_refuse(&h, (size_t)h_find(&h, H_RUN, 3), RC_TIMEOUT,
		 "allreduce: no progress for 5.0s in step 4/6");
	h_refuse(&h, (size_t)h_find(&h, H_RUN, 4), RC_ABORTED, "told to");
	ok(h_failed(&h, first, RC_TIMEOUT, why), "the client gets the real cause");
	ok(h_code(&h, idle) == 0 && !strcmp(h_reply(&h, idle)->getcommstatus->reason, why) &&
	       h_reply(&h, idle)->getcommstatus->code == RC_TIMEOUT,
	   "and so does who waits for the status");
	ok(h_count(&h, H_RUN) == 0 && h_clean(&h), "nothing more is started");
	h_fini(&h);
}

static void
t_grace(void)
{
	struct harness h;
	struct h_ops o;
	uint64_t t, send;

	h_init(&h);
	h_devices(&h, 3);
	h_comm(&h, 9, 3);
	h_allreduce(&o, 3, 10);
	t = h_submit(&h, 9, 1, &o, true);
	h_ops_init(&o, 3);
	h_coll(&o, 0, GPUSIM_SEND, 4, 1);
	send = h_submit(&h, 9, 1, &o, true);
	h_end_call(&h, 1, NULL, RC_UNREACHABLE, "connection reset");
	ok(h.call[h.ncall - 1].req->commabort->epoch == 1 &&
	       !strcmp(h.call[h.ncall - 1].req->commabort->reason,
		       "comm 1 rank 1 (device 0000000000000002): connection reset"),
	   "the abort carries epoch and reason");
	h_advance(&h, H_GRACE_MS - 100);
	ok(h_code(&h, t) == -1 && h_code(&h, send) == -1, "survivors have the grace period");
	h_advance(&h, 200);
	ok(h_failed(&h, t, RC_UNREACHABLE,
		    "comm 1 rank 1 (device 0000000000000002): connection reset") &&
	       h_failed(&h, send, RC_UNREACHABLE,
			"comm 1 rank 1 (device 0000000000000002): connection reset"),
	   "then all runs end with the reason");
	h_serve(&h);
	ok(h_clean(&h), "late answers change nothing");
	h_fini(&h);
}

static void
t_lost(void)
{
	struct harness h;
	struct h_ops o;
	uint64_t t;

	h_init(&h);
	h_devices(&h, 3);
	h_comm(&h, 9, 3);
	h_allreduce(&o, 3, 10);
	t = h_submit(&h, 9, 1, &o, true);
	h.alive[2] = false;
	h_accept(&h, 0);
	h_advance(&h, H_LOST_MS - 100);
	ok(h_code(&h, t) == -1, "a silent device is given its time");
	h_advance(&h, 100 + H_GRACE_MS);
	ok(h_failed(&h, t, RC_UNREACHABLE,
		    "comm 1 rank 1 (device 0000000000000002) lost: no heartbeat for 5.0s"),
	   "a lost one ends the run");
	h_destroy(&h, 9, 1);
	h.alive[2] = true;
	h_advance(&h, H_BEAT_MS);
	h_serve(&h);
	h_comm(&h, 9, 3);
	h.alive[2] = false;
	h_advance(&h, H_LOST_MS);
	ok(h_find(&h, H_ABORT, 1) >= 0 && h_find(&h, H_ABORT, 3) >= 0,
	   "when nothing runs the others are told too: they may transfer");
	t = h_submit(&h, 9, 2, &o, true);
	ok(h_code(&h, t) == RC_FAILED &&
	       strstr(h_text(&h, t), "comm 2 rank 1 (device 0000000000000002) lost: no heartbeat"),
	   "a run with a lost device is refused: %s", h_text(&h, t));
	h_serve(&h);
	t = h_status(&h, 9, 2, false);
	ok(h_reply(&h, t)->getcommstatus->status == GPU_SIM__STATUS__FAILED &&
	       strstr(h_reply(&h, t)->getcommstatus->reason,
		      "rank 1 (device 0000000000000002) lost"),
	   "the communicator has failed");
	h.alive[2] = true;
	h_advance(&h, H_BEAT_MS);
	h_shrink(&h, 9, 2, NULL, 0);
	h_serve(&h);
	h_allreduce(&o, 2, 10);
	t = h_submit(&h, 9, 2, &o, true);
	h_serve(&h);
	ok(h_code(&h, t) == 0, "and can be made usable without it");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
t_deadline(void)
{
	struct harness h;
	struct h_ops o;
	uint64_t t, u;

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, 9, 2);
	h_allreduce(&o, 2, 10);
	h.timeout_ms = 3000;
	t = h_submit(&h, 9, 1, &o, true);
	u = h_submit(&h, 9, 1, &o, true);
	h_advance(&h, 2800);
	h_accept(&h, 0);
	ok(h_code(&h, t) == -1, "the client waits as long as it said");
	h_advance(&h, 200);
	ok(h_failed(&h, t, RC_TIMEOUT,
		    "comm 1: still in progress after 2.9s, waiting for rank 1 "
		    "(device 0000000000000002)"),
	   "then hears what was waited for, in time");
	ok(h_failed(&h, u, RC_TIMEOUT, "comm 1: still queued, 2 runs in all"),
	   "also of one that has not started");
	h_serve(&h);
	ok(h_reply(&h, h_status(&h, 9, 1, false))->getcommstatus->status ==
	       GPU_SIM__STATUS__SUCCESS,
	   "the runs went on");
	h_submit(&h, 9, 1, &o, false);
	h_end_call(&h, 0, NULL, RC_OK, NULL);
	ok(!strcmp(h_reply(&h, h_status(&h, 9, 1, false))->getcommstatus->reason,
		   "comm 1 rank 0 (device 0000000000000001): no reason given"),
	   "a result without a reply is a failure");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static uint64_t
all_reduce_ring(struct harness *h, uint64_t count, uint32_t nranks, uint32_t last)
{
	GpuSim__AllReduceRingRequest q = GPU_SIM__ALL_REDUCE_RING_REQUEST__INIT;
	GpuSim__AllReduceRingRequest__MemAddrsEntry e[8], *ep[8];
	GpuSim__MemAddr a[8];

	for (uint32_t r = 0; r < nranks; r++) {
		gpu_sim__all_reduce_ring_request__mem_addrs_entry__init(&e[r]);
		gpu_sim__mem_addr__init(&a[r]);
		a[r].value = H_MIN + 64 * r;
		e[r].key = r + 1 == nranks ? last : r;
		e[r].value = &a[r];
		ep[r] = &e[r];
	}
	q.commid = 1;
	q.count = count;
	q.n_memaddrs = nranks;
	q.memaddrs = ep;
	return h_ask(h, 9, ALL_REDUCE_RING, allreducering, &q);
}

static void
t_lab(void)
{
	struct harness h;
	GpuSim__Coll *k;
	uint64_t t;

	h_init(&h);
	h_devices(&h, 3);
	h_comm(&h, 9, 3);
	t = all_reduce_ring(&h, 5, 3, 2);
	k = run_coll(&h, 2, 0);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->allreducering->success && h.ncall == 3 &&
	       k->nelem == 5 && k->dtype == GPU_SIM__DATA_TYPE__F64 && !strcmp(k->algo, "ring") &&
	       k->sendaddr == H_MIN + 64 && k->recvaddr == H_MIN + 64,
	   "AllReduceRing is an all-reduce of doubles in place, answered at once");
	ok(h_failed(&h, all_reduce_ring(&h, 5, 2, 1), RC_INVAL,
		    "memAddrs has no address for rank 2"),
	   "a missing rank is named");
	ok(h_failed(&h, all_reduce_ring(&h, 5, 3, 7), RC_INVAL,
		    "memAddrs names rank 7, but communicator 1 has 3 ranks"),
	   "so is one too many");
	h_fini(&h);
}

int
main(void)
{
	t_submit();
	t_members();
	t_algorithm();
	t_links();
	t_order();
	t_sendrecv();
	t_failure();
	t_grace();
	t_lost();
	t_deadline();
	t_lab();
	return tap_done();
}
