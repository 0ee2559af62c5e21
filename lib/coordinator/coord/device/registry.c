/*
 * registry.c - the devices: alive, silent or lost, and since when.
 *
 * A device is known by its id; the incarnation distinguishes a process from its predecessor.
 */
#include "coord/device/device_impl.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum rc
devices_init(struct coord *c, const struct device_hooks *hooks)
{
	c->devices = alloc_zeroed(1, sizeof *c->devices);
	if (!c->devices)
		return RC_NOMEM;
	c->devices->hooks = hooks;
	return RC_OK;
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

GETTER(uint64_t, device_id, device, id)
GETTER(uint64_t, device_incarnation, device, said->incarnation)
GETTER(uint32_t, device_memories, device, memories)

void
device_range(const struct device *d, uint64_t *min, uint64_t *max)
{
	*min = d->said->minmemaddr->value;
	*max = d->said->maxmemaddr->value;
}

struct link_shape
device_link(const struct device *d)
{
	return (struct link_shape){(double)d->said->latencyns / 1e3, (double)d->said->bitspers};
}

GETTER(uint32_t, device_ordinal, device, ordinal)
GETTER(bool, device_is_spare, device, spare)
GETTER(bool, device_is_lost, device, lost)
GETTER(uint64_t, device_heard_ms, device, heard_ms)
GETTER(uint64_t, device_reports, device, reports)

void
device_reserve(struct device *d)
{
	d->successor = 0;
	d->ncomms++;
}

void
device_release(struct device *d)
{
	d->ncomms--;
}

GETTER(bool, device_is_reserved, device, ncomms)

void
device_tell(struct coord *c, const struct device *d, struct buf *body)
{
	if (body->data)
		act_call(c, 0, d->id, d->said->address, c->cfg.abort_grace_ms, body);
}

size_t
devices_count(const struct coord *c)
{
	return c->devices->n;
}

struct device *
device_at(const struct coord *c, size_t i)
{
	return c->devices->v[i];
}

struct device *
device_find(struct coord *c, uint64_t id)
{
	for (size_t i = 0; i < c->devices->n; i++)
		if (c->devices->v[i]->id == id)
			return c->devices->v[i];
	return NULL;
}

struct device *
device_in_place(struct coord *c, struct device *d)
{
	struct device *next = d;

	while (next && next->successor)
		next = device_find(c, next->successor);
	return next ? next : d;
}

bool
device_is_free(const struct device *d)
{
	return !d->lost && d->ncomms == 0;
}

enum rc
device_named(struct coord *c, uint64_t id, struct device **out, struct err *err)
{
	struct device *d = device_find(c, id);
	struct err why;

	if (!d)
		return err_set(err, RC_NOTFOUND, "no device %016" PRIx64, id);
	if (d->lost) {
		device_lost(d, &why);
		return err_set(err, why.rc, "device %016" PRIx64 " %s", d->id, why.text);
	}
	*out = d;
	return RC_OK;
}

enum rc
device_lost(const struct device *d, struct err *err)
{
	return err_set(err, RC_UNREACHABLE, "lost: %s", d->loss.why);
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

/* Heartbeats due since its last message. Half a heartbeat late is on time. */
static uint64_t
beats_silent(const struct coord *c, const struct device *d)
{
	uint64_t beat = c->cfg.heartbeat_ms, gap = c->devices->ear.ms - d->heard_at;
	uint64_t in_time = beat / 2 + (d->stride ? d->stride - 1 : 0) * beat;

	return gap > in_time ? (gap - in_time) / beat : 0;
}

/* A message from it settles the heartbeats due by now. */
static void
count_beats(struct coord *c, struct device *d)
{
	uint64_t beat = c->cfg.heartbeat_ms;
	uint64_t owed = (c->devices->ear.ms - d->beat_at + beat / 2) / beat;
	uint64_t missed = beats_silent(c, d);

	if (owed == 0)
		return;
	c->counts.beats_missed += missed;
	d->missing = owed < COORD_MAX_BEATS ? d->missing << owed : 0;
	if (missed >= COORD_MAX_BEATS)
		missed = COORD_MAX_BEATS - 1;
	d->missing |= ((1ull << missed) - 1) << 1;
	d->beat_at = c->devices->ear.ms;
}

/* The number of missing heartbeats, those of the current silence included. */
static unsigned
beats_missing(const struct coord *c, const struct device *d)
{
	uint64_t silent = (c->devices->ear.ms - d->heard_at) / c->cfg.heartbeat_ms;
	uint64_t before = d->missing, due = d->stride ? d->stride - 1 : 0;

	if (silent >= c->cfg.missed)
		return (unsigned)(silent < c->cfg.of ? silent : c->cfg.of);
	if (c->cfg.of - silent < COORD_MAX_BEATS)
		before &= (1ull << (c->cfg.of - silent)) - 1;
	return (unsigned)(silent > due ? silent - due : 0) + (unsigned)__builtin_popcountll(before);
}

void
device_alive(struct coord *c, struct device *d)
{
	if (d->lost || d->heard_ms == 0) {
		d->missing = 0;
		d->beat_at = c->devices->ear.ms;
	} else {
		count_beats(c, d);
	}
	d->heard_ms = c->now_ms;
	d->heard_at = d->word_at = c->devices->ear.ms;
	d->looked_at = false;
	d->after = 0;
	if (d->lost) {
		d->lost = false;
		device_changed(c, d);
		act_log(c, "device %016" PRIx64 " at %s has returned", d->id, d->said->address);
		if (d->loss.incarnation == d->said->incarnation)
			event_device(c, GPU_SIM__EVENT_KIND__BACK, d, "has returned");
	}
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

static bool
comes_before(const struct device *a, const struct device *b)
{
	return a->ordinal != b->ordinal ? a->ordinal < b->ordinal : a->id < b->id;
}

void
device_moved(struct coord *c, struct device *d)
{
	struct device **v = c->devices->v;
	size_t i = 0;

	while (v[i] != d)
		i++;
	/* Move it to its place; the others are sorted. */
	for (; i > 0 && comes_before(d, v[i - 1]); i--)
		v[i] = v[i - 1];
	for (; i + 1 < c->devices->n && comes_before(v[i + 1], d); i++)
		v[i] = v[i + 1];
	v[i] = d;
}

static void
forget(struct coord *c, size_t i)
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
	forget(c, old);
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

void
device_free(struct device *d)
{
	if (d->said)
		gpu_sim__device_metadata__free_unpacked(d->said, NULL);
	free(d);
}

/* A restarted device has the same memory as before. */
static bool
has_its_memory(const struct device *d, const GpuSim__DeviceMetadata *m)
{
	return strcmp(d->said->host, m->host) == 0 && d->said->memdev == m->memdev &&
	       d->said->meminode == m->meminode;
}

bool
device_is_beside(const struct device *d, const char *host, uint32_t user)
{
	const uint32_t root = 1;

	return *host && strcmp(d->said->host, host) == 0 && d->said->mempath[0] &&
	       (d->said->memuser == 0 || d->said->memuser == user || user == root);
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
			forget(c, i);
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

/* Too many heartbeats are missing without an excuse. */
static void
device_miss(struct coord *c, struct device *d)
{
	uint64_t silent_ms = c->now_ms - d->heard_ms;
	char why[COORD_WHY_MAX];

	c->counts.beats_missed += beats_silent(c, d);
	if (silent_ms >= c->lost_ms)
		snprintf(why, sizeof why, "no heartbeat for %.1fs", (double)silent_ms / 1e3);
	else
		snprintf(why, sizeof why, "%u of its last %u heartbeats are missing", c->cfg.missed,
			 c->cfg.of);
	device_lose(c, d, why);
}

void
device_looked(struct coord *c, uint64_t id, enum coord_look found)
{
	struct device *d = device_find(c, id);

	if (d && !d->lost && beats_missing(c, d) >= c->cfg.missed && !listen_excuses(c, d, found))
		device_miss(c, d);
}

void
devices_decide(struct coord *c)
{
	for (size_t i = c->devices->n; i-- > 0;) {
		struct device *d = c->devices->v[i];

		if (!d->lost && d->after && beats_missing(c, d) >= c->cfg.missed &&
		    listen_decides(c, d))
			device_miss(c, d);
	}
}

void
devices_tick(struct coord *c)
{
	for (size_t i = c->devices->n; i-- > 0;) {
		struct device *d = c->devices->v[i];
		uint64_t silent_ms = c->now_ms - d->heard_ms;

		if (!d->lost)
			listen_tick(c, d, beats_missing(c, d) >= c->cfg.missed);
		else if (silent_ms >= COORD_FORGET_MS && d->ncomms == 0 && !d->configured)
			forget(c, i);
	}
	devices_decide(c);
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

/* ---- events */

void
event_device(struct coord *c, GpuSim__EventKind kind, const struct device *d, const char *fmt, ...)
{
	struct event e = {.kind = kind, .device = d->id, .ordinal = d->ordinal};
	char text[EVENT_TEXT_MAX / 2], who[64];
	uint32_t rank;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	snprintf(who, sizeof who, "device %016" PRIx64 " (gpu %u)", d->id, d->ordinal);
	e.comm = c->devices->hooks->seat(c, d, &rank);
	if (e.comm) {
		e.rank = rank + 1;
		event_add(c, &e, "%s, rank %u of comm %" PRIu64 ", %s", who, rank, e.comm, text);
	} else {
		event_add(c, &e, "%s %s", who, text);
	}
}
