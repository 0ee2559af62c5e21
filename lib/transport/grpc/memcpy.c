/* Memcpy, whose messages may be larger than a control message: one request a piece, one after the other.
 * The pieces before one that fails have been copied. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grpc/server_impl.h"

#define ANSWER_ROOM 64 /* bytes of an answer around its data */

struct copying {
	struct job job; /* first */
	GpuSim__MemcpyRequest *req;
	uint64_t done;	 /* bytes, of all */
	struct buf data; /* device to host: the data so far */
};

static uint64_t
total(const struct copying *c)
{
	return c->req->either_case == GPU_SIM__MEMCPY_REQUEST__EITHER_HOST_TO_DEVICE
		   ? c->req->hosttodevice->hostsrcdata.len
		   : c->req->devicetohost->numbytes;
}

/* The bytes of the next piece. */
static size_t
piece(const struct copying *c)
{
	uint64_t left = total(c) - c->done;

	return left < WIRE_BULK_MAX ? (size_t)left : WIRE_BULK_MAX;
}

static void
ask_host_to_device(struct copying *c, GpuSim__Request *req, GpuSim__MemcpyRequest *m)
{
	GpuSim__MemcpyHostToDeviceRequest h2d = *c->req->hosttodevice;
	GpuSim__MemAddr addr = GPU_SIM__MEM_ADDR__INIT;

	h2d.hostsrcdata.data = c->done ? h2d.hostsrcdata.data + c->done : h2d.hostsrcdata.data;
	h2d.hostsrcdata.len = piece(c);
	if (h2d.dstmemaddr) {
		addr.value = h2d.dstmemaddr->value + c->done;
		h2d.dstmemaddr = &addr;
	}
	m->hosttodevice = &h2d;
	job_ask_or_fail(&c->job, req);
}

static void
ask_device_to_host(struct copying *c, GpuSim__Request *req, GpuSim__MemcpyRequest *m)
{
	GpuSim__MemcpyDeviceToHostRequest d2h = *c->req->devicetohost;
	GpuSim__MemAddr addr = GPU_SIM__MEM_ADDR__INIT;

	d2h.numbytes = piece(c);
	if (d2h.srcmemaddr) {
		addr.value = d2h.srcmemaddr->value + c->done;
		d2h.srcmemaddr = &addr;
	}
	m->devicetohost = &d2h;
	job_ask_or_fail(&c->job, req);
}

static void
ask_piece(struct copying *c)
{
	GpuSim__MemcpyRequest m = GPU_SIM__MEMCPY_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(MEMCPY, memcpy, m);

	m.either_case = c->req->either_case;
	if (m.either_case == GPU_SIM__MEMCPY_REQUEST__EITHER_HOST_TO_DEVICE)
		ask_host_to_device(c, &req, &m);
	else
		ask_device_to_host(c, &req, &m);
}

static void
memcpy_message(struct job *job, const void *data, size_t nbytes)
{
	struct copying *c = (struct copying *)job;
	uint64_t n;
	char text[160];

	c->req = (GpuSim__MemcpyRequest *)job_unpack(job, &gpu_sim__memcpy_request__descriptor,
						     data, nbytes);
	if (!c->req)
		return;
	if (c->req->either_case == GPU_SIM__MEMCPY_REQUEST__EITHER__NOT_SET) {
		job_finish(job, GRPC_INVALID_ARGUMENT, "memcpy: no direction given");
		return;
	}
	n = total(c);
	if (n > GRPC_MESSAGE_MAX - ANSWER_ROOM) {
		snprintf(text, sizeof text, "memcpy of %llu bytes: the limit of a message is %u",
			 (unsigned long long)n, GRPC_MESSAGE_MAX - ANSWER_ROOM);
		job_finish(job, GRPC_RESOURCE_EXHAUSTED, text);
		return;
	}
	/* Reserve room for the data before it comes. */
	if (c->req->either_case == GPU_SIM__MEMCPY_REQUEST__EITHER_HOST_TO_DEVICE ||
	    n <= WIRE_BULK_MAX || grpc_stream_reserve(job->st, n))
		ask_piece(c);
}

static void
memcpy_wake(struct job *job)
{
	ask_piece((struct copying *)job);
}

static void
finish(struct copying *c)
{
	GpuSim__MemcpyResponse r = GPU_SIM__MEMCPY_RESPONSE__INIT;
	GpuSim__MemcpyHostToDeviceResponse in = GPU_SIM__MEMCPY_HOST_TO_DEVICE_RESPONSE__INIT;
	GpuSim__MemcpyDeviceToHostResponse out = GPU_SIM__MEMCPY_DEVICE_TO_HOST_RESPONSE__INIT;

	if (c->req->either_case == GPU_SIM__MEMCPY_REQUEST__EITHER_HOST_TO_DEVICE) {
		in.success = true;
		r.either_case = GPU_SIM__MEMCPY_RESPONSE__EITHER_HOST_TO_DEVICE;
		r.hosttodevice = &in;
	} else {
		out.dstdata.data = (uint8_t *)c->data.data;
		out.dstdata.len = c->data.len;
		r.either_case = GPU_SIM__MEMCPY_RESPONSE__EITHER_DEVICE_TO_HOST;
		r.devicetohost = &out;
	}
	if (job_send(&c->job, &r.base))
		job_finish(&c->job, GRPC_OK, NULL);
}

static void
memcpy_answered(struct job *job, const GpuSim__Reply *reply)
{
	struct copying *c = (struct copying *)job;
	const ProtobufCBinaryData *got;
	size_t n = piece(c);

	if (job_failed(job, reply) || !job->st)
		return;
	if (reply->body_case == GPU_SIM__REPLY__BODY_MEMCPY &&
	    reply->memcpy->either_case == GPU_SIM__MEMCPY_RESPONSE__EITHER_DEVICE_TO_HOST) {
		got = &reply->memcpy->devicetohost->dstdata;
		if (got->len != n || !buf_add(&c->data, got->data, got->len)) {
			job_finish(job, GRPC_INTERNAL, "a piece of the data is missing");
			return;
		}
	}
	c->done += n;
	if (c->done < total(c))
		ask_piece(c);
	else
		finish(c);
}

static void
memcpy_fini(struct job *job)
{
	struct copying *c = (struct copying *)job;

	if (c->req)
		gpu_sim__memcpy_request__free_unpacked(c->req, NULL);
	buf_fini(&c->data);
}

const struct job_kind job_memcpy = {.size = sizeof(struct copying),
				    .message = memcpy_message,
				    .wake = memcpy_wake,
				    .answered = memcpy_answered,
				    .fini = memcpy_fini};
