#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/le.h"
#include "view/world.h"
#include "wire/crc32c.h"
#include "wire/wire.h"

static const char magic[8] = "gpusimR1";

enum { HEAD = 24, WAIT_MS = 5000, STEP_US = 2000 };

/* ---- write */

/* Copy a sentence as messages may carry it: short, on one line. */
static void
sentence(const char *text, char *out, size_t room)
{
	snprintf(out, room, "%s", text);
	for (; *out; out++)
		if ((unsigned char)*out < 0x20 || *out == 0x7f)
			*out = '?';
}

/* A report's message; everything except the areas' heads belongs to the world. */
struct message {
	GpuSim__Report report;
	GpuSim__RecorderArea *area, **areas;
	char reason[sizeof((struct err *)0)->text];
	char (*why)[sizeof((struct world_device *)0)->why_not];
};

static void
message_fini(struct message *m)
{
	free(m->area);
	free(m->areas);
	free(m->why);
}

static bool
message_init(const struct world *w, const struct buf *areas, struct message *m)
{
	size_t n = w->ndevices + 1;

	m->report = (GpuSim__Report)GPU_SIM__REPORT__INIT;
	m->area = alloc_zeroed(n, sizeof *m->area);
	m->areas = alloc_zeroed(n, sizeof(GpuSim__RecorderArea *));
	m->why = alloc_zeroed(n, sizeof *m->why);
	if (!m->area || !m->areas || !m->why)
		return false;
	for (size_t i = 0; i < n; i++) {
		GpuSim__RecorderArea *a = m->areas[i] = &m->area[i];
		const struct world_device *d = i < w->ndevices ? &w->device[i] : NULL;

		gpu_sim__recorder_area__init(a);
		a->deviceid = d && d->meta->deviceid ? d->meta->deviceid->value : 0;
		a->process = d ? (unsigned char)d->process : 0;
		a->area.data = (uint8_t *)areas[i].data;
		a->area.len = areas[i].len;
		sentence(d && areas[i].len == 0 ? d->why_not : "", m->why[i], sizeof m->why[i]);
		a->whynot = m->why[i];
	}
	m->report.recorders = m->areas;
	m->report.n_recorders = n;
	m->report.reason = m->reason;
	m->report.status = w->status;
	m->report.events = w->events;
	m->report.atns = w->now_ns;
	return true;
}

enum rc
world_pack(const struct world *w, uint64_t report, uint64_t comm, const char *reason,
	   const struct buf *areas, struct buf *out, struct err *err)
{
	struct message m = {.area = NULL};
	bool good = message_init(w, areas, &m);
	unsigned char *at;
	size_t n = 0;

	if (good) {
		sentence(reason, m.reason, sizeof m.reason);
		m.report.number = report;
		m.report.commid = comm;
		n = gpu_sim__report__get_packed_size(&m.report);
		good = n <= SIZE_MAX - HEAD && buf_reserve(out, HEAD + n);
	}
	if (good) {
		at = (unsigned char *)out->data + out->len;
		memcpy(at, magic, sizeof magic);
		gpu_sim__report__pack(&m.report, at + HEAD);
		put64(at + 8, n);
		put64(at + 16, crc32c(at + HEAD, n));
		out->len += HEAD + n;
	}
	message_fini(&m);
	return good ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
}

/* ---- read */

static enum rc
unpack_message(const void *data, size_t nbytes, GpuSim__Report **out, struct err *err)
{
	const unsigned char *at = data;
	ProtobufCMessage *m;
	size_t taken;
	enum rc rc;

	if (nbytes < HEAD || memcmp(at, magic, sizeof magic) != 0)
		return err_set(err, RC_BADDATA, "not a report");
	if (get64(at + 8) != nbytes - HEAD)
		return err_set(err, RC_BADDATA, "damaged: it has %zu bytes instead of %" PRIu64,
			       nbytes - HEAD, get64(at + 8));
	if (get64(at + 16) != crc32c(at + HEAD, nbytes - HEAD))
		return err_set(err, RC_BADDATA, "damaged: its checksum is wrong");
	rc = wire_message_unpack(&gpu_sim__report__descriptor, at + HEAD, nbytes - HEAD,
				 WORLD_REPORT_MAX, &m, &taken, err);
	if (rc != RC_OK)
		return err_prefix(err, "damaged");
	*out = (GpuSim__Report *)m;
	return RC_OK;
}

/* The index of a recorder in the world: WORLD_COORDINATOR; ndevices: unknown device. */
static size_t
place_of(const struct world *w, uint64_t device_id)
{
	size_t i = 0;

	if (device_id == 0)
		return WORLD_COORDINATOR;
	while (i < w->ndevices &&
	       (!w->device[i].meta->deviceid || w->device[i].meta->deviceid->value != device_id))
		i++;
	return i;
}

static enum rc
take_recorder(struct world *w, const GpuSim__RecorderArea *a, struct err *err)
{
	size_t i = place_of(w, a->deviceid);
	struct flight_bytes bytes = {a->area.data, a->area.len};
	struct flight_source source = flight_bytes_source(&bytes);

	if (i == w->ndevices)
		return RC_OK;
	if (i != WORLD_COORDINATOR) {
		w->device[i].process =
		    a->process < 0x7f && a->process > 0x20 ? (char)a->process : 0;
		snprintf(w->device[i].why_not, sizeof w->device[i].why_not, "%s", a->whynot);
	}
	return a->area.len ? world_read(w, i, &source, SIZE_MAX, err) : RC_OK;
}

static enum rc
world_of_message(GpuSim__Report *m, struct world **out, struct err *err)
{
	struct world *w;
	enum rc rc;

	if (m->number == 0 || !m->status)
		return err_set(err, RC_BADDATA, "damaged: a report without its number or status");
	rc = world_new(m->status, m->events, m->atns, &w, err);
	if (rc != RC_OK)
		return rc;
	m->status = NULL;
	m->events = NULL;
	w->report = m->number;
	w->failed_comm = m->commid;
	snprintf(w->failed, sizeof w->failed, "%s", m->reason);
	for (size_t i = 0; i < m->n_recorders && rc == RC_OK; i++)
		rc = take_recorder(w, m->recorders[i], err);
	if (rc != RC_OK) {
		world_free(w);
		return rc;
	}
	world_clocks(w);
	*out = w;
	return RC_OK;
}

enum rc
world_unpack(const void *data, size_t nbytes, struct world **out, struct err *err)
{
	GpuSim__Report *m = NULL;
	enum rc rc = unpack_message(data, nbytes, &m, err);

	if (rc != RC_OK)
		return rc;
	rc = world_of_message(m, out, err);
	gpu_sim__report__free_unpacked(m, NULL);
	return rc;
}

/* Open the file as soon as it is not empty. RC_BADDATA: it stays empty. */
static enum rc
open_written(const char *path, int *out, size_t *nbytes, struct err *err)
{
	const uint64_t deadline = deadline_in_ms(WAIT_MS);

	for (;;) {
		int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		struct stat st;

		if (fd < 0 || fstat(fd, &st) != 0)
			return err_set(err, errno == ENOENT ? RC_NOTFOUND : RC_FAILED, "%s",
				       strerror(errno));
		if (S_ISREG(st.st_mode) && st.st_size > 0 && st.st_size <= WORLD_REPORT_MAX) {
			*out = fd;
			*nbytes = (size_t)st.st_size;
			return RC_OK;
		}
		close(fd);
		if (!S_ISREG(st.st_mode))
			return err_set(err, RC_FAILED, "not a regular file");
		if (st.st_size > 0)
			return err_set(err, RC_BADDATA, "%lld bytes; a report has at most %u",
				       (long long)st.st_size, WORLD_REPORT_MAX);
		if (deadline_left_ms(deadline) == 0)
			return err_set(err, RC_BADDATA, "empty: not written within %d s",
				       WAIT_MS / 1000);
		usleep(STEP_US);
	}
}

static enum rc
read_whole(const char *path, void **data, size_t *n, struct err *err)
{
	size_t nbytes = 0;
	ssize_t got = 1;
	int fd = -1;
	enum rc rc = open_written(path, &fd, &nbytes, err);

	if (rc != RC_OK)
		return rc;
	*data = malloc(nbytes);
	while (*data && *n < nbytes && got > 0) {
		got = read(fd, (char *)*data + *n, nbytes - *n);
		*n += got > 0 ? (size_t)got : 0;
	}
	if (!*data)
		rc = err_set(err, RC_NOMEM, "out of memory");
	else if (got < 0)
		rc = err_set(err, RC_FAILED, "%s", strerror(errno));
	close(fd);
	return rc;
}

enum rc
world_of_report(const char *path, struct world **out, struct err *err)
{
	void *data = NULL;
	size_t n = 0;
	enum rc rc = read_whole(path, &data, &n, err);

	if (rc == RC_OK)
		rc = world_unpack(data, n, out, err);
	free(data);
	return rc == RC_OK ? RC_OK : err_prefix(err, "%s", path);
}
