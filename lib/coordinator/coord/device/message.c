/*
 * message.c - devices as messages to clients and other devices, and as records.
 */
#include "coord/device/device_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct device_msg {
	GpuSim__DeviceMetadata m;
	GpuSim__DeviceLoss loss;
	char remedy[COORD_WHY_MAX];
};

static void
device_show(const struct coord *c, struct device *d, struct device_msg *out)
{
	uint32_t rank;

	*out = (struct device_msg){.m = *d->said, .loss = GPU_SIM__DEVICE_LOSS__INIT};
	out->m.ordinal = d->ordinal;
	out->m.spare = d->spare;
	out->m.placed = d->placed;
	out->m.state = d->lost;
	out->m.commid = c->devices->hooks->seat(c, d, &rank);
	out->m.loss = NULL;
	if (!d->lost)
		return;
	device_remedy(c, d, out->remedy, sizeof out->remedy);
	out->loss.why = d->loss.why;
	out->loss.atms = d->loss.at_ms;
	out->loss.agoms = device_lost_for(c, d);
	out->loss.remedy = out->remedy;
	out->m.loss = &out->loss;
}

bool
device_msgs_init(struct coord *c, struct device *const *dev, size_t n, struct device_msgs *out)
{
	*out = (struct device_msgs){alloc_zeroed(n, sizeof *out->v),
				    alloc_zeroed(n, sizeof *out->p), n};
	if (!out->v || !out->p) {
		device_msgs_fini(out);
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		device_show(c, dev[i], &out->v[i]);
		out->p[i] = &out->v[i].m;
	}
	return true;
}

bool
device_msgs_all(struct coord *c, struct device_msgs *out)
{
	return device_msgs_init(c, c->devices->v, c->devices->n, out);
}

void
device_msgs_shorten(struct device_msgs *m)
{
	for (size_t i = 0; i < m->n; i++) {
		struct device_msg *d = &m->v[i];

		d->m.usedbytes = 0;
		d->m.minmemaddr = d->m.maxmemaddr = NULL;
		d->m.address = d->m.kernels = (char *)protobuf_c_empty_string;
	}
}

void
device_msgs_fini(struct device_msgs *m)
{
	free(m->v);
	free(m->p);
	*m = (struct device_msgs){0};
}

enum rc
on_list_devices(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
{
	GpuSim__ListDevicesResponse r = GPU_SIM__LIST_DEVICES_RESPONSE__INIT;
	struct device_msgs msgs;

	(void)req;
	if (!device_msgs_all(c, &msgs))
		return err_set(err, RC_NOMEM, "list of devices: out of memory");
	r.n_devices = msgs.n;
	r.devices = msgs.p;
	answer_body(c, p, GPU_SIM__REPLY__BODY_LIST_DEVICES, &r);
	device_msgs_fini(&msgs);
	return RC_OK;
}

/* ---- records */

static void
key_of(char key[RECORD_KEY_MAX], const struct device *d)
{
	snprintf(key, RECORD_KEY_MAX, "1/device/%016" PRIx64, d->id);
}

void
device_unrecord(struct coord *c, const struct device *d)
{
	char key[RECORD_KEY_MAX];

	key_of(key, d);
	if (d->recorded)
		record_put(c, key, NULL, false);
}

void
devices_record(struct coord *c)
{
	for (size_t i = 0; c->devices->unrecorded && i < c->devices->n; i++) {
		struct device *d = c->devices->v[i];
		struct device_msgs msgs;
		char key[RECORD_KEY_MAX];

		if (d->recorded || !device_msgs_init(c, &d, 1, &msgs))
			continue;
		d->recorded = true;
		key_of(key, d);
		record_put(c, key, &msgs.p[0]->base, false);
		device_msgs_fini(&msgs);
	}
	c->devices->unrecorded = false;
}
