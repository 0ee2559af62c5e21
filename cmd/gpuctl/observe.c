/* A whole world over the network. */
#include "observe.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/api.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/host.h"
#include "client/recorder.h"

/* A recorder that is open. */
struct opened {
	uint64_t device, incarnation; /* device 0: the coordinator; then its instance */
	struct client_recorder *r;
};

struct observer {
	struct gpusim *g;
	struct opened *open;
	size_t nopen, room;
};

enum rc
observer_new(struct gpusim *g, struct observer **out, struct err *err)
{
	struct observer *o = alloc_zeroed(1, sizeof *o);

	if (!o)
		return err_set(err, RC_NOMEM, "out of memory");
	o->g = g;
	*out = o;
	return RC_OK;
}

void
observer_free(struct observer *o)
{
	if (!o)
		return;
	for (size_t i = 0; i < o->nopen; i++)
		client_recorder_close(o->open[i].r);
	free(o->open);
	free(o);
}

/* The place of a recorder among those open; nopen: it is not. */
static size_t
find(const struct observer *o, uint64_t device, uint64_t incarnation)
{
	size_t i = 0;

	while (i < o->nopen &&
	       (o->open[i].device != device || o->open[i].incarnation != incarnation))
		i++;
	return i;
}

static enum rc
keep(struct observer *o, const struct opened *what, struct err *err)
{
	if (!alloc_room(&o->open, o->nopen, &o->room, sizeof *o->open))
		return err_set(err, RC_NOMEM, "out of memory");
	o->open[o->nopen++] = *what;
	return RC_OK;
}

/* The recorder of a device, or of the coordinator with meta NULL. */
static enum rc
recorder(struct observer *o, const GpuSim__DeviceMetadata *meta, uint64_t instance,
	 struct client_recorder **out, struct err *err)
{
	struct opened new = {.device = meta && meta->deviceid ? meta->deviceid->value : 0,
			     .incarnation = meta ? meta->incarnation : instance};
	size_t at = find(o, new.device, new.incarnation);
	enum rc rc;

	if (at < o->nopen) {
		*out = o->open[at].r;
		return RC_OK;
	}
	rc = api(meta ? client_recorder_open(o->g, meta, &new.r)
		      : client_recorder_open_coordinator(o->g, &new.r),
		 err);
	if (rc != RC_OK)
		return rc;
	rc = keep(o, &new, err);
	if (rc == RC_OK)
		*out = new.r;
	else
		client_recorder_close(new.r);
	return rc;
}

static enum rc
look_at_device(struct observer *o, struct world *w, size_t i, size_t records, struct err *err)
{
	struct world_device *d = &w->device[i];
	struct client_recorder *r;
	struct flight_source s;
	enum rc rc = recorder(o, d->meta, 0, &r, err);

	if (rc == RC_OK) {
		s = client_recorder_source(r);
		return world_read(w, i, &s, records, err);
	}
	snprintf(d->why_not, sizeof d->why_not, "%.159s", err->text);
	return rc == RC_NOMEM ? rc : RC_OK;
}

/* A coordinator whose recorder cannot be read has told its answers all the same. */
static enum rc
look_at_coordinator(struct observer *o, struct world *w, size_t records, struct err *err)
{
	struct client_recorder *r;
	struct flight_source s;
	enum rc rc = recorder(o, NULL, w->status->instance, &r, err);

	if (rc != RC_OK)
		return rc;
	s = client_recorder_source(r);
	return world_read(w, WORLD_COORDINATOR, &s, records, err);
}

/* What a recorder of this host knows of the coordinator's clock. */
static int64_t
offset_ns(const struct world *w)
{
	for (size_t i = 0; i < w->ndevices; i++) {
		const struct world_recorder *r = w->device[i].recorder;

		if (r && r->header.error_ns != UINT64_MAX && host_is_this(w->device[i].meta->host))
			return r->header.offset_ns;
	}
	return 0;
}

/* The coordinator's answers as a world. */
static enum rc
ask(struct gpusim *g, struct world **out, struct err *err)
{
	GpuSim__Reply *status = NULL, *events = NULL;
	enum rc rc = api(client_status(g, &status), err);

	if (rc == RC_OK)
		rc = api(client_history(g, 0, 0, &events), err);
	if (rc == RC_OK)
		rc = world_new(status->status, events->events, 0, out, err);
	if (rc == RC_OK) { /* the world has what they held */
		status->body_case = GPU_SIM__REPLY__BODY__NOT_SET;
		events->body_case = GPU_SIM__REPLY__BODY__NOT_SET;
	}
	wire_reply_free(status);
	wire_reply_free(events);
	return rc;
}

enum rc
observer_look(struct observer *o, size_t records, struct world **out, struct err *err)
{
	struct world *w;
	enum rc rc = ask(o->g, &w, err);

	if (rc != RC_OK)
		return rc;
	rc = look_at_coordinator(o, w, records, err);
	for (size_t i = 0; i < w->ndevices && rc == RC_OK; i++)
		rc = look_at_device(o, w, i, records, err);
	if (rc != RC_OK) {
		world_free(w);
		return rc;
	}
	world_clocks(w);
	world_processes(w);
	w->now_ns = clock_wall_ns() + (uint64_t)offset_ns(w);
	*out = w;
	return RC_OK;
}

enum rc
observe_world(struct gpusim *g, size_t records, struct world **out, struct err *err)
{
	struct observer *o;
	enum rc rc = observer_new(g, &o, err);

	if (rc == RC_OK) {
		rc = observer_look(o, records, out, err);
		observer_free(o);
	}
	return rc;
}
