
#include <inttypes.h>

#include "wire/wire.h"

/* The subsystem that a request belongs to; LOG_CALL where no other fits. */
static enum log_subsys
wire_request_subsys(const GpuSim__Request *req)
{
	switch (req->body_case) {
	case GPU_SIM__REQUEST__BODY_MALLOC:
	case GPU_SIM__REQUEST__BODY_FREE:
		return LOG_ALLOC;
	case GPU_SIM__REQUEST__BODY_COMM_ATTACH:
	case GPU_SIM__REQUEST__BODY_COMM_DETACH:
	case GPU_SIM__REQUEST__BODY_COMM_JOIN:
	case GPU_SIM__REQUEST__BODY_COMM_BIND:
	case GPU_SIM__REQUEST__BODY_COMM_UNBIND:
	case GPU_SIM__REQUEST__BODY_COMM_INIT:
	case GPU_SIM__REQUEST__BODY_COMM_INIT_RANK:
	case GPU_SIM__REQUEST__BODY_COMM_SPLIT_RANK:
	case GPU_SIM__REQUEST__BODY_COMM_SHRINK_RANK:
	case GPU_SIM__REQUEST__BODY_COMM_GROW_RANK:
	case GPU_SIM__REQUEST__BODY_COMM_DESTROY:
		return LOG_INIT;
	case GPU_SIM__REQUEST__BODY_REGISTER_DEVICE:
	case GPU_SIM__REQUEST__BODY_ADOPT:
		return LOG_BOOTSTRAP;
	case GPU_SIM__REQUEST__BODY_COMM_ABORT:
	case GPU_SIM__REQUEST__BODY_COMM_SHRINK:
	case GPU_SIM__REQUEST__BODY_COMM_GROW:
	case GPU_SIM__REQUEST__BODY_INJECT:
	case GPU_SIM__REQUEST__BODY_PING:
		return LOG_RAS;
	case GPU_SIM__REQUEST__BODY_RUN:
	case GPU_SIM__REQUEST__BODY_SUBMIT:
	case GPU_SIM__REQUEST__BODY_ALL_REDUCE_RING:
	case GPU_SIM__REQUEST__BODY_GROUP_START:
	case GPU_SIM__REQUEST__BODY_GROUP_END:
		return LOG_COLL;
	case GPU_SIM__REQUEST__BODY_GRAPH_DEFINE:
	case GPU_SIM__REQUEST__BODY_GRAPH_DROP:
	case GPU_SIM__REQUEST__BODY_GRAPH_CREATE:
	case GPU_SIM__REQUEST__BODY_GRAPH_LAUNCH:
	case GPU_SIM__REQUEST__BODY_GRAPH_DESTROY:
		return LOG_GRAPH;
	case GPU_SIM__REQUEST__BODY_BEGIN_SEND:
	case GPU_SIM__REQUEST__BODY_BEGIN_RECEIVE:
	case GPU_SIM__REQUEST__BODY_STREAM_SEND:
		return LOG_P2P;
	case GPU_SIM__REQUEST__BODY_RECORDER_READ:
		return LOG_PROFILE;
	default:
		return LOG_CALL;
	}
}

void
wire_request_log(const GpuSim__Request *req)
{
	enum log_subsys of = wire_request_subsys(req);

	if (log_has(LOG_TRACE, of))
		log_say(LOG_TRACE, of, "request %s #%" PRIu64 " of client %016" PRIx64,
			wire_request_name(req), req->seq, req->clientid);
}
