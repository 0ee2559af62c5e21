/*
 * registry.c - the devices that are known: they join, register, are lost, and are forgotten.
 *
 * A device is known by its id; the incarnation distinguishes a process from its predecessor.
 */
#include "coord/device/device_impl.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PER_BEAT 128 /* devices that may send every heartbeat */

enum rc
devices_init(struct coord *c, const struct device_hooks *hooks)
{
	c->devices = alloc_zeroed(1, sizeof *c->devices);
	if (!c->devices)
		return RC_NOMEM;
	c->devices->hooks = hooks;
	return RC_OK;
}

static void
device_free(struct device *d)
{
	if (d->said)
		gpu_sim__device_metadata__free_unpacked(d->said, NULL);
	free(d);
}

void
devices_fini(struct coord *c)
{
	for (size_t i = 0; c->devices && i < c->devices->n; i++)
		device_free(c->devices->v[i]);
	if (c->devices)
		free(c->devices->config);
	free(c->devices);
}

void
device_lose(struct coord *c, struct device *d, const char *why)
{
	d->lost = true;
	snprintf(d->loss.why, sizeof d->loss.why, "%s", why);
	d->loss.at_ms = c->wall_ms;
	d->loss.incarnation = d->said->incarnation;
	d->loss.broke = false;
	if (!d->spawn.until_ms)
		device_came(d); /* it may be restarted again */
	device_changed(c, d);
	calls_fail_device(c, d, CALL_LOST);
	act_log(c, "device %016" PRIx64 " at %s lost: %s", d->id, d->said->address, why);
	event_device(c, GPU_SIM__EVENT_KIND__LOST, d, "lost: %s", why);
	c->devices->hooks->lost(c, d);
}

void
device_unreachable(struct coord *c, uint64_t id, const char *address, uint64_t seen_ms)
{
	struct device *d = device_find(c, id);
	char why[COORD_WHY_MAX];

	/* It may have returned meanwhile, here or elsewhere. */
	if (!d || d->lost || strcmp(d->said->address, address) != 0 ||
	    (seen_ms != 0 && seen_ms < d->born_ms))
		return;
	snprintf(why, sizeof why, "its connection broke and nothing listens at %.*s",
		 COORD_WHY_MAX - 64, d->said->address);
	device_lose(c, d, why);
	d->loss.broke = true;
}

void
device_hung_up(struct coord *c, uint64_t client_id)
{
	GpuSim__GetDeviceMetadataRequest q = GPU_SIM__GET_DEVICE_METADATA_REQUEST__INIT;

	for (size_t i = 0; i < c->devices->n; i++) {
		struct device *d = c->devices->v[i];
		struct buf body = {0};

		if (d->client_id != client_id || d->lost)
			continue;
		/* The answer is not needed: a failure to connect is reported by COORD_UNREACHABLE. */
		if (pack_request(GPU_SIM__REQUEST__BODY_GET_DEVICE_METADATA, &q.base, NULL, &body))
			act_call(c, 0, d->id, d->said->address, call_timeout_ms(c), &body);
	}
}

void
device_forget(struct coord *c, size_t i)
{
	device_unrecord(c, c->devices->v[i]);
	call_cancel(c, &c->devices->v[i]->ask);
	device_free(c->devices->v[i]);
	c->devices->n--;
	memmove(&c->devices->v[i], &c->devices->v[i + 1],
		(c->devices->n - i) * sizeof *c->devices->v);
}

/* Make room in a full registry: forget the free device that was lost first. */
static bool
evict(struct coord *c)
{
	size_t old = c->devices->n;

	for (size_t i = 0; i < c->devices->n; i++) {
		const struct device *d = c->devices->v[i];

		if (d->lost && d->ncomms == 0 && !d->configured &&
		    (old == c->devices->n || d->heard_ms < c->devices->v[old]->heard_ms))
			old = i;
	}
	if (old == c->devices->n)
		return false;
	device_forget(c, old);
	return true;
}

static enum rc
device_add(struct coord *c, uint64_t id, struct device **out, struct err *err)
{
	struct device *d;

	if (c->devices->n == COORD_MAX_DEVICES && !evict(c))
		return err_set(err, RC_BUSY,
			       "device %016" PRIx64 ": %u devices are known, which is the limit",
			       id, COORD_MAX_DEVICES);
	d = alloc_zeroed(1, sizeof *d);
	if (!d)
		return err_set(err, RC_NOMEM, "device %016" PRIx64 ": out of memory", id);
	d->id = id;
	d->ordinal = UINT32_MAX;
	c->devices->v[c->devices->n++] = d;
	*out = d;
	return RC_OK;
}

static enum rc
check_metadata(const GpuSim__DeviceMetadata *m, const char *address, struct err *err)
{
	if (!m || !m->deviceid || m->deviceid->value == 0)
		return err_set(err, RC_INVAL, "device has no id");
	if (!address || !*address)
		return err_set(err, RC_INVAL, "device %016" PRIx64 " has no address",
			       m->deviceid->value);
	if (!m->minmemaddr || !m->maxmemaddr || m->minmemaddr->value == 0 ||
	    m->minmemaddr->value >= m->maxmemaddr->value)
		return err_set(err, RC_INVAL, "device %016" PRIx64 " has no memory range",
			       m->deviceid->value);
	if (strlen(address) >= WIRE_NAME_MAX || strlen(m->dataaddress) >= WIRE_NAME_MAX ||
	    strlen(m->mempath) >= WIRE_NAME_MAX || strlen(m->host) >= WIRE_NAME_MAX ||
	    strlen(m->memprivate) >= WIRE_NAME_MAX || strlen(m->kernels) >= WIRE_NAME_MAX ||
	    strlen(m->grpcaddress) >= WIRE_NAME_MAX)
		return err_set(err, RC_INVAL,
			       "device %016" PRIx64 " has a name of more than %d bytes",
			       m->deviceid->value, WIRE_NAME_MAX - 1);
	return RC_OK;
}

/* A copy of a device's metadata, without unknown fields. NULL: out of memory. */
static GpuSim__DeviceMetadata *
copy_metadata(const GpuSim__DeviceMetadata *m, const char *address)
{
	GpuSim__DeviceMetadata *copy = NULL, with = *m;
	GpuSim__DeviceId id = GPU_SIM__DEVICE_ID__INIT;
	GpuSim__MemAddr min = GPU_SIM__MEM_ADDR__INIT, max = min;
	struct buf b = {0};

	id.value = m->deviceid->value;
	min.value = m->minmemaddr->value;
	max.value = m->maxmemaddr->value;
	with.base =
	    (ProtobufCMessage)PROTOBUF_C_MESSAGE_INIT(&gpu_sim__device_metadata__descriptor);
	with.deviceid = &id;
	with.minmemaddr = &min;
	with.maxmemaddr = &max;
	with.loss = NULL;
	with.address = (char *)address;
	if (buf_pack(&b, &with.base))
		copy = gpu_sim__device_metadata__unpack(NULL, b.len, (const uint8_t *)b.data);
	buf_fini(&b);
	return copy;
}

/* A restarted device has the same memory as before. */
static bool
has_its_memory(const struct device *d, const GpuSim__DeviceMetadata *m)
{
	return strcmp(d->said->host, m->host) == 0 && d->said->memdev == m->memdev &&
	       d->said->meminode == m->meminode;
}

/* The address belonged to another device, which cannot be alive any more. */
static void
take_address(struct coord *c, const struct device *d)
{
	for (size_t i = c->devices->n; i-- > 0;) {
		struct device *other = c->devices->v[i];

		if (other == d || strcmp(other->said->address, d->said->address) != 0)
			continue;
		if (!other->lost)
			device_lose(c, other, "another device has its address now");
		else if (other->ncomms == 0 && !other->configured)
			device_forget(c, i);
	}
}

enum rc
device_heard(struct coord *c, const GpuSim__DeviceMetadata *m, const char *fallback_address,
	     struct device **out, struct err *err)
{
	const char *address = m && m->address && *m->address ? m->address : fallback_address;
	GpuSim__DeviceMetadata *copy;
	struct device *d;
	enum rc rc = check_metadata(m, address, err);
	bool fresh, restarted, ours;

	if (rc != RC_OK)
		return rc;
	d = device_find(c, m->deviceid->value);
	fresh = !d;
	restarted = d && d->said->incarnation != m->incarnation;
	if (restarted && !d->lost && strcmp(d->said->address, address) != 0)
		return err_set(err, RC_BUSY,
			       "device %016" PRIx64 " is alive at %s; another at %s claims its id",
			       d->id, d->said->address, address);
	copy = copy_metadata(m, address);
	if (!copy)
		return err_set(err, RC_NOMEM, "device %016" PRIx64 ": out of memory",
			       m->deviceid->value);
	if (fresh && device_add(c, m->deviceid->value, &d, err) != RC_OK) {
		gpu_sim__device_metadata__free_unpacked(copy, NULL);
		return err->rc;
	}
	if (restarted) {
		d->unfit = false;
		d->memories += !has_its_memory(d, m);
	}
	if (d->said)
		gpu_sim__device_metadata__free_unpacked(d->said, NULL);
	d->said = copy;
	if (!d->placed) {
		d->ordinal = copy->ordinal;
		d->spare = copy->spare;
	}
	device_moved(c, d);
	ours = d->spawn.until_ms != 0;
	if (fresh || restarted) {
		device_came(d);
		d->born_ms = c->now_ms;
	}
	if (fresh)
		event_device(c, GPU_SIM__EVENT_KIND__JOINED, d, "joined at %s, pid %u",
			     d->said->address, d->said->pid);
	else if (restarted)
		event_device(c, GPU_SIM__EVENT_KIND__RESTARTED, d, "was restarted%s, pid %u",
			     ours ? " by the coordinator" : "", d->said->pid);
	if (restarted) {
		calls_fail_device(c, d, CALL_RESTARTED);
		c->devices->hooks->restarted(c, d);
	}
	device_alive(c, d);
	if (fresh || restarted) {
		device_changed(c, d);
		act_log(c, "device %016" PRIx64 " at %s %s", d->id, d->said->address,
			fresh ? "has joined" : "restarted");
		if (c->started) /* while restoring, the other may be the later one */
			take_address(c, d);
	}
	*out = d;
	return RC_OK;
}

static uint32_t
listen_stride(const struct coord *c)
{
	uint32_t want = (uint32_t)(c->devices->n + PER_BEAT - 1) / PER_BEAT;
	uint32_t most = c->cfg.missed * 2 / 5; /* two may be missed before the sender is lost */

	if (want > most)
		want = most;
	return want ? want : 1;
}

enum rc
device_registers(struct coord *c, uint64_t client_id, const GpuSim__RegisterRequest *q,
		 struct device **out, GpuSim__RegisterResponse *r, struct err *err)
{
	struct device *d;
	enum rc rc = device_heard(c, q->metadata, NULL, &d, err);

	if (rc != RC_OK)
		return rc;
	d->registered_ms = c->now_ms;
	d->client_id = client_id;
	d->reports++;
	d->stride = listen_stride(c);
	r->instance = c->cfg.instance;
	r->mark = q->mark;
	r->heartbeatms = c->cfg.heartbeat_ms * d->stride;
	r->wallns = c->wall_ns;
	if (c->wall_ns)
		r->host = c->cfg.host;
	*out = d;
	return RC_OK;
}

/* ---- after a restart of the coordinator */

/* Restore the coordinator's own decisions, which the device does not report. */
static void
take_device(struct device *d, const GpuSim__DeviceMetadata *m)
{
	d->placed = m->placed;
	d->lost = m->loss != NULL;
	if (m->loss) {
		snprintf(d->loss.why, sizeof d->loss.why, "%s", m->loss->why);
		d->loss.at_ms = m->loss->atms;
		d->loss.incarnation = m->incarnation;
	}
	d->recorded = true;
}

enum rc
device_restore(struct coord *c, const char *key, const uint8_t *value, size_t n, struct err *err)
{
	GpuSim__DeviceMetadata *m = gpu_sim__device_metadata__unpack(NULL, n, value);
	struct device *d;
	struct err why;
	enum rc rc = RC_OK;

	if (!m)
		return err_set(err, RC_BADDATA, "record %s: malformed", key);
	if (device_heard(c, m, NULL, &d, &why) != RC_OK)
		rc = err_set(err, RC_BADDATA, "record %s: %s", key, why.text);
	else
		take_device(d, m);
	gpu_sim__device_metadata__free_unpacked(m, NULL);
	return rc;
}

static void
asked(struct coord *c, void *owner, uint32_t rank, const struct outcome *o)
{
	struct device *asked = owner, *d;
	struct err err;

	(void)rank;
	if (o->reply && o->reply->body_case == GPU_SIM__REPLY__BODY_GET_DEVICE_METADATA &&
	    device_heard(c, o->reply->getdevicemetadata->metadata, asked->said->address, &d,
			 &err) != RC_OK)
		act_log(c, "device %016" PRIx64 ": %s", asked->id, err.text);
}

void
devices_resume(struct coord *c)
{
	GpuSim__GetDeviceMetadataRequest get = GPU_SIM__GET_DEVICE_METADATA_REQUEST__INIT;

	for (size_t i = 0; i < c->devices->n; i++) {
		struct device *d = c->devices->v[i];
		struct buf body = {0};

		/* It has the full timeout to show that it is alive. */
		d->heard_ms = c->now_ms;
		d->heard_at = d->word_at = d->beat_at = c->devices->ear.ms;
		if (d->lost)
			continue;
		pack_request(GPU_SIM__REQUEST__BODY_GET_DEVICE_METADATA, &get.base, NULL, &body);
		call_start(c, &d->ask, d, asked, d, 0, c->lost_ms, &body);
	}
}
