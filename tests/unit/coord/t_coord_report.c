/* Which failures get a report, who hears its number, and when it is written. */
#include "coord_harness.h"

static void
die(struct harness *h, uint64_t id)
{
	long i;

	h->alive[id] = false;
	while ((i = h_find(h, GPU_SIM__REQUEST__BODY__NOT_SET, id)) >= 0 ||
	       (i = h_find(h, H_RUN, id)) >= 0 || (i = h_find(h, H_ABORT, id)) >= 0)
		h_end_call(h, (size_t)i, NULL, RC_UNREACHABLE, "nobody listens there");
}

/* And its connection tells. */
static void
h_unreachable(struct harness *h, uint64_t id)
{
	struct coord_event ev = {.kind = COORD_UNREACHABLE, .device_id = id};
	char address[32];

	snprintf(address, sizeof address, "ipc:///dev%" PRIu64, id);
	ev.text = address;
	h_step(h, &ev);
	h_advance(h, 300);
}

/* Runs end, and aborts are answered. */
static void
drain(struct harness *h)
{
	long i;

	while ((i = h_find(h, H_RUN, 0)) >= 0)
		h_refuse(h, (size_t)i, RC_ABORTED, "told to");
	while ((i = h_find(h, H_ABORT, 0)) >= 0)
		h_accept(h, (size_t)i);
}

/* Devices 1 .. n in communicators of `each` of them. */
static void
begin(struct harness *h, uint32_t n, uint32_t each, enum gpusim_on_failure policy, uint64_t first)
{
	h_next_report = first;
	h_init(h);
	h->policy = policy;
	h_devices(h, n);
	for (uint32_t i = 0; i < n / each; i++)
		h_comm(h, 9, each);
}

static bool
ends_in(const char *text, const char *tail)
{
	size_t n = strlen(text), k = strlen(tail);

	return n >= k && strcmp(text + n - k, tail) == 0;
}

static bool
has_devices(const struct harness *h, uint64_t number, uint64_t comm, const uint64_t *id, size_t n)
{
	GpuSim__Report *m =
	    gpu_sim__report__unpack(NULL, h->report.len, (const uint8_t *)h->report.data);
	bool good = m && m->number == number && m->commid == comm && m->n_recorders == n &&
		    !strstr(m->reason, "report");

	for (size_t i = 0; good && i < n; i++)
		good = m->recorders[i]->deviceid == id[i];
	if (m)
		gpu_sim__report__free_unpacked(m, NULL);
	return good;
}

static const char *
abort_reason(struct harness *h)
{
	long i = h_find(h, H_ABORT, 0);

	return i < 0 ? "" : h->call[i].req->commabort->reason;
}

static void
t_lost_rank(void)
{
	static const uint64_t all[] = {1, 2, 3};
	struct harness h;
	struct h_ops o;
	uint64_t t;

	begin(&h, 3, 3, GPUSIM_ON_FAILURE_ABORT, 7);
	h_allreduce(&o, 3, 30);
	t = h_submit(&h, 9, 1, &o, true);
	die(&h, 2);
	ok(ends_in(abort_reason(&h), "; report: " H_REPORTS "/report.7"),
	   "the ranks hear of the report with the failure: %s", abort_reason(&h));
	ok(ends_in(h_reply(&h, h_status(&h, 9, 1, false))->getcommstatus->reason, "/report.7"),
	   "so does who asks meanwhile");
	ok(h.nreports == 0, "it is not written before all ranks have answered");
	drain(&h);
	ok(h.nreports == 1 && has_devices(&h, 7, 1, all, 3),
	   "then it is, of all devices of the communicator");
	ok(ends_in(h_text(&h, t), "nobody listens there; report: " H_REPORTS "/report.7"),
	   "and the client hears of it: %s", h_text(&h, t));
	ok(ends_in(h_reply(&h, h_status(&h, 9, 1, false))->getcommstatus->reason, "/report.7"),
	   "and who asks later");
	ok(h_next_report == 8, "one number was claimed");
	h_fini(&h);
}

/* A queued communicator of devices 1 .. nranks; they may have others. */
static void
make(struct harness *h, uint64_t id, uint32_t nranks)
{
	GpuSim__CommInitRankRequest q = GPU_SIM__COMM_INIT_RANK_REQUEST__INIT;

	q.idlow = id;
	q.numranks = nranks;
	q.host = (char *)H_HOST;
	q.user = 1001;
	q.optimeoutms = 7000;
	for (q.rank = 0; q.rank < nranks; q.rank++) {
		q.deviceid = 1 + q.rank;
		h_ask(h, 100 + q.rank, COMM_INIT_RANK, comminitrank, &q);
	}
	h_serve(h);
}

static void
t_shared(void)
{
	static const uint64_t all[] = {1, 2, 3};
	struct harness h;

	begin(&h, 3, 4, GPUSIM_ON_FAILURE_ABORT, 1);
	make(&h, 51, 2);
	make(&h, 52, 3);
	die(&h, 2);
	h_unreachable(&h, 2);
	drain(&h);
	h_advance(&h, 300);
	ok(h_next_report == 2, "communicators that fail in one step share a number");
	ok(h.nreports == 1 && has_devices(&h, 1, 2, all, 3), "and a report of the devices of both");
	h_fini(&h);
}

static void
t_asked(void)
{
	struct harness h;

	begin(&h, 2, 2, GPUSIM_ON_FAILURE_ABORT, 1);
	h_comm_abort(&h, 9, 1, "enough");
	drain(&h);
	ok(h.nreports == 0 && h_next_report == 1, "a client that aborts it gets no report");
	ok(!strstr(h_reply(&h, h_status(&h, 9, 1, false))->getcommstatus->reason, "report"),
	   "nor the name of one");
	h_fini(&h);
}

static void
t_recovers(void)
{
	struct harness h;

	begin(&h, 3, 3, GPUSIM_ON_FAILURE_SHRINK, 1);
	die(&h, 2);
	h_unreachable(&h, 2);
	drain(&h);
	h_serve(&h);
	ok(h.nreports == 0 && h_next_report == 1, "a failure that is recovered from gets none");
	h_fini(&h);
	begin(&h, 2, 2, GPUSIM_ON_FAILURE_SPARE, 1);
	die(&h, 2);
	h_unreachable(&h, 2);
	drain(&h);
	for (unsigned i = 0; i < 100; i++)
		h_advance(&h, 100);
	ok(h.nreports == 1 && h_next_report == 2, "one that cannot be recovered from gets one");
	ok(strstr(h_reply(&h, h_status(&h, 9, 1, false))->getcommstatus->reason,
		  "no spare device is left; report: " H_REPORTS "/report.1"),
	   "which the sentence names");
	h_fini(&h);
}

static void
t_none(void)
{
	struct harness h;

	begin(&h, 2, 2, GPUSIM_ON_FAILURE_ABORT, 0);
	die(&h, 2);
	h_unreachable(&h, 2);
	drain(&h);
	ok(h.nreports == 0 &&
	       !strstr(h_reply(&h, h_status(&h, 9, 1, false))->getcommstatus->reason, "report"),
	   "where there is no place for a report, none is named");
	h_fini(&h);
}

static void
t_destroyed(void)
{
	GpuSim__CommDestroyRequest q = GPU_SIM__COMM_DESTROY_REQUEST__INIT;
	static const uint64_t all[] = {1, 2};
	struct harness h;

	begin(&h, 2, 2, GPUSIM_ON_FAILURE_ABORT, 4);
	die(&h, 2);
	h_unreachable(&h, 2);
	q.commid = 1;
	h_ask(&h, 9, COMM_DESTROY, commdestroy, &q);
	ok(h.nreports == 1 && has_devices(&h, 4, 1, all, 2),
	   "one that is destroyed before its ranks have answered gets its report, too");
	h_fini(&h);
}

int
main(void)
{
	t_lost_rank();
	t_shared();
	t_asked();
	t_recovers();
	t_none();
	t_destroyed();
	return tap_done();
}
