/* The handle: calling, errors, devices. */
#include "client/client_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"

static _Thread_local struct err last;
static _Thread_local char note[sizeof last.text];

struct err *
client_err(void)
{
	return &last;
}

const char *
gpusim_error(void)
{
	return last.text;
}

void
client_note(const char *text)
{
	snprintf(note, sizeof note, "%s", text);
}

const char *
gpusim_note(void)
{
	return note;
}

int
gpusim_rc_exit(enum gpusim_rc rc)
{
	return rc_exit((enum rc)rc);
}

char *
client_program(struct gpusim *g, char out[GPUSIM_PROGRAM])
{
	pthread_mutex_lock(&g->lock);
	snprintf(out, GPUSIM_PROGRAM, "%s", g->program);
	pthread_mutex_unlock(&g->lock);
	return out;
}

uint64_t
client_deadline(const struct gpusim *g)
{
	return deadline_in_ms(g->timeout_ms);
}

enum rc
client_take(const char *name, const void *from, void *to, size_t size)
{
	size_t given;

	memcpy(&given, from, sizeof given);
	if (given < sizeof given)
		return err_set(&last, RC_INVAL,
			       "struct %s: size not set: initialise it with its INIT macro", name);
	if (given > size)
		return err_set(&last, RC_INVAL,
			       "struct %s: a size of %zu bytes, this libgpusim knows %zu: the "
			       "program was built with a newer gpusim.h",
			       name, given, size);
	memset(to, 0, size);
	memcpy(to, from, given);
	return RC_OK;
}

/* The answer must be of the expected kind. */
static enum rc
expect(GpuSim__Reply *reply, int want, GpuSim__Reply **out)
{
	if ((int)reply->body_case != want) {
		wire_reply_free(reply);
		return err_set(&last, RC_BADDATA, "an answer of the wrong kind");
	}
	if (out)
		*out = reply;
	else
		wire_reply_free(reply);
	return RC_OK;
}

enum rc
client_call(struct gpusim *g, const GpuSim__Request *req, int want, GpuSim__Reply **out)
{
	return client_call_waiting(g, req, want, 0, out);
}

enum rc
client_call_waiting(struct gpusim *g, const GpuSim__Request *req, int want, uint32_t wait_ms,
		    GpuSim__Reply **out)
{
	uint64_t deadline = deadline_in_ms((uint64_t)g->timeout_ms + wait_ms);
	GpuSim__Reply *reply;
	enum rc rc = rpc_call(g->coord, req, deadline, &reply, &last);

	note[0] = '\0';
	return rc == RC_OK ? expect(reply, want, out) : rc;
}

enum rc
client_call_device(struct gpusim *g, struct gpusim_device device, const GpuSim__Request *req,
		   int want, GpuSim__Reply **out)
{
	struct known_device *d;
	GpuSim__Reply *reply;
	enum rc rc = client_device(g, device, &d);

	if (rc != RC_OK)
		return rc;
	rc = rpc_call(d->client, req, client_deadline(g), &reply, &last);
	if (rc == RC_UNREACHABLE || rc == RC_TIMEOUT)
		err_prefix(&last, "device %016" PRIx64, device.id);
	return rc == RC_OK ? expect(reply, want, out) : rc;
}

/* Lock held. The device's entry, created if new; NULL: out of memory. */
static struct known_device *
entry(struct gpusim *g, uint64_t id)
{
	struct known_device **bucket = &g->devices[id % DEVICE_BUCKETS], *d = *bucket;

	while (d && d->id != id)
		d = d->next;
	if (!d && (d = calloc(1, sizeof *d))) {
		d->id = id;
		d->next = *bucket;
		*bucket = d;
	}
	return d;
}

void
client_note_devices(struct gpusim *g, const struct gpusim_device_info *v, size_t n)
{
	pthread_mutex_lock(&g->lock);
	for (size_t i = 0; i < n; i++) {
		struct known_device *d = entry(g, v[i].device.id);

		if (!d)
			break;
		d->told = v[i];
		d->noted = true;
	}
	pthread_mutex_unlock(&g->lock);
}

enum gpusim_rc
gpusim_devices(struct gpusim *g, struct gpusim_device_info **out, size_t *ndevices)
{
	GpuSim__ListDevicesRequest m = GPU_SIM__LIST_DEVICES_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(LIST_DEVICES, listdevices, m);
	GpuSim__Reply *reply;
	enum rc rc;

	rc = client_call(g, &req, GPU_SIM__REPLY__BODY_LIST_DEVICES, &reply);
	if (rc != RC_OK)
		return client_rc(rc);
	rc = client_copy_devices(out, reply->listdevices->devices, reply->listdevices->n_devices);
	if (rc == RC_OK) {
		*ndevices = reply->listdevices->n_devices;
		client_note_devices(g, *out, *ndevices);
	}
	wire_reply_free(reply);
	return client_rc(rc);
}

/* Ask the coordinator for all devices, and note them. */
static enum rc
ask_address(struct gpusim *g, struct known_device *d, char out[GPUSIM_TEXT])
{
	struct gpusim_device_info *list;
	size_t n, i = 0;
	enum rc rc = (enum rc)gpusim_devices(g, &list, &n);

	if (rc != RC_OK)
		return rc;
	while (i < n && list[i].device.id != d->id)
		i++;
	if (i < n)
		snprintf(out, GPUSIM_TEXT, "%s", list[i].address);
	free(list);
	return i < n ? RC_OK : err_set(&last, RC_NOTFOUND, "no device %016" PRIx64, d->id);
}

/* Connect to the known address; if nothing listens there, to the current one. */
static enum rc
connect_device(struct gpusim *g, struct known_device *d, struct rpc_client **out)
{
	char was[GPUSIM_TEXT], addr[GPUSIM_TEXT];
	bool noted;
	enum rc rc = RC_UNREACHABLE;

	pthread_mutex_lock(&g->lock);
	noted = d->noted;
	if (noted)
		snprintf(was, sizeof was, "%s", d->told.address);
	pthread_mutex_unlock(&g->lock);
	if (noted)
		rc = rpc_client_open(was, RPC_CONNECT_TO_CALL, out, &last);
	if (rc == RC_UNREACHABLE) {
		struct err before = last;

		rc = ask_address(g, d, addr);
		if (rc == RC_OK && noted && strcmp(was, addr) == 0)
			rc = err_set(&last, before.rc, "%s", before.text);
		else if (rc == RC_OK)
			rc = rpc_client_open(addr, RPC_CONNECT_TO_CALL, out, &last);
		else
			return rc;
	}
	return rc == RC_OK ? rc : err_prefix(&last, "device %016" PRIx64, d->id);
}

enum rc
client_device(struct gpusim *g, struct gpusim_device device, struct known_device **out)
{
	struct rpc_client *client = NULL;
	struct known_device *d;
	bool connected;
	enum rc rc;

	pthread_mutex_lock(&g->lock);
	d = entry(g, device.id);
	connected = d && d->client;
	pthread_mutex_unlock(&g->lock);
	if (!d)
		return err_set(&last, RC_NOMEM, "out of memory");
	rc = connected ? RC_OK : connect_device(g, d, &client);
	if (rc != RC_OK)
		return rc;
	pthread_mutex_lock(&g->lock);
	if (!d->client) {
		d->client = client;
		client = NULL;
	}
	pthread_mutex_unlock(&g->lock);
	rpc_client_close(client); /* another thread was first */
	*out = d;
	return RC_OK;
}

void
client_copy_device(struct gpusim_device_info *to, const GpuSim__DeviceMetadata *from)
{
	*to = (struct gpusim_device_info){
	    .device = {from->deviceid ? from->deviceid->value : 0},
	    .min_addr = {from->minmemaddr ? from->minmemaddr->value : 0},
	    .max_addr = {from->maxmemaddr ? from->maxmemaddr->value : 0},
	    .used_bytes = from->usedbytes,
	    .comm = {from->commid},
	    .ordinal = from->ordinal,
	    .pid = from->pid,
	    .lost = from->state != 0,
	    .spare = from->spare,
	    .join = from->join};
	snprintf(to->address, sizeof to->address, "%s", from->address);
	snprintf(to->data_address, sizeof to->data_address, "%s", from->dataaddress);
	snprintf(to->mem_path, sizeof to->mem_path, "%s", from->mempath);
	snprintf(to->host, sizeof to->host, "%s", from->host);
	snprintf(to->mem_private, sizeof to->mem_private, "%s", from->memprivate);
	if (!from->loss)
		return;
	to->lost_at_ms = from->loss->atms;
	to->lost_ago_ms = from->loss->agoms;
	snprintf(to->lost_why, sizeof to->lost_why, "%s", from->loss->why);
	snprintf(to->lost_remedy, sizeof to->lost_remedy, "%s", from->loss->remedy);
}

enum rc
client_copy_devices(struct gpusim_device_info **to, GpuSim__DeviceMetadata *const *from, size_t n)
{
	struct gpusim_device_info *list = alloc_zeroed(n, sizeof *list);

	if (!list)
		return err_set(&last, RC_NOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		client_copy_device(&list[i], from[i]);
	*to = list;
	return RC_OK;
}
