/*
 * Metrics of a world: every family is described, histograms add up, sums never decrease when devices
 * die or restart, and many devices do not add many lines.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flight/write.h"
#include "tap.h"
#include "view/metrics.h"

#define MAX_DEVICES 1024
#define NRINGS	    2

/* A world put together by hand; devices 0 and 1 have recorders. */
struct stage {
	struct world w;
	GpuSim__StatusResponse status;
	GpuSim__DeviceMetadata meta[MAX_DEVICES], *metas[MAX_DEVICES];
	GpuSim__DeviceId id[MAX_DEVICES];
	GpuSim__MemAddr min, max;
	struct world_device device[MAX_DEVICES];
	struct world_recorder recorder[2];
	struct world_ring ring[2][NRINGS];
	GpuSim__RequestCount request, *requests;
	GpuSim__FailureCount recovery, *recoveries;
	GpuSim__CommSummary comm[2], *comms[2];
	uint64_t events[9];
	struct metrics_process self;
	struct buf text;
};

static struct err err;

static void
stage_init(struct stage *s, size_t ndevices)
{
	buf_fini(&s->text);
	memset(s, 0, sizeof *s);
	gpu_sim__status_response__init(&s->status);
	gpu_sim__mem_addr__init(&s->min);
	gpu_sim__mem_addr__init(&s->max);
	s->min.value = 4096;
	s->max.value = 4096 + 1000000;
	for (size_t i = 0; i < ndevices; i++) {
		gpu_sim__device_metadata__init(&s->meta[i]);
		gpu_sim__device_id__init(&s->id[i]);
		s->id[i].value = 0xa0000 + i;
		s->meta[i].deviceid = &s->id[i];
		s->meta[i].minmemaddr = &s->min;
		s->meta[i].maxmemaddr = &s->max;
		s->meta[i].ordinal = (uint32_t)i;
		s->meta[i].usedbytes = 512;
		s->device[i].meta = s->metas[i] = &s->meta[i];
	}
	s->status.devices = s->metas;
	s->status.n_devices = ndevices;
	s->status.uptimems = 12345;
	s->status.version = (char *)"1.2\"x";
	gpu_sim__request_count__init(&s->request);
	s->request.kind = GPU_SIM__REQUEST__BODY_SUBMIT;
	s->request.count = 77;
	s->requests = &s->request;
	s->status.requests = &s->requests;
	s->status.n_requests = 1;
	gpu_sim__failure_count__init(&s->recovery);
	s->recovery.onfailure = GPU_SIM__ON_FAILURE__SPARE;
	s->recovery.code = RC_UNREACHABLE;
	s->recovery.count = 3;
	s->recoveries = &s->recovery;
	s->status.recoveries = &s->recoveries;
	s->status.n_recoveries = 1;
	s->events[GPU_SIM__EVENT_KIND__GIVEN_UP] = 4;
	s->status.eventcounts = s->events;
	s->status.n_eventcounts = 9;
	for (size_t i = 0; i < 2; i++) {
		gpu_sim__comm_summary__init(&s->comm[i]);
		s->comm[i].status = i ? GPU_SIM__STATUS__FAILED : GPU_SIM__STATUS__SUCCESS;
		s->comm[i].pending = 5;
		s->comms[i] = &s->comm[i];
	}
	s->status.comms = s->comms;
	s->status.n_comms = 2;
	s->w = (struct world){.status = &s->status,
			      .device = s->device,
			      .ndevices = ndevices,
			      .now_ns = 2000000000000000000};
	for (size_t i = 0; i < 2 && i < ndevices; i++) {
		s->recorder[i].ring = s->ring[i];
		s->recorder[i].nrings = NRINGS;
		s->recorder[i].header.incarnation = 100 + i;
		s->recorder[i].header.nrecords = FLIGHT_RECORDS_MIN;
		s->device[i].recorder = &s->recorder[i];
	}
}

/* n operations of the given bytes and ns each. */
static void
work(struct stage *s, size_t device, size_t ring, unsigned coll, unsigned n, uint64_t nbytes,
     uint64_t ns)
{
	struct flight_ring *r = &s->ring[device][ring].ring;
	struct flight_writer w = {.ring = r};

	for (unsigned i = 0; i < n; i++)
		flight_count_op(&w, coll, nbytes, ns);
	flight_add(&r->counts.busy_ns, n * ns);
	flight_add(&r->counts.sent, n * nbytes);
	flight_add(&r->head, n);
}

static const char *
text_of(struct stage *s, struct metrics *m, enum metrics_form form)
{
	buf_fini(&s->text);
	if (metrics_text(m, &s->w, &s->self, form, &s->text, &err) != RC_OK ||
	    !buf_add(&s->text, "", 1))
		exit(1);
	return s->text.data;
}

/* Return true if the text has the line. */
static bool
has(const char *text, const char *line)
{
	size_t n = strlen(line);

	for (const char *p = text; (p = strstr(p, line)); p += n)
		if ((p == text || p[-1] == '\n') && p[n] == '\n')
			return true;
	printf("# no line %s\n", line);
	return false;
}

static size_t
count_lines(const char *text)
{
	size_t n = 0;

	for (const char *p = text; (p = strchr(p, '\n')); p++)
		n++;
	return n;
}

/* Each sample belongs to the family that HELP and TYPE before it named, and each family appears
 * once. */
static bool
is_described(const char *text, bool open)
{
	char family[128] = "", line[512], type[32];
	struct buf seen = {0};
	bool good = true;

	for (const char *p = text; *p && good; p += strcspn(p, "\n") + 1) {
		size_t n;

		snprintf(line, sizeof line, "%.*s", (int)strcspn(p, "\n"), p);
		if (strcmp(line, "# EOF") == 0)
			continue;
		if (sscanf(line, "# HELP %127s", family) == 1) {
			char name[132];

			snprintf(name, sizeof name, "\n%s\n", family);
			buf_add(&seen, "", 1);
			seen.len--;
			good = !strstr(seen.data, name) && buf_addf(&seen, "%s", name);
			continue;
		}
		n = strlen(family);
		if (sscanf(line, "# TYPE %*s %31s", type) == 1) {
			good = strncmp(line + 7, family, n) == 0 && line[7 + n] == ' ';
			continue;
		}
		good = strncmp(line, family, n) == 0;
		if (strcmp(type, "counter") == 0 && open)
			good = good && strncmp(line + n, "_total", 6) == 0;
		else if (strcmp(type, "counter") == 0)
			good = good && strcmp(family + n - 6, "_total") == 0;
		else if (strcmp(type, "gauge") == 0)
			good = good && strchr("{ ", line[n]);
		if (!good)
			printf("# %s\n", line);
	}
	buf_fini(&seen);
	return good;
}

static void
t_text(struct stage *s)
{
	const char *text;

	stage_init(s, 3);
	s->meta[1].state = 1;
	s->meta[2].commid = 9;
	s->self = (struct metrics_process){.open_fds = 21, .cpu_ns = 1500000000};
	work(s, 0, 0, GPUSIM_ALLREDUCE, 3, 1024, 999);
	work(s, 0, 1, GPUSIM_ALLREDUCE, 2, 1024, 5000);
	work(s, 1, 0, GPUSIM_ALLREDUCE, 1, 1025, 3600ull * NS_PER_SEC);
	text = text_of(s, NULL, METRICS_PROMETHEUS);
	ok(is_described(text, false), "every sample has its family's HELP and TYPE above");
	ok(has(text, "gpusim_build_info{version=\"1.2-x\"} 1") &&
	       has(text, "gpusim_uptime_seconds 12.345000000") &&
	       has(text, "process_open_fds 21") &&
	       has(text, "process_cpu_seconds_total 1.500000000") &&
	       has(text, "process_start_time_seconds 1999999987.655000000") &&
	       !strstr(text, "process_max_fds"),
	   "the known values of the process");
	ok(has(text, "gpusim_requests_total{kind=\"submit\"} 77") &&
	       has(text, "gpusim_events_total{kind=\"given-up\"} 4") &&
	       has(text,
		   "gpusim_recoveries_total{policy=\"spare\",cause=\"peer-unreachable\"} 3") &&
	       has(text, "gpusim_recoveries_total{policy=\"shrink\",cause=\"timed-out\"} 0") &&
	       has(text, "gpusim_communicator_failures_total{cause=\"failed\"} 0"),
	   "the coordinator's counters, those that are usual from 0 on");
	ok(has(text, "gpusim_communicators{state=\"success\"} 1") &&
	       has(text, "gpusim_communicators{state=\"failed\"} 1") &&
	       has(text, "gpusim_runs_pending 10") &&
	       has(text, "gpusim_devices{state=\"free\"} 1") &&
	       has(text, "gpusim_devices{state=\"lost\"} 1") &&
	       has(text, "gpusim_devices{state=\"busy\"} 1") &&
	       has(text, "gpusim_recorders_unread 1"),
	   "communicators and devices by state");
	ok(has(text, "gpusim_device_up{device=\"00000000000a0001\",gpu=\"1\"} 0") &&
	       has(text, "gpusim_device_memory_size_bytes{device=\"00000000000a0002\",gpu=\"2\"} "
			 "1000000") &&
	       has(text,
		   "gpusim_device_memory_used_bytes{device=\"00000000000a0000\",gpu=\"0\"} 512") &&
	       has(text, "gpusim_device_busy_seconds_total{device=\"00000000000a0000\",gpu=\"0\"} "
			 "0.000012997") &&
	       has(text,
		   "gpusim_device_sent_bytes_total{device=\"00000000000a0001\",gpu=\"1\"} 1025") &&
	       !strstr(text, "sent_bytes_total{device=\"00000000000a0002\""),
	   "gauges and counters of a device, the latter where its recorder was read");
}

#define SERIES "{collective=\"allreduce\",size=\"1K\""

static void
t_histogram(struct stage *s)
{
	const char *text = s->text.data;

	ok(has(text, "gpusim_operation_duration_seconds_bucket" SERIES ",le=\"1e-06\"} 3") &&
	       has(text, "gpusim_operation_duration_seconds_bucket" SERIES ",le=\"4e-06\"} 3") &&
	       has(text, "gpusim_operation_duration_seconds_bucket" SERIES ",le=\"8e-06\"} 5") &&
	       has(text,
		   "gpusim_operation_duration_seconds_bucket" SERIES ",le=\"16.777216\"} 5") &&
	       has(text, "gpusim_operation_duration_seconds_bucket" SERIES ",le=\"+Inf\"} 5"),
	   "buckets hold what is below them");
	ok(has(text, "gpusim_operation_duration_seconds_sum" SERIES "} 0.000012997") &&
	       has(text, "gpusim_operation_duration_seconds_count" SERIES "} 5"),
	   "sum and count over the rings");
	ok(has(text,
	       "gpusim_operation_duration_seconds_bucket{collective=\"allreduce\",size=\"32K\","
	       "le=\"16.777216\"} 0") &&
	       has(text, "gpusim_operation_duration_seconds_count{collective=\"allreduce\",size="
			 "\"32K\"} 1") &&
	       !strstr(text, "size=\"1M\""),
	   "a class for each size, if there is one; the longest are in the last bucket alone");
	ok(has(text, "gpusim_operations_total{collective=\"allreduce\"} 6") &&
	       has(text, "gpusim_operation_bytes_total{collective=\"allreduce\"} 6145") &&
	       has(text, "gpusim_operations_total{collective=\"recv\"} 0"),
	   "operations and bytes over all sizes");
}

static void
t_open(struct stage *s)
{
	const char *text = text_of(s, NULL, METRICS_OPENMETRICS);

	ok(is_described(text, true),
	   "OpenMetrics: counters are named without _total, samples with it");
	ok(has(text, "# TYPE gpusim_requests counter") &&
	       has(text, "gpusim_requests_total{kind=\"submit\"} 77"),
	   "such as these");
	ok(strlen(text) > 6 && strcmp(text + strlen(text) - 6, "# EOF\n") == 0,
	   "and the end is marked");
}

static void
t_sums(struct stage *s)
{
	struct metrics *m = metrics_new();
	struct flight_ring was;
	const char *text;

	stage_init(s, 2);
	work(s, 0, 0, GPUSIM_BROADCAST, 10, 8, 2000);
	work(s, 1, 0, GPUSIM_BROADCAST, 5, 8, 2000);
	work(s, 1, 1, GPUSIM_BROADCAST, 2, 8, 2000);
	flight_add(&s->ring[1][0].ring.head, 300);
	text = text_of(s, m, METRICS_PROMETHEUS);
	ok(has(text, "gpusim_operations_total{collective=\"broadcast\"} 17") &&
	       has(text, "gpusim_recorder_records_total 317") &&
	       has(text, "gpusim_recorder_lost_records_total 49"),
	   "a sum over devices and rings");
	ok(has(text_of(s, m, METRICS_PROMETHEUS),
	       "gpusim_operations_total{collective=\"broadcast\"} 17"),
	   "which a second look does not change");
	s->device[1].recorder = NULL;
	work(s, 0, 0, GPUSIM_BROADCAST, 1, 8, 2000);
	text = text_of(s, m, METRICS_PROMETHEUS);
	ok(has(text, "gpusim_operations_total{collective=\"broadcast\"} 18") &&
	       has(text,
		   "gpusim_device_sent_bytes_total{device=\"00000000000a0001\",gpu=\"1\"} 56"),
	   "a recorder that cannot be read does not reduce a sum");
	s->w.ndevices = 1;
	text = text_of(s, m, METRICS_PROMETHEUS);
	ok(has(text, "gpusim_operations_total{collective=\"broadcast\"} 18") &&
	       !strstr(text, "00000000000a0001"),
	   "nor does a forgotten device, which has no more samples");
	s->w.ndevices = 2;
	s->device[1].recorder = &s->recorder[1];
	s->recorder[1].header.incarnation++;
	work(s, 1, 0, GPUSIM_BROADCAST, 1, 8, 2000);
	ok(has(text_of(s, m, METRICS_PROMETHEUS),
	       "gpusim_operations_total{collective=\"broadcast\"} 19"),
	   "a new process in the same area continues the counters");
	s->recorder[1].header.incarnation++;
	memset(s->ring[1], 0, sizeof s->ring[1]);
	work(s, 1, 0, GPUSIM_BROADCAST, 3, 8, 2000);
	text = text_of(s, m, METRICS_PROMETHEUS);
	ok(has(text, "gpusim_operations_total{collective=\"broadcast\"} 22") &&
	       has(text,
		   "gpusim_device_sent_bytes_total{device=\"00000000000a0001\",gpu=\"1\"} 88") &&
	       has(text,
		   "gpusim_operation_duration_seconds_count{collective=\"broadcast\",size=\"1K\"} "
		   "22"),
	   "so does one whose area restarts at 0");
	memcpy(&was, &s->ring[1][0].ring, sizeof was);
	memset(s->ring[1], 0, sizeof s->ring[1]);
	text = text_of(s, m, METRICS_PROMETHEUS);
	memcpy(&s->ring[1][0].ring, &was, sizeof was);
	work(s, 1, 0, GPUSIM_BROADCAST, 1, 8, 2000);
	ok(has(text, "gpusim_operations_total{collective=\"broadcast\"} 22") &&
	       has(text_of(s, m, METRICS_PROMETHEUS),
		   "gpusim_operations_total{collective=\"broadcast\"} 23"),
	   "a ring that could not be read once is not counted twice");
	metrics_free(m);
}

static void
t_many(struct stage *s)
{
	size_t one, many;

	stage_init(s, 1);
	one = count_lines(text_of(s, NULL, METRICS_PROMETHEUS));
	stage_init(s, MAX_DEVICES);
	for (unsigned coll = 0; coll < GPUSIM_NCOLLS; coll++)
		for (unsigned class = 0; class < FLIGHT_CLASSES; class ++)
			work(s, 0, 0, coll, 1, 1ull << (5 * class + 8), 1);
	many = count_lines(text_of(s, NULL, METRICS_PROMETHEUS));
	ok(many < one + 8 * MAX_DEVICES + 28 * GPUSIM_NCOLLS * FLIGHT_CLASSES,
	   "1024 devices and every size of every collective: %zu lines", many);
	ok(is_described(s->text.data, false), "all described");
}

static void
t_accept(void)
{
	static const struct {
		const char *accept;
		enum metrics_form form;
	} rows[] = {
	    {NULL, METRICS_PROMETHEUS},
	    {"", METRICS_PROMETHEUS},
	    {"*/*", METRICS_PROMETHEUS},
	    {"text/html, application/xml;q=0.9, */*;q=0.8", METRICS_PROMETHEUS},
	    {"text/plain; version=0.0.4", METRICS_PROMETHEUS},
	    {"application/openmetrics-text; version=1.0.0", METRICS_OPENMETRICS},
	    {"application/openmetrics-text", METRICS_OPENMETRICS},
	    {"application/openmetrics-text; version=0.0.1", METRICS_PROMETHEUS},
	    {"application/openmetrics-text;version=1.0.0;q=0", METRICS_PROMETHEUS},
	    {"application/openmetrics-text;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.5",
	     METRICS_PROMETHEUS},
	    {"application/openmetrics-text;version=1.0.0,application/"
	     "openmetrics-text;version=0.0.1;q=0.75,"
	     "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
	     METRICS_OPENMETRICS},
	    {",,,;=,q=,version=", METRICS_PROMETHEUS},
	};
	bool good = true;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (metrics_form_of(rows[i].accept) != rows[i].form) {
			printf("# %s\n", rows[i].accept ? rows[i].accept : "none");
			good = false;
		}
	ok(good, "OpenMetrics only where Accept asks for it");
	ok(strstr(metrics_type(METRICS_PROMETHEUS), "version=0.0.4") &&
	       strstr(metrics_type(METRICS_OPENMETRICS), "openmetrics-text; version=1.0.0"),
	   "a type each");
}

int
main(void)
{
	struct stage *s = alloc_zeroed(1, sizeof *s);

	if (!s)
		return 1;
	t_text(s);
	t_histogram(s);
	t_open(s);
	t_sums(s);
	t_many(s);
	t_accept();
	buf_fini(&s->text);
	free(s);
	return tap_done();
}
