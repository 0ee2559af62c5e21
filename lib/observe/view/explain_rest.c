/*
 * explain_rest.c - the world besides its communicators: devices, gathering ranks, requests for devices.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/must.h"
#include "view/explain_impl.h"

static void
say_gathering(struct words *t, const GpuSim__Gathering *g)
{
	bool one = g->n_missing == 1;

	say(t, "%s: ", g->name);
	for (size_t i = 0; i < g->n_missing && i < 16; i++)
		say(t, "%s%" PRIu32, i ? ", " : one ? "rank " : "ranks ", g->missing[i]);
	say(t,
	    "%s of %" PRIu32
	    " %s been missing for %s; the others wait for %s. To go on: start %s.\n",
	    g->n_missing > 16 ? " ..." : "", g->nranks, one ? "has" : "have",
	    part_time(t, g->forms * NS_PER_MS), one ? "it" : "them",
	    one ? "that rank" : "those ranks");
}

static uint32_t
free_devices(const struct world *w)
{
	uint32_t n = 0;

	for (size_t i = 0; i < w->ndevices; i++)
		n += w->device[i].meta->state == 0 && !w->device[i].meta->commid &&
		     !w->device[i].meta->spare;
	return n;
}

static void
say_request(struct words *t, const struct world *w, const GpuSim__WaitingRequest *q)
{
	uint32_t nfree = free_devices(w);

	say(t, "%s", *q->program ? q->program : q->name);
	if (q->pid)
		say(t, ", pid %" PRIu32 ",", q->pid);
	say(t,
	    " has been waiting for %" PRIu32 " device%s for %s: %" PRIu32
	    " %s free. To go on: destroy a communicator, or start more devices.\n",
	    q->want, q->want == 1 ? "" : "s", part_time(t, q->forms * NS_PER_MS), nfree,
	    nfree == 1 ? "is" : "are");
}

/* Find the last refused allocation; false: none in the recorder. */
static bool
last_refusal(const struct world_device *d, uint64_t *at_ns, uint64_t *nbytes)
{
	bool found = false;

	for (size_t i = 0; d->recorder && i < d->recorder->nrings; i++)
		for (size_t k = 0; k < d->recorder->ring[i].nrecords; k++) {
			const union flight_record *r = &d->recorder->ring[i].record[k];

			if (r->kind != FLIGHT_MARK || r->mark.what != FLIGHT_MARK_NOMEM)
				continue;
			*at_ns = flight_time_ns(&d->recorder->clock, r->mark.at);
			*nbytes = r->mark.value;
			found = true;
		}
	return found;
}

#define REFUSED_NS (600 * NS_PER_SEC) /* older refusals are not reported */

static void
say_memory(struct words *t, const struct world *w, const struct world_device *d)
{
	const GpuSim__DeviceMetadata *m = d->meta;
	uint64_t at, n,
	    size = m->minmemaddr && m->maxmemaddr ? m->maxmemaddr->value - m->minmemaddr->value : 0;

	if (last_refusal(d, &at, &n) && at + REFUSED_NS >= w->now_ns)
		say(t,
		    "device %016" PRIx64
		    " had no memory for %s at %s: %s of %s are allocated. To go on: free some, or "
		    "start devices with a larger --mem.\n",
		    m->deviceid ? m->deviceid->value : 0, part_bytes(t, n), part_when(t, at),
		    part_bytes(t, m->usedbytes), part_bytes(t, size));
}

/* A device outside of all communicators. */
static bool
say_free_device(struct words *t, const struct world_device *d)
{
	const GpuSim__DeviceMetadata *m = d->meta;
	bool stopped = d->process == 'T' || d->process == 't';

	if (m->commid || (!stopped && m->state == 0))
		return false;
	say(t, "%s, %s", part_device(t, d),
	    m->state ? "is lost" : part_process(t, d->process, d->tracer));
	if (m->state && m->loss && *m->loss->why)
		say(t, ", %s", m->loss->why);
	say(t, "; it is in no communicator.");
	if (stopped)
		say(t, " To go on: %s.", part_release(t, m->pid, d->tracer));
	say(t, "\n");
	return stopped;
}

/* ---- communicators that wait for each other */

/* Find out if some rank of `a` holds it up because it is in `b`. */
static bool
is_crossed(const struct world *w, const GpuSim__CommSummary *a, uint64_t b)
{
	struct scene s;
	bool crossed = false;

	scene_init(w, a, &s);
	scene_causes(&s);
	for (uint32_t r = 0; r < s.n; r++)
		crossed |= s.rank[r].cause == CAUSE_CROSSED && s.rank[r].away->op.comm == b;
	scene_fini(&s);
	return crossed;
}

#define CROSS_MAX 64u /* communicators that are compared */

static bool
say_crossed(struct words *t, const struct world *w)
{
	GpuSim__CommSummary **c = w->status->comms;
	size_t n = w->status->n_comms < CROSS_MAX ? w->status->n_comms : CROSS_MAX;
	bool found = false;

	for (size_t i = 0; i < n; i++)
		for (size_t k = i + 1; k < n; k++) {
			if (!is_crossed(w, c[i], c[k]->commid) ||
			    !is_crossed(w, c[k], c[i]->commid))
				continue;
			found = true;
			say(t,
			    "comm %" PRIu64 " and comm %" PRIu64
			    " wait for each other: some ranks called one first, some the other. "
			    "Neither can proceed by itself.\n",
			    c[i]->commid, c[k]->commid);
		}
	return found;
}

/* A paragraph on everything that does not belong to one communicator: devices, ranks that gather, queued
 * requests, communicators that wait for each other. Nothing to report: nothing is appended. */
static void
explain_rest(const struct world *w, struct buf *out, struct explanation *how)
{
	struct words t = {.out = out};
	bool bad = say_crossed(&t, w);

	for (size_t i = 0; i < w->status->n_gatherings; i++) {
		say_gathering(&t, w->status->gatherings[i]);
		bad |= w->status->gatherings[i]->forms >= LONG_NS / NS_PER_MS;
		t.cause = "rank-not-come";
	}
	for (size_t i = 0; i < w->status->n_queue; i++) {
		say_request(&t, w, w->status->queue[i]);
		bad |= w->status->queue[i]->forms >= LONG_NS / NS_PER_MS;
		t.cause = "no-device";
	}
	for (size_t i = 0; i < w->ndevices; i++) {
		say_memory(&t, w, &w->device[i]);
		if (say_free_device(&t, &w->device[i])) {
			bad = true;
			t.cause = "stopped";
		}
	}
	how->state = bad ? EXPLAIN_WAITS : EXPLAIN_IDLE;
	how->cause = bad && t.cause ? t.cause : "";
}

void
explain_world(const struct world *w, struct buf *out, struct explanation *how)
{
	static const enum explain_state order[] = {EXPLAIN_FAILED, EXPLAIN_WAITS, EXPLAIN_GOES_ON,
						   EXPLAIN_IDLE};
	struct buf *text = must_alloc(w->status->n_comms + 1, sizeof *text);
	struct explanation *of = must_alloc(w->status->n_comms + 1, sizeof *of), rest;
	struct words t = {.out = out};

	*how = (struct explanation){EXPLAIN_IDLE, ""};
	for (size_t i = 0; i < w->status->n_comms; i++) {
		explain_comm(w, w->status->comms[i]->commid, false, &text[i], &of[i], NULL);
		if (of[i].state > how->state)
			*how = of[i];
	}
	for (size_t k = 0; k < sizeof order / sizeof *order; k++)
		for (size_t i = 0; i < w->status->n_comms; i++)
			if (of[i].state == order[k])
				must_add(out, text[i].data, text[i].len);
	explain_rest(w, out, &rest);
	if (rest.state > how->state)
		*how = rest;
	if (w->status->n_comms == 0)
		say(&t, "No communicator; %zu device%s.\n", w->ndevices,
		    w->ndevices == 1 ? "" : "s");
	else if (how->state == EXPLAIN_IDLE)
		say(&t, "Nothing waits.\n");
	for (size_t i = 0; i < w->status->n_comms; i++)
		buf_fini(&text[i]);
	free(text);
	free(of);
}

void
explain_alone(uint32_t pid, char process, uint32_t tracer, struct buf *out)
{
	struct words t = {.out = out};
	const char *does = "does not answer", *remedy = "see what it does";

	if (process == 'X' || process == 'Z')
		remedy = "start it again";
	else if (process == 'T' || process == 't')
		remedy = part_release(&t, pid, tracer);
	if (process && strchr("XZTt", process))
		does = part_process(&t, process, tracer);
	say(&t,
	    "The coordinator, pid %" PRIu32
	    ", %s; what follows is from the recorders of this host. To go on: %s.\n",
	    pid, does, remedy);
}
