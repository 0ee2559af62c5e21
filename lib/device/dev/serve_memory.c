/* Malloc, Free, Write, Read, Checksum. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "dev/device_impl.h"
#include "mem/crc64.h"

static enum rc
find_range(struct device *d, uint64_t addr, uint64_t nbytes, void **out, struct err *err)
{
	if (nbytes > WIRE_BULK_MAX)
		return err_set(err, RC_INVAL, "%" PRIu64 " bytes in one message: the limit is %u",
			       nbytes, WIRE_BULK_MAX);
	if (devmem_range(d->mem, "range", addr, nbytes, out, err) != RC_OK)
		return err_prefix(err, "device %016" PRIx64, d->id);
	return RC_OK;
}

/* If the device is too small even when empty, add the size that it would need. */
static void
advise(struct device *d, uint64_t nbytes, struct err *err)
{
	uint64_t room = devmem_max(d->mem) - devmem_min(d->mem);
	uint64_t used = devmem_used(d->mem, NULL), megabytes = 1;
	size_t n = strlen(err->text);

	if (err->rc != RC_NOMEM || nbytes <= room - used || nbytes > UINT64_MAX / 4)
		return;
	while (megabytes << 20 < used + nbytes)
		megabytes *= 2;
	snprintf(err->text + n, sizeof err->text - n,
		 "; for more memory: gpuctl run --mem %" PRIu64 "%c, gpudev -m",
		 megabytes >= 1024 ? megabytes / 1024 : megabytes, megabytes >= 1024 ? 'G' : 'M');
}

/* Record a client's copy that began at `begin`. */
static void
record(struct device *d, enum flight_copy_kind what, uint64_t addr, uint64_t nbytes, uint64_t begin,
       enum rc rc)
{
	device_recorder_copy(&d->recorder,
			     &(struct flight_copy){.what = (uint8_t)what,
						   .result = (uint8_t)rc,
						   .begin = begin,
						   .dst = what == FLIGHT_COPY_IN ? addr : 0,
						   .src = what == FLIGHT_COPY_IN ? 0 : addr,
						   .nbytes = nbytes});
}

static void
serve_malloc(struct device *d, struct rpc_call *call, const GpuSim__Request *req)
{
	GpuSim__MallocResponse r = GPU_SIM__MALLOC_RESPONSE__INIT;
	GpuSim__Reply reply = WIRE_REPLY(MALLOC, malloc, r);
	struct err err = {0};
	uint64_t owner = req->malloc->lease ? req->clientid : 0;
	enum rc rc = devmem_alloc_for(d->mem, req->malloc->nbytes, owner, &r.addr, &err);

	if (rc == RC_OK && req->malloc->lease) {
		rc = lease_add(d->leases, req->clientid, r.addr, req->malloc->nbytes, &err);
		if (rc != RC_OK)
			devmem_free(d->mem, r.addr, NULL);
	}
	if (rc == RC_NOMEM)
		device_recorder_mark(&d->recorder,
				     &(struct flight_mark){.what = FLIGHT_MARK_NOMEM,
							   .result = (uint8_t)rc,
							   .value = req->malloc->nbytes,
							   .client = req->clientid},
				     err.text);
	if (rc != RC_OK) {
		err_prefix(&err, "device %016" PRIx64, d->id);
		advise(d, req->malloc->nbytes, &err);
	}
	answer(call, &reply, &err);
}

static void
serve_read(struct device *d, struct rpc_call *call, const GpuSim__ReadRequest *m)
{
	GpuSim__ReadResponse r = GPU_SIM__READ_RESPONSE__INIT;
	GpuSim__Reply reply = WIRE_REPLY(READ, read, r);
	uint64_t begin = ticks_now(), addr = m->addr,
		 nbytes = m->nbytes; /* m ends with the reply */
	struct err err = {0};
	void *p;

	if (find_range(d, addr, nbytes, &p, &err) == RC_OK)
		r.data = (ProtobufCBinaryData){nbytes, p};
	answer(call, &reply, &err);
	if (err.rc == RC_OK)
		record(d, FLIGHT_COPY_OUT, addr, nbytes, begin, RC_OK);
}

static void
serve_checksum(struct device *d, struct rpc_call *call, const GpuSim__ChecksumRequest *m)
{
	GpuSim__ChecksumResponse r = GPU_SIM__CHECKSUM_RESPONSE__INIT;
	GpuSim__Reply reply = WIRE_REPLY(CHECKSUM, checksum, r);
	struct err err = {0};
	void *p;

	if (m->nbytes > WIRE_CHECKSUM_MAX)
		err_set(&err, RC_INVAL, "checksum of %" PRIu64 " bytes: the limit is %u", m->nbytes,
			WIRE_CHECKSUM_MAX);
	else if (devmem_range(d->mem, "range", m->addr, m->nbytes, &p, &err) != RC_OK)
		err_prefix(&err, "device %016" PRIx64, d->id);
	else
		r.crc64 = crc64(m->before, p, m->nbytes);
	answer(call, &reply, &err);
}

void
serve_memory(struct device *d, struct rpc_call *call)
{
	const GpuSim__Request *req = rpc_request(call);
	uint64_t begin = ticks_now();
	struct err err = {0};
	enum rc rc = RC_OK;
	void *p;

	switch (req->body_case) {
	case GPU_SIM__REQUEST__BODY_MALLOC:
		serve_malloc(d, call, req);
		return;
	case GPU_SIM__REQUEST__BODY_READ:
		serve_read(d, call, req->read);
		return;
	case GPU_SIM__REQUEST__BODY_CHECKSUM:
		serve_checksum(d, call, req->checksum);
		return;
	case GPU_SIM__REQUEST__BODY_FREE:
		rc = devmem_free(d->mem, req->free->addr, &err);
		if (rc == RC_OK)
			lease_end(d->leases, req->free->addr);
		else
			err_prefix(&err, "device %016" PRIx64, d->id);
		break;
	default:
		rc = find_range(d, req->write->addr, req->write->data.len, &p, &err);
		if (rc == RC_OK && req->write->data.len)
			memcpy(p, req->write->data.data, req->write->data.len);
		record(d, FLIGHT_COPY_IN, req->write->addr, req->write->data.len, begin, rc);
	}
	answer(call, NULL, &err);
}
