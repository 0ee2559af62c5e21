/*
 * Draining.
 *
 * Design notes. One thread. A turn reads each recorder, copies new records to a backlog, and writes a small
 * part of the backlog as text, so that rings are read again before they wrap. If the file is on this host,
 * a ring without new records costs one system call. The coordinator is asked for devices and events much
 * less often, with a short deadline: if it does not answer, records must still be read. There is one clock
 * per host, set again only with a much longer baseline or a much smaller error, so that times do not jump.
 */
#include "drain/drain.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/api.h"
#include "base/clock.h"
#include "base/must.h"
#include "client/recorder.h"
#include "drain/backlog.h"

#define TIMEOUT_MS    500  /* of a request */
#define ASK_MS	      200  /* between questions to the coordinator */
#define AWAY_MS	      2000 /* after one that was not answered */
#define HEADER_MS     200  /* between looks at a header: clocks and memory */
#define REMOTE_MS     200  /* between looks at a recorder that is asked for */
#define PATIENCE_MS   1000 /* so long a question waits while records come fast */
#define TRACE_MS      3000 /* devices record all steps for so long ... */
#define RENEW_MS      500  /* ... and are told again after so long */
#define PIECES	      2	   /* of the backlog in a turn */
#define IDLE_LEAST_MS 1
#define IDLE_MOST_MS  16

struct source_ring {
	bool known;
	struct flight_ring head; /* as it was last read whole */
	uint64_t next;
};

/* One clock a host. */
struct host {
	struct host *next;
	char name[64];
	struct flight_clock clock;
	uint64_t baseline_ns;
};

struct source {
	struct source *next;
	uint64_t device, incarnation;
	uint64_t file_dev, file_inode;
	bool over;	     /* another process of the device continues in its file */
	uint64_t lost_at_ns; /* the coordinator has lost the device; 0: no */
	struct client_recorder *r;
	struct flight_source s;
	struct flight_header h;
	struct timeline_process *p;
	struct host *host;
	bool near, readable;
	uint64_t header_at, renew_at, read_at; /* next times, monotonic */
	struct source_ring ring[FLIGHT_RINGS_MAX];
};

struct drain {
	struct gpusim *g;
	struct timeline *t;
	struct source *sources;
	struct host *hosts;
	uint64_t ask_at, event;
	bool began; /* new recorders are read from their beginning */
	uint32_t idle_ms;
	struct backlog backlog;
};

/* Return true if it is time to ask the coordinator. While records arrive fast it can wait a little. */
static bool
is_time(const struct drain *d, uint64_t due_ns)
{
	uint64_t now = clock_now_ns();

	return now >= due_ns && (d->backlog.n == 0 || now - due_ns >= PATIENCE_MS * NS_PER_MS);
}

/* ---- clocks */

static struct host *
find_host(struct drain *d, const struct flight_header *h)
{
	struct host *at = d->hosts;

	while (at && strncmp(at->name, h->host, sizeof at->name) != 0)
		at = at->next;
	if (at)
		return at;
	at = must_alloc(1, sizeof *at);
	memcpy(at->name, h->host, sizeof at->name);
	flight_clock_of(h, &at->clock);
	at->baseline_ns = flight_baseline_ns(h);
	at->next = d->hosts;
	d->hosts = at;
	return at;
}

/* Return true if a clock is much better than before. */
static void
set_clock(struct host *at, const struct flight_header *h)
{
	struct flight_clock now;

	flight_clock_of(h, &now);
	if (flight_baseline_ns(h) / 2 <= at->baseline_ns && now.error_ns >= at->clock.error_ns / 2)
		return;
	if (now.error_ns > at->clock.error_ns) /* only the rate */
		now.wall_ns = flight_time_ns(&at->clock, now.ticks);
	at->clock = now;
	at->baseline_ns =
	    flight_baseline_ns(h) > at->baseline_ns ? flight_baseline_ns(h) : at->baseline_ns;
}

/* ---- recorders */

/* Read the header at times, for the clocks and the memory. */
static void
look_at_header(struct drain *d, struct source *s, uint64_t now)
{
	struct flight_header h;

	if (now < s->header_at)
		return;
	s->header_at = now + HEADER_MS * NS_PER_MS;
	if (flight_read_header(&s->s, &h, NULL) != RC_OK)
		return; /* its device has not begun to record, or does not answer */
	s->h = h;
	if (!s->host)
		s->host = find_host(d, &h);
	set_clock(s->host, &h);
	timeline_clock(s->p, &h, &s->host->clock);
	timeline_memory(s->p, &h, &s->host->clock);
	s->readable = true;
}

/* Read the first lines of a ring; find out if there are new records. */
struct ring_lines {
	_Alignas(FLIGHT_LINE) char at[offsetof(struct flight_ring, live)];
};

static bool
peek(const struct source *s, uint32_t i, struct flight_ring *out)
{
	struct ring_lines lines;

	if (s->s.read(s->s.arg, FLIGHT_RING_AT(i, s->h.nrecords), &lines, sizeof lines, NULL) !=
	    RC_OK)
		return false;
	memcpy((void *)out, &lines, sizeof lines);
	return true;
}

/*
 * Where to begin with a new ring: at its end, when the drain begins; later at its beginning, and records
 * that are already overwritten are lost.
 */
static uint64_t
first_record(struct drain *d, const struct source *s, const struct flight_ring *ring)
{
	uint64_t head = atomic_load(&ring->head), first = atomic_load(&ring->first);
	uint64_t keeps = s->h.nrecords - FLIGHT_MARGIN;

	if (!d->began)
		return head;
	if (first > head || head - first <= keeps)
		return first;
	timeline_lost(d->t, head - keeps - first, 0);
	return head - keeps;
}

/* Into the backlog, while there is room. */
static void
read_records(struct drain *d, struct source *s, uint32_t i)
{
	struct source_ring *k = &s->ring[i];
	uint64_t lost = 0, bad = 0, before;
	enum rc rc;

	do {
		struct piece *p = backlog_room(&d->backlog);

		before = k->next;
		rc = flight_read_records(&s->s, &s->h, i, &k->next, p->record, BACKLOG_PIECE, &p->n,
					 &lost, &bad, NULL);
		if (rc != RC_OK || p->n == 0) {
			backlog_recycle(&d->backlog, p);
			break;
		}
		p->of = s;
		p->ring = timeline_ring(i, &k->head);
		backlog_add(&d->backlog, p);
	} while (k->next - before > BACKLOG_PIECE / 2 && !backlog_is_full(&d->backlog));
	timeline_lost(d->t, lost, bad);
}

/* Sleep only while rings are far from wrapping. */
static void
hurry(struct drain *d, const struct source *s, uint64_t behind)
{
	if (behind > s->h.nrecords / 16)
		d->idle_ms = 0;
	else if (behind > s->h.nrecords / 64 && d->idle_ms > IDLE_LEAST_MS)
		d->idle_ms = IDLE_LEAST_MS;
}

static void
look_at_ring(struct drain *d, struct source *s, uint32_t i)
{
	struct source_ring *k = &s->ring[i];
	struct flight_ring now;
	uint64_t head;

	if (!peek(s, i, &now))
		return;
	head = atomic_load(&now.head);
	if (!k->known || now.opened != k->head.opened) {
		if (flight_read_ring(&s->s, &s->h, i, &k->head, NULL) != RC_OK)
			return;
		k->next = k->known && k->next ? k->next : first_record(d, s, &k->head);
		k->known = true;
	}
	if (head == k->next)
		return;
	hurry(d, s, head - k->next);
	read_records(d, s, i);
}

static void
look_at(struct drain *d, struct source *s)
{
	uint64_t now = clock_now_ns(), backed;

	if (s->over || (!s->near && !is_time(d, s->read_at)))
		return;
	s->read_at = now + REMOTE_MS * NS_PER_MS;
	if (now >= s->renew_at && s->device && !s->lost_at_ns) {
		s->renew_at = now + RENEW_MS * NS_PER_MS;
		client_recorder_trace(s->r, TRACE_MS);
	}
	look_at_header(d, s, now);
	if (!s->readable || s->s.read(s->s.arg, offsetof(struct flight_header, backed), &backed,
				      sizeof backed, NULL) != RC_OK)
		return;
	for (uint32_t i = 0; i < s->h.nrings; i++)
		if (backed >> i & 1)
			look_at_ring(d, s, i);
}

/* ---- which recorders there are */

static struct source *
find_source(struct drain *d, uint64_t device, uint64_t incarnation)
{
	struct source *s = d->sources;

	while (s && (s->device != device || s->incarnation != incarnation))
		s = s->next;
	return s;
}

/* A device that was started again on its file goes on in its rings, so what was read of them is known. */
static void
go_on_from(struct drain *d, struct source *s)
{
	struct source *was = d->sources;

	while (was && (was->over || !was->near || was->device != s->device ||
		       was->file_dev != s->file_dev || was->file_inode != s->file_inode))
		was = was->next;
	if (!was || !s->near || s->file_inode == 0)
		return;
	memcpy(s->ring, was->ring, sizeof s->ring);
	was->over = true;
}

/* One that cannot be opened now may be later. */
static enum rc
add_source(struct drain *d, const GpuSim__DeviceMetadata *meta, uint64_t incarnation,
	   struct err *err)
{
	struct source *s = must_alloc(1, sizeof *s);
	enum gpusim_rc rc;

	rc = meta ? client_recorder_open(d->g, meta, &s->r)
		  : client_recorder_open_coordinator(d->g, &s->r);
	s->p = rc == GPUSIM_OK ? timeline_process(d->t, meta) : NULL;
	if (!s->p) {
		client_recorder_close(s->r);
		free(s);
		return rc == GPUSIM_OK || rc == GPUSIM_NOMEM
			   ? err_set(err, RC_NOMEM, "out of memory")
			   : RC_OK;
	}
	s->device = meta ? meta->deviceid->value : 0;
	s->incarnation = incarnation;
	s->s = client_recorder_source(s->r);
	s->near = client_recorder_is_file(s->r);
	s->file_dev = meta ? meta->memdev : 0;
	s->file_inode = meta ? meta->meminode : 0;
	go_on_from(d, s);
	s->next = d->sources;
	d->sources = s;
	return RC_OK;
}

static enum rc
take_device(struct drain *d, const GpuSim__DeviceMetadata *meta, struct err *err)
{
	struct source *s;
	enum rc rc = RC_OK;

	if (!meta->deviceid || meta->deviceid->value == 0)
		return RC_OK;
	s = find_source(d, meta->deviceid->value, meta->incarnation);
	if (!s) {
		rc = add_source(d, meta, meta->incarnation, err);
		s = find_source(d, meta->deviceid->value, meta->incarnation);
	}
	if (s)
		s->lost_at_ns = meta->state && meta->loss ? meta->loss->atms * NS_PER_MS : 0;
	return rc;
}

/* Devices. RC_UNREACHABLE and the like: the coordinator does not answer. */
static enum rc
ask_devices(struct drain *d, enum rc *mine, struct err *err)
{
	GpuSim__Reply *reply;
	enum rc rc = api(client_status(d->g, &reply), err);

	if (rc != RC_OK)
		return rc;
	if (!find_source(d, 0, reply->status->instance))
		*mine = add_source(d, NULL, reply->status->instance, err);
	for (size_t i = 0; i < reply->status->n_devices && *mine == RC_OK; i++)
		*mine = take_device(d, reply->status->devices[i], err);
	wire_reply_free(reply);
	return RC_OK;
}

/* Return true if the history is read from the coordinator's recorder, which also has its last moments. */
static bool
has_history(const struct drain *d)
{
	const struct source *s = d->sources;

	while (s && (s->device != 0 || !s->readable))
		s = s->next;
	return s;
}

/* A coordinator whose numbers restart has lost its history. */
static enum rc
ask_events(struct drain *d, struct err *err)
{
	GpuSim__Reply *reply;
	enum rc rc = api(client_history(d->g, d->event, 0, &reply), err);

	if (rc != RC_OK)
		return rc;
	for (size_t i = 0; i < reply->events->n_events; i++)
		timeline_history(d->t, reply->events->events[i]);
	d->event = reply->events->last < d->event ? 0 : reply->events->last;
	wire_reply_free(reply);
	return RC_OK;
}

/* The coordinator's failure only goes to *told. */
static enum rc
ask(struct drain *d, enum rc *told, struct err *err)
{
	enum rc mine = RC_OK;

	*told = ask_devices(d, &mine, err);
	if (*told == RC_OK && mine == RC_OK && d->began && !has_history(d))
		*told = ask_events(d, err);
	d->ask_at = clock_now_ns() + (*told == RC_OK ? ASK_MS : AWAY_MS) * NS_PER_MS;
	return mine;
}

/* ---- a drain */

static void
look_at_all(struct drain *d)
{
	for (struct source *s = d->sources; s; s = s->next)
		look_at(d, s);
}

/* Write a number of pieces of the backlog to the trace. */
static enum rc
write_pieces(struct drain *d, size_t pieces, struct err *err)
{
	enum rc rc = RC_OK;

	while (pieces-- > 0 && rc == RC_OK) {
		struct piece *p = backlog_take(&d->backlog);
		const struct source *s;

		if (!p)
			break;
		s = p->of;
		rc = timeline_records(s->p, &p->ring, &s->host->clock, p->record, p->n, err);
		backlog_recycle(&d->backlog, p);
	}
	return rc;
}

static void
free_drain(struct drain *d)
{
	struct source *s;
	struct host *h;

	while ((s = d->sources)) {
		d->sources = s->next;
		client_recorder_close(s->r);
		free(s);
	}
	while ((h = d->hosts)) {
		d->hosts = h->next;
		free(h);
	}
	backlog_fini(&d->backlog);
	gpusim_close(d->g);
	free(d);
}

enum rc
drain_new(const char *coordinator, trace_write_fn *write, void *arg, struct drain **out,
	  struct err *err)
{
	struct drain *d = must_alloc(1, sizeof *d);
	enum rc rc, told = RC_OK;

	rc = api(gpusim_open(coordinator, &d->g), err);
	if (rc == RC_OK)
		rc = timeline_new(write, arg, clock_wall_ns(), &d->t, err);
	if (rc == RC_OK) {
		rc = ask(d, &told, err);
		rc = rc == RC_OK ? told : rc;
	}
	if (rc == RC_OK)
		look_at_all(d);
	if (rc != RC_OK) {
		timeline_end(d->t, NULL, NULL);
		free_drain(d);
		return rc;
	}
	if (has_history(d))
		timeline_events(d->t);
	gpusim_set_timeout_ms(d->g, TIMEOUT_MS);
	d->began = true;
	*out = d;
	return RC_OK;
}

enum rc
drain_turn(struct drain *d, uint32_t *idle_ms, struct err *err)
{
	struct err unanswered;
	enum rc rc = RC_OK, told;

	d->idle_ms = d->idle_ms ? 2 * d->idle_ms : IDLE_LEAST_MS;
	if (d->idle_ms > IDLE_MOST_MS)
		d->idle_ms = IDLE_MOST_MS;
	if (is_time(d, d->ask_at)) {
		rc = ask(d, &told, &unanswered);
		if (rc != RC_OK)
			return err_set(err, rc, "%s", unanswered.text);
	}
	if (!backlog_is_full(&d->backlog))
		look_at_all(d);
	rc = write_pieces(d, PIECES, err);
	*idle_ms = d->backlog.n ? 0 : d->idle_ms;
	return rc == RC_OK ? timeline_flush(d->t, err) : rc;
}

/* Add the operation that a thread is in at the end, or at its device's loss. */
static enum rc
look_at_live(struct drain *d, struct err *err)
{
	uint64_t now = clock_wall_ns();
	enum rc rc = RC_OK;

	for (struct source *s = d->sources; s; s = s->next)
		for (uint32_t i = 0; s->readable && !s->over && i < s->h.nrings && rc == RC_OK; i++)
			if (s->ring[i].known &&
			    flight_read_ring(&s->s, &s->h, i, &s->ring[i].head, NULL) == RC_OK)
				rc = timeline_live(s->p, i, &s->ring[i].head, &s->host->clock,
						   s->lost_at_ns ? s->lost_at_ns : now, err);
	return rc;
}

enum rc
drain_end(struct drain *d, struct timeline_sum *sum, struct err *err)
{
	enum rc rc, ended;

	if (!d)
		return RC_OK;
	for (struct source *s = d->sources; s; s = s->next)
		s->header_at = s->read_at = 0;
	look_at_all(d);
	rc = write_pieces(d, SIZE_MAX, err);
	if (rc == RC_OK)
		rc = look_at_live(d, err);
	ended = timeline_end(d->t, sum, rc == RC_OK ? err : NULL);
	free_drain(d);
	return rc == RC_OK ? ended : rc;
}
