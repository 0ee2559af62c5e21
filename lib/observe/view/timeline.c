/* Processes, counters, the history; the beginning and the end. */
#include "view/timeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "view/timeline_impl.h"
#include "view/world.h"
#include "wire/frame.h"

#define COORDINATOR_PID 1u
#define WINDOW_NS	(10 * NS_PER_MS) /* of the counter of bytes */

uint64_t
timeline_ns(const struct timeline *t, const struct flight_clock *c, uint64_t ticks)
{
	uint64_t ns = flight_time_ns(c, ticks);

	return ns > t->begin_ns ? ns - t->begin_ns : 0;
}

void
timeline_instant(struct timeline *t, uint32_t pid, uint32_t tid, uint64_t at_ns, const char *scope)
{
	trace_begin(&t->out, 'i', pid, tid);
	trace_us(&t->out, "ts", at_ns);
	trace_text(&t->out, "s", scope);
}

void
track_free(struct track *k)
{
	if (!k)
		return;
	free(k->lane);
	free(k->step);
	free(k);
}

/* ---- processes */

void
timeline_name(struct timeline *t, uint32_t pid, uint32_t tid, const char *what, const char *name)
{
	trace_begin(&t->out, 'M', pid, tid);
	trace_text(&t->out, "name", what);
	trace_args(&t->out);
	trace_text(&t->out, strcmp(what, "process_labels") == 0 ? "labels" : "name", name);
	trace_end(&t->out);
}

void
timeline_order(struct timeline *t, uint32_t pid, uint32_t tid, const char *what, uint32_t place)
{
	trace_begin(&t->out, 'M', pid, tid);
	trace_text(&t->out, "name", what);
	trace_args(&t->out);
	trace_number(&t->out, "sort_index", place);
	trace_end(&t->out);
}

static void
introduce(struct timeline_process *p, const GpuSim__DeviceMetadata *meta)
{
	char text[120];

	if (!meta) {
		timeline_name(p->t, p->pid, 0, "process_name", "gpucoord");
		timeline_order(p->t, p->pid, 0, "process_sort_index", 0);
		return;
	}
	snprintf(text, sizeof text, "gpu %" PRIu32, p->ordinal);
	timeline_name(p->t, p->pid, 0, "process_name", text);
	snprintf(text, sizeof text, "device %016" PRIx64 ", pid %" PRIu32, p->device, meta->pid);
	timeline_name(p->t, p->pid, 0, "process_labels", text);
	timeline_order(p->t, p->pid, 0, "process_sort_index", p->ordinal + 1);
}

struct timeline_process *
timeline_process(struct timeline *t, const GpuSim__DeviceMetadata *meta)
{
	uint64_t id = meta && meta->deviceid ? meta->deviceid->value : 0;
	struct timeline_process *p = t->processes;

	while (p && p->device != id)
		p = p->next;
	if (p || !(p = alloc_zeroed(1, sizeof *p)))
		return p;
	p->t = t;
	p->device = id;
	p->pid = t->pids++;
	p->ordinal = meta ? meta->ordinal : 0;
	p->next = t->processes;
	t->processes = p;
	introduce(p, meta);
	return p;
}

void
process_ranked(struct timeline_process *p, uint32_t rank)
{
	char text[64];

	if (p->ranked || p->device == 0)
		return;
	p->ranked = true;
	snprintf(text, sizeof text, "gpu %" PRIu32 " (rank %" PRIu32 ")", p->ordinal, rank);
	timeline_name(p->t, p->pid, 0, "process_name", text);
}

void
timeline_clock(struct timeline_process *p, const struct flight_header *h,
	       const struct flight_clock *clock)
{
	memcpy(p->host, h->host, sizeof p->host);
	p->host[sizeof p->host - 1] = '\0';
	p->error_ns = clock->error_ns;
	p->clocked = true;
	memcpy(p->group, h->group, sizeof p->group);
	p->ngroups = atomic_load(&h->ngroups);
}

/* ---- counters */

static void
write_counter(struct timeline_process *p, const char *name, uint64_t at_ns, uint64_t value)
{
	trace_begin(&p->t->out, 'C', p->pid, 0);
	trace_us(&p->t->out, "ts", at_ns);
	trace_text(&p->t->out, "name", name);
	trace_args(&p->t->out);
	trace_number(&p->t->out, name, value);
	trace_end(&p->t->out);
}

/* End the window; `next` is the next one with data. */
static void
end_window(struct timeline_process *p, uint64_t next)
{
	if (!p->moved)
		return;
	write_counter(p, "bytes/s", p->window * WINDOW_NS,
		      (uint64_t)((double)p->bytes * (double)NS_PER_SEC / (double)WINDOW_NS));
	if (next > p->window + 1)
		write_counter(p, "bytes/s", (p->window + 1) * WINDOW_NS, 0);
	p->bytes = 0;
	p->moved = false;
}

void
process_moved(struct timeline_process *p, uint64_t end_ns, uint64_t bytes)
{
	uint64_t window = end_ns / WINDOW_NS;

	if (p->moved && window > p->window)
		end_window(p, window);
	if (!p->moved)
		p->window = window > p->window ? window : p->window;
	p->moved = true;
	p->bytes += bytes;
}

void
timeline_memory(struct timeline_process *p, const struct flight_header *h,
		const struct flight_clock *clock)
{
	if (p->device == 0 || h->mem_bytes == 0 || h->last.ticks <= p->memory_at ||
	    flight_time_ns(clock, h->last.ticks) < p->t->begin_ns ||
	    (p->memory_at && h->mem_used == p->memory_used))
		return;
	p->memory_at = h->last.ticks;
	p->memory_used = h->mem_used;
	write_counter(p, "memory", timeline_ns(p->t, clock, h->last.ticks), h->mem_used);
}

struct timeline_ring
timeline_ring(uint32_t index, const struct flight_ring *ring)
{
	struct timeline_ring r = {.index = index,
				  .kind = ring->kind,
				  .id = ring->id,
				  .stream = ring->stream,
				  .opened = ring->opened};

	memcpy(r.name, ring->name, sizeof r.name);
	return r;
}

/* ---- the history */

void
timeline_events(struct timeline *t)
{
	t->events = true;
}

void
timeline_history(struct timeline *t, const GpuSim__HistoryEvent *e)
{
	uint64_t at = e->atms < UINT64_MAX / NS_PER_MS ? e->atms * NS_PER_MS : 0;
	char name[WORLD_EVENT_NAME];

	if (at < t->begin_ns)
		return;
	timeline_instant(t, COORDINATOR_PID, 0, at - t->begin_ns, "g");
	trace_text(&t->out, "name", world_event_name((int)e->kind, "event", name));
	trace_text(&t->out, "cat", "history");
	trace_args(&t->out);
	trace_text(&t->out, "text", e->text);
	if (e->deviceid)
		trace_hex(&t->out, "device", e->deviceid);
	if (e->commid)
		trace_number(&t->out, "comm", e->commid);
	if (e->rank)
		trace_number(&t->out, "rank", e->rank - 1);
	trace_end(&t->out);
}

/* ---- begin and end */

static void
free_timeline(struct timeline *t)
{
	struct timeline_process *p;

	while ((p = t->processes)) {
		t->processes = p->next;
		for (size_t i = 0; i < FLIGHT_RINGS_MAX; i++)
			track_free(p->track[i]);
		free(p);
	}
	flows_fini(&t->flows);
	free(t->count);
	free(t);
}

static void
write_opening(struct timeline *t)
{
	timeline_instant(t, COORDINATOR_PID, 0, 0, "p");
	trace_text(&t->out, "name", "trace begins");
	trace_args(&t->out);
	trace_text(&t->out, "version", GPUSIM_VERSION);
	trace_number(&t->out, "begin_ns", t->begin_ns);
	trace_end(&t->out);
}

enum rc
timeline_new(trace_write_fn *write, void *arg, uint64_t begin_ns, struct timeline **out,
	     struct err *err)
{
	struct timeline *t = alloc_zeroed(1, sizeof *t);

	if (!t)
		return err_set(err, RC_NOMEM, "out of memory");
	trace_init(&t->out, write, arg);
	t->begin_ns = begin_ns;
	t->pids = COORDINATOR_PID;
	if (flows_init(&t->flows, err) != RC_OK || !timeline_process(t, NULL)) {
		free_timeline(t);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	write_opening(t);
	*out = t;
	return RC_OK;
}

enum rc
timeline_flush(struct timeline *t, struct err *err)
{
	return trace_flush(&t->out, err);
}

void
timeline_lost(struct timeline *t, uint64_t lost, uint64_t bad)
{
	t->lost += lost;
	t->bad += bad;
}

/* Write the error bound of each process's clock, or "unknown". */
static void
write_clocks(struct timeline *t)
{
	for (const struct timeline_process *p = t->processes; p; p = p->next) {
		if (!p->clocked)
			continue;
		timeline_instant(t, p->pid, 0, 0, "p");
		trace_text(&t->out, "name", "clock");
		trace_args(&t->out);
		trace_text(&t->out, "host", p->host);
		if (p->error_ns == UINT64_MAX)
			trace_text(&t->out, "error", "unknown");
		else
			trace_us(&t->out, "error_us", p->error_ns);
		trace_end(&t->out);
	}
}

static void
write_ending(struct timeline *t)
{
	timeline_instant(t, COORDINATOR_PID, 0, 0, "p");
	trace_text(&t->out, "name", "trace ends");
	trace_args(&t->out);
	trace_number(&t->out, "events", t->out.events);
	trace_number(&t->out, "lost_records", t->lost);
	trace_number(&t->out, "damaged_records", t->bad);
	trace_number(&t->out, "steps_left_out", t->steps_given_up);
	trace_number(&t->out, "flows_left_out", t->flows.given_up);
	trace_end(&t->out);
}

enum rc
timeline_end(struct timeline *t, struct timeline_sum *sum, struct err *err)
{
	enum rc rc;

	if (!t)
		return RC_OK;
	for (struct timeline_process *p = t->processes; p; p = p->next)
		end_window(p, p->window + 2);
	write_clocks(t);
	write_ending(t);
	rc = trace_finish(&t->out, err);
	if (sum)
		*sum = (struct timeline_sum){.events = t->out.events, .lost = t->lost};
	free_timeline(t);
	return rc;
}
