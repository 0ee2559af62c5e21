/* Read a whole world over the network. */
#include "observe.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/api.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/must.h"
#include "base/rundir.h"
#include "client/recorder.h"
#include "mem/devmem_file.h"
#include "mem/sweep.h"

struct opened {
	uint64_t device, incarnation; /* device 0: the coordinator; then its instance */
	struct client_recorder *r;
};

struct observer {
	struct gpusim *g;
	struct opened *open;
	size_t nopen, room;
};

struct observer *
observer_new(struct gpusim *g)
{
	struct observer *o = must_alloc(1, sizeof *o);

	o->g = g;
	return o;
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

/* The index of an open recorder; nopen: it is not open. */
static size_t
find(const struct observer *o, uint64_t device, uint64_t incarnation)
{
	size_t i = 0;

	while (i < o->nopen &&
	       (o->open[i].device != device || o->open[i].incarnation != incarnation))
		i++;
	return i;
}

/* Open the recorder of a device, or of the coordinator with meta NULL. */
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
	must_room(&o->open, o->nopen, &o->room, sizeof *o->open);
	o->open[o->nopen++] = new;
	*out = new.r;
	return RC_OK;
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

/* The coordinator's recorder adds to its answers, which the world already has. */
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

/* The coordinator's clock, by the first recorder of this host that knows it. */
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

static enum rc
ask(struct gpusim *g, struct world **out, struct err *err)
{
	GpuSim__Reply *status = NULL, *events;
	enum rc rc = api(client_status(g, &status), err);

	if (rc == RC_OK)
		rc = api(client_history(g, 0, 0, &events), err);
	if (rc == RC_OK)
		return world_of_answers(status, events, 0, out, err);
	wire_reply_free(status);
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
	struct observer *o = observer_new(g);
	enum rc rc = observer_look(o, records, out, err);

	observer_free(o);
	return rc;
}

/* ---- without the coordinator */

enum rc
observe_coordinator(const char *address, struct coordinator *out, struct err *err)
{
	struct flight_file f;
	struct flight_source s = flight_file_source(&f);
	char path[PATH_MAX] = "", dir[RUNDIR_MAX];
	struct flight_header h;
	enum rc rc = RC_NOTFOUND;

	out->address = address ? address : rundir_coordinator(out->room, err);
	if (!out->address)
		return err->rc;
	if (strncmp(out->address, "ipc://", 6) == 0)
		snprintf(path, sizeof path, "%s.recorder", out->address + 6);
	else if (strstr(out->address, "tcp://") && rundir_make(dir, err) == RC_OK)
		snprintf(path, sizeof path, "%s/gpucoord-%s.recorder", dir,
			 strstr(out->address, "tcp://") + 6);
	if (client_recorder_file(path, &f)) {
		rc = flight_read_header(&s, &h, err);
		close(f.fd);
	}
	if (rc != RC_OK)
		return err_set(err, rc, "no recorder found of a coordinator at %s", out->address);
	out->pid = h.pid;
	out->process = world_process(h.pid, &out->tracer);
	return RC_OK;
}

/* Open the recorder of a device, and make its metadata as protobuf-c allocates. NULL: not a device of the
 * coordinator. */
static GpuSim__DeviceMetadata *
device_in(const char *path, const char *coordinator, struct flight_file *f)
{
	struct flight_source s = flight_file_source(f);
	GpuSim__DeviceMetadata *m = NULL;
	GpuSim__DeviceId *id = NULL;
	struct devmem_header h;
	struct flight_header r;
	struct err err;

	f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
	if (f->fd < 0)
		return NULL;
	if (pread(f->fd, &h, sizeof h, 0) == (ssize_t)sizeof h &&
	    strncmp(h.coordinator, coordinator, sizeof h.coordinator) == 0 &&
	    devmem_file_recorder(path, f->fd, h.device_id, &f->offset, &f->nbytes, &err) == RC_OK &&
	    flight_read_header(&s, &r, &err) == RC_OK) {
		id = must_alloc(1, sizeof *id);
		m = must_alloc(1, sizeof *m);
		gpu_sim__device_metadata__init(m);
		gpu_sim__device_id__init(id);
		id->value = h.device_id;
		m->deviceid = id;
		m->host = must_strdup(r.host);
		m->pid = r.pid;
		m->ordinal = r.ordinal;
		return m;
	}
	close(f->fd);
	return NULL;
}

enum rc
observe_alone(const struct coordinator *c, size_t records, struct world **out, struct err *err)
{
	GpuSim__StatusResponse *status = must_alloc(1, sizeof *status);
	struct flight_file *f = NULL;
	struct world *w = NULL;
	glob_t g = {0};
	bool lives = false;
	enum rc rc = RC_OK;

	glob(SWEEP_FOLDER "/gpusim-*", 0, NULL, &g);
	gpu_sim__status_response__init(status);
	f = must_alloc(g.gl_pathc + 1, sizeof *f);
	status->devices = must_alloc(g.gl_pathc + 1, sizeof(void *));
	for (size_t i = 0; i < g.gl_pathc; i++) {
		size_t n = status->n_devices;

		status->devices[n] = device_in(g.gl_pathv[i], c->address, &f[n]);
		status->n_devices += status->devices[n] != NULL;
	}
	globfree(&g);
	for (size_t i = 0; i < status->n_devices; i++)
		lives |= world_process(status->devices[i]->pid, NULL) != 'X';
	if (!lives)
		rc = err_set(err, RC_NOTFOUND, "no device of %s runs on this host", c->address);
	if (rc == RC_OK)
		rc = world_new(status, NULL, clock_wall_ns(), &w, err);
	for (size_t i = 0; i < status->n_devices; i++) {
		struct flight_source s = flight_file_source(&f[i]);

		if (rc == RC_OK)
			rc = world_read(w, i, &s, records, err);
		close(f[i].fd);
	}
	free(f);
	if (rc == RC_OK) {
		world_clocks(w);
		world_processes(w);
		rc = world_alone(w, err);
	}
	if (rc == RC_OK)
		*out = w;
	else if (w)
		world_free(w);
	else
		gpu_sim__status_response__free_unpacked(status, NULL);
	return rc;
}
