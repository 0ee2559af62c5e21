/* The transport's part of CommAttach and CommJoin. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "dev/device_impl.h"
#include "dev/taping.h"

void
carry_attach(struct device *d, const GpuSim__CommAttachRequest *m, struct err *err)
{
	struct xport_peer *peers = alloc_zeroed(m->n_ranks, sizeof *peers);
	struct xport_membership me = {.comm = m->commid,
				      .coordinator = m->instance,
				      .epoch = m->epoch,
				      .rank = m->rank,
				      .nranks = (uint32_t)m->n_ranks,
				      .op_timeout_ms = m->optimeoutms};

	struct cmdq_choice choice = {m->algos.data, m->rules.data,	 m->algos.len,
				     m->rules.len,  m->algorithms,	 m->n_algorithms,
				     m->rank,	    (uint32_t)m->n_ranks};

	if (!peers) {
		err_set(err, RC_NOMEM, "out of memory");
		return;
	}
	for (size_t r = 0; r < m->n_ranks; r++) {
		const GpuSim__DeviceMetadata *meta = m->ranks[r];

		peers[r].device_id = meta->deviceid ? meta->deviceid->value : 0;
		peers[r].data_addr = meta->dataaddress;
		if (strcmp(meta->host, d->host) != 0 || *meta->memprivate || !*meta->mempath)
			continue;
		peers[r].mem = (struct peermem_id){.path = meta->mempath,
						   .dev = meta->memdev,
						   .inode = meta->meminode,
						   .device_id = peers[r].device_id,
						   .incarnation = meta->incarnation,
						   .user = meta->memuser};
		peers[r].pid = meta->pid <= INT_MAX ? (int)meta->pid : 0;
	}
	if (xport_attach(d->xport, &me, peers, err) == RC_OK) {
		if (d->env.tape)
			tape_put_comm(d->env.tape, m);
		cmdqs_comm_over(d->cmdqs, m->commid, m->epoch - 1, RC_ABORTED,
				"the communicator changed");
		cmdqs_comm_gone(d->cmdqs, m->commid);
		if (m->queued)
			cmdqs_attached(d->cmdqs, m->commid, m->epoch, &choice, err);
		snapshot_drop(d->snapshots, 0, m->instance);
		if (m->recovers && m->epoch == 1)
			snapshot_mark(d->snapshots,
				      &(struct snapshot_id){m->instance, m->commid, 0});
	}
	free(peers);
}

void
carry_join(struct device *d, const GpuSim__CommJoinRequest *m, struct err *err)
{
	if (xport_join(d->xport, m->commid, m->epoch, m->block, (uint32_t)m->n_block, err) == RC_OK)
		cmdqs_joined(d->cmdqs, m->commid, m->epoch, m->bymemory);
}

void
answer_attach(struct device *d, struct rpc_call *call)
{
	const GpuSim__CommAttachRequest *m = rpc_request(call)->commattach;
	GpuSim__CommAttachResponse r = GPU_SIM__COMM_ATTACH_RESPONSE__INIT;
	GpuSim__Reply reply = WIRE_REPLY(COMM_ATTACH, commattach, r);
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
	rpc_reply(call, &reply);
	free(mapped);
	free(list);
}
