/* Command queues: open, close; bind and unbind communicators. */
#include <inttypes.h>

#include "dev/device_impl.h"

static enum rc
open_queue(struct device *d, struct rpc_call *call, const GpuSim__QueueOpenRequest *m,
	   struct err *err)
{
	GpuSim__QueueOpenResponse r = GPU_SIM__QUEUE_OPEN_RESPONSE__INIT;
	GpuSim__Reply reply = WIRE_REPLY(QUEUE_OPEN, queueopen, r);
	const struct cmdq_page *page;
	enum rc rc;

	if (!m->own && m->stream >= STREAM_MAX)
		return err_set(err, RC_INVAL, "stream %u: must be 0 to %d", m->stream,
			       STREAM_MAX - 1);
	rc = cmdqs_open(d->cmdqs, m->pid, m->own ? CMDQS_OWN : m->stream, &page, err);
	if (rc != RC_OK)
		return rc;
	r.queueid = page->id;
	r.offset = devmem_offset(d->mem, page);
	r.nbytes = sizeof *page;
	rpc_reply(call, &reply);
	return RC_OK;
}

static enum rc
bind_comm(struct device *d, struct rpc_call *call, const GpuSim__CommBindRequest *m,
	  struct err *err)
{
	GpuSim__CommBindResponse r = GPU_SIM__COMM_BIND_RESPONSE__INIT;
	GpuSim__Reply reply = WIRE_REPLY(COMM_BIND, commbind, r);
	const struct cmdq_comm *record;
	enum rc rc = cmdqs_bind(d->cmdqs, m->commid, m->epoch, m->pid, m->program, &record, err);

	if (rc != RC_OK)
		return rc;
	r.offset = devmem_offset(d->mem, record);
	r.rank = record->rank;
	rpc_reply(call, &reply);
	return RC_OK;
}

void
serve_queue(struct device *d, struct rpc_call *call)
{
	const GpuSim__Request *req = rpc_request(call);
	struct err err = {0};
	enum rc rc;

	switch (req->body_case) {
	case GPU_SIM__REQUEST__BODY_QUEUE_OPEN:
		rc = open_queue(d, call, req->queueopen, &err);
		break;
	case GPU_SIM__REQUEST__BODY_COMM_BIND:
		rc = bind_comm(d, call, req->commbind, &err);
		break;
	case GPU_SIM__REQUEST__BODY_QUEUE_CLOSE:
		rc = cmdqs_close(d->cmdqs, req->queueclose->queueid, &err);
		if (rc == RC_OK)
			rpc_reply_done(call);
		break;
	default:
		rc = cmdqs_unbind(d->cmdqs, req->communbind->commid, &err);
		if (rc == RC_OK)
			rpc_reply_done(call);
	}
	if (rc == RC_OK)
		return;
	err_prefix(&err, "device %016" PRIx64, d->id);
	rpc_reply_err(call, &err);
}
