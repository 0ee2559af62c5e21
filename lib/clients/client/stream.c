/* The state of a device's streams. This process's queue comes first; the device is asked when it may have
 * other work. */
#include <inttypes.h>

#include "client/enqueue.h"

enum rc
client_state(GpuSim__Status status, uint32_t code, const char *reason, enum gpusim_wait wait,
	     enum gpusim_state *state)
{
	if (status == GPU_SIM__STATUS__IN_PROGRESS && wait == GPUSIM_SYNC)
		return err_set(client_err(), RC_TIMEOUT, "still in progress");
	if (status == GPU_SIM__STATUS__FAILED)
		err_set(client_err(),
			code != RC_OK && code <= RC_RECOVERED ? (enum rc)code : RC_FAILED, "%s",
			reason && *reason ? reason : "no reason given");
	*state = status == GPU_SIM__STATUS__FAILED    ? GPUSIM_STATE_FAILED
		 : status == GPU_SIM__STATUS__SUCCESS ? GPUSIM_SUCCESS
						      : GPUSIM_IN_PROGRESS;
	return RC_OK;
}

static enum rc
ask_stream(struct gpusim *g, struct gpusim_device device, struct gpusim_stream stream,
	   enum gpusim_wait wait, enum gpusim_state *state)
{
	GpuSim__GetStreamStatusRequest m = GPU_SIM__GET_STREAM_STATUS_REQUEST__INIT;
	GpuSim__StreamId id = GPU_SIM__STREAM_ID__INIT;
	GpuSim__Request req = WIRE_REQUEST(GET_STREAM_STATUS, getstreamstatus, m);
	GpuSim__Reply *reply;
	enum rc rc;

	id.value = stream.id;
	m.streamid = &id;
	m.wait = wait == GPUSIM_SYNC;
	rc = client_call_device(g, device, &req, GPU_SIM__REPLY__BODY_GET_STREAM_STATUS, &reply);
	if (rc != RC_OK)
		return rc;
	rc = client_state(reply->getstreamstatus->status, reply->getstreamstatus->code,
			  reply->getstreamstatus->reason, wait, state);
	wire_reply_free(reply);
	return rc;
}

enum gpusim_rc
gpusim_stream_sync(struct gpusim *g, struct gpusim_device device, struct gpusim_stream stream)
{
	struct cmdq *q = enqueue_queue(g, device, stream);
	enum gpusim_state state;
	enum rc rc = q ? (enum rc)enqueue_sync(g, q) : RC_OK;

	if (rc != RC_OK || (q && atomic_load(&g->submits) == 0))
		return client_rc(rc);
	rc = client_await_submitted(g);
	if (rc == RC_OK)
		rc = ask_stream(g, device, stream, GPUSIM_SYNC, &state);
	if (rc == RC_OK && state == GPUSIM_STATE_FAILED)
		rc = client_err()->rc;
	return client_rc(rc);
}

uint64_t
gpusim_stream_mark(struct gpusim *g, struct gpusim_device device, struct gpusim_stream stream)
{
	struct cmdq *q = enqueue_queue(g, device, stream);

	return q ? cmdq_tail(q) : 0;
}

enum gpusim_rc
gpusim_stream_wait(struct gpusim *g, struct gpusim_device device, struct gpusim_stream stream,
		   uint64_t mark, uint32_t wait_ms)
{
	struct cmdq *q = enqueue_queue(g, device, stream);

	if (!q)
		return gpusim_stream_sync(g, device, stream);
	if (!mark)
		mark = cmdq_tail(q);
	if (wait_ms == 0 && !cmdq_done(q, mark))
		return client_fail(RC_TIMEOUT,
				   "device %016" PRIx64 ": the stream's work has not ended",
				   device.id);
	return enqueue_wait(q, mark, wait_ms ? wait_ms : 1);
}

enum gpusim_rc
gpusim_stream_status(struct gpusim *g, struct gpusim_device device, struct gpusim_stream stream,
		     enum gpusim_state *state)
{
	struct cmdq *q = enqueue_queue(g, device, stream);
	enum gpusim_rc rc;

	if (q && !cmdq_done(q, cmdq_tail(q))) {
		*state = GPUSIM_IN_PROGRESS;
		return GPUSIM_OK;
	}
	rc = q ? enqueue_sync(g, q) : GPUSIM_OK;
	if (rc == GPUSIM_OK)
		return client_rc(ask_stream(g, device, stream, GPUSIM_ASYNC, state));
	*state = GPUSIM_STATE_FAILED;
	return GPUSIM_OK;
}
