/* A whole world as a trace. All rings are added together, one interval of time after the other, so that
 * a send and its receive are close to each other. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "view/timeline_impl.h"
#include "view/world.h"

#define PIECES 1024

/* A ring that is being added. */
struct feed {
	struct timeline_process *p;
	const struct world_recorder *of;
	const struct world_ring *ring;
	uint64_t until_ns; /* the process's end, or now */
	size_t at;
};

struct span {
	uint64_t first, last; /* ns since 1970 */
};

/* The time at which a record was written. */
static uint64_t
record_ticks(const union flight_record *r)
{
	switch ((enum flight_kind)r->kind) {
	case FLIGHT_OP:
		return r->op.end ? r->op.end : r->op.begin;
	case FLIGHT_MARK:
		return r->mark.at;
	case FLIGHT_WAIT:
	case FLIGHT_STEP:
	case FLIGHT_KERNEL:
	case FLIGHT_COPY:
	case FLIGHT_PAUSE:
	case FLIGHT_RANGE: /* its interval is there, too */
		return r->step.end;
	default:
		return 0;
	}
}

static uint64_t
begin_ticks(const union flight_record *r)
{
	return r->kind == FLIGHT_OP	? r->op.begin
	       : r->kind == FLIGHT_MARK ? r->mark.at
	       : r->kind == FLIGHT_TEXT ? 0
					: r->step.begin;
}

static void
widen(struct span *s, uint64_t first, uint64_t last)
{
	s->first = first < s->first ? first : s->first;
	s->last = last > s->last ? last : s->last;
}

static void
span_of_ring(const struct world_recorder *of, const struct world_ring *ring, struct span *s)
{
	for (size_t i = 0; i < ring->nrecords; i++)
		if (begin_ticks(&ring->record[i]))
			widen(s, flight_time_ns(&of->clock, begin_ticks(&ring->record[i])),
			      flight_time_ns(&of->clock, record_ticks(&ring->record[i])));
	if (flight_at_work(&ring->ring.live))
		widen(s, flight_time_ns(&of->clock, ring->ring.live.op.begin), 0);
}

static struct span
span_of(const struct world *w)
{
	struct span s = {w->now_ns, 0};

	for (size_t i = 0; i <= w->ndevices; i++) {
		const struct world_recorder *r = world_recorder(w, i);

		for (size_t k = 0; r && k < r->nrings; k++)
			span_of_ring(r, &r->ring[k], &s);
	}
	return s;
}

/* A lost device did nothing after its loss. */
static uint64_t
end_of(const struct world *w, size_t i)
{
	const GpuSim__DeviceMetadata *m = i < w->ndevices ? w->device[i].meta : NULL;

	if (!m || m->state == 0 || !m->loss || m->loss->atms == 0 ||
	    m->loss->atms > w->now_ns / NS_PER_MS)
		return w->now_ns;
	return m->loss->atms * NS_PER_MS;
}

static enum rc
feeds_of(const struct world *w, struct timeline *t, struct feed **out, size_t *n, struct err *err)
{
	size_t all = 0;

	for (size_t i = 0; i <= w->ndevices; i++)
		all += world_recorder(w, i) ? world_recorder(w, i)->nrings : 0;
	*n = 0;
	*out = alloc_zeroed(all + 1, sizeof **out);
	for (size_t i = 0; *out && i <= w->ndevices; i++) {
		const struct world_recorder *r = world_recorder(w, i);
		struct timeline_process *p =
		    timeline_process(t, i < w->ndevices ? w->device[i].meta : NULL);

		if (!p)
			return err_set(err, RC_NOMEM, "out of memory");
		if (!r)
			continue;
		timeline_clock(p, &r->header, &r->clock);
		timeline_memory(p, &r->header, &r->clock);
		for (size_t k = 0; k < r->nrings; k++) {
			(*out)[(*n)++] = (struct feed){p, r, &r->ring[k], end_of(w, i), 0};
			timeline_lost(t, r->ring[k].lost, r->ring[k].bad);
		}
	}
	return *out ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
}

/* The ring's records up to a time, marks with their texts. */
static enum rc
feed_until(struct feed *f, uint64_t ns, struct err *err)
{
	const struct world_ring *ring = f->ring;
	const struct timeline_ring r = timeline_ring(ring->index, &ring->ring);
	size_t from = f->at;

	while (f->at < ring->nrecords &&
	       (ring->record[f->at].kind == FLIGHT_TEXT ||
		flight_time_ns(&f->of->clock, record_ticks(&ring->record[f->at])) <= ns))
		f->at++;
	return timeline_records(f->p, &r, &f->of->clock, ring->record + from, f->at - from, err);
}

static enum rc
feed_all(struct feed *f, size_t n, struct span s, struct err *err)
{
	uint64_t piece = (s.last > s.first ? s.last - s.first : 0) / PIECES + 1;
	enum rc rc = RC_OK;

	for (unsigned i = 1; i <= PIECES && rc == RC_OK; i++)
		for (size_t k = 0; k < n && rc == RC_OK; k++)
			rc = feed_until(&f[k], i < PIECES ? s.first + i * piece : UINT64_MAX, err);
	for (size_t k = 0; k < n && rc == RC_OK; k++)
		rc = timeline_live(f[k].p, f[k].ring->index, &f[k].ring->ring, &f[k].of->clock,
				   f[k].until_ns, err);
	return rc;
}

enum rc
timeline_of_world(const struct world *w, uint64_t last_ns, trace_write_fn *write, void *arg,
		  struct timeline_sum *sum, struct err *err)
{
	struct span s = span_of(w);
	struct feed *feed = NULL;
	struct timeline *t;
	size_t n;
	enum rc rc, ended;

	if (last_ns && w->now_ns > last_ns && s.first < w->now_ns - last_ns)
		s.first = w->now_ns - last_ns;
	rc = timeline_new(write, arg, s.first, &t, err);
	if (rc != RC_OK)
		return rc;
	for (size_t i = 0; w->events && i < w->events->n_events; i++)
		timeline_history(t, w->events->events[i]);
	rc = feeds_of(w, t, &feed, &n, err);
	if (rc == RC_OK)
		rc = feed_all(feed, n, s, err);
	free(feed);
	ended = timeline_end(t, sum, rc == RC_OK ? err : NULL);
	return rc == RC_OK ? ended : rc;
}
