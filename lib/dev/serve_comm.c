/* CommAttach, CommDetach, CommAbort. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/buf.h"
#include "dev/device_impl.h"

static enum rc
attach(struct device *d, const GpuSim__CommAttachRequest *m, struct err *err)
{
	struct xport_peer *peers = alloc_zeroed(m->n_ranks, sizeof *peers);
	struct xport_membership me = {.comm = m->commid,
				      .coordinator = m->instance,
				      .epoch = m->epoch,
				      .rank = m->rank,
				      .nranks = (uint32_t)m->n_ranks,
				      .op_timeout_ms = m->optimeoutms};
	enum rc rc = peers ? RC_OK : err_set(err, RC_NOMEM, "out of memory");

	for (size_t r = 0; r < m->n_ranks && rc == RC_OK; r++) {
		const GpuSim__DeviceMetadata *meta = m->ranks[r];

		peers[r].device_id = meta->deviceid ? meta->deviceid->value : 0;
		peers[r].data_addr = meta->dataaddress;
		for (size_t q = 0; q < r && rc == RC_OK; q++)
			if (peers[q].device_id == peers[r].device_id)
				rc = err_set(err, RC_INVAL, "ranks %zu and %zu are one device", q,
					     r);
	}
	if (rc == RC_OK)
		rc = xport_attach(d->xport, &me, peers, err);
	free(peers);
	return rc;
}

void
serve_comm(struct device *d, struct rpc_call *call)
{
	const GpuSim__Request *req = rpc_request(call);
	struct err err = {0};
	enum rc rc;

	switch (req->body_case) {
	case GPU_SIM__REQUEST__BODY_COMM_ATTACH:
		rc = attach(d, req->commattach, &err);
		if (rc == RC_OK)
			device_drop_graphs(d, req->commattach->commid);
		break;
	case GPU_SIM__REQUEST__BODY_COMM_DETACH:
		rc = xport_detach(d->xport, req->commdetach->commid, &err);
		device_drop_graphs(d, req->commdetach->commid);
		break;
	default:
		rc = xport_abort(d->xport, req->commabort->commid, req->commabort->epoch,
				 req->commabort->reason, &err);
	}
	if (rc == RC_OK) {
		rpc_reply_done(call);
		return;
	}
	err_prefix(&err, "device %016" PRIx64, d->id);
	rpc_reply_err(call, &err);
}
