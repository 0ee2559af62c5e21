/*
 * The coordinator's raw answers, and recorders.
 *
 * Design notes. A device's recorder is in its memory file. If that is on this host and of this user it is
 * opened once and read by pread: the device need not answer, so a stopped or dead one is readable, and
 * the open file outlives its name. Everything else uses requests with their own deadline: a view that
 * waited for a stopped device as long as a collective may would show nothing of the others.
 */
#include "client/recorder.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host.h"
#include "client/client_impl.h"
#include "flight/ticks.h"
#include "mem/devmem_file.h"

#define READ_MS 2000 /* for an answer to a request */

struct client_recorder {
	struct gpusim *g;
	struct rpc_client *peer; /* the connection's; NULL: by the file */
	uint64_t device;	 /* 0: the coordinator's */
	struct flight_file file; /* fd -1: by requests */
};

enum gpusim_rc
client_status(struct gpusim *g, GpuSim__Reply **out)
{
	GpuSim__StatusRequest m = GPU_SIM__STATUS_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(STATUS, status, m);

	return client_rc(client_call(g, &req, GPU_SIM__REPLY__BODY_STATUS, out));
}

enum gpusim_rc
client_history(struct gpusim *g, uint64_t after, uint32_t wait_ms, GpuSim__Reply **out)
{
	GpuSim__EventsRequest m = GPU_SIM__EVENTS_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(EVENTS, events, m);

	m.after = after;
	m.waitms = wait_ms;
	return client_rc(client_call_waiting(g, &req, GPU_SIM__REPLY__BODY_EVENTS, wait_ms, out));
}

/* ---- by requests */

static uint32_t
patience_ms(const struct client_recorder *r)
{
	return r->g->timeout_ms < READ_MS ? r->g->timeout_ms : READ_MS;
}

static enum rc
read_by_requests(void *arg, uint64_t offset, void *dst, size_t n, struct err *err)
{
	const struct client_recorder *r = arg;

	return rpc_read_recorder(r->peer, offset, dst, n, patience_ms(r), UINT64_MAX, err);
}

/* ---- by the file */

/* The recorder within a device's memory file; false: not here, not ours, or without one. */
static bool
open_file(struct client_recorder *r, const GpuSim__DeviceMetadata *meta)
{
	int fd;

	if (!host_is_this(meta->host) || !*meta->mempath)
		return false;
	fd = open(meta->mempath, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return false;
	if (devmem_file_recorder(meta->mempath, fd, r->device, &r->file.offset, &r->file.nbytes,
				 NULL) == RC_OK) {
		r->file.fd = fd;
		return true;
	}
	close(fd);
	return false;
}

/*
 * Set the time until which the device records all steps, in its file, so that a stopped device learns of
 * it, too. It is eight aligned bytes, written at once; of two concurrent clients one may shorten the
 * other's time, which both renew. A process that may not write such large files would get a signal, so it
 * asks by request.
 */
static bool
trace_by_file(const struct client_recorder *r, uint32_t ms)
{
	off_t at = (off_t)(r->file.offset + offsetof(struct flight_header, trace_until));
	uint64_t until = ticks_now() + (uint64_t)((double)ms / 1e3 * (double)ticks_hz()), was;
	struct rlimit most;

	if (r->file.fd < 0 ||
	    (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < (rlim_t)at + sizeof until))
		return false;
	if (pread(r->file.fd, &was, sizeof was, at) != (ssize_t)sizeof was)
		return false;
	return was >= until ||
	       pwrite(r->file.fd, &until, sizeof until, at) == (ssize_t)sizeof until;
}

/* ---- either */

/* NULL: out of memory. */
static struct client_recorder *
new_recorder(struct gpusim *g, uint64_t device)
{
	struct client_recorder *r = alloc_zeroed(1, sizeof *r);

	if (!r) {
		err_set(client_err(), RC_NOMEM, "out of memory");
		return NULL;
	}
	r->g = g;
	r->device = device;
	r->file.fd = -1;
	return r;
}

/* The device's connection: the handle's. */
static enum rc
connect_device(struct client_recorder *r)
{
	struct known_device *d;
	enum rc rc;

	if (r->peer)
		return RC_OK;
	rc = client_device(r->g, (struct gpusim_device){r->device}, &d);
	if (rc == RC_OK)
		r->peer = d->client;
	return rc;
}

enum gpusim_rc
client_recorder_open(struct gpusim *g, const GpuSim__DeviceMetadata *meta,
		     struct client_recorder **out)
{
	struct client_recorder *r;
	struct gpusim_device_info told;
	enum rc rc = RC_OK;

	client_copy_device(&told, meta);
	r = new_recorder(g, told.device.id);
	if (!r)
		return GPUSIM_NOMEM;
	client_note_devices(g, &told, 1);
	if (!open_file(r, meta)) {
		rc = told.lost
			 ? err_set(client_err(), RC_UNREACHABLE,
				   "device %016" PRIx64 " is lost, and its memory file is not "
				   "on this host, or another user's, or removed",
				   r->device)
			 : connect_device(r);
	}
	if (rc == RC_OK)
		*out = r;
	else
		client_recorder_close(r);
	return client_rc(rc);
}

bool
client_recorder_file(const char *path, struct flight_file *out)
{
	char magic[sizeof FLIGHT_MAGIC - 1];
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    pread(fd, magic, sizeof magic, 0) == (ssize_t)sizeof magic &&
	    memcmp(magic, FLIGHT_MAGIC, sizeof magic) == 0) {
		*out = (struct flight_file){.fd = fd, .nbytes = (uint64_t)st.st_size};
		return true;
	}
	if (fd >= 0)
		close(fd);
	return false;
}

enum gpusim_rc
client_recorder_open_coordinator(struct gpusim *g, struct client_recorder **out)
{
	struct client_recorder *r = new_recorder(g, 0);
	char path[WIRE_NAME_MAX + 16];
	GpuSim__Reply *status;

	if (!r)
		return GPUSIM_NOMEM;
	r->peer = g->coord;
	if (client_status(g, &status) == GPUSIM_OK) {
		const char *address = status->status->address;

		if (strncmp(address, "ipc://", 6) == 0) { /* it lies beside its socket */
			snprintf(path, sizeof path, "%.*s.recorder", WIRE_NAME_MAX, address + 6);
			client_recorder_file(path, &r->file);
		}
		wire_reply_free(status);
	}
	*out = r;
	return GPUSIM_OK;
}

void
client_recorder_close(struct client_recorder *r)
{
	if (!r)
		return;
	if (r->file.fd >= 0)
		close(r->file.fd);
	free(r);
}

struct flight_source
client_recorder_source(struct client_recorder *r)
{
	return r->file.fd >= 0 ? flight_file_source(&r->file)
			       : (struct flight_source){read_by_requests, r};
}

bool
client_recorder_is_file(const struct client_recorder *r)
{
	return r->file.fd >= 0;
}

enum gpusim_rc
client_recorder_trace(struct client_recorder *r, uint32_t ms)
{
	GpuSim__RecorderReadRequest m = GPU_SIM__RECORDER_READ_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(RECORDER_READ, recorderread, m);
	GpuSim__Reply *reply = NULL;
	enum rc rc;

	if (trace_by_file(r, ms))
		return GPUSIM_OK;
	m.tracems = ms;
	rc = connect_device(r);
	if (rc == RC_OK)
		rc = rpc_call(r->peer, &req, deadline_in_ms(patience_ms(r)), &reply, client_err());
	wire_reply_free(reply);
	return client_rc(rc);
}

enum gpusim_rc
client_used_bytes(struct gpusim *g, struct gpusim_device device, uint64_t *out)
{
	GpuSim__GetDeviceMetadataRequest m = GPU_SIM__GET_DEVICE_METADATA_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(GET_DEVICE_METADATA, getdevicemetadata, m);
	GpuSim__Reply *reply;
	enum rc rc =
	    client_call_device(g, device, &req, GPU_SIM__REPLY__BODY_GET_DEVICE_METADATA, &reply);

	if (rc != RC_OK)
		return client_rc(rc);
	*out =
	    reply->getdevicemetadata->metadata ? reply->getdevicemetadata->metadata->usedbytes : 0;
	wire_reply_free(reply);
	return GPUSIM_OK;
}
