/*
 * Design notes. Each view is made by the thread that requests it: two requests to ourselves, then the
 * recorders one after another. Recorders of other hosts, each of which costs several round trips, are read
 * by up to FAR_THREADS threads that live as long as the view takes. A device is read into its own part of
 * the world, so the threads share only the number of the next device.
 */
#include "observe.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "keep.h"
#include "net/net.h"
#include "net/rpc_client.h"

#define FAR_THREADS 8

struct observer {
	char host[64];
	struct keeper *keeper;
	struct fars *fars;
	struct flight_source coordinator; /* read NULL: none */
	struct rpc_client *self;
};

enum rc
observer_new(const char *host, const struct flight_source *coordinator, struct observer **out,
	     struct err *err)
{
	struct observer *o = calloc(1, sizeof *o);
	enum rc rc = RC_OK;

	if (!o || !(o->fars = fars_new()))
		rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK)
		rc = keeper_new(host, &o->keeper, err);
	if (rc != RC_OK) {
		observer_free(o);
		return rc;
	}
	snprintf(o->host, sizeof o->host, "%s", host);
	if (coordinator)
		o->coordinator = *coordinator;
	*out = o;
	return RC_OK;
}

enum rc
observer_serves(struct observer *o, const char *self, struct err *err)
{
	return rpc_client_open(self, RPC_CONNECT_LATER, &o->self, err);
}

void
observer_hears(struct observer *o, const GpuSim__DeviceMetadata *m)
{
	keeper_hears(o->keeper, m);
}

void
observer_free(struct observer *o)
{
	if (!o)
		return;
	rpc_client_close(o->self);
	keeper_free(o->keeper);
	fars_free(o->fars);
	free(o);
}

/* ---- the coordinator's answers */

static enum rc
ask_all(struct observer *o, uint64_t deadline_ns, struct world **out, struct err *err)
{
	GpuSim__StatusRequest of_status = GPU_SIM__STATUS_REQUEST__INIT;
	GpuSim__EventsRequest of_events = GPU_SIM__EVENTS_REQUEST__INIT;
	GpuSim__Request status_request = WIRE_REQUEST(STATUS, status, of_status);
	GpuSim__Request events_request = WIRE_REQUEST(EVENTS, events, of_events);
	GpuSim__Reply *status = NULL, *events = NULL;
	enum rc rc = rpc_call(o->self, &status_request, deadline_ns, &status, err);

	if (rc == RC_OK)
		rc = rpc_call(o->self, &events_request, deadline_ns, &events, err);
	if (rc == RC_OK && (status->body_case != GPU_SIM__REPLY__BODY_STATUS ||
			    events->body_case != GPU_SIM__REPLY__BODY_EVENTS))
		rc = err_set(err, RC_INTERNAL, "the coordinator answered a different request");
	if (rc == RC_OK)
		return world_of_answers(status, events, clock_wall_ns(), out, err);
	wire_reply_free(status);
	wire_reply_free(events);
	return rc;
}

/* ---- the recorders */

struct viewing {
	struct observer *o;
	struct world *world;
	size_t records;
	uint64_t deadline_ns;
	const bool *far;    /* by device */
	struct buf *area;   /* of a report, by device: the copied recorders; else NULL */
	atomic_size_t room; /* bytes left for the copies */
	atomic_size_t next; /* the next device */
	atomic_bool nomem;
};

static void
cannot(struct viewing *v, size_t i, const struct err *why)
{
	struct world_device *d = &v->world->device[i];

	snprintf(d->why_not, sizeof d->why_not, "%.*s", (int)sizeof d->why_not - 1, why->text);
}

static void
copy_source(struct viewing *v, size_t i, const struct flight_source *s)
{
	struct buf *area = &v->area[i == WORLD_COORDINATOR ? v->world->ndevices : i];
	struct err err = {0};

	if (flight_copy(s, area, &err) != RC_OK) {
		buf_fini(area);
	} else if (area->len > atomic_load(&v->room)) {
		err_set(&err, RC_BUSY, "the report has no room for the recorder's %zu bytes",
			area->len);
		buf_fini(area);
	} else {
		atomic_fetch_sub(&v->room, area->len);
	}
	if (i != WORLD_COORDINATOR && err.rc != RC_OK)
		cannot(v, i, &err);
}

static void
read_source(struct viewing *v, size_t i, struct flight_source s)
{
	struct err err = {0};

	if (v->area) {
		copy_source(v, i, &s);
		return;
	}
	if (world_read(v->world, i, &s, v->records, &err) != RC_OK)
		atomic_store(&v->nomem, true);
}

/* Read a recorder from its file. False: no file can be read, but the device may answer. */
static bool
read_near(struct viewing *v, size_t i)
{
	const GpuSim__DeviceMetadata *m = v->world->device[i].meta;
	struct err err = {0};
	struct kept *e;

	if (keeper_hold(v->o->keeper, m, &e, &err) != RC_OK) {
		cannot(v, i, &err);
		return strcmp(m->host, v->o->host) == 0 && m->state;
	}
	read_source(v, i, kept_source(e));
	keeper_release(v->o->keeper, e);
	return true;
}

static void
read_far(struct viewing *v, size_t i)
{
	const GpuSim__DeviceMetadata *m = v->world->device[i].meta;
	struct err err = {0};
	struct far *h;

	if (m->state) {
		err_set(&err, RC_FAILED, "the device was lost, and it is on another host");
		cannot(v, i, &err);
	} else if (far_hold(v->o->fars, m->address, v->deadline_ns, &h, &err) != RC_OK) {
		cannot(v, i, &err);
	} else {
		read_source(v, i, far_source(h));
		far_release(v->o->fars, h);
	}
}

static void *
read_fars(void *arg)
{
	struct viewing *v = arg;
	size_t i;

	while ((i = atomic_fetch_add(&v->next, 1)) < v->world->ndevices)
		if (v->far[i])
			read_far(v, i);
	return NULL;
}

static void
read_all_far(struct viewing *v, size_t n)
{
	pthread_t thread[FAR_THREADS];
	size_t started = 0;

	while (started + 1 < n && started < FAR_THREADS &&
	       pthread_create(&thread[started], NULL, read_fars, v) == 0)
		started++;
	read_fars(v);
	while (started)
		pthread_join(thread[--started], NULL);
}

static bool
is_wanted(struct viewing *v, size_t i, const GpuSim__Report *only)
{
	const GpuSim__DeviceMetadata *m = v->world->device[i].meta;
	const struct err other = {RC_NOTFOUND, "the device is not a rank of the communicator"};

	for (size_t k = 0; only && k < only->n_recorders; k++)
		if (m->deviceid && only->recorders[k]->deviceid == m->deviceid->value)
			return true;
	if (only)
		cannot(v, i, &other);
	return !only;
}

/* Read the devices that `only` names by their ids; NULL: all. */
static enum rc
read_all(struct viewing *v, const GpuSim__Report *only, struct err *err)
{
	struct world *w = v->world;
	bool *far = alloc_zeroed(w->ndevices + 1, sizeof *far);
	size_t nfar = 0;

	if (!far)
		return err_set(err, RC_NOMEM, "out of memory");
	v->far = far;
	for (size_t i = 0; i < w->ndevices; i++) {
		far[i] = is_wanted(v, i, only) && !read_near(v, i);
		nfar += far[i];
	}
	if (nfar)
		read_all_far(v, nfar);
	free(far);
	if (v->o->coordinator.read)
		read_source(v, WORLD_COORDINATOR, v->o->coordinator);
	if (atomic_load(&v->nomem))
		return err_set(err, RC_NOMEM, "out of memory");
	world_processes(w);
	world_clocks(w);
	return RC_OK;
}

enum rc
observe_world(struct observer *o, size_t records, uint64_t deadline_ns, struct world **out,
	      struct err *err)
{
	struct viewing v = {.o = o, .records = records, .deadline_ns = deadline_ns};
	enum rc rc = ask_all(o, deadline_ns, &v.world, err);

	if (rc == RC_OK)
		rc = read_all(&v, NULL, err);
	if (rc != RC_OK) {
		world_free(v.world);
		return rc;
	}
	*out = v.world;
	return RC_OK;
}

enum rc
observe_report(struct observer *o, const GpuSim__Report *what, uint64_t deadline_ns,
	       struct buf *out, struct err *err)
{
	struct viewing v = {.o = o, .deadline_ns = deadline_ns, .room = OBSERVE_REPORT_MAX};
	enum rc rc = ask_all(o, deadline_ns, &v.world, err);
	size_t n = v.world ? v.world->ndevices + 1 : 0;

	if (rc == RC_OK && !(v.area = alloc_zeroed(n, sizeof *v.area)))
		rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK)
		rc = read_all(&v, what, err);
	if (rc == RC_OK)
		rc =
		    world_pack(v.world, what->number, what->commid, what->reason, v.area, out, err);
	for (size_t i = 0; v.area && i < n; i++)
		buf_fini(&v.area[i]);
	free(v.area);
	world_free(v.world);
	return rc;
}
