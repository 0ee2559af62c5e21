/* Communicators: made, told about, leased, destroyed; and what goes wrong meanwhile. */
#include "coord_harness.h"

static uint64_t
init_named(struct harness *h, const uint64_t *ids, size_t n)
{
	GpuSim__CommInitRequest q = GPU_SIM__COMM_INIT_REQUEST__INIT;

	q.deviceids = (uint64_t *)ids;
	q.n_deviceids = n;
	return h_ask(h, 9, COMM_INIT, comminit, &q);
}

static void
t_init(void)
{
	struct harness h;
	GpuSim__CommAttachRequest *a;
	GpuSim__CommInitResponse *r;
	uint64_t t, u;

	h_init(&h);
	h_devices(&h, 4);
	t = h_comm_init(&h, 9, 3, false);
	ok(h.ncall == 3 && h_count(&h, H_ATTACH) == 3 && h_code(&h, t) == -1,
	   "every device is attached at once");
	a = h.call[2].req->commattach;
	ok(a->commid == 1 && a->epoch == 1 && a->rank == 2 && a->n_ranks == 3 &&
	       a->ranks[1]->deviceid->value == 2 && !*a->ranks[1]->address &&
	       a->optimeoutms == 10000,
	   "an attach says who is who");
	u = h_comm_init(&h, 10, 2, false);
	ok(h_failed(&h, u, RC_BUSY, "busy: needs 2 devices; 1 of 4 is free: comm 1 has 3"),
	   "devices being attached are not free");
	h_serve(&h);
	r = h_code(&h, t) == 0 ? h_reply(&h, t)->comminit : NULL;
	ok(r && r->success && r->commid == 1 && r->n_devices == 3 &&
	       r->devices[2]->deviceid->value == 3 && r->devices[2]->commid == 1,
	   "the answer has the ranks in order");
	ok(h_comm(&h, 9, 1) == 2, "the next communicator has the next number");
	ok(h_failed(&h, h_comm_init(&h, 9, 0, false), RC_INVAL,
		    "0 devices requested: a communicator needs at least one"),
	   "no devices are refused");
	ok(h_failed(&h, h_comm_init(&h, 9, 2000, false), RC_INVAL,
		    "2000 devices requested: a communicator has at most 1024"),
	   "too many are refused");
	ok(h_failed(&h, h_comm_init(&h, 9, 6, false), RC_NOTFOUND, "needs 6 devices; 4 exist"),
	   "more than there are are refused");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
t_named(void)
{
	struct harness h;
	static const uint64_t ids[] = {4, 2}, twice[] = {1, 2, 1}, none[] = {1, 99};
	uint64_t t;

	h_init(&h);
	h_devices(&h, 5);
	h_comm(&h, 9, 3);
	t = init_named(&h, ids, 2);
	h_serve(&h);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->comminit->devices[0]->deviceid->value == 4,
	   "named devices come in the order named, also when in another communicator");
	ok(h_failed(&h, init_named(&h, twice, 3), RC_INVAL,
		    "device 0000000000000001 is named twice, as rank 0 and rank 2"),
	   "a device named twice is refused");
	ok(h_failed(&h, init_named(&h, none, 2), RC_NOTFOUND, "no device 0000000000000063"),
	   "an unknown one is refused");
	h.alive[2] = false;
	h_advance(&h, H_LOST_MS);
	ok(h_failed(&h, init_named(&h, ids, 2), RC_UNREACHABLE,
		    "device 0000000000000002 lost: no heartbeat for 5.0s"),
	   "a lost one is refused");
	ok(h_failed(&h, h_comm_init(&h, 9, 2, false), RC_BUSY,
		    "busy: needs 2 devices; 1 of 4 is free: comm 1 has 3, comm 2 has 2; device "
		    "0000000000000002 (gpu 0) was lost 0.0 s ago: no heartbeat for 5.0s"),
	   "devices of two communicators are not free");
	h_fini(&h);
}

static void
t_attach_fails(void)
{
	struct harness h;
	uint64_t t;

	h_init(&h);
	h_devices(&h, 3);
	t = h_comm_init(&h, 9, 3, false);
	h_accept(&h, 0);
	h_refuse(&h, 0, RC_BUSY, "attach: 64 communicators already");
	h_accept(&h, 0);
	ok(h_count(&h, H_DETACH) == 2 && h_find(&h, H_DETACH, 2) == -1 && h_code(&h, t) == -1,
	   "when one refuses, the others are detached");
	h_serve(&h);
	ok(h_failed(&h, t, RC_BUSY,
		    "rank 1 (device 0000000000000002): attach: 64 communicators already"),
	   "the answer names rank and device");
	ok(h_comm(&h, 9, 3) == 2, "the devices are free again, the number is not used again");
	h_destroy(&h, 9, 2);
	h_serve(&h);
	t = h_comm_init(&h, 9, 3, false);
	h.alive[1] = false;
	h_advance(&h, H_LOST_MS);
	h_serve(&h);
	ok(h_failed(&h, t, RC_UNREACHABLE,
		    "rank 0 (device 0000000000000001) lost: no heartbeat for 5.0s"),
	   "a device lost while attaching fails it");
	h.timeout_ms = 2000;
	t = h_comm_init(&h, 9, 1, false);
	h_advance(&h, 2000);
	ok(h_failed(&h, t, RC_TIMEOUT,
		    "comm 4: rank 0 (device 0000000000000002) has not answered its attach"),
	   "the client's deadline is kept");
	h_serve(&h);
	ok(h_comm(&h, 9, 2) == 5, "what nobody waits for is detached again");
	h_destroy(&h, 9, 5);
	h_serve(&h);
	h.timeout_ms = H_TIMEOUT_MS;
	t = h_comm_init(&h, 9, 1, false);
	h_advance(&h, 2 * H_LOST_MS + 1000 + H_GRACE_MS);
	ok(h_failed(&h, t, RC_TIMEOUT, "rank 0 (device 0000000000000002): no answer for 11.0s"),
	   "a call whose result never comes is given up");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* Devices 1 .. n share their memory, at 64, 128, ... of their files. */
static void
share(struct harness *h, uint64_t n)
{
	for (uint64_t id = 1; id <= n; id++)
		h->offer[id] = (struct h_offer){.block = 64 * id};
}

static bool
joins(const struct harness *h, uint64_t id, uint64_t a, uint64_t b, uint64_t c)
{
	long i = h_find(h, H_JOIN, id);
	const GpuSim__CommJoinRequest *q = i < 0 ? NULL : h->call[i].req->commjoin;

	return q && q->commid == 1 && q->epoch == 1 && q->n_block == 3 && q->block[0] == a &&
	       q->block[1] == b && q->block[2] == c;
}

/* What a one-sided algorithm comes to on a communicator. */
static uint64_t
submit_direct(struct harness *h, uint64_t comm, uint32_t nranks)
{
	struct h_ops o;

	h_allreduce(&o, nranks, 10);
	for (uint32_t r = 0; r < nranks; r++)
		o.coll[r][0].algo = (char *)"twoshot";
	return h_submit(h, 9, comm, &o, true);
}

static bool
same_paths(const uint8_t *path, const char *want)
{
	for (size_t i = 0; path && want[i]; i++)
		if (path[i] != (want[i] == '1' ? GPUSIM_PATH_P2P : GPUSIM_PATH_NET))
			return false;
	return path != NULL;
}

static void
t_join(void)
{
	struct harness h;
	uint64_t t;

	h_init(&h);
	h_devices(&h, 4);
	share(&h, 3);
	t = h_comm_init(&h, 9, 3, false);
	h_accept(&h, 0);
	h_accept(&h, 0);
	ok(h_count(&h, H_JOIN) == 0, "nobody joins before all have attached");
	h_accept(&h, 0);
	ok(h_count(&h, H_JOIN) == 3 && joins(&h, 1, 0, 128, 192) && joins(&h, 2, 64, 0, 192) &&
	       joins(&h, 3, 64, 128, 0),
	   "then each is told where the others' blocks are");
	ok(h_code(&h, t) == -1 && h_code(&h, h_status(&h, 9, 1, false)) == RC_NOTFOUND &&
	       h_code(&h, h_destroy(&h, 9, 1)) == RC_NOTFOUND,
	   "there is no communicator before all have joined");
	h_accept(&h, 0);
	h_accept(&h, 0);
	ok(h_code(&h, t) == -1, "all of them");
	h_accept(&h, 0);
	ok(h_code(&h, t) == 0, "then there is");
	ok(same_paths(h_paths(&h, 1), "111111111"), "every path is by memory");
	ok(h_reply(&h, h_status(&h, 9, 1, false))->getcommstatus->paths.len == 0,
	   "paths are told when asked for");
	t = submit_direct(&h, 1, 3);
	h_serve(&h);
	ok(h_code(&h, t) == 0, "one-sided algorithms run");
	t = h_comm_init(&h, 9, 1, false);
	h_accept(&h, 0);
	ok(h_code(&h, t) == 0 && h.ncall == 0, "one rank alone joins nobody");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* Ranks of which some cannot be reached by memory. */
static void
t_join_some(void)
{
	struct harness h;
	uint64_t t;

	h_init(&h);
	h_devices(&h, 3);
	share(&h, 3);
	h.offer[2].unseen = UINT64_MAX;
	t = h_comm_init(&h, 9, 3, false);
	for (int i = 0; i < 3; i++)
		h_accept(&h, 0);
	ok(h_count(&h, H_JOIN) == 2 && joins(&h, 1, 0, 0, 192) && joins(&h, 3, 64, 0, 0),
	   "who maps nobody is left out, though the others mapped it");
	h_serve(&h);
	ok(h_code(&h, t) == 0 && same_paths(h_paths(&h, 1), "101010101"),
	   "its paths are by sockets, the others' by memory");
	ok(h_failed(&h, submit_direct(&h, 1, 3), RC_INVAL,
		    "rank 0 operation 0: algorithm twoshot needs peer memory between all ranks, "
		    "but some ranks of comm 1 use sockets"),
	   "one-sided algorithms are refused");
	h_destroy(&h, 9, 1);
	h_serve(&h);
	h.offer[2] = (struct h_offer){0};
	t = h_comm_init(&h, 9, 2, false);
	h_accept(&h, 0);
	h_accept(&h, 0);
	ok(h_code(&h, t) == 0 && h.ncall == 0 && same_paths(h_paths(&h, 2), "1001"),
	   "with one that shares nothing there is no second round");
	h_destroy(&h, 9, 2);
	h_serve(&h);
	share(&h, 3);
	h.offer[1].unseen = 1 << 2;
	h_comm(&h, 9, 3);
	ok(same_paths(h_paths(&h, 3), "101011111"), "both must have mapped each other");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* What no right device offers: lists of other sizes than there are ranks. */
static void
t_join_nonsense(void)
{
	static const size_t entries[] = {1, 2, 4, 2 * H_MAX_DEV};
	struct harness h;

	h_init(&h);
	h_devices(&h, 3);
	share(&h, 3);
	for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
		uint64_t comm;

		h.offer[3].entries = entries[i];
		comm = h_comm(&h, 9, 3);
		ok(same_paths(h_paths(&h, comm), "110110001"),
		   "a list of %zu entries of 3 ranks counts for nothing", entries[i]);
		h_destroy(&h, 9, comm);
		h_serve(&h);
	}
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
t_join_fails(void)
{
	struct harness h;
	uint64_t t;

	h_init(&h);
	h_devices(&h, 3);
	share(&h, 3);
	t = h_comm_init(&h, 9, 3, false);
	for (int i = 0; i < 3; i++)
		h_accept(&h, 0);
	h_accept(&h, 0);
	h_refuse(&h, 0, RC_BADDATA, "rank 2 shows no control block");
	h_accept(&h, 0);
	ok(h_count(&h, H_DETACH) == 3 && h_code(&h, t) == -1,
	   "when one cannot join, all are detached");
	h_serve(&h);
	ok(h_failed(&h, t, RC_BADDATA,
		    "rank 1 (device 0000000000000002): rank 2 shows no control block"),
	   "the answer names rank and device");
	ok(h_comm(&h, 9, 3) == 2, "the devices are free again");
	h_destroy(&h, 9, 2);
	h_serve(&h);
	h.timeout_ms = 2000;
	t = h_comm_init(&h, 9, 3, false);
	for (int i = 0; i < 4; i++)
		h_accept(&h, 0);
	h_advance(&h, 2000);
	ok(h_failed(&h, t, RC_TIMEOUT,
		    "comm 3: rank 1 (device 0000000000000002) has not answered its join"),
	   "the client's deadline is kept");
	h_serve(&h);
	ok(h_comm(&h, 9, 3) == 4, "what nobody waits for is detached again");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
t_paths_limit(void)
{
	static struct harness h;
	GpuSim__GetCommStatusRequest q = GPU_SIM__GET_COMM_STATUS_REQUEST__INIT;

	h_init(&h);
	for (uint64_t id = 1; id <= WIRE_MAX_PATHS + 1; id++)
		h_register(&h, id);
	q.commid = h_comm(&h, 9, WIRE_MAX_PATHS + 1);
	q.paths = true;
	ok(h_failed(&h, h_ask(&h, 9, GET_COMM_STATUS, getcommstatus, &q), RC_INVAL,
		    "comm 1 has 513 ranks; paths are reported for at most 512"),
	   "of more ranks than fit no paths are told");
	h_destroy(&h, 9, 1);
	h_serve(&h);
	h_comm(&h, 9, WIRE_MAX_PATHS);
	ok(h_paths(&h, 2) != NULL, "of so many they are");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
t_status(void)
{
	struct harness h;
	GpuSim__GetCommStatusResponse *s;
	struct h_ops o;
	uint64_t t, u;

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, 9, 2);
	s = h_reply(&h, h_status(&h, 9, 1, true))->getcommstatus;
	ok(s->status == GPU_SIM__STATUS__SUCCESS && s->epoch == 1 && s->n_devices == 2,
	   "an idle communicator is well, at once also with wait");
	h_allreduce(&o, 2, 10);
	h_submit(&h, 9, 1, &o, false);
	s = h_reply(&h, h_status(&h, 9, 1, false))->getcommstatus;
	ok(s->status == GPU_SIM__STATUS__IN_PROGRESS && s->pending == 1,
	   "one at work is in progress");
	t = h_status(&h, 9, 1, true);
	h.timeout_ms = 1000;
	u = h_status(&h, 9, 1, true);
	h_advance(&h, 1000);
	ok(h_code(&h, t) == -1 && h_code(&h, u) == 0 &&
	       h_reply(&h, u)->getcommstatus->status == GPU_SIM__STATUS__IN_PROGRESS,
	   "with wait, the deadline brings IN_PROGRESS");
	h_serve(&h);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->getcommstatus->status == GPU_SIM__STATUS__SUCCESS,
	   "with wait, the end brings SUCCESS");
	ok(h_failed(&h, h_status(&h, 9, 7, false), RC_NOTFOUND, "no communicator 7"),
	   "an unknown communicator is named");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
t_destroy(void)
{
	struct harness h;
	struct h_ops o;
	uint64_t t, u, v, w, x;

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, 9, 2);
	h_allreduce(&o, 2, 10);
	t = h_submit(&h, 9, 1, &o, true);
	u = h_submit(&h, 9, 1, &o, true);
	v = h_status(&h, 9, 1, true);
	w = h_destroy(&h, 9, 1);
	x = h_destroy(&h, 8, 1);
	ok(h_failed(&h, t, RC_ABORTED, "communicator 1 destroyed") &&
	       h_failed(&h, u, RC_ABORTED, "communicator 1 destroyed") &&
	       h_failed(&h, v, RC_ABORTED, "communicator 1 destroyed"),
	   "destroying ends what waits");
	ok(h_count(&h, H_ABORT) == 2 && h_count(&h, H_DETACH) == 2 && h_code(&h, w) == -1,
	   "the devices are told");
	ok(h_code(&h, h_status(&h, 9, 1, false)) == RC_NOTFOUND, "the communicator is gone");
	h_serve(&h);
	ok(h_code(&h, w) == 0 && h_reply(&h, w)->commdestroy->success && h_code(&h, x) == 0,
	   "the answer comes when all have detached, to everybody");
	ok(h_comm(&h, 9, 2) == 2, "the devices are free");
	t = h_destroy(&h, 9, 2);
	h_advance(&h, H_GRACE_MS);
	ok(h_code(&h, t) == 0, "a device that does not answer is not waited for long");
	ok(h_comm_init(&h, 9, 2, false) && h_count(&h, H_ATTACH) == 2, "and is free too");
	ok(h_failed(&h, h_destroy(&h, 9, 12), RC_NOTFOUND, "no communicator 12"),
	   "an unknown communicator is named");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
t_lease(void)
{
	struct harness h;
	uint64_t t, kept, leased;

	h_init(&h);
	h_devices(&h, 3);
	kept = h_comm(&h, 9, 1);
	t = h_comm_init(&h, 9, 1, true);
	h_serve(&h);
	leased = h_reply(&h, t)->comminit->commid;
	h_gone(&h, 9);
	h_advance(&h, 1900);
	h_status(&h, 9, kept, false);
	h_advance(&h, 3000);
	ok(h_code(&h, h_status(&h, 8, leased, false)) == 0,
	   "a client that returns keeps its lease");
	h_gone(&h, 9);
	h_advance(&h, 1900);
	ok(h_code(&h, h_status(&h, 8, leased, false)) == 0, "a lease lasts two seconds");
	h_advance(&h, 200);
	h_serve(&h);
	ok(h_code(&h, h_status(&h, 8, leased, false)) == RC_NOTFOUND, "and then ends");
	ok(h_code(&h, h_status(&h, 8, kept, false)) == 0, "what is not leased stays");
	h_fini(&h);
}

static void
t_restart(void)
{
	struct harness h;
	struct h_ops o;
	GpuSim__GetCommStatusResponse *s;
	uint64_t t;

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, 9, 2);
	h_allreduce(&o, 2, 10);
	t = h_submit(&h, 9, 1, &o, true);
	h.incarnation[2]++;
	h_register(&h, 2);
	h_serve(&h);
	ok(h_failed(&h, t, RC_FAILED,
		    "comm 1 rank 1 (device 0000000000000002) restarted: its part of the "
		    "communicator is lost"),
	   "a restarted device fails what it was part of");
	s = h_reply(&h, h_status(&h, 9, 1, false))->getcommstatus;
	ok(s->status == GPU_SIM__STATUS__FAILED && s->code == RC_FAILED &&
	       !strcmp(s->reason, "comm 1 rank 1 (device 0000000000000002) restarted"),
	   "and the communicator");
	t = h_submit(&h, 9, 1, &o, true);
	ok(h_failed(&h, t, RC_FAILED,
		    "comm 1 failed earlier: comm 1 rank 1 (device 0000000000000002) restarted; "
		    "shrink or destroy it"),
	   "which takes no more work");
	h_destroy(&h, 9, 1);
	ok(h_count(&h, H_DETACH) == 1, "only those who know of it are detached");
	h_serve(&h);
	ok(h_comm(&h, 9, 2) == 2, "the devices can be used again");
	h_fini(&h);
}

/* Who does not wait for its answer any more gets it at once, and leaves nothing behind. */
static void
t_cancel(void)
{
	struct harness h;
	struct h_ops o;
	uint64_t t, u;

	h_init(&h);
	h_devices(&h, 2);
	t = h_comm_init(&h, 9, 2, false);
	h_cancel(&h, t);
	ok(h_failed(&h, t, RC_ABORTED, "commInit: cancelled by the client"),
	   "a comm-init that is cancelled is answered");
	h_serve(&h);
	ok(h_count(&h, H_DETACH) == 0 && h_comm(&h, 9, 2) == 2, "and its devices are free again");
	h_ops_init(&o, 2);
	h_allreduce(&o, 2, 10);
	t = h_submit(&h, 9, 2, &o, false);
	u = h_status(&h, 9, 2, true);
	t = h_status(&h, 9, 2, true);
	h_cancel(&h, u);
	ok(h_code(&h, u) == RC_ABORTED && h_code(&h, t) == -1, "of two that wait the one");
	h_serve(&h);
	ok(h_code(&h, t) == RC_OK, "the other waits until all is done");
	h_cancel(&h, t);
	ok(h_clean(&h), "what has been answered is not cancelled");
	h_fini(&h);
}

int
main(void)
{
	t_init();
	t_named();
	t_attach_fails();
	t_join();
	t_join_some();
	t_join_nonsense();
	t_join_fails();
	t_paths_limit();
	t_status();
	t_destroy();
	t_lease();
	t_restart();
	t_cancel();
	return tap_done();
}
