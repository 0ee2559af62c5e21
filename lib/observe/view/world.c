#include "view/world.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/host.h"
#include "coll/plan.h"
#include "wire/wire.h"

enum rc
world_new(GpuSim__StatusResponse *status, GpuSim__EventsResponse *events, uint64_t now_ns,
	  struct world **out, struct err *err)
{
	struct world *w = calloc(1, sizeof *w);

	if (w)
		w->device = alloc_zeroed(status->n_devices + 1, sizeof *w->device);
	if (w)
		w->holder = alloc_zeroed(status->n_comms + 1, sizeof *w->holder);
	if (!w || !w->device || !w->holder) {
		if (w)
			free(w->device);
		free(w);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	w->ndevices = status->n_devices;
	for (size_t i = 0; i < w->ndevices; i++)
		w->device[i].meta = status->devices[i];
	w->status = status;
	w->events = events;
	w->now_ns = now_ns;
	*out = w;
	return RC_OK;
}

enum rc
world_of_answers(GpuSim__Reply *status, GpuSim__Reply *events, uint64_t now_ns, struct world **out,
		 struct err *err)
{
	enum rc rc = world_new(status->status, events->events, now_ns, out, err);

	if (rc == RC_OK) { /* the world owns what they held */
		status->body_case = GPU_SIM__REPLY__BODY__NOT_SET;
		events->body_case = GPU_SIM__REPLY__BODY__NOT_SET;
	}
	wire_reply_free(status);
	wire_reply_free(events);
	return rc;
}

static void
recorder_free(struct world_recorder *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->nrings; i++)
		free(r->ring[i].record);
	free(r->ring);
	free(r);
}

void
world_free(struct world *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->ndevices; i++)
		recorder_free(w->device[i].recorder);
	recorder_free(w->coordinator);
	free(w->device);
	free(w->holder);
	gpu_sim__status_response__free_unpacked(w->status, NULL);
	if (w->events)
		gpu_sim__events_response__free_unpacked(w->events, NULL);
	free(w);
}

/* ---- recorders */

/* Read the last `records` of a ring, whose head is known. */
static enum rc
ring_records(const struct flight_source *s, const struct flight_header *h, size_t records,
	     struct world_ring *r, struct err *err)
{
	uint64_t head = atomic_load(&r->ring.head);
	size_t room = records < h->nrecords ? records : h->nrecords;
	enum rc rc;

	r->next = head;
	if (room == 0 || head == 0)
		return RC_OK;
	r->next = room < head && records < h->nrecords ? head - room : 0;
	if (room < 2 * FLIGHT_MARGIN)
		room = 2 * FLIGHT_MARGIN;
	r->record = alloc_zeroed(room, sizeof *r->record);
	if (!r->record)
		return err_set(err, RC_NOMEM, "out of memory");
	rc = flight_read_records(s, h, r->index, &r->next, r->record, room, &r->nrecords, &r->lost,
				 &r->bad, err);
	r->lost = 0; /* this is the first reading */
	return rc;
}

static enum rc
recorder_rings(const struct flight_source *s, size_t records, struct world_recorder *r,
	       struct err *err)
{
	enum rc rc = RC_OK;

	r->ring = alloc_zeroed(r->header.nrings, sizeof *r->ring);
	if (!r->ring)
		return err_set(err, RC_NOMEM, "out of memory");
	for (uint32_t i = 0; i < r->header.nrings && rc == RC_OK; i++) {
		struct world_ring *ring = &r->ring[r->nrings];

		rc = flight_read_ring(s, &r->header, i, &ring->ring, err);
		if (rc == RC_NOTFOUND) {
			rc = RC_OK;
			continue;
		}
		if (rc != RC_OK)
			break;
		ring->index = i;
		r->nrings++;
		rc = ring_records(s, &r->header, records, ring, err);
	}
	return rc;
}

static enum rc
recorder_read(const struct flight_source *s, size_t records, struct world_recorder **out,
	      struct err *err)
{
	struct world_recorder *r = calloc(1, sizeof *r);
	enum rc rc;

	if (!r)
		return err_set(err, RC_NOMEM, "out of memory");
	rc = flight_read_header(s, &r->header, err);
	if (rc == RC_OK)
		rc = recorder_rings(s, records, r, err);
	if (rc != RC_OK) {
		recorder_free(r);
		return rc;
	}
	flight_clock_of(&r->header, &r->clock);
	*out = r;
	return RC_OK;
}

enum rc
world_read(struct world *w, size_t i, const struct flight_source *s, size_t records,
	   struct err *err)
{
	struct world_device *d = i == WORLD_COORDINATOR ? NULL : &w->device[i];
	struct world_recorder **at = d ? &d->recorder : &w->coordinator;
	struct err why = {0};
	enum rc rc;

	recorder_free(*at);
	*at = NULL;
	rc = recorder_read(s, records, at, &why);
	if (d)
		snprintf(d->why_not, sizeof d->why_not, "%.*s", (int)sizeof d->why_not - 1,
			 rc == RC_OK ? "" : why.text);
	if (rc == RC_NOMEM)
		return err_set(err, RC_NOMEM, "%s", why.text);
	return RC_OK;
}

/* ---- clocks */

static bool
same_host(const struct world_recorder *a, const struct world_recorder *b)
{
	return strncmp(a->header.host, b->header.host, sizeof a->header.host) == 0;
}

/* The clock of a host: the rate of its longest baseline, with the offset of the smallest error. */
static struct flight_clock
host_clock(const struct world *w, const struct world_recorder *of)
{
	const struct world_recorder *rate = of, *time = of;
	struct flight_clock c, best;

	flight_clock_of(&time->header, &best);
	for (size_t i = 0; i <= w->ndevices; i++) {
		const struct world_recorder *r = world_recorder(w, i);

		if (!r || !same_host(r, of))
			continue;
		if (flight_baseline_ns(&r->header) > flight_baseline_ns(&rate->header))
			rate = r;
		flight_clock_of(&r->header, &c);
		if (c.error_ns < best.error_ns)
			best = c;
	}
	flight_clock_of(&rate->header, &c);
	if (c.error_ns <= best.error_ns)
		return c;
	best.ns_per_tick = c.ns_per_tick;
	return best;
}

void
world_clocks(struct world *w)
{
	for (size_t i = 0; i <= w->ndevices; i++) {
		struct world_recorder *r = world_recorder(w, i);
		size_t first = 0;

		if (!r)
			continue;
		while (!world_recorder(w, first) || !same_host(world_recorder(w, first), r))
			first++;
		r->clock = first < i ? world_recorder(w, first)->clock : host_clock(w, r);
	}
}

uint64_t
world_ns_since(const struct world *w, const struct world_recorder *r, uint64_t ticks)
{
	uint64_t then = ticks ? flight_time_ns(&r->clock, ticks) : w->now_ns;

	return then < w->now_ns ? w->now_ns - then : 0;
}

/* ---- lookups */

struct world_recorder *
world_recorder(const struct world *w, size_t i)
{
	return i < w->ndevices ? w->device[i].recorder : w->coordinator;
}

const struct world_device *
world_device(const struct world *w, uint64_t device_id)
{
	for (size_t i = 0; i < w->ndevices; i++)
		if (w->device[i].meta->deviceid && w->device[i].meta->deviceid->value == device_id)
			return &w->device[i];
	return NULL;
}

const GpuSim__CommSummary *
world_comm(const struct world *w, uint64_t comm_id)
{
	for (size_t i = 0; i < w->status->n_comms; i++)
		if (w->status->comms[i]->commid == comm_id)
			return w->status->comms[i];
	return NULL;
}

const char *
world_place(const struct world *w, uint64_t comm_id, uint32_t rank, char out[GRID_TEXT])
{
	const GpuSim__CommSummary *c = world_comm(w, comm_id);

	return c && grid_place_print(c->grid, rank, out) ? out : "";
}

const struct plan_algo *
world_algo(const struct flight_op *op)
{
	return op->algo ? plan_algo_at((enum gpusim_coll)op->coll, op->algo - 1u) : NULL;
}

const char *
world_event_name(int kind, const char *unknown, char out[WORLD_EVENT_NAME])
{
	const ProtobufCEnumValue *v =
	    protobuf_c_enum_descriptor_get_value(&gpu_sim__event_kind__descriptor, kind);

	if (!v)
		return unknown;
	snprintf(out, WORLD_EVENT_NAME, "%s", v->name);
	for (char *s = out; *s; s++)
		*s = *s == '_' ? '-' : (char)tolower((unsigned char)*s);
	return out;
}

/* ---- processes */

char
world_process(uint32_t pid, uint32_t *tracer)
{
	char path[64], line[256], state = pid ? 'X' : 0;
	uint32_t by = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%" PRIu32 "/status", pid);
	f = pid ? fopen(path, "re") : NULL;
	while (f && fgets(line, sizeof line, f) && sscanf(line, "TracerPid: %" SCNu32, &by) != 1)
		sscanf(line, "State: %c", &state);
	if (f)
		fclose(f);
	if (tracer)
		*tracer = state == 'T' || state == 't' ? by : 0;
	return state;
}

/* A client's host is only known if the coordinator serves this host alone. */
static void
look_at_holders(struct world *w)
{
	bool here = strncmp(w->status->address, "ipc:", 4) == 0;

	for (size_t i = 0; here && i < w->status->n_comms; i++)
		w->holder[i].process =
		    world_process(w->status->comms[i]->pid, &w->holder[i].tracer);
}

void
world_processes(struct world *w)
{
	char host[HOST_ID_MAX];

	host_id(host);
	for (size_t i = 0; i < w->ndevices; i++) {
		struct world_device *d = &w->device[i];

		if (!host[0] || strcmp(d->meta->host, host) != 0) {
			d->process = 0;
			continue;
		}
		d->process = world_process(d->meta->pid, &d->tracer);
		for (size_t k = 0; d->recorder && k < d->recorder->nrings; k++) {
			struct world_ring *r = &d->recorder->ring[k];

			r->process = world_process(r->ring.pid, &r->tracer);
			r->thread = world_process(r->ring.now.tid, NULL);
		}
	}
	look_at_holders(w);
}
