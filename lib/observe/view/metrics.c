#include "view/metrics.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "coll/plan.h"
#include "view/metrics_sums.h"
#include "wire/wire.h"

/* ---- the form */

/* "text/plain;version=0.0.4;q=0.5": its quality in thousandths, if it has this type, and this version
 * or none. */
static unsigned
quality(const char *item, size_t len, const char *type, const char *version)
{
	char text[128];
	const char *v, *q;

	if (len >= sizeof text || strncmp(item, type, strlen(type)) != 0)
		return 0;
	snprintf(text, sizeof text, "%.*s", (int)len, item);
	v = strstr(text, "version=");
	if (v && strncmp(v + strlen("version="), version, strlen(version)) != 0)
		return 0;
	q = strstr(text, "q=");
	return q ? (unsigned)(strtod(q + 2, NULL) * 1000) : 1000;
}

enum metrics_form
metrics_form_of(const char *accept)
{
	unsigned open = 0, plain = 0;

	for (const char *p = accept ? accept : ""; *p; p += strspn(p, ",")) {
		size_t len;
		unsigned q;

		p += strspn(p, " \t");
		len = strcspn(p, ",");
		q = quality(p, len, "application/openmetrics-text", "1.0.0");
		open = q > open ? q : open;
		q = quality(p, len, "text/plain", "0.0.4");
		plain = q > plain ? q : plain;
		p += len;
	}
	return open && open >= plain ? METRICS_OPENMETRICS : METRICS_PROMETHEUS;
}

const char *
metrics_type(enum metrics_form form)
{
	return form == METRICS_OPENMETRICS
		   ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
		   : "text/plain; version=0.0.4; charset=utf-8";
}

/* ---- lines */

/* The text, and the family that samples belong to. */
struct text {
	struct buf *out;
	enum metrics_form form;
	const char *name;
	bool counts; /* the family is a counter */
};

static void __attribute__((format(printf, 2, 3))) add(struct text *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_addv(t->out, fmt, ap);
	va_end(ap);
}

/* Begin a family. A counter's name is given without _total, which is part of the name in the older form. */
static void
family(struct text *t, const char *name, const char *type, const char *help)
{
	bool counts = strcmp(type, "counter") == 0, open = t->form == METRICS_OPENMETRICS;
	const char *suffix = counts && !open ? "_total" : "";

	t->name = name;
	t->counts = counts;
	add(t, "# HELP %s%s %s\n", name, suffix, help);
	add(t, "# TYPE %s%s %s\n", name, suffix, type);
}

/* "12", or a time in ns as seconds: "12.000000001". */
static const char *
number(uint64_t value, bool is_time, char out[32])
{
	uint64_t second = NS_PER_SEC;

	if (is_time)
		snprintf(out, 32, "%" PRIu64 ".%09" PRIu64, value / second, value % second);
	else
		snprintf(out, 32, "%" PRIu64, value);
	return out;
}

/* A sample of the family; labels: "a=\"b\"". */
static void __attribute__((format(printf, 4, 0)))
put(struct text *t, uint64_t value, bool is_time, const char *labels, va_list ap)
{
	char text[256], digits[32];

	vsnprintf(text, sizeof text, labels, ap);
	add(t, "%s%s{%s} %s\n", t->name, t->counts ? "_total" : "", text,
	    number(value, is_time, digits));
}

static void __attribute__((format(printf, 3, 4)))
sample(struct text *t, uint64_t value, const char *labels, ...)
{
	va_list ap;

	va_start(ap, labels);
	put(t, value, false, labels, ap);
	va_end(ap);
}

/* Of a time in ns. */
static void __attribute__((format(printf, 3, 4)))
sample_time(struct text *t, uint64_t ns, const char *labels, ...)
{
	va_list ap;

	va_start(ap, labels);
	put(t, ns, true, labels, ap);
	va_end(ap);
}

/* The family's only sample. */
static void
single(struct text *t, uint64_t value, bool is_time)
{
	char digits[32];

	add(t, "%s%s %s\n", t->name, t->counts ? "_total" : "", number(value, is_time, digits));
}

/* A label's value: lower case, without characters that would need quoting. */
static const char *
label(const char *from, char out[48])
{
	size_t n = 0;

	for (; *from && n < 47; from++)
		out[n++] = isalnum((unsigned char)*from) || strchr(".+", *from)
			       ? (char)tolower((unsigned char)*from)
			       : '-';
	out[n] = '\0';
	return out;
}

/* ---- the coordinator */

static void
process(struct text *t, const struct world *w, const struct metrics_process *p)
{
	uint64_t uptime_ns = w->status->uptimems * NS_PER_MS;

	if (w->now_ns > uptime_ns) {
		family(t, "process_start_time_seconds", "gauge",
		       "Start time of gpucoord, since 1970.");
		single(t, w->now_ns - uptime_ns, true);
	}
	if (p->cpu_ns) {
		family(t, "process_cpu_seconds", "counter", "Processor time of gpucoord.");
		single(t, p->cpu_ns, true);
	}
	if (p->resident_bytes) {
		family(t, "process_resident_memory_bytes", "gauge", "Host memory of gpucoord.");
		single(t, p->resident_bytes, false);
	}
	if (p->open_fds) {
		family(t, "process_open_fds", "gauge", "Open file descriptors of gpucoord.");
		single(t, p->open_fds, false);
	}
	if (p->max_fds) {
		family(t, "process_max_fds", "gauge", "Its limit of open file descriptors.");
		single(t, p->max_fds, false);
	}
}

static const char *
request_name(uint32_t kind, char out[48])
{
	const ProtobufCFieldDescriptor *f =
	    protobuf_c_message_descriptor_get_field(&gpu_sim__request__descriptor, kind);

	snprintf(out, 48, "%.47s", f ? f->name : "other");
	return out;
}

/* The count of one policy and code. */
static uint64_t
count_of(GpuSim__FailureCount *const *v, size_t n, unsigned policy, unsigned code)
{
	uint64_t count = 0;

	for (size_t i = 0; i < n; i++)
		if ((unsigned)v[i]->onfailure == policy && v[i]->code == code)
			count += v[i]->count;
	return count;
}

/* Return true for causes that have samples before their first occurrence. */
static bool
is_usual(unsigned code)
{
	return code == RC_UNREACHABLE || code == RC_TIMEOUT || code == RC_FAILED ||
	       code == RC_ABORTED;
}

static void
recoveries(struct text *t, const GpuSim__StatusResponse *r)
{
	char cause[48];

	family(t, "gpusim_recoveries", "counter",
	       "Communicators that lost a rank and recovered, by policy and cause.");
	for (unsigned policy = GPUSIM_ON_FAILURE_SHRINK; policy <= GPUSIM_ON_FAILURE_SPARE;
	     policy++)
		for (unsigned code = 0; code <= RC_RECOVERED; code++) {
			uint64_t n = count_of(r->recoveries, r->n_recoveries, policy, code);

			if (n || is_usual(code))
				sample(t, n, "policy=\"%s\",cause=\"%s\"",
				       wire_policy_name((int)policy),
				       label(rc_name((enum rc)code), cause));
		}
	family(t, "gpusim_communicator_failures", "counter",
	       "Communicators that failed permanently, by cause.");
	for (unsigned code = 0; code <= RC_RECOVERED; code++) {
		uint64_t n = 0;

		for (unsigned policy = 0; policy <= GPUSIM_ON_FAILURE_SPARE; policy++)
			n += count_of(r->failures, r->n_failures, policy, code);
		if (n || is_usual(code))
			sample(t, n, "cause=\"%s\"", label(rc_name((enum rc)code), cause));
	}
}

static void
coordinator(struct text *t, const struct world *w, const struct metrics_process *self)
{
	const GpuSim__StatusResponse *r = w->status;
	char name[48];

	family(t, "gpusim_build_info", "gauge", "1; the version of gpucoord.");
	sample(t, 1, "version=\"%s\"", label(r->version, name));
	family(t, "gpusim_uptime_seconds", "gauge", "Time since gpucoord started.");
	single(t, r->uptimems * NS_PER_MS, true);
	process(t, w, self);
	family(t, "gpusim_requests", "counter",
	       "Requests that the coordinator has handled, by kind.");
	for (size_t i = 0; i < r->n_requests; i++)
		sample(t, r->requests[i]->count, "kind=\"%s\"",
		       request_name(r->requests[i]->kind, name));
	family(t, "gpusim_requests_waiting", "gauge", "Requests that wait for free devices.");
	single(t, r->waiting, false);
	family(t, "gpusim_events", "counter", "Events of the history (gpuctl events), by kind.");
	for (size_t i = 0; i < r->n_eventcounts; i++)
		sample(t, r->eventcounts[i], "kind=\"%s\"",
		       world_event_name((int)i, "other", name));
	family(t, "gpusim_heartbeats_missed", "counter",
	       "Heartbeats of devices that were late or missing.");
	single(t, r->beatsmissed, false);
	recoveries(t, r);
}

/* ---- current communicators and devices */

static void
communicators(struct text *t, const GpuSim__StatusResponse *r)
{
	static const char *const names[] = {[GPU_SIM__STATUS__IN_PROGRESS] = "in-progress",
					    [GPU_SIM__STATUS__SUCCESS] = "success",
					    [GPU_SIM__STATUS__FAILED] = "failed"};
	enum { NSTATES = sizeof names / sizeof *names };
	uint64_t n[NSTATES] = {0}, pending = 0;

	for (size_t i = 0; i < r->n_comms; i++) {
		if ((unsigned)r->comms[i]->status < NSTATES)
			n[r->comms[i]->status]++;
		pending += r->comms[i]->pending;
	}
	family(t, "gpusim_communicators", "gauge", "Communicators by state.");
	for (unsigned i = 0; i < NSTATES; i++)
		sample(t, n[i], "state=\"%s\"", names[i]);
	family(t, "gpusim_communicators_made", "counter",
	       "Communicators created so far, including those that have ended.");
	single(t, r->commsmade, false);
	family(t, "gpusim_runs_pending", "gauge", "Submitted runs that have not ended.");
	single(t, pending, false);
}

enum { DEVICE_FREE, DEVICE_BUSY, DEVICE_SPARE, DEVICE_JOIN, DEVICE_LOST, NDEVICE_STATES };

static unsigned
state_of(const GpuSim__DeviceMetadata *d)
{
	if (d->state)
		return DEVICE_LOST;
	return d->commid  ? DEVICE_BUSY
	       : d->spare ? DEVICE_SPARE
	       : d->join  ? DEVICE_JOIN
			  : DEVICE_FREE;
}

static void
device_states(struct text *t, const struct world *w)
{
	static const char *const names[NDEVICE_STATES] = {"free", "busy", "spare", "join", "lost"};
	uint64_t n[NDEVICE_STATES] = {0}, unread = 0;

	for (size_t i = 0; i < w->ndevices; i++) {
		n[state_of(w->device[i].meta)]++;
		unread += !w->device[i].recorder;
	}
	family(t, "gpusim_devices", "gauge", "Devices by state, as gpuctl devices names it.");
	for (unsigned i = 0; i < NDEVICE_STATES; i++)
		sample(t, n[i], "state=\"%s\"", names[i]);
	family(t, "gpusim_recorders_unread", "gauge",
	       "Devices whose flight recorder cannot be read or is switched off; their counters do "
	       "not change.");
	single(t, unread, false);
}

#define DEVICE_LABELS "device=\"%016" PRIx64 "\",gpu=\"%" PRIu32 "\""

/* A family with one sample per device. */
static void
each_device(struct text *t, const struct world *w,
	    uint64_t (*value)(const GpuSim__DeviceMetadata *d))
{
	for (size_t i = 0; i < w->ndevices; i++) {
		const GpuSim__DeviceMetadata *d = w->device[i].meta;

		if (d->deviceid)
			sample(t, value(d), DEVICE_LABELS, d->deviceid->value, d->ordinal);
	}
}

static uint64_t
is_up(const GpuSim__DeviceMetadata *d)
{
	return state_of(d) != DEVICE_LOST;
}

static uint64_t
memory_used(const GpuSim__DeviceMetadata *d)
{
	return d->usedbytes;
}

static uint64_t
memory_size(const GpuSim__DeviceMetadata *d)
{
	return d->maxmemaddr && d->minmemaddr && d->maxmemaddr->value > d->minmemaddr->value
		   ? d->maxmemaddr->value - d->minmemaddr->value
		   : 0;
}

/* A counter of each known device. */
static void
each_sum(struct text *t, const struct metrics *m, const struct world *w, size_t own, bool is_time)
{
	for (size_t i = 0; i < w->ndevices; i++) {
		const GpuSim__DeviceMetadata *d = w->device[i].meta;
		const struct sums_device *s =
		    d->deviceid ? sums_device(m, d->deviceid->value) : NULL;

		if (s && is_time)
			sample_time(t, s->own[own], DEVICE_LABELS, s->id, d->ordinal);
		else if (s)
			sample(t, s->own[own], DEVICE_LABELS, s->id, d->ordinal);
	}
}

static void
devices(struct text *t, const struct metrics *m, const struct world *w)
{
	device_states(t, w);
	family(t, "gpusim_device_up", "gauge", "1: the device is up; 0: it is lost.");
	each_device(t, w, is_up);
	family(t, "gpusim_device_memory_used_bytes", "gauge",
	       "Device memory in allocations; DCGM_FI_DEV_FB_USED.");
	each_device(t, w, memory_used);
	family(t, "gpusim_device_memory_size_bytes", "gauge",
	       "Device memory; DCGM_FI_DEV_FB_TOTAL.");
	each_device(t, w, memory_size);
	family(t, "gpusim_device_busy_seconds", "counter",
	       "Time in operations, kernels and copies, of all streams together; its rate is "
	       "DCGM_FI_PROF_GR_ENGINE_ACTIVE.");
	each_sum(t, m, w, SUM_OWN_OF(busy_ns), true);
	family(t, "gpusim_device_wait_seconds", "counter",
	       "Part of the busy time in which operations waited for peers.");
	each_sum(t, m, w, SUM_OWN_OF(waited_ns), true);
	family(t, "gpusim_device_sent_bytes", "counter",
	       "Bytes of chunks to other devices; DCGM_FI_PROF_NVLINK_TX_BYTES.");
	each_sum(t, m, w, SUM_OWN_OF(sent), false);
	family(t, "gpusim_device_received_bytes", "counter",
	       "Bytes of chunks from other devices; DCGM_FI_PROF_NVLINK_RX_BYTES.");
	each_sum(t, m, w, SUM_OWN_OF(received), false);
}

/* ---- work, over all devices */

static const char *
size_name(unsigned class)
{
	return class < FLIGHT_CLASSES - 1 ? flight_class_name(class) : "+Inf";
}

static uint64_t
ops_of(const struct sums_op *s)
{
	uint64_t n = 0;

	for (unsigned b = 0; b < FLIGHT_BUCKETS; b++)
		n += s->bucket[b];
	return n;
}

static void
histogram(struct text *t, const struct sums_op *s, const char *coll, const char *size)
{
	char digits[32];
	uint64_t n = 0;

	for (unsigned b = 0; b < FLIGHT_BUCKETS; b++) {
		char le[24] = "+Inf";

		n += s->bucket[b];
		if (b < FLIGHT_BUCKETS - 1)
			snprintf(le, sizeof le, "%.9g", (double)(1u << b) / 1e6);
		add(t, "%s_bucket{collective=\"%s\",size=\"%s\",le=\"%s\"} %" PRIu64 "\n", t->name,
		    coll, size, le, n);
	}
	add(t, "%s_sum{collective=\"%s\",size=\"%s\"} %s\n", t->name, coll, size,
	    number(s->ns, true, digits));
	add(t, "%s_count{collective=\"%s\",size=\"%s\"} %" PRIu64 "\n", t->name, coll, size, n);
}

static void
operations(struct text *t, const struct metrics *m)
{
	family(t, "gpusim_operations", "counter",
	       "Operations that ranks have finished, by collective; each rank counts.");
	for (unsigned coll = 0; coll < GPUSIM_NCOLLS; coll++) {
		uint64_t n = 0;

		for (unsigned class = 0; class < FLIGHT_CLASSES; class ++) {
			struct sums_op s = sums_op(m, coll, class);

			n += ops_of(&s);
		}
		sample(t, n, "collective=\"%s\"", coll_name((enum gpusim_coll)coll));
	}
	family(t, "gpusim_operation_bytes", "counter",
	       "Bytes of the vectors of these operations, by collective.");
	for (unsigned coll = 0; coll < GPUSIM_NCOLLS; coll++) {
		uint64_t n = 0;

		for (unsigned class = 0; class < FLIGHT_CLASSES; class ++)
			n += sums_op(m, coll, class).bytes;
		sample(t, n, "collective=\"%s\"", coll_name((enum gpusim_coll)coll));
	}
	family(t, "gpusim_operation_duration_seconds", "histogram",
	       "Time of an operation on a rank, by collective and size class of the vector; the "
	       "label is the "
	       "class's largest size.");
	for (unsigned coll = 0; coll < GPUSIM_NCOLLS; coll++)
		for (unsigned class = 0; class < FLIGHT_CLASSES; class ++) {
			struct sums_op s = sums_op(m, coll, class);

			if (ops_of(&s))
				histogram(t, &s, coll_name((enum gpusim_coll)coll),
					  size_name(class));
		}
}

static void
work(struct text *t, const struct metrics *m)
{
	static const struct {
		const char *name, *help;
		size_t word;
		bool is_time;
	} rows[] = {
	    {"gpusim_operation_failures", "Operations of ranks that have failed.", SUM_OF(failed),
	     false},
	    {"gpusim_kernels", "Kernels that devices have run.", SUM_OF(kernels), false},
	    {"gpusim_kernel_seconds", "Time in kernels.", SUM_OF(kernel_ns), true},
	    {"gpusim_copies", "Copies within devices, to and from them, and memsets.",
	     SUM_OF(copies), false},
	    {"gpusim_copy_seconds", "Time in copies.", SUM_OF(copy_ns), true},
	    {"gpusim_copy_bytes", "Bytes that copies moved.", SUM_OF(copy_bytes), false},
	    {"gpusim_recorder_records", "Records that devices' flight recorders have written.",
	     SUM_RECORDS, false},
	    {"gpusim_recorder_lost_records", "Records that were overwritten by later ones.",
	     SUM_LOST, false},
	    {"gpusim_recorder_unrecorded_threads",
	     "Threads of devices without a free ring to record in.", SUM_UNRECORDED, false},
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		uint64_t n = sums_total(m, rows[i].word);

		family(t, rows[i].name, "counter", rows[i].help);
		single(t, n, rows[i].is_time);
	}
}

enum rc
metrics_text(struct metrics *m, const struct world *w, const struct metrics_process *self,
	     enum metrics_form form, struct buf *out, struct err *err)
{
	struct text t = {.out = out, .form = form};
	struct metrics *of = m ? m : metrics_new();
	enum rc rc = of ? sums_take(of, w, err) : err_set(err, RC_NOMEM, "out of memory");

	if (rc == RC_OK) {
		coordinator(&t, w, self);
		communicators(&t, w->status);
		devices(&t, of, w);
		operations(&t, of);
		work(&t, of);
		if (form == METRICS_OPENMETRICS)
			add(&t, "# EOF\n");
		rc = !out->failed ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
	}
	if (of != m)
		metrics_free(of);
	return rc;
}
