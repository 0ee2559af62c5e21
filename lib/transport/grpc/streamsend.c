/*
 * Design notes. A client streams chunks of any length to a device, and nothing else. So the device is
 * first asked for the receive that they are for: the only one that has begun. The chunks are then cut
 * into the messages that the receive expects, and passed in one after the other. The last is held back
 * until the client has ended its stream: a wrong total length fails the receive, and never looks like
 * success. At the end the call waits for the receive, and returns its status.
 *
 * ASKING -> FEEDING -> AWAITING -> (the call ends)
 *
 * A client that disconnects, or a wrong length, leads to GIVING_UP, and then the call ends.
 *
 * A client may also send data that the sending device, after BeginSend, has sent already. Then the
 * receive has ended, or ends meanwhile, and the client's data are compared with the receive's: if they
 * are equal, the call succeeds.
 *
 * The stream is held while a message is not passed in, so a client is as fast as the device.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "grpc/server_impl.h"

#define RETRY_NS (2 * NS_PER_MS) /* the receive has not begun, or its window is full */

enum state { NEW, ASKING, FEEDING, AWAITING, GIVING_UP };

struct sending {
	struct job job; /* first */
	enum state state;
	bool ended;		  /* the client has sent all */
	GpuSim__DataChunk *chunk; /* being cut; NULL: none */
	size_t chunk_at;
	struct buf piece; /* the next to be handed in */
	uint64_t comm, stream, addr, nbytes, piece_bytes;
	bool over; /* the receive has ended: compare its data */
	uint32_t src, seq;
	uint64_t sent, came; /* bytes */
	char why[200];	     /* giving up */
};

static void feed(struct sending *s);

static void
ask_chunk(struct sending *s, GpuSim__DataChunk *m)
{
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;

	req.body_case = GPU_SIM__REQUEST__BODY_STREAM_SEND;
	req.streamsend = m;
	m->commid = s->comm;
	m->streamid = s->stream;
	m->srcrank = s->src;
	job_ask_or_fail(&s->job, &req);
}

/* Find the receive. */
static void
ask(struct sending *s, const GpuSim__DataChunk *first)
{
	GpuSim__DataChunk m = GPU_SIM__DATA_CHUNK__INIT;

	s->state = ASKING;
	s->comm = first ? first->commid : 0;
	s->stream = first ? first->streamid : 0;
	m.ask = true;
	ask_chunk(s, &m);
}

static void
give_up(struct sending *s)
{
	GpuSim__DataChunk m = GPU_SIM__DATA_CHUNK__INIT;

	s->state = GIVING_UP;
	if (s->over) { /* nothing waits for more */
		job_finish(&s->job, GRPC_INVALID_ARGUMENT, s->why);
		return;
	}
	m.giveup = s->why;
	ask_chunk(s, &m);
}

/* The status of the receive. */
static void
await(struct sending *s)
{
	GpuSim__GetStreamStatusRequest m = GPU_SIM__GET_STREAM_STATUS_REQUEST__INIT;
	GpuSim__StreamId id = GPU_SIM__STREAM_ID__INIT;
	GpuSim__Request req = WIRE_REQUEST(GET_STREAM_STATUS, getstreamstatus, m);

	s->state = AWAITING;
	id.value = s->stream;
	m.streamid = &id;
	m.wait = true;
	job_ask_or_fail(&s->job, &req);
}

static void
hand_in(struct sending *s)
{
	GpuSim__DataChunk m = GPU_SIM__DATA_CHUNK__INIT;

	m.data.data = (uint8_t *)s->piece.data;
	m.data.len = s->piece.len;
	m.seq = s->seq;
	ask_chunk(s, &m);
}

/* Compare the piece with the received data. */
static void
look(struct sending *s)
{
	GpuSim__ReadRequest m = GPU_SIM__READ_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(READ, read, m);

	m.addr = s->addr + s->sent;
	m.nbytes = s->piece.len;
	job_ask_or_fail(&s->job, &req);
}

/* Move the piece's missing bytes from the chunk; false: out of memory. */
static bool
cut(struct sending *s)
{
	uint64_t left = s->nbytes - s->sent;
	size_t due = (size_t)(left < s->piece_bytes ? left : s->piece_bytes), n;

	if (!s->chunk)
		return true;
	n = s->chunk->data.len - s->chunk_at;
	if (n > due - s->piece.len)
		n = due - s->piece.len;
	if (n && !buf_add(&s->piece, s->chunk->data.data + s->chunk_at, n))
		return false;
	s->chunk_at += n;
	if (s->chunk_at < s->chunk->data.len)
		return true;
	gpu_sim__data_chunk__free_unpacked(s->chunk, NULL);
	s->chunk = NULL;
	return true;
}

/* One step: pass in a piece, end, or let the client continue. */
static void
feed(struct sending *s)
{
	bool whole, last;

	if (s->job.asked || s->state != FEEDING || !s->job.st)
		return;
	if (s->came > s->nbytes || (s->ended && s->came < s->nbytes)) {
		snprintf(s->why, sizeof s->why,
			 "the chunks are %s%" PRIu64 " bytes, but the receive expects %" PRIu64,
			 s->ended ? "" : "more than ", s->ended ? s->came : s->nbytes, s->nbytes);
		give_up(s);
		return;
	}
	if (!cut(s)) {
		snprintf(s->why, sizeof s->why, "out of memory");
		give_up(s);
		return;
	}
	whole = s->piece.len == s->piece_bytes || s->sent + s->piece.len == s->nbytes;
	last = s->sent + s->piece.len == s->nbytes;
	if (whole && (!last || s->ended))
		s->over ? look(s) : hand_in(s);
	else if (!s->ended)
		grpc_stream_resume(s->job.st);
}

static void
send_message(struct job *job, const void *data, size_t nbytes)
{
	struct sending *s = (struct sending *)job;

	s->chunk =
	    (GpuSim__DataChunk *)job_unpack(job, &gpu_sim__data_chunk__descriptor, data, nbytes);
	if (!s->chunk) {
		snprintf(s->why, sizeof s->why, "a chunk could not be read");
		if (s->state == FEEDING)
			give_up(s);
		return;
	}
	s->chunk_at = 0;
	s->came += s->chunk->data.len;
	grpc_stream_hold(job->st);
	if (s->state == NEW)
		ask(s, s->chunk);
	else
		feed(s);
}

static void
send_end(struct job *job)
{
	struct sending *s = (struct sending *)job;

	s->ended = true;
	if (s->state == NEW)
		ask(s, NULL);
	else
		feed(s);
}

static void
send_wake(struct job *job)
{
	struct sending *s = (struct sending *)job;

	if (job->asked)
		return;
	if (s->state == FEEDING && !s->over)
		hand_in(s);
	else if (s->state == GIVING_UP)
		give_up(s);
}

static void
found(struct sending *s, const GpuSim__Reply *reply)
{
	const GpuSim__StreamSendResponse *r = reply->streamsend;

	if (job_failed(&s->job, reply))
		return;
	if (reply->body_case != GPU_SIM__REPLY__BODY_STREAM_SEND || r->chunkbytes == 0) {
		job_finish(&s->job, GRPC_INTERNAL, "the device did not describe its receive");
		return;
	}
	s->comm = r->commid;
	s->stream = r->streamid;
	s->src = r->srcrank;
	s->addr = r->addr;
	s->nbytes = r->numbytes;
	s->over = r->over;
	s->piece_bytes = r->chunkbytes;
	s->state = FEEDING;
	feed(s);
}

static void
looked(struct sending *s, const GpuSim__Reply *reply)
{
	const ProtobufCBinaryData *there = &reply->read->data;

	if (job_failed(&s->job, reply))
		return;
	if (there->len != s->piece.len || memcmp(there->data, s->piece.data, there->len) != 0)
		job_finish(&s->job, GRPC_FAILED_PRECONDITION,
			   "the only receive has ended, with other data from its rank");
}

static void
handed_in(struct sending *s, const GpuSim__Reply *reply)
{
	if (s->over) {
		looked(s, reply);
		if (!s->job.st)
			return;
	} else if (reply->code != RC_OK) {
		await(s); /* the receive has ended: find out why */
		return;
	}
	s->sent += s->piece.len;
	s->seq++;
	s->piece.len = 0;
	if (s->sent == s->nbytes)
		await(s);
	else
		feed(s);
}

static void
awaited(struct sending *s, const GpuSim__Reply *reply)
{
	GpuSim__StreamSendResponse r = GPU_SIM__STREAM_SEND_RESPONSE__INIT;
	const GpuSim__GetStreamStatusResponse *status = reply->getstreamstatus;

	if (job_failed(&s->job, reply))
		return;
	if (status->status == GPU_SIM__STATUS__FAILED) {
		job_finish(&s->job, grpc_code_of((enum rc)status->code), status->reason);
	} else if (status->status == GPU_SIM__STATUS__IN_PROGRESS) {
		job_finish(&s->job, GRPC_DEADLINE_EXCEEDED, "the receive has not ended");
	} else if (s->sent < s->nbytes) {
		s->over = true;
		s->state = FEEDING;
		feed(s);
	} else {
		r.success = true;
		if (job_send(&s->job, &r.base))
			job_finish(&s->job, GRPC_OK, NULL);
	}
}

static void
send_answered(struct job *job, const GpuSim__Reply *reply)
{
	struct sending *s = (struct sending *)job;

	if (reply->code == RC_BUSY && job->st && (s->state == FEEDING || s->state == GIVING_UP)) {
		grpc_stream_wake(job->st, clock_now_ns() + RETRY_NS);
		return;
	}
	switch (s->state) {
	case NEW:
		break;
	case ASKING:
		found(s, reply);
		break;
	case FEEDING:
		handed_in(s, reply);
		break;
	case AWAITING:
		awaited(s, reply);
		break;
	case GIVING_UP:
		job_finish(job, GRPC_INVALID_ARGUMENT, s->why);
		return;
	}
	if (!job->st && !job->asked && s->state == FEEDING) {
		snprintf(s->why, sizeof s->why, "the client of StreamSend disconnected");
		give_up(s);
	}
}

static void
send_gone(struct job *job)
{
	struct sending *s = (struct sending *)job;

	if (s->state != FEEDING)
		return;
	snprintf(s->why, sizeof s->why, "the client of StreamSend disconnected");
	give_up(s);
}

static void
send_fini(struct job *job)
{
	struct sending *s = (struct sending *)job;

	if (s->chunk)
		gpu_sim__data_chunk__free_unpacked(s->chunk, NULL);
	buf_fini(&s->piece);
}

const struct job_kind job_stream_send = {.size = sizeof(struct sending),
					 .message = send_message,
					 .end = send_end,
					 .wake = send_wake,
					 .answered = send_answered,
					 .gone = send_gone,
					 .fini = send_fini};
