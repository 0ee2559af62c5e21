/*
 * Seeded storms of requests that the simulator (tests/sim) does not make: groups, sends and receives that meet in
 * later submits, graphs that are destroyed, ranks that meet by an id, copies, cancelled requests, ids of things that do
 * not exist, devices that refuse, results that come twice. Every request is answered exactly once and in time, nothing
 * waits for a dead device, and the same storm gives the same actions, byte for byte.
 */
#include "coord_harness.h"

#define SEEDS  2000
#define EVENTS 150
#define NDEV   6

struct storm {
	struct harness h;
	uint64_t rng;
	uint64_t ended[64]; /* tokens of calls that have ended, some repeated later */
	size_t nended;
	unsigned ok, failed; /* answers */
};

static uint32_t
roll(struct storm *s, uint32_t n)
{
	s->rng = s->rng * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((s->rng >> 33) % n);
}

static void
random_ops(struct storm *s, struct h_ops *o)
{
	uint32_t n = 1 + roll(s, 4), a = roll(s, n), b = roll(s, n);
	uint32_t rounds = 1 + roll(s, 3);

	h_ops_init(o, n);
	for (uint32_t i = 0; i < rounds; i++)
		switch (roll(s, 6)) {
		case 0:
			h_launch(o, a);
			break;
		case 1:
			h_coll(o, a, GPUSIM_SEND, 4, b);
			break;
		case 2:
			h_coll(o, b, GPUSIM_RECV, 4, a);
			break;
		case 3:
			h_coll(o, a, GPUSIM_SEND, 5, b);
			h_coll(o, b, GPUSIM_RECV, 5, a);
			break;
		default:
			for (uint32_t r = 0; r < n; r++)
				h_coll(o, r, GPUSIM_ALLREDUCE, roll(s, 50) ? 8 : 7, 0);
		}
}

static void
random_graph(struct storm *s, uint64_t client, uint64_t comm)
{
	GpuSim__GraphCreateRequest create = GPU_SIM__GRAPH_CREATE_REQUEST__INIT;
	GpuSim__GraphLaunchRequest launch = GPU_SIM__GRAPH_LAUNCH_REQUEST__INIT;
	GpuSim__GraphDestroyRequest destroy = GPU_SIM__GRAPH_DESTROY_REQUEST__INIT;
	struct h_ops o;

	switch (roll(s, 4)) {
	case 0:
		random_ops(s, &o);
		create.commid = comm;
		create.n_ranks = o.nranks;
		create.ranks = o.rankp;
		h_ask(&s->h, client, GRAPH_CREATE, graphcreate, &create);
		break;
	case 1:
		destroy.commid = comm;
		destroy.graphid = 1 + roll(s, 4);
		h_ask(&s->h, client, GRAPH_DESTROY, graphdestroy, &destroy);
		break;
	default:
		launch.commid = comm;
		launch.graphid = 1 + roll(s, 4);
		launch.iterations = roll(s, 4);
		launch.wait = roll(s, 2);
		h_ask(&s->h, client, GRAPH_LAUNCH, graphlaunch, &launch);
	}
}

static void
random_copy(struct storm *s, uint64_t client)
{
	GpuSim__MemcpyRequest q = GPU_SIM__MEMCPY_REQUEST__INIT;
	GpuSim__MemcpyDeviceToHostRequest out = GPU_SIM__MEMCPY_DEVICE_TO_HOST_REQUEST__INIT;
	GpuSim__DeviceId dev = GPU_SIM__DEVICE_ID__INIT;

	dev.value = 1 + roll(s, NDEV + 1);
	out.srcdeviceid = &dev;
	out.numbytes = 16;
	q.either_case = GPU_SIM__MEMCPY_REQUEST__EITHER_DEVICE_TO_HOST;
	q.devicetohost = &out;
	h_ask(&s->h, client, MEMCPY, memcpy, &q);
}

static void
random_change(struct storm *s, uint64_t client, uint64_t comm)
{
	uint32_t rank = roll(s, 3);

	switch (roll(s, 4)) {
	case 0:
		h_shrink(&s->h, client, comm, &rank, roll(s, 2));
		break;
	case 1:
		h_comm_abort(&s->h, client, comm, "somebody wants it");
		break;
	default:
		h_grow(&s->h, client, comm, roll(s, 3));
	}
}

/* A rank comes by one of a few ids, which mostly agrees with the others. */
static void
random_rank(struct storm *s, uint64_t client)
{
	GpuSim__CommInitRankRequest q = GPU_SIM__COMM_INIT_RANK_REQUEST__INIT;

	q.idhigh = 1;
	q.idlow = 1 + roll(s, 200) / 50;
	q.numranks = roll(s, 20) ? 1 + (uint32_t)q.idlow % 3 : roll(s, 5);
	q.rank = roll(s, 3);
	q.deviceid = roll(s, 4) ? 0 : 1 + roll(s, NDEV + 1);
	q.lease = q.idlow % 2;
	if (q.idlow == 3) {
		q.host = (char *)(roll(s, 20) ? H_HOST : "another-host");
		q.user = 1;
		q.mustqueue = roll(s, 2);
	}
	h_ask(&s->h, client, COMM_INIT_RANK, comminitrank, &q);
}

/* Ranks of a communicator make others of it, or leave it. */
static void
random_family(struct storm *s, uint64_t client, uint64_t comm)
{
	GpuSim__CommSplitRankRequest split = GPU_SIM__COMM_SPLIT_RANK_REQUEST__INIT;
	GpuSim__CommShrinkRankRequest shrink = GPU_SIM__COMM_SHRINK_RANK_REQUEST__INIT;
	GpuSim__CommGrowRankRequest grow = GPU_SIM__COMM_GROW_RANK_REQUEST__INIT;
	GpuSim__CommDestroyRequest leave = GPU_SIM__COMM_DESTROY_REQUEST__INIT;
	uint32_t exclude = roll(s, 3);

	split.commid = shrink.commid = leave.commid = comm;
	split.rank = shrink.rank = leave.rank = grow.rank = roll(s, 3);
	switch (roll(s, 4)) {
	case 0:
		split.call = roll(s, 10) == 0;
		split.color = (int)roll(s, 3) - 1;
		split.key = (int)roll(s, 3) - 1;
		h_ask(&s->h, client, COMM_SPLIT_RANK, commsplitrank, &split);
		break;
	case 1:
		shrink.n_exclude = roll(s, 10) != 0;
		shrink.exclude = &exclude;
		shrink.abort = roll(s, 2);
		h_ask(&s->h, client, COMM_SHRINK_RANK, commshrinkrank, &shrink);
		break;
	case 2:
		grow.commid = roll(s, 2) ? comm : 0;
		grow.numranks = 3 + roll(s, 20) / 19;
		grow.idlow = roll(s, 3);
		grow.deviceid = roll(s, 2) ? 0 : 1 + roll(s, NDEV + 1);
		grow.host = (char *)H_HOST;
		grow.user = 1;
		h_ask(&s->h, client, COMM_GROW_RANK, commgrowrank, &grow);
		break;
	default:
		leave.leave = true;
		h_ask(&s->h, client, COMM_DESTROY, commdestroy, &leave);
	}
}

static void
random_request(struct storm *s)
{
	struct harness *h = &s->h;
	uint64_t client = 1 + roll(s, 3), comm = 1 + roll(s, 4);
	GpuSim__StatusRequest status = GPU_SIM__STATUS_REQUEST__INIT;
	struct h_ops o;

	h->timeout_ms = roll(s, 20000);
	h->policy = (enum gpusim_on_failure)roll(s, 4);
	switch (roll(s, 22)) {
	case 0:
	case 1:
	case 2:
		h_comm_init(h, client, roll(s, 4), roll(s, 2));
		break;
	case 3:
		h_destroy(h, client, comm);
		break;
	case 4:
		if (roll(s, 2))
			h_status(h, client, comm, roll(s, 2));
		else
			h_paths(h, comm);
		break;
	case 5:
		h_group_start(h, client, comm);
		break;
	case 6:
		h_group_end(h, client, comm, roll(s, 2));
		break;
	case 7:
		random_copy(s, client);
		break;
	case 8:
		h_ask(h, client, STATUS, status, &status);
		break;
	case 16:
		random_change(s, client, comm);
		break;
	case 18:
	case 19:
		random_rank(s, client);
		break;
	case 20:
	case 21:
		random_family(s, client, comm);
		break;
	case 9:
	case 10:
		random_graph(s, client, comm);
		break;
	default:
		random_ops(s, &o);
		h_submit(h, client, comm, &o, roll(s, 2));
	}
}

/* Whether the device that call i goes to lives. */
static bool
hears(const struct harness *h, size_t i)
{
	return h->alive[strtoull(h->call[i].address + strlen("ipc:///dev"), NULL, 10)];
}

/* A device answers, refuses, or is cut off; the dead say nothing. */
static void
random_result(struct storm *s)
{
	struct harness *h = &s->h;
	size_t i;

	if (!h->ncall)
		return;
	i = roll(s, (uint32_t)h->ncall);
	if (!hears(h, i))
		return;
	s->ended[s->nended++ % 64] = h->call[i].token;
	switch (roll(s, 40)) {
	case 0:
		h_refuse(h, i, RC_FAILED, "it does not work");
		break;
	case 1:
		h_refuse(h, i, RC_ABORTED, "told to");
		break;
	case 2:
		h_end_call(h, i, NULL, RC_UNREACHABLE, "connection reset");
		break;
	default:
		h_accept(h, i);
	}
}

static void
repeat_result(struct storm *s)
{
	struct coord_event ev = {.kind = COORD_RESULT, .rc = RC_FAILED, .text = "again"};

	ev.token = s->nended ? s->ended[roll(s, s->nended < 64 ? (uint32_t)s->nended : 64)] : 12345;
	h_step(&s->h, &ev);
}

/* Devices that were to be started again come back, most of them. */
static void
spawn(struct storm *s)
{
	struct harness *h = &s->h;

	for (uint64_t id = 1; id <= NDEV; id++) {
		if (!h->spawned[id])
			continue;
		h->spawned[id] = 0;
		if (roll(s, 5) == 0)
			continue;
		h->incarnation[id] += 1000;
		h->alive[id] = true;
		h_register(h, id);
	}
}

/* The coordinator is killed and started again; clients ask again, sooner or later. */
static void
crash(struct storm *s)
{
	h_crash(&s->h);
	coord_add_device(s->h.c, 0, "ipc:///dev2", NULL);
	if (roll(s, 4) == 0)
		h_advance(&s->h, 100);
	if (roll(s, 8) == 0)
		h_crash(&s->h);
	h_repeat_all(&s->h);
}

static void
random_event(struct storm *s)
{
	struct harness *h = &s->h;
	uint64_t id = 1 + roll(s, NDEV);
	uint32_t what = roll(s, 100);

	if (what < 30)
		random_request(s);
	else if (what < 75)
		random_result(s);
	else if (what < 92)
		h_advance(h, 100 + 100 * roll(s, 10));
	else if (what < 94)
		h->alive[id] = !h->alive[id];
	else if (what < 95) {
		h->incarnation[id] += 1000;
		h->alive[id] = true;
		h_register(h, id);
	} else if (what < 96)
		h_gone(h, 1 + roll(s, 3));
	else if (what < 97 && h->last_token && roll(s, 2))
		h_cancel(h,
			 h->last_token - roll(s, h->last_token < 8 ? (uint32_t)h->last_token : 8));
	else if (what < 97)
		roll(s, 2) ? crash(s) : h_advance(h, 6000);
	else
		repeat_result(s);
	spawn(s);
}

/* The living answer all they are asked; time passes until every deadline is over. */
static void
calm(struct storm *s)
{
	for (int round = 0; round < 30; round++) {
		for (size_t i = 0; i < s->h.ncall;)
			if (hears(&s->h, i))
				h_accept(&s->h, i);
			else
				i++;
		h_advance(&s->h, 1000);
		spawn(s);
	}
}

/* All answered once; false and a line when not. */
static bool
all_answered(struct storm *s, uint64_t seed)
{
	for (uint64_t i = 0; i < s->h.last_token; i++) {
		if (s->h.answer[i].count != 1) {
			printf("# seed %" PRIu64 ": request %" PRIu64 " was answered %u times\n",
			       seed, i + 1, s->h.answer[i].count);
			return false;
		}
		if (s->h.answer[i].reply && s->h.answer[i].reply->code == RC_OK)
			s->ok++;
		else
			s->failed++;
	}
	return s->h.bad == 0;
}

/* Nothing is pending, and what is left can be destroyed. */
static bool
all_idle(struct storm *s, uint64_t seed)
{
	GpuSim__StatusRequest q = GPU_SIM__STATUS_REQUEST__INIT;
	GpuSim__StatusResponse *r = h_reply(&s->h, h_ask(&s->h, 1, STATUS, status, &q))->status;

	for (size_t i = 0; i < r->n_comms; i++) {
		if (r->comms[i]->pending) {
			printf("# seed %" PRIu64 ": comm %" PRIu64 " has %" PRIu64 " runs left\n",
			       seed, r->comms[i]->commid, r->comms[i]->pending);
			return false;
		}
		h_destroy(&s->h, 1, r->comms[i]->commid);
	}
	calm(s);
	r = h_reply(&s->h, h_ask(&s->h, 1, STATUS, status, &q))->status;
	if (r->n_comms)
		printf("# seed %" PRIu64 ": comm %" PRIu64 " is left\n", seed, r->comms[0]->commid);
	return r->n_comms == 0;
}

static void
storm(struct storm *s, uint64_t seed)
{
	*s = (struct storm){.rng = seed * 2654435761u + 1};
	h_init(&s->h);
	coord_add_device(s->h.c, 0, "ipc:///dev2", NULL);
	h_devices(&s->h, NDEV);
	for (int id = 1; id <= NDEV; id++)
		if (roll(s, 4))
			s->h.offer[id] = (struct h_offer){.block = 64 * (uint64_t)id,
							  .unseen = roll(s, 4) ? 0 : roll(s, 128)};
	h_comm(&s->h, 1, 2);
	h_comm(&s->h, 2, 3);
	for (int i = 0; i < EVENTS; i++)
		random_event(s);
	calm(s);
}

int
main(void)
{
	uint64_t unanswered = 0, busy = 0, differ = 0;
	unsigned good = 0, bad = 0;
	static struct storm s;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint64_t hash;

		storm(&s, seed);
		hash = s.h.hash;
		unanswered += !all_answered(&s, seed);
		good += s.ok;
		bad += s.failed;
		busy += !all_idle(&s, seed);
		h_fini(&s.h);
		if (seed % 8)
			continue;
		storm(&s, seed);
		differ += s.h.hash != hash;
		h_fini(&s.h);
	}
	ok(unanswered == 0, "every request of %d storms is answered exactly once", SEEDS);
	ok(busy == 0, "nothing is left pending, every communicator can be destroyed");
	ok(differ == 0, "the same storm gives the same actions, byte for byte");
	ok(good > SEEDS && bad > SEEDS, "requests succeed and fail in storms");
	printf("# %u requests succeeded, %u failed\n", good, bad);

	/* In the middle of a storm, too, everything can be released. */
	s = (struct storm){.rng = 5};
	h_init(&s.h);
	h_devices(&s.h, NDEV);
	for (int i = 0; i < EVENTS; i++)
		random_event(&s);
	h_fini(&s.h);
	return tap_done();
}
