/* The coordinator's records, and a second coordinator that goes on from them as if it were the first. */
#include "coord_harness.h"

static bool
is_same(const GpuSim__Request *a, const GpuSim__Request *b)
{
	size_t na = gpu_sim__request__get_packed_size(a), nb = gpu_sim__request__get_packed_size(b);
	uint8_t *pa = malloc(na + 1), *pb = malloc(nb + 1);
	bool same;

	gpu_sim__request__pack(a, pa);
	gpu_sim__request__pack(b, pb);
	same = na == nb && memcmp(pa, pb, na) == 0;
	free(pa);
	free(pb);
	return same;
}

static const GpuSim__StatusResponse *
status(struct harness *h)
{
	GpuSim__StatusRequest q = GPU_SIM__STATUS_REQUEST__INIT;

	return h_reply(h, h_ask(h, 1, STATUS, status, &q))->status;
}

static size_t
records(const struct harness *h, const char *prefix)
{
	size_t n = 0;

	for (size_t i = 0; i < h->nrecord; i++)
		n += strncmp(h->record[i].key, prefix, strlen(prefix)) == 0;
	return n;
}

/* The calls that a restarted coordinator makes to know its devices are answered. */
static void
meet(struct harness *h)
{
	h_advance(h, 100);
	for (size_t i = 0; i < h->ncall;)
		if (h->call[i].req->body_case == GPU_SIM__REQUEST__BODY_GET_DEVICE_METADATA)
			h_accept(h, i);
		else
			i++;
}

static void
test_live(void)
{
	struct harness h;
	struct h_ops o;
	const GpuSim__StatusResponse *s;
	uint64_t t, reg;
	size_t n;

	h_init(&h);
	h_devices(&h, 4);
	for (uint64_t id = 1; id <= 4; id++)
		h.offer[id] = (struct h_offer){.block = 64 * id};
	h_comm(&h, 9, 2);
	h_allreduce(&o, 2, 10);
	h_submit(&h, 9, 1, &o, true);
	h_serve(&h);
	ok(records(&h, "1/device/") == 4 && records(&h, "2/comm/") == 1 && records(&h, "4/") == 0,
	   "devices and communicators are stored, runs that have ended are not");
	h_crash(&h);
	meet(&h);
	n = h.nstored;
	h_advance(&h, 1000);
	ok(h.nstored == n, "nothing has changed: nothing is stored again");
	s = status(&h);
	ok(s->n_devices == 4 && s->n_comms == 1 && s->comms[0]->commid == 1 &&
	       s->comms[0]->epoch == 1 && s->comms[0]->status == GPU_SIM__STATUS__SUCCESS,
	   "the devices are there, and the communicator as it was");
	reg = h_register(&h, 1);
	ok(h_reply(&h, reg)->registerdevice->instance == 77, "it is the same coordinator to all");
	ok(h_paths(&h, 1) && h_paths(&h, 1)[1] == GPUSIM_PATH_P2P, "it knows who maps whom");
	t = h_submit(&h, 9, 1, &o, true);
	ok(h.ncall == 2 && h.call[0].req->run->firstop > 1 && h.call[0].req->run->run > 1 &&
	       h.call[0].req->run->epoch == 1,
	   "operations and runs have numbers that were never given");
	h_serve(&h);
	ok(h_code(&h, t) == 0, "it works");
	h_crash(&h);
	meet(&h);
	ok(s->comms[0]->operations == 1 && status(&h)->comms[0]->operations == 2,
	   "and operations are counted one by one");
	ok(h_comm(&h, 9, 2) == 2, "the next communicator has the next number");
	h_destroy(&h, 9, 1);
	h_destroy(&h, 9, 2);
	h_serve(&h);
	ok(records(&h, "2/") == 0, "what is destroyed is not stored");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* A run is under way: it is the same run for the devices, and for its client. */
static void
test_run(void)
{
	struct harness h;
	struct h_ops o;
	uint64_t t;
	struct h_call was;
	size_t same = 0;

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, 9, 2);
	h_allreduce(&o, 2, 10);
	h_launch(&o, 1);
	t = h_submit(&h, 9, 1, &o, true);
	h_submit(&h, 9, 1, &o, false);
	h_accept(&h, 0);
	was = h.call[0];
	h.ncall = 0; /* its request is ours */
	h_crash(&h);
	meet(&h);
	ok(h_count(&h, H_RUN) == 2,
	   "after a restart each device is asked again, for the first run");
	for (size_t i = 0; i < h.ncall; i++)
		same += h.call[i].device_id == was.device_id && is_same(h.call[i].req, was.req);
	ok(same == 1, "with the same words");
	wire_request_free(was.req);
	h_accept(&h, 0);
	h_repeat(&h, t);
	ok(h_code(&h, t) == -1 && h_count(&h, H_RUN) == 1, "the client asks again, and waits");
	h_accept(&h, 0);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->submit->n_ranks == 2 &&
	       h_reply(&h, t)->submit->ranks[1]->computens == 2,
	   "it gets the answer");
	ok(h_count(&h, H_RUN) == 2, "and the second run has its turn");
	h_serve(&h);
	h.answer[t - 1].count = 0;
	wire_reply_free(h.answer[t - 1].reply);
	h.answer[t - 1].reply = NULL;
	h_crash(&h);
	h_repeat(&h, t);
	ok(h_code(&h, t) == 0 && h_count(&h, H_RUN) == 0 &&
	       h_reply(&h, t)->submit->ranks[1]->computens == 2,
	   "who asks again for what has ended gets the same answer, and nothing is run");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* It ends before its client has come back. */
static void
test_absent(void)
{
	struct harness h;
	struct h_ops o;
	uint64_t t;

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, 9, 2);
	h_allreduce(&o, 2, 10);
	t = h_submit(&h, 9, 1, &o, true);
	h_crash(&h);
	h_advance(&h, 100);
	h_serve(&h);
	ok(records(&h, "4/") == 0 && records(&h, "5/reply/") == 2, "its answer is stored for it");
	h_repeat(&h, t);
	ok(h_code(&h, t) == 0 && h.ncall == 0, "and given to it");
	h_gone(&h, 9);
	h_advance(&h, 61000);
	ok(records(&h, "5/") == 0, "a client that is gone needs no answers any more");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
test_making(void)
{
	struct harness h;
	uint64_t t = 0, d;

	h_init(&h);
	h_devices(&h, 2);
	t = h_comm_init(&h, 9, 2, false);
	h_accept(&h, 0);
	h_crash(&h);
	meet(&h);
	ok(h_count(&h, H_ATTACH) == 2 && h.call[0].req->commattach->epoch == 2,
	   "a communicator that was being made is made, under the next epoch");
	h_repeat(&h, t);
	h_serve(&h);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->comminit->commid == 1 &&
	       h_reply(&h, t)->comminit->epoch == 2,
	   "for the client that asked");
	d = h_destroy(&h, 9, 1);
	h_crash(&h);
	meet(&h);
	ok(h_count(&h, H_DETACH) == 2, "one that was being destroyed is destroyed");
	h_serve(&h);
	h_repeat(&h, d);
	ok(h_code(&h, d) == 0 && status(&h)->n_comms == 0, "and its client hears of it");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
test_graph(void)
{
	struct harness h;
	GpuSim__GraphCreateRequest q = GPU_SIM__GRAPH_CREATE_REQUEST__INIT;
	GpuSim__GraphLaunchRequest l = GPU_SIM__GRAPH_LAUNCH_REQUEST__INIT;
	struct h_ops o;
	uint64_t t;

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, 9, 2);
	h_allreduce(&o, 2, 10);
	q.commid = 1;
	q.n_ranks = 2;
	q.ranks = o.rankp;
	h_ask(&h, 9, GRAPH_CREATE, graphcreate, &q);
	h_serve(&h);
	ok(records(&h, "3/graph/") == 1, "a graph is stored");
	h_crash(&h);
	meet(&h);
	l.commid = l.graphid = 1;
	l.iterations = 3;
	l.wait = true;
	t = h_ask(&h, 9, GRAPH_LAUNCH, graphlaunch, &l);
	ok(h_count(&h, H_RUN) == 2 && h.call[0].req->run->graphid == 1 &&
	       h.call[0].req->run->stride == 1,
	   "and can be launched after a restart");
	h_crash(&h);
	meet(&h);
	ok(h_count(&h, H_RUN) == 2 && h.call[0].req->run->iterations == 3,
	   "its run is a run like others");
	h_repeat(&h, t);
	h_serve(&h);
	ok(h_code(&h, t) == 0, "and ends");
	t = h_ask(&h, 9, GRAPH_CREATE, graphcreate, &q);
	h_serve(&h);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->graphcreate->graphid > 1,
	   "the next graph has a number that was never given");
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* A send goes before the restart, its receive comes after. */
static void
test_pairs(void)
{
	struct harness h;
	struct h_ops o;
	uint64_t number;

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, 9, 2);
	for (int i = 0; i < 2; i++) {
		h_ops_init(&o, 2);
		h_coll(&o, 0, GPUSIM_SEND, 4, 1);
		h_submit(&h, 9, 1, &o, false);
	}
	number = h.call[1].req->run->ops[0]->coll->p2p;
	h_crash(&h);
	meet(&h);
	ok(h_count(&h, H_RUN) == 2, "sends under way are asked for again");
	h_serve(&h);
	for (int i = 0; i < 2; i++) {
		h_ops_init(&o, 2);
		h_coll(&o, 1, GPUSIM_RECV, 4, 0);
		h_submit(&h, 9, 1, &o, false);
	}
	ok(number == 2 && h.call[1].req->run->ops[0]->coll->p2p == 2,
	   "each meets the receive that it would have met");
	h_serve(&h);
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* A device did not survive, or another process has its id now. */
static void
test_lost(bool shrinks)
{
	struct harness h;
	GpuSim__CommInitRequest q = GPU_SIM__COMM_INIT_REQUEST__INIT;
	struct h_ops o;
	uint64_t t;

	h_init(&h);
	h_devices(&h, 3);
	q.numdevices = 3;
	q.policy_case = GPU_SIM__COMM_INIT_REQUEST__POLICY_ON_FAILURE;
	q.onfailure = shrinks ? GPU_SIM__ON_FAILURE__SHRINK : GPU_SIM__ON_FAILURE__ABORT;
	h_ask(&h, 9, COMM_INIT, comminit, &q);
	h_serve(&h);
	h_allreduce(&o, 3, 10);
	t = h_submit(&h, 9, 1, &o, true);
	h_crash(&h);
	h.alive[3] = false;
	meet(&h);
	h_repeat(&h, t);
	h_advance(&h, H_LOST_MS + 200);
	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < h.ncall;)
			if (h.call[i].device_id == 3)
				i++;
			else if (h.call[i].req->body_case == H_RUN &&
				 h.call[i].req->run->epoch == 1)
				h_refuse(&h, i, RC_ABORTED, "told to");
			else
				h_accept(&h, i);
		h_advance(&h, 100);
	}
	if (shrinks)
		ok(h_code(&h, t) == 0 && h_reply(&h, t)->submit->n_ranks == 2,
		   "a device does not come back: its communicator goes on without it, and so does "
		   "the run");
	else
		ok(h_code(&h, t) == RC_UNREACHABLE && strstr(h_text(&h, t), "rank 2") &&
		       status(&h)->comms[0]->status == GPU_SIM__STATUS__FAILED,
		   "a device does not come back: %s", h_text(&h, t));
	h_crash(&h);
	meet(&h);
	ok(status(&h)->n_comms == 1 && status(&h)->comms[0]->n_deviceids == (shrinks ? 2 : 3) &&
	       (status(&h)->comms[0]->status == GPU_SIM__STATUS__FAILED) == !shrinks &&
	       status(&h)->comms[0]->recoveries == shrinks,
	   "and that is remembered");
	h_destroy(&h, 9, 1);
	h.alive[3] = true;
	h_serve(&h);
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* It was recovering when it was killed. */
static void
test_recovering(void)
{
	struct harness h;
	GpuSim__CommInitRequest q = GPU_SIM__COMM_INIT_REQUEST__INIT;
	struct h_ops o;
	uint64_t t;
	long i;

	h_init(&h);
	h_devices(&h, 3);
	q.numdevices = 3;
	q.policy_case = GPU_SIM__COMM_INIT_REQUEST__POLICY_ON_FAILURE;
	q.onfailure = GPU_SIM__ON_FAILURE__SHRINK;
	h_ask(&h, 9, COMM_INIT, comminit, &q);
	h_serve(&h);
	h_allreduce(&o, 3, 10);
	t = h_submit(&h, 9, 1, &o, true);
	h.alive[2] = false;
	h_end_call(&h, (size_t)h_find(&h, H_RUN, 2), NULL, RC_UNREACHABLE, "connection reset");
	ok(h_count(&h, H_ABORT) >= 2, "a rank is lost; the others are told to stop");
	for (int kills = 0; kills < 2; kills++) {
		h_crash(&h);
		h_advance(&h, 100);
		ok(h_count(&h, H_ABORT) == 3, "after a restart they are told so again");
	}
	while ((i = h_find(&h, H_ABORT, 1)) >= 0 || (i = h_find(&h, H_ABORT, 3)) >= 0)
		h_accept(&h, (size_t)i);
	h_advance(&h, H_GRACE_MS);
	ok(h_count(&h, H_ATTACH) == 2, "the rank that is silent is left out");
	h_crash(&h);
	h_repeat(&h, t);
	for (int round = 0; round < 20; round++) {
		for (size_t k = 0; k < h.ncall;)
			if (h.call[k].device_id == 2)
				k++;
			else if (h.call[k].req->body_case == H_RUN && !h.call[k].req->run->restore)
				h_refuse(&h, k, RC_FAILED, "it would read what was overwritten");
			else
				h_accept(&h, k);
		h_advance(&h, 100);
	}
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->submit->n_ranks == 2,
	   "another restart later the run has ended, from inputs that were put back: %s",
	   h_text(&h, t));
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* Nothing can be stored for a while. */
static void
test_uncommitted(void)
{
	struct harness h;
	struct err why = {RC_FAILED, "the disk is full"};
	struct h_ops o;
	uint64_t t;
	struct coord_event ev = {.kind = COORD_RESULT};
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	GpuSim__Empty done = GPU_SIM__EMPTY__INIT;

	h_init(&h);
	h_devices(&h, 2);
	t = h_comm_init(&h, 9, 2, false);
	h_accept(&h, 0);
	reply.body_case = GPU_SIM__REPLY__BODY_DONE;
	reply.done = &done;
	ev.token = h.call[0].token;
	ev.reply = &reply;
	h_drop_call(&h, 0);
	coord_step(h.c, &ev, h.now, &h.out);
	coord_uncommitted(h.c, &why, &h.out);
	h_carry_out(&h);
	ok(h_code(&h, t) == RC_FAILED && strstr(h_text(&h, t), "the disk is full"), "%s",
	   h_text(&h, t));
	ok(h_count(&h, H_DETACH) == 2, "what nobody knows of is not left");
	h_serve(&h);
	t = h_comm_init(&h, 9, 2, false);
	ok(h_code(&h, t) == RC_FAILED && h.ncall == 0, "%s", h_text(&h, t));
	ok(h_register(&h, 1) && status(&h)->n_devices == 2, "all else goes on");
	coord_committed(h.c);
	ok(h_comm(&h, 9, 2) == 2, "until it can be stored again");
	h_allreduce(&o, 2, 10);
	t = h_submit(&h, 9, 2, &o, true);
	h_serve(&h);
	ok(h_code(&h, t) == 0 && h_clean(&h), "every request was answered once");
	h_fini(&h);
}

static void
test_leases(void)
{
	struct harness h;

	h_init(&h);
	h_devices(&h, 4);
	h_comm_init(&h, 8, 2, true);
	h_comm_init(&h, 9, 2, true);
	h_serve(&h);
	h_crash(&h);
	h_advance(&h, 30000);
	h_status(&h, 9, 2, false);
	h_advance(&h, 40000);
	h_serve(&h);
	ok(status(&h)->n_comms == 1 && status(&h)->comms[0]->commid == 2,
	   "who does not come back for a minute loses what it leased; who does keeps it");
	h_gone(&h, 9);
	h_advance(&h, 3000);
	h_serve(&h);
	ok(status(&h)->n_comms == 0 && records(&h, "2/") == 0, "as long as it stays");
	h_fini(&h);
}

static void
test_many_answers(void)
{
	struct harness h;
	struct h_ops o;

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, 9, 2);
	h_allreduce(&o, 2, 10);
	for (int i = 0; i < 100; i++) {
		h_submit(&h, 9, 1, &o, true);
		h_serve(&h);
	}
	ok(records(&h, "5/") == 32 && records(&h, "4/") == 0,
	   "of a client's answers the newest are kept");
	h_crash(&h);
	meet(&h);
	ok(records(&h, "5/") == 32, "those are there after a restart");
	h_submit(&h, 9, 1, &o, true);
	h_serve(&h);
	ok(records(&h, "5/") == 32, "and make room for others");
	h_fini(&h);
}

static struct h_record *
record(struct harness *h, const char *prefix)
{
	for (size_t i = 0; i < h->nrecord; i++)
		if (strncmp(h->record[i].key, prefix, strlen(prefix)) == 0)
			return &h->record[i];
	return NULL;
}

static void
set_version(struct harness *h, uint32_t version)
{
	struct buf *b = &record(h, "0/meta")->value;
	GpuSim__MetaRecord *m =
	    gpu_sim__meta_record__unpack(NULL, b->len, (const uint8_t *)b->data);

	m->version = version;
	buf_reserve(b, gpu_sim__meta_record__get_packed_size(m) + 1);
	b->len = gpu_sim__meta_record__pack(m, (uint8_t *)b->data);
	gpu_sim__meta_record__free_unpacked(m, NULL);
}

/* The state of gpusim 0.1: no version, and answers under the numbers of their requests. */
static void
test_version(void)
{
	struct harness h;
	struct h_ops o;
	struct err err = {0};
	struct coord *c;
	uint64_t t;

	h_init(&h);
	h_devices(&h, 2);
	t = h_comm_init(&h, 9, 2, false);
	h_serve(&h);
	set_version(&h, 0);
	snprintf(record(&h, "5/reply/")->key, sizeof h.record->key, "5/reply/%016x/%016x", 9,
		 (unsigned)t);
	h.answer[t - 1].count = 0;
	wire_reply_free(h.answer[t - 1].reply);
	h_crash(&h);
	h_repeat(&h, t);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->comminit->commid == 1,
	   "a client of 0.1 gets the answer that 0.1 stored");
	ok(status(&h)->n_comms == 1 && records(&h, "5/reply/") == 0,
	   "its communicator lives, and its answer's record is gone");
	h_allreduce(&o, 2, 10);
	t = h_submit(&h, 9, 1, &o, true);
	h_serve(&h);
	h_crash(&h);
	meet(&h);
	ok(h_code(&h, t) == 0 && status(&h)->n_comms == 1 && records(&h, "5/reply/") == 1,
	   "another restart later the records are of this version");
	set_version(&h, 2);
	c = h_coord(1, NULL);
	ok(coord_restore(c, "0/meta", record(&h, "0/meta")->value.data,
			 record(&h, "0/meta")->value.len, &h.out, &err) == RC_BADDATA &&
	       strstr(err.text, "newer gpusim"),
	   "%s", err.text);
	coord_free(c);
	ok(h_clean(&h), "every request was answered once");
	h_fini(&h);
}

/* Records that are cut, or of something else, are refused, or harmless. */
static void
test_nonsense(void)
{
	struct harness h;
	struct h_ops o;
	size_t refused = 0, taken = 0, silent = 0;
	struct err err = {0};

	h_init(&h);
	h_devices(&h, 2);
	h_comm(&h, 9, 2);
	h_allreduce(&o, 2, 10);
	h_submit(&h, 9, 1, &o, true);
	for (size_t i = 0; i < h.nrecord; i++)
		for (size_t k = 0; k < h.record[i].value.len * 8; k++) {
			struct coord *c = h_coord(1, NULL);
			struct coord_event tick = {.kind = COORD_TICK};
			struct coord_actions out = {0};
			char *at = &h.record[i].value.data[k / 8];
			enum rc rc = RC_OK;

			*at ^= (char)(1 << k % 8);
			err = (struct err){0};
			for (size_t j = 0; rc == RC_OK && j < h.nrecord; j++)
				rc = coord_restore(c, h.record[j].key, h.record[j].value.data,
						   h.record[j].value.len, &out, &err);
			*at ^= (char)(1 << k % 8);
			refused += rc != RC_OK;
			taken += rc == RC_OK;
			silent += rc != RC_OK && !err.text[0];
			if (rc == RC_OK)
				coord_step(c, &tick, 1000, &out);
			coord_actions_fini(&out);
			coord_free(c);
		}
	ok(refused > 100 && taken > 100 && silent == 0,
	   "damaged records: %zu refused, %zu taken for something else", refused, taken);
	ok(coord_restore(h.c, "9/what", "x", 1, &h.out, &err) == RC_BADDATA, "%s", err.text);
	h_fini(&h);
}

int
main(void)
{
	test_live();
	test_run();
	test_absent();
	test_making();
	test_graph();
	test_pairs();
	test_lost(false);
	test_lost(true);
	test_recovering();
	test_uncommitted();
	test_version();
	test_leases();
	test_many_answers();
	test_nonsense();
	return tap_done();
}
