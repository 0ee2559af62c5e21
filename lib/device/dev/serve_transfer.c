/* The lab's BeginSend, BeginReceive, StreamSend; and the status of any stream. */
#include <inttypes.h>
#include <stdlib.h>

#include "dev/device_impl.h"
#include "wire/frame.h"

/* Queue one end of a transfer on its stream. */
static enum rc
begin(struct device *d, enum gpusim_coll way, uint64_t comm, const GpuSim__Rank *peer,
      const GpuSim__MemAddr *addr, uint64_t nbytes, uint64_t stream, struct err *err)
{
	struct xport_membership me;
	struct program *p;
	enum rc rc;

	if (!peer || !addr)
		return err_set(err, RC_INVAL, "a rank and a buffer address are required");
	if (stream < STREAM_MAX || stream >= FRAME_OP_MAX)
		return err_set(err, RC_INVAL, "%" PRIu64 " is not a stream id of a transfer",
			       stream);
	rc = xport_member(d->xport, comm, &me, err);
	if (rc == RC_OK)
		rc = program_build_transfer(&d->env, way, me.comm, peer->value, addr->value, nbytes,
					    FRAME_OP_LAB(stream), &p, err);
	if (rc != RC_OK)
		return rc;
	rc = streams_transfer(d->streams, stream, p, addr->value, err);
	streams_drop(d->streams, p);
	return rc;
}

static void
begin_send(struct device *d, struct rpc_call *call, const GpuSim__BeginSendRequest *m)
{
	GpuSim__BeginSendResponse r = GPU_SIM__BEGIN_SEND_RESPONSE__INIT;
	GpuSim__StreamId id = GPU_SIM__STREAM_ID__INIT;
	GpuSim__Reply reply = WIRE_REPLY(BEGIN_SEND, beginsend, r);
	struct err err = {0};

	/* Below 2^53, so that every language can print it. */
	id.value = (net_random() >> 11) | STREAM_MAX;
	begin(d, GPUSIM_SEND, m->commid, m->dstrank, m->sendbuffaddr, m->numbytes, id.value, &err);
	r.initiated = true;
	r.streamid = &id;
	answer(call, &reply, &err);
}

static void
begin_receive(struct device *d, struct rpc_call *call, const GpuSim__BeginReceiveRequest *m)
{
	GpuSim__BeginReceiveResponse r = GPU_SIM__BEGIN_RECEIVE_RESPONSE__INIT;
	GpuSim__Reply reply = WIRE_REPLY(BEGIN_RECEIVE, beginreceive, r);
	struct err err = {0};

	begin(d, GPUSIM_RECV, m->commid, m->srcrank, m->recvbuffaddr, m->numbytes,
	      m->streamid ? m->streamid->value : 0, &err);
	r.initiated = true;
	answer(call, &reply, &err);
}

static enum rc
hand_in(struct device *d, const GpuSim__DataChunk *m, struct err *err)
{
	struct xport_membership me;
	uint64_t op = FRAME_OP_LAB(m->streamid);
	enum rc rc = xport_member(d->xport, m->commid, &me, err);
	bool at_work;

	if (rc != RC_OK)
		return rc;
	at_work = streams_at_work(d->streams, m->streamid);
	if (*m->giveup)
		rc = xport_inject_end(d->xport, me.comm, op, m->giveup, err);
	else
		rc = xport_inject(d->xport, me.comm, op, m->srcrank, m->seq, m->data.data,
				  m->data.len, err);
	if (rc == RC_NOTFOUND && at_work)
		rc = err_set(err, RC_BUSY, "the receive has not begun yet");
	return rc;
}

static void
stream_send(struct device *d, struct rpc_call *call, const GpuSim__DataChunk *m)
{
	GpuSim__StreamSendResponse r = GPU_SIM__STREAM_SEND_RESPONSE__INIT;
	GpuSim__Reply reply = WIRE_REPLY(STREAM_SEND, streamsend, r);
	struct transfer_receive t;
	struct err err = {0};

	r.success = true;
	if (!m->ask) {
		hand_in(d, m, &err);
	} else if (streams_receive(d->streams, m->streamid, m->commid, &t, &err) == RC_OK) {
		r.commid = t.comm; /* the receive that the chunk belongs to */
		r.streamid = t.stream;
		r.srcrank = t.src;
		r.numbytes = t.nbytes;
		r.chunkbytes = t.chunk;
		r.addr = t.addr;
		r.over = t.over;
	}
	answer(call, &reply, &err);
}

/* A request for a stream's status. */
struct asking {
	struct device *device;
	struct rpc_call *call;
};

static void
answer_status(void *arg)
{
	struct asking *a = arg;
	const GpuSim__GetStreamStatusRequest *m = rpc_request(a->call)->getstreamstatus;
	GpuSim__GetStreamStatusResponse r = GPU_SIM__GET_STREAM_STATUS_RESPONSE__INIT;
	GpuSim__Reply reply = WIRE_REPLY(GET_STREAM_STATUS, getstreamstatus, r);
	enum stream_state state = STREAM_IDLE;
	struct err why = {0}, err = {0};

	streams_status(a->device->streams, m->streamid ? m->streamid->value : 0, &state, &why,
		       &err);
	r.status = state == STREAM_WORKING  ? GPU_SIM__STATUS__IN_PROGRESS
		   : state == STREAM_FAILED ? GPU_SIM__STATUS__FAILED
					    : GPU_SIM__STATUS__SUCCESS;
	if (state == STREAM_FAILED) {
		r.reason = why.text;
		r.code = why.rc;
	}
	answer(a->call, &reply, &err);
	free(a);
}

static void
stream_status(struct device *d, struct rpc_call *call, const GpuSim__GetStreamStatusRequest *m)
{
	struct asking *a = malloc(sizeof *a);
	struct err err = {RC_NOMEM, "out of memory"};

	if (a)
		*a = (struct asking){d, call};
	if (a && !m->wait) {
		answer_status(a);
		return;
	}
	if (a && streams_when_idle(d->streams, m->streamid ? m->streamid->value : 0,
				   rpc_deadline_ns(call), answer_status, a, &err) == RC_OK)
		return;
	free(a);
	rpc_reply_err(call, &err);
}

void
serve_transfer(struct device *d, struct rpc_call *call)
{
	const GpuSim__Request *req = rpc_request(call);

	switch (req->body_case) {
	case GPU_SIM__REQUEST__BODY_BEGIN_SEND:
		begin_send(d, call, req->beginsend);
		break;
	case GPU_SIM__REQUEST__BODY_BEGIN_RECEIVE:
		begin_receive(d, call, req->beginreceive);
		break;
	case GPU_SIM__REQUEST__BODY_STREAM_SEND:
		stream_send(d, call, req->streamsend);
		break;
	default:
		stream_status(d, call, req->getstreamstatus);
	}
}
