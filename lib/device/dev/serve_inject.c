/* Inject. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "coll/fault.h"
#include "dev/device_impl.h"
#include "wire/wire.h"
#include "xport/fault.h"

#define LISTED (2 * GPUSIM_FAULTS_MAX) /* faults of steps and of frames */

void
serve_inject(struct device *d, struct rpc_call *call)
{
	const GpuSim__InjectRequest *m = rpc_request(call)->inject;
	GpuSim__InjectResponse r = GPU_SIM__INJECT_RESPONSE__INIT;
	GpuSim__Reply reply = WIRE_REPLY(INJECT, inject, r);
	struct gpusim_fault f[LISTED];
	char text[LISTED][GPUSIM_TEXT];
	char *line[LISTED];
	struct err err = {0};

	if (!d->inject)
		err_set(&err, RC_INVAL,
			"does not accept faults: it was started without --allow-inject");
	else if (m->clear)
		injector_clear(d->inject);
	for (size_t i = 0; i < m->n_faults && err.rc == RC_OK; i++) {
		fault_from_wire(m->faults[i], &f[0]);
		injector_add(d->inject, &f[0], &err);
	}
	if (err.rc == RC_OK) { /* the armed faults, as lines */
		r.n_armed =
		    inject_list(&d->inject->table, clock_now_ns(), f, GPUSIM_FAULTS_MAX, &r.fired);
		r.n_armed += xport_fault_list(d->xport, f + r.n_armed, GPUSIM_FAULTS_MAX);
		for (size_t i = 0; i < r.n_armed; i++) {
			fault_show(&f[i], text[i], sizeof text[i]);
			line[i] = text[i];
		}
		r.armed = line;
		r.damaged = xport_damaged(d->xport);
	} else {
		err_prefix(&err, "device %016" PRIx64, d->id);
	}
	answer(call, &reply, &err);
}
