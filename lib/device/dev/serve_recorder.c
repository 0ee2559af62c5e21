/* RecorderRead. */
#include <inttypes.h>
#include <stdlib.h>

#include "dev/device_impl.h"

/* The bytes change while they are read, which readers handle (flight/read.h). Unwritten parts are a hole:
 * read through the file they are zeros and do not become memory. */
void
serve_recorder(struct device *d, struct rpc_call *call)
{
	const GpuSim__RecorderReadRequest *m = rpc_request(call)->recorderread;
	GpuSim__ReadResponse r = GPU_SIM__READ_RESPONSE__INIT;
	GpuSim__Reply reply = WIRE_REPLY(READ, read, r);
	struct err err = {0};
	void *bytes = NULL;

	device_recorder_trace(&d->recorder, m->tracems);
	if (!d->recorder.flight)
		err_set(&err, RC_NOTFOUND, "device %016" PRIx64 " has no recorder", d->id);
	else if (m->nbytes > WIRE_BULK_MAX)
		err_set(&err, RC_INVAL, "%" PRIu32 " bytes in one message: the limit is %u",
			m->nbytes, WIRE_BULK_MAX);
	else
		devmem_recorder_read(d->mem, m->offset, m->nbytes, &bytes, &r.data.len, &err);
	r.data.data = bytes;
	answer(call, &reply, &err);
	free(bytes);
}
