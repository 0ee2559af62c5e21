/*
 * Adopt.
 *
 * Design notes. Copying another device's memory may take long, so a separate thread does it and answers;
 * there is at most one. Only the server's thread starts it, and joins the previous one once `over` says
 * that this will not block; device_end joins the last.
 */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "dev/device_impl.h"

static void *
adopt_main(void *arg)
{
	struct device *d = arg;
	struct rpc_call *call = d->adopt.call;
	const GpuSim__AdoptRequest *m = rpc_request(call)->adopt;
	struct devmem_source from = {
	    .path = m->path, .device_id = m->deviceid, .dev = m->dev, .inode = m->inode};
	struct err err = {0};
	enum rc rc;

	/* Adopt contents and allocations, leases, and snapshots. */
	if (devmem_used(d->mem, NULL) == 0)
		snapshot_drop(d->snapshots, 0, 0); /* of communicators that this device has left */
	rc = devmem_adopt(d->mem, &from, &d->adopt.stop, &err);
	if (rc == RC_OK)
		rc = leases_inherit(d->leases, clock_now_ns(), &err);
	if (rc == RC_OK)
		rc = snapshots_load(d->snapshots, &err);

	atomic_store(&d->adopt.over, true);
	if (rc != RC_OK)
		err_prefix(&err,
			   "device %016" PRIx64 ": cannot adopt the memory of device %016" PRIx64,
			   d->id, m->deviceid);
	answer(call, NULL, &err);
	return NULL;
}

void
device_join_adopt(struct device *d)
{
	if (d->adopt.started)
		pthread_join(d->adopt.thread, NULL);
	d->adopt.started = false;
}

void
serve_adopt(struct device *d, struct rpc_call *call)
{
	uint64_t meant = rpc_request(call)->adopt->incarnation;
	struct err err = {0};
	int rv;

	/* A late request for its predecessor: the caller may have chosen another spare by now. */
	if (meant && meant != d->incarnation) {
		err_set(&err, RC_ABORTED, "device %016" PRIx64 " was restarted meanwhile", d->id);
	} else if (d->adopt.started && !atomic_load(&d->adopt.over)) {
		err_set(&err, RC_BUSY, "device %016" PRIx64 " is already adopting a memory", d->id);
	} else {
		device_join_adopt(d);
		d->adopt.call = call;
		atomic_store(&d->adopt.over, false);
		rv = pthread_create(&d->adopt.thread, NULL, adopt_main, d);
		d->adopt.started = rv == 0;
		if (rv == 0)
			return; /* the thread answers */
		err_set(&err, RC_BUSY, "device %016" PRIx64 ": cannot start a thread: %s", d->id,
			strerror(rv));
	}
	rpc_reply_err(call, &err);
}
