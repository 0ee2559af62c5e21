/* Rehearsing failure. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "client/client_impl.h"
#include "wire/wire.h"

enum gpusim_rc
gpusim_inject(struct gpusim *g, struct gpusim_device device, int clear,
	      const struct gpusim_fault *faults, size_t nfaults, struct gpusim_injected *out)
{
	GpuSim__InjectRequest m = GPU_SIM__INJECT_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(INJECT, inject, m);
	GpuSim__Fault message[GPUSIM_FAULTS_MAX], *list[GPUSIM_FAULTS_MAX];
	struct gpusim_injected got = {0};
	const GpuSim__InjectResponse *from;
	GpuSim__Reply *reply;
	enum rc rc;

	if (nfaults > GPUSIM_FAULTS_MAX)
		return client_fail(RC_INVAL, "%zu faults: the limit is %d", nfaults,
				   GPUSIM_FAULTS_MAX);
	for (size_t i = 0; i < nfaults; i++) {
		fault_to_wire(&faults[i], &message[i]);
		list[i] = &message[i];
	}
	m.clear = clear != 0;
	m.n_faults = nfaults;
	m.faults = list;
	rc = device.id ? client_call_device(g, device, &req, GPU_SIM__REPLY__BODY_INJECT, &reply)
		       : client_call(g, &req, GPU_SIM__REPLY__BODY_INJECT, &reply);
	if (rc != RC_OK)
		return client_rc(rc);
	from = reply->inject;
	if (out && (got.armed = alloc_zeroed(from->n_armed, sizeof *got.armed))) {
		got.fired = from->fired;
		got.damaged = from->damaged;
		for (; got.narmed < from->n_armed; got.narmed++)
			snprintf(got.armed[got.narmed], sizeof *got.armed, "%s",
				 from->armed[got.narmed]);
		*out = got;
	} else if (out) {
		rc = err_set(client_err(), RC_NOMEM, "out of memory");
	}
	wire_reply_free(reply);
	return client_rc(rc);
}

void
gpusim_injected_fini(struct gpusim_injected *i)
{
	free(i->armed);
	*i = (struct gpusim_injected){0};
}
