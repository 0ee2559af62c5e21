/* Command queues: open, close; bind and unbind communicators. */
#include <inttypes.h>

#include "dev/device_impl.h"

void
serve_queue(struct device *d, struct rpc_call *call)
{
	const GpuSim__Request *req = rpc_request(call);
	const GpuSim__QueueOpenRequest *open = req->queueopen;
	const GpuSim__CommBindRequest *bind = req->commbind;
	GpuSim__QueueOpenResponse queue = GPU_SIM__QUEUE_OPEN_RESPONSE__INIT;
	GpuSim__CommBindResponse comm = GPU_SIM__COMM_BIND_RESPONSE__INIT;
	GpuSim__Reply opened = WIRE_REPLY(QUEUE_OPEN, queueopen, queue),
		      bound = WIRE_REPLY(COMM_BIND, commbind, comm), *reply = NULL;
	const struct cmdq_page *page;
	const struct cmdq_comm *record;
	struct err err = {0};

	switch (req->body_case) {
	case GPU_SIM__REQUEST__BODY_QUEUE_OPEN:
		if (!open->own && open->stream >= STREAM_MAX)
			err_set(&err, RC_INVAL, "stream %u: must be 0 to %d", open->stream,
				STREAM_MAX - 1);
		else if (cmdqs_open(d->cmdqs, open->pid, open->own ? CMDQS_OWN : open->stream,
				    &page, &err) == RC_OK) {
			queue.queueid = page->id;
			queue.offset = devmem_offset(d->mem, page);
			queue.nbytes = sizeof *page;
			reply = &opened;
		}
		break;
	case GPU_SIM__REQUEST__BODY_COMM_BIND:
		if (cmdqs_bind(d->cmdqs, bind->commid, bind->epoch, bind->pid, bind->program,
			       &record, &err) == RC_OK) {
			comm.offset = devmem_offset(d->mem, record);
			comm.rank = record->rank;
			reply = &bound;
		}
		break;
	case GPU_SIM__REQUEST__BODY_QUEUE_CLOSE:
		cmdqs_close(d->cmdqs, req->queueclose->queueid, &err);
		break;
	default:
		cmdqs_unbind(d->cmdqs, req->communbind->commid, &err);
	}
	if (err.rc != RC_OK)
		err_prefix(&err, "device %016" PRIx64, d->id);
	answer(call, reply, &err);
}
