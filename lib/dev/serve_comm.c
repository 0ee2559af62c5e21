/* CommAttach, CommJoin, CommDetach, CommAbort. */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "dev/device_impl.h"

/* What of a peer's memory can be mapped here, by what it says of itself. */
static void
describe_memory(const struct device *d, const GpuSim__DeviceMetadata *meta, struct xport_peer *out)
{
	if (strcmp(meta->host, d->host) != 0 || *meta->memprivate || !*meta->mempath)
		return;
	out->mem = (struct peermem_id){.path = meta->mempath,
				       .dev = meta->memdev,
				       .inode = meta->meminode,
				       .device_id = out->device_id,
				       .incarnation = meta->incarnation};
	out->pid = meta->pid <= INT_MAX ? (int)meta->pid : 0;
}

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
		describe_memory(d, meta, &peers[r]);
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

/* Answer an attach that has succeeded with what this rank offers. */
static void
answer_attach(struct device *d, struct rpc_call *call, const GpuSim__CommAttachRequest *m)
{
	GpuSim__CommAttachResponse r = GPU_SIM__COMM_ATTACH_RESPONSE__INIT;
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	bool *mapped = alloc_zeroed(m->n_ranks, sizeof *mapped);
	protobuf_c_boolean *list = alloc_zeroed(m->n_ranks, sizeof *list);

	if (mapped && list &&
	    xport_offer(d->xport, m->commid, m->epoch, &r.block, mapped, NULL) == RC_OK &&
	    r.block) {
		for (size_t i = 0; i < m->n_ranks; i++)
			list[i] = mapped[i];
		r.n_mapped = m->n_ranks;
		r.mapped = list;
	}
	reply.body_case = GPU_SIM__REPLY__BODY_COMM_ATTACH;
	reply.commattach = &r;
	rpc_reply(call, &reply);
	free(mapped);
	free(list);
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
		if (rc != RC_OK)
			break;
		device_drop_graphs(d, req->commattach->commid);
		keep_drop_others(d->keeps, req->commattach->instance);
		answer_attach(d, call, req->commattach);
		return;
	case GPU_SIM__REQUEST__BODY_COMM_JOIN:
		rc = xport_join(d->xport, req->commjoin->commid, req->commjoin->epoch,
				req->commjoin->block, (uint32_t)req->commjoin->n_block, &err);
		break;
	case GPU_SIM__REQUEST__BODY_COMM_DETACH:
		rc = xport_detach(d->xport, req->commdetach->commid, &err);
		device_drop_graphs(d, req->commdetach->commid);
		keep_drop(d->keeps, req->commdetach->commid);
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
