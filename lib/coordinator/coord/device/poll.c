/*
 * poll.c - asks configured devices for their metadata while they do not register.
 */
#include "coord/device/device_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define POLL_OFTEN  3 /* after this many unanswered tries in a row ... */
#define POLL_SELDOM 8 /* ... one try in this many heartbeats: each costs sockets */

enum rc
device_configure(struct coord *c, uint64_t id, const char *address, struct err *err)
{
	struct config_device *v;

	if (!*address || strlen(address) >= WIRE_NAME_MAX)
		return err_set(err, RC_INVAL, "a device's address must have 1 to %d bytes",
			       WIRE_NAME_MAX - 1);
	for (size_t i = 0; i < c->devices->nconfig; i++)
		if (strcmp(c->devices->config[i].address, address) == 0 ||
		    (id && c->devices->config[i].id == id))
			return err_set(err, RC_INVAL,
				       "device %016" PRIx64 " at %s is configured twice", id,
				       address);
	if (c->devices->nconfig == COORD_MAX_DEVICES)
		return err_set(err, RC_BUSY, "more than %u devices are configured",
			       COORD_MAX_DEVICES);
	if (c->started)
		return err_set(err, RC_INVAL, "device at %s: configured after the first step",
			       address);
	v = alloc_resize(c->devices->config, c->devices->nconfig + 1, sizeof *v);
	if (!v)
		return err_set(err, RC_NOMEM, "device at %s: out of memory", address);
	c->devices->config = v;
	v += c->devices->nconfig++;
	*v = (struct config_device){.id = id};
	snprintf(v->address, sizeof v->address, "%s", address);
	return RC_OK;
}

static void
polled(struct coord *c, void *owner, uint32_t rank, const struct outcome *o)
{
	struct config_device *cd = owner;
	const GpuSim__DeviceMetadata *m = NULL;
	struct device *d;
	struct err err = o->err;

	(void)rank;
	if (o->reply && o->reply->body_case == GPU_SIM__REPLY__BODY_GET_DEVICE_METADATA)
		m = o->reply->getdevicemetadata->metadata;
	cd->silent = err.rc == RC_OK ? 0 : cd->silent + 1;
	if (err.rc != RC_OK) {
		if (!cd->said_silent)
			act_log(c, "configured device at %s: %s", cd->address, err.text);
		cd->said_silent = true;
		return;
	}
	cd->said_silent = false;
	if (cd->next_ms > c->now_ms + c->cfg.heartbeat_ms)
		cd->next_ms = c->now_ms + c->cfg.heartbeat_ms;
	if (cd->id && m && m->deviceid && m->deviceid->value != cd->id)
		err_set(&err, RC_INVAL, "expected device %016" PRIx64 ", found %016" PRIx64, cd->id,
			m->deviceid->value);
	else
		device_heard(c, m, cd->address, &d, &err);
	if (err.rc == RC_OK)
		d->configured = true;
	else if (!cd->said_wrong)
		act_log(c, "configured device at %s: %s", cd->address, err.text);
	cd->said_wrong = err.rc != RC_OK;
}

/* A device with the address registers itself. */
static bool
comes_itself(const struct coord *c, const struct config_device *cd)
{
	for (size_t i = 0; i < c->devices->n; i++) {
		const struct device *d = c->devices->v[i];

		if (d->registered_ms && c->now_ms - d->registered_ms < c->lost_ms &&
		    (cd->id ? cd->id == d->id : strcmp(d->said->address, cd->address) == 0))
			return true;
	}
	return false;
}

void
polls_tick(struct coord *c)
{
	GpuSim__GetDeviceMetadataRequest get = GPU_SIM__GET_DEVICE_METADATA_REQUEST__INIT;

	for (size_t i = 0; i < c->devices->nconfig; i++) {
		struct config_device *cd = &c->devices->config[i];
		struct buf body = {0};

		if (!call_is_idle(&cd->call) || c->now_ms < cd->next_ms || comes_itself(c, cd))
			continue;
		cd->next_ms = c->now_ms + (uint64_t)c->cfg.heartbeat_ms *
					      (cd->silent < POLL_OFTEN ? 1 : POLL_SELDOM);
		pack_request(GPU_SIM__REQUEST__BODY_GET_DEVICE_METADATA, &get.base, NULL, &body);
		call_address(c, &cd->call, cd->address, polled, cd, c->lost_ms, &body);
	}
}
